//! The seal keys of this process: configured, kept in the state directory, or random.

use std::fs;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use crate::base::seal::{Key, Ring};
use crate::config::snapshot::Snapshot;
use crate::telemetry::events::app::SealKeyMade;

/// The file in the state directory in which a key lies that we made.
pub const FILE: &str = "seal.key";

/// The ring of a configuration.
///
/// # Errors
/// When a kept key cannot be read or written: going on with another one would orphan what it sealed.
pub fn ring(config: &Snapshot) -> io::Result<Arc<Ring>> {
    let mut keys = config.seal_keys.iter().map(|key| Key::from(*key.reveal()));
    if let Some(current) = keys.next() {
        return Ok(Arc::new(Ring::from_keys(current, keys)));
    }
    let Some(folder) = &config.state_directory else {
        SealKeyMade { kept: None }.emit();
        return Ok(Arc::new(Ring::random()));
    };
    let path = folder.join(FILE);
    let key = match fs::read_to_string(&path) {
        Ok(text) => Key::parse(text.trim()).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidData,
                format!("{} holds no seal key; remove it to make a new one", path.display()),
            )
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(folder, &path)?,
        Err(error) => return Err(error),
    };
    Ok(Arc::new(Ring::from_keys(key, [])))
}

/// Makes a key and keeps it where only we can read it.
fn make(folder: &Path, path: &Path) -> io::Result<Key> {
    fs::create_dir_all(folder)?;
    let key = Key::random();
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(key.reveal().as_bytes())?;
    SealKeyMade { kept: Some(&path.display()) }.emit();
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    ///
    #[test]
    fn a_made_key_is_kept_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(FILE);
        let made = make(folder.path(), &path).unwrap();
        let kept = Key::parse(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(*made.reveal(), *kept.reveal());
        #[cfg(unix)]
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777,
            0o600
        );
        assert!(make(folder.path(), &path).is_err(), "a key is never overwritten");
    }
}
