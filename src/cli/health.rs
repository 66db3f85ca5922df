//! `portcullis health`: asks the operator's port, for probes that run a command (R-32).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use url::Url;

use crate::base::units::Period;
use crate::cli::exit::{Because, Exit, Failure};
use crate::cli::output;
use crate::cli::run::block_on;
use crate::config::environment::Environment;
use crate::config::{self, Format};
use crate::egress::http::{self, Limits, Method, Request};

/// Ask a running gateway whether it is alive, for probes that run a command
///
/// The exit code is 0 if it is, else 1.
#[derive(Debug, Args)]
pub struct Health {
    /// Ask whether it is ready for clients instead
    #[arg(long)]
    pub ready: bool,

    /// The operator's port, such as http://127.0.0.1:7421; without it, that of the configuration
    #[arg(long, value_name = "URL", conflicts_with = "config")]
    pub url: Option<Url>,

    /// The configuration of the gateway; without it the one in your own folder
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// How long the answer may take
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = Period::parse)]
    pub timeout: Duration,
}

/// The page says in a few lines what is missing.
const PAGE_BYTES: usize = 64 << 10;

/// Asks.
///
/// # Errors
/// When there is no good answer.
pub fn run(arguments: &Health, environment: &Environment) -> Result<Exit, Failure> {
    // The code for wrong usage is taken by what runs such probes.
    let unwell = |failure: Failure| failure.with(Exit::Failed);
    let mut url = match &arguments.url {
        Some(url) => url.clone(),
        None => configured(arguments, environment).map_err(unwell)?,
    };
    url.set_path(if arguments.ready { "/readyz" } else { "/livez" });
    block_on(ask(&url, arguments.timeout)).map_err(unwell)
}

async fn ask(url: &Url, timeout: Duration) -> Result<Exit, Failure> {
    let limits = Limits { connect: timeout, idle: timeout, body: PAGE_BYTES };
    let request = Request { method: Method::Get, url, headers: &[], body: Bytes::new() };
    let mut answer = http::send(request, limits).await?;
    let text = answer.text().await?;
    let text = String::from_utf8_lossy(&text);
    let text = output::harmless(text.trim());
    if answer.status() == 200 {
        output::print(&text)?;
        return Ok(Exit::Done);
    }
    Err(Failure::new(Exit::Failed, format!("{url} answers with {}\n{text}", answer.status_line())))
}

/// The operator's port of the configuration that is meant.
fn configured(arguments: &Health, environment: &Environment) -> Result<Url, Failure> {
    let config = match (&arguments.config, config::discover(environment)) {
        // A gateway without a file listens where it does by default.
        (None, Err(_)) => config::parse(r#"{"mcpServers":{}}"#, Format::Json, "defaults", environment)?,
        (Some(path), _) => config::load(path, environment)?,
        (None, Ok(path)) => config::load(&path, environment)?,
    };
    let address = config.admin_listen;
    if address.port() == 0 {
        let why = "`portcullis.admin.listen` has port 0; name the port that was bound with `--url`";
        return Err(Failure::new(Exit::Usage, why));
    }
    Url::parse(&format!("http://{}/", reachable(address))).or_exit(Exit::Failed)
}

/// An address that is bound, as one that can be connected to.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_address_is_asked_on_this_machine() {
        for (bound, asked) in
            [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:2", "[::1]:2"), ("10.0.0.1:3", "10.0.0.1:3")]
        {
            assert_eq!(reachable(bound.parse().unwrap()), asked.parse().unwrap());
        }
    }
}
