//! `portcullis stdio`: the gateway for one client, on standard streams.

use std::sync::Arc;

use clap::Args;

use crate::app::stdio::{self, Place, Served};
#[cfg(unix)]
use crate::base::descriptors;
use crate::call::{Endpoint, UpstreamId};
use crate::cli::exit::{Exit, Failure};
use crate::cli::run::telemetry;
use crate::cli::source::Source;
use crate::cli::way::Level;
use crate::config::environment::Environment;
use crate::config::snapshot::{LogLevel, Snapshot};

/// Serve one client on standard input and output, with no port at all
///
/// For clients that start programs: `{"command": "portcullis", "args": ["stdio", "-c", "/path/to/servers.json"]}`. It
/// ends when its input does. Any number of them may run at once.
#[derive(Debug, Args)]
pub struct Stdio {
    /// Only this server of the file, under its own names
    #[arg(long, value_name = "SERVER")]
    pub server: Option<String>,

    #[command(flatten)]
    pub source: Source,

    /// How much is logged to standard error; replaces `portcullis.log.level`
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<Level>,
}

/// Serves the client.
///
/// # Errors
/// When the configuration is wrong, or the gateway cannot start.
pub fn run(arguments: &Stdio, environment: &Environment) -> Result<Exit, Failure> {
    let server = arguments.server.as_deref();
    let config = arguments.source.read_only(server, environment)?;
    let endpoint = match server {
        Some(_) => Endpoint::Upstream(UpstreamId(0)),
        None => Endpoint::Merged,
    };
    serve(config, Place { endpoint, needs_upstream: false }, arguments.log_level, environment)?;
    Ok(Exit::Done)
}

/// Serves a client on the standard streams of this process.
///
/// # Errors
/// When it cannot start.
pub(super) fn serve(
    mut config: Snapshot,
    place: Place,
    level: Option<Level>,
    environment: &Environment,
) -> Result<Served, Failure> {
    // The state belongs to one gateway, and many of these may run at once.
    config.state_directory = None;
    config.log.level = match (level, config.log.level) {
        (Some(level), _) => level.into(),
        // Clients show their users what programs write there, as if it were trouble.
        (None, LogLevel::Auto) => LogLevel::Warn,
        (None, configured) => configured,
    };
    #[cfg(unix)]
    descriptors::raise_limit();
    let telemetry = telemetry(&config, environment)?;
    let served = stdio::run(Arc::new(config), &telemetry, place);
    telemetry.finish();
    Ok(served?)
}
