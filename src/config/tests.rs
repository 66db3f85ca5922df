//! The whole way from a text to a snapshot.

mod entries;
mod examples;
mod faults;
mod gateway;

use std::path::Path;

use super::environment::Environment;
use super::problem::{Position, Problems};
use super::snapshot::Snapshot;
use super::*;

/// Writes a file that only its owner can write, whatever the umask.
fn write(path: &Path, content: impl AsRef<[u8]>) {
    std::fs::write(path, content).unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o644)).unwrap();
    }
}

/// Reads a JSON text with some variables.
fn read(text: &str, variables: &[(&str, &str)]) -> Result<Snapshot, Problems> {
    let environment: Environment = variables.iter().copied().collect();
    parse(text, Format::Json, "test.json", &environment)
}

/// Reads one entry named `a`.
fn read_entry(entry: &str, variables: &[(&str, &str)]) -> Result<Snapshot, Problems> {
    read(&format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#), variables)
}

/// Reads settings of the gateway.
fn read_gateway(settings: &str) -> Result<Snapshot, Problems> {
    read(&format!(r#"{{"mcpServers": {{}}, "portcullis": {settings}}}"#), &[])
}
