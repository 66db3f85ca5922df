//! `portcullis keys`: keys for clients, and keys that seal handles (R-32).

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::base::ids;
use crate::base::seal::Key;
use crate::cli::exit::{Exit, Failure};
use crate::cli::output;
use crate::cli::source::Source;
use crate::config::environment::Environment;
use crate::config::snapshot::Snapshot;
use crate::jsonrpc::text::quote;

/// Make keys: for clients, and for what the gateway seals
#[derive(Debug, Subcommand)]
pub enum Keys {
    New(New),
    /// Print a new key for `portcullis.sealKeys`, which seals session ids and cursors
    Seal,
    Rotate(Rotate),
}

/// Print a key for a client, shown only now, and its entry for `portcullis.auth.keys`
///
/// The first line on standard output is the key, the second one the entry, which holds only the key's SHA-256.
#[derive(Debug, Args)]
pub struct New {
    /// What the key is called in the logs, such as `laptop`
    pub name: String,
}

/// Print a value for `portcullis.sealKeys` that seals with a new key and still opens with the old ones
#[derive(Debug, Args)]
pub struct Rotate {
    /// The configuration whose keys are replaced; without it the one in your own folder
    #[arg(short, long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// Makes a key.
///
/// # Errors
/// When the configuration to rotate in is wrong, or has nothing to rotate.
pub fn run(keys: &Keys, environment: &Environment) -> Result<Exit, Failure> {
    match keys {
        Keys::New(new) => issue(&new.name)?,
        Keys::Seal => output::print(&Key::random().reveal())?,
        Keys::Rotate(rotate) => {
            let source = Source { config: rotate.config.clone(), ..Source::default() };
            turn_over(&source.read(None, environment)?)?;
        }
    }
    Ok(Exit::Done)
}

fn issue(name: &str) -> Result<(), Failure> {
    if name.trim().is_empty() || name.chars().any(char::is_control) {
        return Err(Failure::new(Exit::Usage, "a key needs a name, such as `laptop`"));
    }
    let key = Key::random().reveal();
    output::note("the key, which is shown only now; clients send it as `Authorization: Bearer KEY`:");
    output::print(&key)?;
    output::note("\nits entry, to be put into the list `portcullis.auth.keys`:");
    output::print(&entry(name, &key))
}

/// What stands in the configuration for a key.
fn entry(name: &str, key: &str) -> String {
    format!(r#"{{"name": {}, "sha256": "{}"}}"#, quote(name), ids::sha256_hex(key.as_bytes()))
}

fn turn_over(config: &Snapshot) -> Result<(), Failure> {
    let new = Key::random().reveal();
    if let 1.. = config.seal_keys.len() {
        output::note("a new key, to be put before those that are in `portcullis.sealKeys` now:");
        output::print(&new)?;
    } else if let Some(kept) =
        config.state_directory.as_ref().map(|folder| folder.join(crate::app::keys::FILE))
    {
        if !kept.is_file() {
            let why = format!("there is no key in {} yet; the next start makes one", kept.display());
            return Err(Failure::new(Exit::Usage, why));
        }
        output::note("the value for `portcullis.sealKeys`: a new key, and the one that was kept so far:");
        output::print(&format!("[{}, {}]", quote(&new), quote(&format!("${{file:{}}}", kept.display()))))?;
    } else {
        let why = "there is no key to replace: each start makes a new one. \
                   `portcullis keys seal` prints one to keep";
        return Err(Failure::new(Exit::Usage, why));
    }
    output::note(ORDER);
    Ok(())
}

/// What several gateways have to heed.
const ORDER: &str = "
with more than one gateway, put the new key last at first, so that all of them can open what it seals,
then first; drop an old key once the sessions that it sealed have ended";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Format};

    /// R-32: what is printed can be pasted, and lets the key in.
    #[test]
    fn the_entry_of_a_key_is_good_configuration() {
        let key = Key::random().reveal();
        let file = format!(r#"{{"portcullis":{{"auth":{{"keys":[{}]}}}}}}"#, entry("a \"b\"", &key));
        let config = config::parse(&file, Format::Json, "t", &Environment::default()).unwrap();
        let [known] = config.auth.keys.as_slice() else { panic!("one key") };
        assert_eq!(&*known.name, "a \"b\"");
        assert_eq!(known.sha256.to_string(), ids::sha256_hex(key.as_bytes()));
    }

    #[test]
    fn a_seal_key_is_good_configuration() {
        let file = format!(r#"{{"portcullis":{{"sealKeys":["{}"]}}}}"#, *Key::random().reveal());
        let config = config::parse(&file, Format::Json, "t", &Environment::default()).unwrap();
        assert_eq!(config.seal_keys.len(), 1);
        assert!(turn_over(&config).is_ok());
    }

    #[test]
    fn without_keys_there_is_nothing_to_rotate() {
        let config =
            config::parse(r#"{"mcpServers":{}}"#, Format::Json, "t", &Environment::default()).unwrap();
        assert_eq!(turn_over(&config).unwrap_err().exit, Exit::Usage);
    }
}
