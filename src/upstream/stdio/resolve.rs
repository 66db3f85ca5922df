//! From the command an entry names to the file that is run, by the child's own PATH and folder (F-113).
//!
//! *Invariants:* never through a shell (STDIO-06); the answer is a full path; an error lists where was searched and what
//! to do. An empty element of PATH, which means the working directory to a shell, is passed over: what is run must not
//! depend on what lies in a folder.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};

/// Searched when the child would have no PATH, as with services and programs started from a desktop.
pub const DEFAULT_PATH: &str = if cfg!(target_os = "macos") {
    "/opt/homebrew/bin:/usr/local/bin:/usr/bin:/bin"
} else {
    "/usr/local/bin:/usr/bin:/bin"
};

/// What a path leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Probe {
    /// A file that may be executed.
    Program,
    /// A file that may not.
    Plain,
    /// No file.
    Nothing,
}

/// Why a command leads nowhere. Each says how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unresolved {
    /// The entry has an empty command.
    #[error("the command is empty; name a program")]
    Empty,
    /// No such file in any folder searched.
    #[error(
        "command `{command}` was not found ({searched}); install it, write its full path, or set PATH in the entry's env"
    )]
    NotFound {
        /// The command as configured.
        command: String,
        /// Where was looked.
        searched: Searched,
    },
    /// The only file of that name cannot be executed.
    #[error("`{}` is not executable; run it with its interpreter as the command, or set its execute bit", .0.display())]
    NotExecutable(PathBuf),
}

/// The places where a command was looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Searched(pub Vec<PathBuf>);

impl fmt::Display for Searched {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("searched ")?;
        for (nth, place) in self.0.iter().enumerate() {
            let comma = if nth > 0 { ", " } else { "" };
            write!(out, "{comma}{}", place.display())?;
        }
        Ok(())
    }
}

/// Finds the file of `command`: with a slash in it relative to `folder`, else in the folders of `path`.
///
/// # Errors
/// [`Unresolved`], which names the command and where was searched.
pub fn resolve(
    command: &OsStr,
    path: &OsStr,
    folder: &Path,
    probe: impl Fn(&Path) -> Probe,
) -> Result<PathBuf, Unresolved> {
    if command.is_empty() {
        return Err(Unresolved::Empty);
    }
    let places = if has_separator(command) { vec![folder.to_owned()] } else { folders(path, folder) };
    let mut plain = None;
    for place in &places {
        let candidate = place.join(command);
        match probe(&candidate) {
            Probe::Program => return Ok(candidate),
            Probe::Plain => plain = plain.or(Some(candidate)),
            Probe::Nothing => {}
        }
    }
    Err(plain.map_or_else(
        || Unresolved::NotFound {
            command: command.to_string_lossy().into_owned(),
            searched: Searched(places),
        },
        Unresolved::NotExecutable,
    ))
}

/// Asks the file system.
#[must_use]
pub fn probe(path: &Path) -> Probe {
    if !path.is_file() {
        Probe::Nothing
    } else if rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok() {
        Probe::Program
    } else {
        Probe::Plain
    }
}

fn has_separator(command: &OsStr) -> bool {
    command.as_encoded_bytes().contains(&b'/')
}

fn folders(path: &OsStr, folder: &Path) -> Vec<PathBuf> {
    std::env::split_paths(path)
        .filter(|place| !place.as_os_str().is_empty())
        .map(|place| folder.join(place))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(command: &str, path: &str, programs: &[&str], plain: &[&str]) -> Result<PathBuf, Unresolved> {
        resolve(OsStr::new(command), OsStr::new(path), Path::new("/work dir"), |candidate| {
            let is = |list: &[&str]| list.iter().any(|known| Path::new(known) == candidate);
            match (is(programs), is(plain)) {
                (true, _) => Probe::Program,
                (false, true) => Probe::Plain,
                (false, false) => Probe::Nothing,
            }
        })
    }

    /// F-113: the list of PATH, in order; spaces and letters beyond ASCII; relative elements; an empty one.
    #[test]
    fn f_113_the_first_program_on_the_path() {
        let table: [(&str, &str, &[&str], &str); 6] = [
            ("npx", "/a:/b", &["/a/npx", "/b/npx"], "/a/npx"),
            ("npx", "/a:/b", &["/b/npx"], "/b/npx"),
            ("srv", "/Tool Box/é:/b", &["/Tool Box/é/srv"], "/Tool Box/é/srv"),
            (
                "srv",
                "node_modules/.bin:/b",
                &["/work dir/node_modules/.bin/srv"],
                "/work dir/node_modules/.bin/srv",
            ),
            ("./srv", "/a", &["/work dir/./srv", "/a/srv"], "/work dir/./srv"),
            ("/opt/srv", "/a", &["/opt/srv"], "/opt/srv"),
        ];
        for (command, path, programs, found) in table {
            assert_eq!(find(command, path, programs, &[]), Ok(PathBuf::from(found)), "{command} in {path}");
        }
        assert!(find("srv", "/a::", &["/work dir/srv"], &[]).is_err(), "an empty element is not the folder");
    }

    #[test]
    fn f_113_a_file_that_cannot_run_does_not_hide_one_that_can() {
        assert_eq!(find("srv", "/a:/b", &["/b/srv"], &["/a/srv"]), Ok(PathBuf::from("/b/srv")));
        assert_eq!(find("srv", "/a:/b", &[], &["/b/srv"]), Err(Unresolved::NotExecutable("/b/srv".into())));
    }

    /// F-113: the error names the command, the places and the mend.
    #[test]
    fn f_113_what_is_said_when_nothing_is_found() {
        let said = find("npx", "/usr/bin:/bin", &[], &[]).unwrap_err().to_string();
        assert_eq!(
            said,
            "command `npx` was not found (searched /usr/bin, /bin); install it, write its full path, or set PATH in the entry's env"
        );
        assert_eq!(find("", "/bin", &[], &[]), Err(Unresolved::Empty));
    }
}
