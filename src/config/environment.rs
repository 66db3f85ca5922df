//! The environment: read once at the start, then carried as a value.
//!
//! *Invariants*: the only place that reads environment variables; nothing writes them; `Debug` shows
//! names only.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// The variables as they were when the process began, with those of a `.env` file behind them.
#[derive(Clone, Default)]
pub struct Environment {
    variables: BTreeMap<OsString, OsString>,
}

/// Why a `.env` file could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum DotenvError {
    /// It could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It is larger than any list of variables.
    #[error("{path} is larger than 1MiB")]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// A line is no assignment. Its text may be a secret and is not shown.
    #[error("{path}, line {line}: not of the form NAME=value")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1; 0 if it could not be found.
        line: usize,
    },
}

/// No list of variables is larger.
const MAX_DOTENV_BYTES: u64 = 1 << 20;

impl Environment {
    /// Reads the variables of this process. Called once, by the command line.
    #[allow(clippy::disallowed_methods, reason = "this is the one place that reads the environment")]
    pub fn capture() -> Self {
        std::env::vars_os().collect()
    }

    /// The value of a variable.
    pub fn value(&self, name: impl AsRef<OsStr>) -> Option<&OsStr> {
        self.variables.get(name.as_ref()).map(OsString::as_os_str)
    }

    /// The value of a variable, if it is text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.value(name)?.to_str()
    }

    /// All variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.variables.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }

    /// The user's own folder.
    pub fn home(&self) -> Option<&Path> {
        ["HOME", "USERPROFILE"]
            .iter()
            .filter_map(|name| self.value(name))
            .find(|value| !value.is_empty())
            .map(Path::new)
    }

    /// This environment with the variables of a `.env` file behind it: what the process has, wins.
    /// A file that does not exist adds nothing.
    ///
    /// # Errors
    /// [`DotenvError`], which never shows a value.
    pub fn with_dotenv(&self, path: &Path) -> Result<Self, DotenvError> {
        let mut merged = self.clone();
        match dotenv(path) {
            Ok(variables) => {
                for (name, value) in variables {
                    if merged.value(&name).is_none() {
                        merged.variables.insert(name.into(), value.into());
                    }
                }
            }
            Err(DotenvError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(merged)
    }
}

impl<N: Into<OsString>, V: Into<OsString>> FromIterator<(N, V)> for Environment {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let variables = pairs.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        Self { variables }
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.variables.keys()).finish()
    }
}

/// Reads the variables of a file in the form of `.env`, in order.
///
/// # Errors
/// [`DotenvError`], which never shows a value.
pub fn dotenv(path: &Path) -> Result<Vec<(String, String)>, DotenvError> {
    let unreadable = |source| DotenvError::Read { path: path.to_owned(), source };
    let metadata = std::fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unreadable(std::io::ErrorKind::InvalidInput.into()));
    }
    if metadata.len() > MAX_DOTENV_BYTES {
        let path = path.to_owned();
        return Err(DotenvError::TooLarge { path });
    }
    let text = std::fs::read(path).map_err(unreadable)?;
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&text);
    dotenvy::from_read_iter(text).collect::<Result<_, _>>().map_err(|error| match error {
        dotenvy::Error::LineParse(bad, _) => {
            DotenvError::Line { path: path.to_owned(), line: line_of(text, &bad) }
        }
        dotenvy::Error::Io(source) => unreadable(source),
        _ => unreadable(std::io::ErrorKind::InvalidData.into()),
    })
}

/// The number of the line whose text is given, from 1.
fn line_of(text: &[u8], line: &str) -> usize {
    let first = line.lines().next().unwrap_or_default().trim();
    String::from_utf8_lossy(text)
        .lines()
        .position(|candidate| candidate.trim() == first)
        .map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_wins_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        std::fs::write(&path, "A=file\nB='pa$w'\n# note\nexport C=\"x y\"\n").unwrap();
        let environment: Environment = [("A", "process")].into_iter().collect();
        let merged = environment.with_dotenv(&path).unwrap();
        assert_eq!(merged.text("A"), Some("process"));
        assert_eq!(merged.text("B"), Some("pa$w"));
        assert_eq!(merged.text("C"), Some("x y"));
        assert_eq!(merged.text("D"), None);
        assert_eq!(environment.text("B"), None, "the first one is as it was");
    }

    #[test]
    fn a_missing_file_adds_nothing() {
        let environment = Environment::default();
        let merged = environment.with_dotenv(Path::new("/nonexistent/.env"));
        assert_eq!(merged.unwrap().iter().count(), 0);
    }

    #[test]
    fn a_bad_line_is_named_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".env");
        std::fs::write(&path, "A=1\nhunter2 is my = \"secret\n").unwrap();
        let error = Environment::default().with_dotenv(&path).unwrap_err();
        let message = error.to_string();
        assert!(message.contains("line 2"), "{message}");
        assert!(!message.contains("hunter2"), "{message}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }

    #[test]
    fn debug_shows_names_only() {
        let environment: Environment = [("TOKEN", "hunter2")].into_iter().collect();
        let shown = format!("{environment:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("hunter2"));
    }
}
