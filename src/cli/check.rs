//! `portcullis check`: what the gateway makes of a configuration, without starting anything.

use std::path::PathBuf;

use clap::Args;

use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::cli::report;
use crate::cli::source::Source;
use crate::config::environment::Environment;
use crate::config::snapshot::Snapshot;
use crate::mcp::names::SEPARATOR;

/// Check a configuration and show what it says, without starting anything
///
/// Every fault is shown with file, line and column. The exit code is 2 if the file is wrong, or if a server in it
/// cannot be used as things are, such as for want of a variable.
#[derive(Debug, Args)]
pub struct Check {
    /// The configuration; without it the one in your own folder
    #[arg(value_name = "FILE", conflicts_with = "config")]
    pub file: Option<PathBuf>,

    /// The same, as other commands have it
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Checks a file.
///
/// # Errors
/// The problems of the file.
pub fn run(arguments: &Check, environment: &Environment) -> Result<Exit, Failure> {
    let file = arguments.file.as_ref().or(arguments.config.as_ref());
    let source = Source { config: file.cloned(), ..Source::default() };
    let config = source.read(None, environment)?;
    output::print(&summary(&config))?;
    for failed in &config.failed {
        for problem in &failed.problems {
            output::note(&format!("\n{problem}"));
        }
    }
    for warning in &config.warnings {
        output::note(&format!("\nwarning: {warning}"));
    }
    Ok(if config.failed.is_empty() { Exit::Done } else { Exit::Usage })
}

/// What the configuration says, for people.
fn summary(config: &Snapshot) -> String {
    let mut rows = Vec::new();
    for upstream in &config.upstreams {
        let prefix = match &upstream.namespace {
            Some(namespace) => format!("{namespace}{SEPARATOR}"),
            None => "(own names)".to_owned(),
        };
        rows.push(vec![upstream.name.to_string(), prefix, report::way_to(&upstream.transport)]);
    }
    let also = |name: &str, state: &str| vec![name.to_owned(), String::new(), state.to_owned()];
    rows.extend(config.failed.iter().map(|failed| also(&failed.name, "cannot be used, see below")));
    rows.extend(config.disabled.iter().map(|name| also(name, "switched off")));
    if !rows.is_empty() {
        rows.insert(0, ["SERVER", "PREFIX", "REACHED BY"].map(str::to_owned).to_vec());
    }
    let file = config.source.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let mut text = match config.failed.len() {
        0 => format!("{file}: no faults\n"),
        1 => format!("{file}: a server cannot be used\n"),
        n => format!("{file}: {n} servers cannot be used\n"),
    };
    text.push_str(&format!("clients at {}: {}\n", config.listen, report::who_may_call(config)));
    text.push_str(&format!("operator at {}\n", config.admin_listen));
    if let Some(processes) = report::processes(config) {
        text.push_str(&format!("{processes}\n"));
    }
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&output::table(&rows));
    }
    text
}
