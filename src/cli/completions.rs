//! `portcullis completions`: scripts that let shells complete our arguments.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::arguments::Arguments;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;

/// Print the script that lets a shell complete the arguments
#[derive(Debug, Args)]
pub struct Completions {
    /// For which shell
    pub shell: Shell,
}

/// Prints the script.
///
/// # Errors
/// When standard output cannot be written.
pub fn run(arguments: &Completions) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), "portcullis", &mut script);
    output::print(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
