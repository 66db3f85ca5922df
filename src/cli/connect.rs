//! `portcullis connect`: a client on standard streams, a server on the network.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::Args;

use crate::app::stdio::{Place, Served};
use crate::call::{Endpoint, UpstreamId};
use crate::cli::exit::{Because, Exit, Failure};
use crate::cli::way::Level;
use crate::cli::{report, stdio};
use crate::config::environment::Environment;
use crate::config::secrets::Secret;
use crate::config::snapshot::Snapshot;
use crate::upstream::http::refusal::{NEEDS_AUTHORIZATION, NOT_ADMITTED};

/// Bridge a client on standard input and output to a server or gateway on the network
///
/// For clients that start programs and speak no HTTP: `{"command": "portcullis", "args": ["connect", "URL"]}`.
/// What the server asks, notifies and reports comes through; when it restarts, its session is opened anew. It ends when
/// its input does. The exit code is 3 if the server could not be reached for a session, 4 if it refused the credential.
#[derive(Debug, Args)]
pub struct Connect {
    /// The server, such as https://mcp.example.com/mcp
    #[arg(value_name = "URL")]
    pub url: String,

    /// A header that is sent with every request; lists of processes show it, so not for secrets
    #[arg(long, value_name = "NAME: VALUE")]
    pub header: Vec<String>,

    /// A header with the value of a variable
    #[arg(long, value_name = "NAME=VARIABLE")]
    pub header_env: Vec<String>,

    /// A header with the text of a file, without white space around it
    #[arg(long, value_name = "NAME=FILE")]
    pub header_file: Vec<String>,

    /// How much is logged to standard error
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<Level>,
}

/// Serves the client.
///
/// # Errors
/// When the command line is wrong, or no session could be opened because the server was not there.
pub fn run(arguments: &Connect, environment: &Environment) -> Result<Exit, Failure> {
    let config =
        Snapshot::for_url(&arguments.url, environment)?.sending(&headers(arguments, environment)?)?;
    let place = Place { endpoint: Endpoint::Upstream(UpstreamId(0)), needs_upstream: true };
    let served = stdio::serve(config, place, arguments.log_level, environment)?;
    if served.ended.opened { Ok(Exit::Done) } else { explain(&served) }
}

/// What kept the client from a session, if something did.
fn explain(served: &Served) -> Result<Exit, Failure> {
    let troubles = report::troubles(&served.gateway);
    let tried = served.gateway.catalog.members().iter().any(|member| member.state().tried);
    if troubles.is_empty() || !tried {
        return Ok(Exit::Done);
    }
    let text = troubles.join("\n");
    let refused = [NEEDS_AUTHORIZATION, NOT_ADMITTED].iter().any(|why| text.contains(why));
    Err(Failure::new(if refused { Exit::Refused } else { Exit::Unavailable }, text))
}

/// All headers, in the order in which they win over each other.
fn headers(arguments: &Connect, environment: &Environment) -> Result<Vec<(String, Secret)>, Failure> {
    let usage = |why: String| Failure::new(Exit::Usage, why);
    let mut headers = Vec::new();
    for header in &arguments.header {
        let (name, value) = header
            .split_once(':')
            .ok_or_else(|| usage("`--header` takes a name and a value, such as 'X-Team: blue'".to_owned()))?;
        headers.push((name.trim().to_owned(), value.trim().to_owned().into()));
    }
    for header in &arguments.header_env {
        let (name, variable) = header.split_once('=').ok_or_else(|| {
            usage("`--header-env` takes a name and a variable, such as Authorization=TOKEN".to_owned())
        })?;
        let value = environment.text(variable).ok_or_else(|| {
            usage(format!("variable `{variable}` is not set; the header `{name}` needs it"))
        })?;
        headers.push((name.to_owned(), value.to_owned().into()));
    }
    for header in &arguments.header_file {
        let (name, file) = header.split_once('=').ok_or_else(|| {
            usage("`--header-file` takes a name and a file, such as Authorization=token.txt".to_owned())
        })?;
        let read = fs::read_to_string(file);
        let text = read.with_context(|| format!("cannot read {}", Path::new(file).display()));
        headers.push((name.to_owned(), text.or_exit(Exit::Usage)?.trim().to_owned().into()));
    }
    Ok(headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(header: &[&str], header_env: &[&str], header_file: &[&str]) -> Connect {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect();
        Connect {
            url: "http://h/mcp".to_owned(),
            header: owned(header),
            header_env: owned(header_env),
            header_file: owned(header_file),
            log_level: None,
        }
    }

    fn sent(arguments: &Connect) -> Result<Snapshot, Failure> {
        let environment = [("TOKEN", "t0k3n")].into_iter().collect();
        let headers = headers(arguments, &environment)?;
        Ok(Snapshot::for_url(&arguments.url, &environment)?.sending(&headers)?)
    }

    /// F-093, R-51
    #[test]
    fn headers_come_from_three_places_and_are_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        fs::write(&file, "f1l3\n").unwrap();
        let from_file = format!("X-Key={}", file.display());
        let config = sent(&of(&["X-Team: bl:ue"], &["Authorization=TOKEN"], &[&from_file])).unwrap();
        let crate::config::snapshot::Transport::Remote(remote) = &config.upstreams[0].transport else {
            panic!("a server on the network")
        };
        let headers: Vec<_> =
            remote.headers.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        assert_eq!(headers, [("x-team", "bl:ue"), ("authorization", "t0k3n"), ("x-key", "f1l3")]);
        let shown = format!("{config:?}");
        assert!(!["bl:ue", "t0k3n", "f1l3"].iter().any(|secret| shown.contains(secret)), "{shown}");
    }

    /// F-093
    #[test]
    fn headers_that_cannot_be_sent_are_refused_without_their_value() {
        for wrong in [
            of(&["no colon"], &[], &[]),
            of(&["Mcp-Session-Id: hunter2"], &[], &[]),
            of(&["a b: hunter2"], &[], &[]),
            of(&["a: hunter2\r\nb: c"], &[], &[]),
            of(&[], &["Authorization=UNSET"], &[]),
            of(&[], &["Authorization"], &[]),
            of(&[], &[], &["Authorization=/no/such/file"]),
        ] {
            let failure = sent(&wrong).unwrap_err();
            assert_eq!(failure.exit, Exit::Usage, "{failure}");
            assert!(!failure.to_string().contains("hunter2"), "{failure}");
        }
    }
}
