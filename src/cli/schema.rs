//! `portcullis schema`: the JSON Schema of the configuration file.

use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::config;

/// Prints the schema.
///
/// # Errors
/// When standard output cannot be written.
pub fn run() -> Result<Exit, Failure> {
    output::print(&format!("{:#}", config::schema()))?;
    Ok(Exit::Done)
}
