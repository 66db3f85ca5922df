//! From arguments to an exit code.

use std::ffi::OsString;
use std::future::Future;

use clap::Parser;
use clap::error::ErrorKind;
use tokio::runtime::Builder;

use crate::cli::arguments::{Arguments, Command};
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::cli::{call, check, completions, connect, health, keys, probe, schema, serve, stdio, tools};
use crate::config::environment::Environment;
use crate::config::snapshot::Snapshot;
use crate::telemetry::Telemetry;
use crate::telemetry::logs::Colour;

/// Does what the arguments say, the program's own name first among them.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are results, and whoever closed the pipe knows that.
            let _ = error.print();
            let wanted = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            return if wanted { Exit::Done } else { Exit::Usage };
        }
    };
    let environment = Environment::capture();
    match dispatch(arguments.command, &environment) {
        Ok(exit) => exit,
        Err(failure) => {
            output::note(&failure.to_string());
            failure.exit
        }
    }
}

fn dispatch(command: Command, environment: &Environment) -> Result<Exit, Failure> {
    match command {
        Command::Serve(arguments) => serve::run(&arguments, environment),
        Command::Stdio(arguments) => stdio::run(&arguments, environment),
        Command::Connect(arguments) => connect::run(&arguments, environment),
        Command::Check(arguments) => check::run(&arguments, environment),
        Command::Schema => schema::run(),
        Command::Tools(arguments) => tools::run(&arguments, environment),
        Command::Call(arguments) => call::run(&arguments, environment),
        Command::Probe(arguments) => probe::run(&arguments, environment),
        Command::Keys(keys) => keys::run(&keys, environment),
        Command::Health(arguments) => health::run(&arguments, environment),
        Command::Completions(arguments) => completions::run(&arguments),
    }
}

/// Starts the log.
///
/// # Errors
/// When it cannot be written.
pub fn telemetry(config: &Snapshot, environment: &Environment) -> Result<Telemetry, Failure> {
    let plain = environment.text("NO_COLOR").is_some_and(|value| !value.is_empty());
    Ok(Telemetry::start(config, if plain { Colour::Off } else { Colour::On })?)
}

/// Runs the work of a command that makes one call at a time.
///
/// # Errors
/// When there is no run time; those of the work.
pub fn block_on<T>(work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let outcome = runtime.block_on(work);
    // What still blocks, such as a look-up of a name, does not hold up the end.
    runtime.shutdown_background();
    outcome
}
