//! `portcullis serve`: runs the gateway until a signal.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::io::AsyncWriteExt;

use crate::app::serve::{self, ServeError, Serving};
#[cfg(unix)]
use crate::base::descriptors;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output::Reader;
use crate::cli::run::telemetry;
use crate::cli::source::{Source, is_url};
use crate::cli::way::{self, Level};
use crate::cli::{holder, report};
use crate::config::environment::Environment;
use crate::config::snapshot::Addresses;

/// Run the gateway
///
/// With a configuration: `portcullis serve -c FILE`. With one server and no file at all: `portcullis serve URL`, or
/// `portcullis serve [NAME] -- CMD ARGS`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The URL of a server, or a name for the command after `--`
    #[arg(value_name = "URL|NAME")]
    pub server: Option<String>,

    #[command(flatten)]
    pub source: Source,

    /// The address for clients, or a port on this machine; replaces `portcullis.listen`
    #[arg(short, long, value_name = "ADDR", value_parser = address)]
    pub listen: Option<SocketAddr>,

    /// The address for the operator; replaces `portcullis.admin.listen`
    #[arg(long, value_name = "ADDR", value_parser = address)]
    pub admin_listen: Option<SocketAddr>,

    /// How much is logged to standard error; replaces `portcullis.log.level`
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<Level>,
}

/// How long the report waits for servers that are slow to start.
const SLOWEST: Duration = Duration::from_secs(600);

/// Runs the gateway.
///
/// # Errors
/// When the configuration is wrong, or the gateway cannot start.
pub fn run(arguments: &Serve, environment: &Environment) -> Result<Exit, Failure> {
    let server = arguments.server.as_deref();
    if let Some(word) = server.filter(|word| !is_url(word) && arguments.source.command.is_empty()) {
        let why = format!("`{word}` is no URL; a command stands after `--`: portcullis serve -- {word}");
        return Err(Failure::new(Exit::Usage, why));
    }
    let mut config = arguments.source.read(server, environment)?;
    let addresses = Addresses { clients: arguments.listen, operator: arguments.admin_listen };
    if addresses.clients.is_some() || addresses.operator.is_some() {
        config = config.listening_on(addresses)?;
    }
    if let Some(level) = arguments.log_level {
        config.log.level = level.into();
    }
    #[cfg(unix)]
    descriptors::raise_limit();
    let telemetry = telemetry(&config, environment)?;
    let ran = serve::run(Arc::new(config), &telemetry, tell);
    telemetry.finish();
    ran.map_err(explain)?;
    Ok(Exit::Done)
}

/// Tells somebody at a terminal what there is; elsewhere the log says it.
async fn tell(serving: Serving) {
    if Reader::of_notes() == Reader::Program {
        return;
    }
    write(&report::banner(&serving)).await;
    let gateway = &serving.gateway;
    gateway.catalog.settled(gateway.config.catalog.start_budget).await;
    let pending: Vec<_> = way::pending(gateway);
    let failed = gateway.config.failed.iter().map(|failed| report::failed(&report::unusable(failed)));
    let text = format!("\n{}{}", report::found(gateway, |_| true), failed.collect::<String>());
    write(&text).await;
    if !pending.is_empty() {
        gateway.catalog.settled(SLOWEST).await;
        write(&report::found(gateway, |member| pending.contains(&member.upstream.name))).await;
    }
}

/// Writes to standard error without holding up anybody.
async fn write(text: &str) {
    let mut stderr = tokio::io::stderr();
    // Who does not hear of it can ask the operator's port.
    let _ = stderr.write_all(text.as_bytes()).await;
    let _ = stderr.flush().await;
}

/// Says by what an address is taken, and how to change it.
fn explain(error: ServeError) -> Failure {
    let ServeError::Bind { address, side, source } = &error else { return error.into() };
    let (key, flag) = match *side {
        "clients" => ("portcullis.listen", "--listen"),
        _ => ("portcullis.admin.listen", "--admin-listen"),
    };
    let what = match source.kind() {
        io::ErrorKind::AddrInUse => match holder::holder(*address) {
            Some(holder) => format!("it is taken by {holder}"),
            None => "it is taken by another program".to_owned(),
        },
        io::ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
        io::ErrorKind::PermissionDenied => "that takes rights which we do not have".to_owned(),
        _ => source.to_string(),
    };
    let why = format!(
        "{error}: {what}\n    choose another one with `{flag} ADDR`, or with `{key}` in the configuration; port 0 \
         takes any that is free"
    );
    Failure::new(Exit::Failed, why)
}

/// An address, or a port of this machine.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix("localhost").unwrap_or(text);
    let port = port.strip_prefix(':').unwrap_or(port);
    if let Ok(port) = port.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| "expected an address such as 127.0.0.1:7420, or a port".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_means_this_machine() {
        for text in ["7420", ":7420", "localhost:7420", "127.0.0.1:7420"] {
            assert_eq!(address(text), Ok("127.0.0.1:7420".parse().unwrap()), "{text}");
        }
        assert_eq!(address("[::]:1"), Ok("[::]:1".parse().unwrap()));
        for text in ["", "localhost", "example.com:1", "70000"] {
            assert!(address(text).is_err(), "{text}");
        }
    }

    ///
    #[test]
    fn a_taken_address_is_explained() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let source = io::Error::from(io::ErrorKind::AddrInUse);
        let text = explain(ServeError::Bind { address, side: "clients", source }).to_string();
        assert!(text.contains(&address.to_string()), "{text}");
        assert!(text.contains("`--listen ADDR`") && text.contains("`portcullis.listen`"), "{text}");
        if cfg!(target_os = "linux") {
            assert!(text.contains(&format!("(pid {})", std::process::id())), "{text}");
        }
        let source = io::Error::from(io::ErrorKind::AddrInUse);
        let text = explain(ServeError::Bind { address, side: "the operator", source }).to_string();
        assert!(
            text.contains("`--admin-listen ADDR`") && text.contains("`portcullis.admin.listen`"),
            "{text}"
        );
    }
}
