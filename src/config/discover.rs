//! Where the configuration is when nobody says, and who may have written it.
//!
//! Only the user's own folder is looked at, never the working directory: what lies there may come with a
//! repository that somebody else wrote.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::environment::Environment;
use super::problem::{Problem, Problems};

/// The names a configuration has in the user's folder; the first that is there is taken.
const NAMES: [&str; 4] = ["portcullis.json", "portcullis.yaml", "portcullis.yml", "portcullis.toml"];

/// The user's own configuration file.
///
/// # Errors
/// When there is none, with the places that were looked at; when there are several.
pub fn discover(environment: &Environment) -> Result<PathBuf, Problems> {
    let folder = folder(environment).ok_or_else(|| {
        Problem::of_file("portcullis", "there is no home folder to look for a configuration in")
            .mend("name the file: `portcullis serve -c FILE`")
    })?;
    let found: Vec<_> = NAMES.iter().map(|name| folder.join(name)).filter(|path| path.is_file()).collect();
    match found.as_slice() {
        [path] => Ok(path.clone()),
        [] => {
            let shown = folder.join("portcullis.json").display().to_string();
            let mend = "put your `mcpServers` there (.yaml, .yml and .toml are read as well), or name a \
                        file: `portcullis serve -c FILE`,\nor a server: `portcullis serve -- CMD ARGS…`, \
                        `portcullis serve URL`";
            Err(Problem::of_file(shown, "there is no configuration here").mend(mend).into())
        }
        [first, second, ..] => {
            let message = format!("{} is there as well", second.display());
            let mend = "remove one of them, or name the one to use: `portcullis serve -c FILE`";
            let shown = first.display().to_string();
            Err(Problem::of_file(shown, message).mend(mend).into())
        }
    }
}

/// `$XDG_CONFIG_HOME/portcullis`, or `~/.config/portcullis`.
fn folder(environment: &Environment) -> Option<PathBuf> {
    // The convention says that a relative path there is to be ignored.
    let given = environment.value("XDG_CONFIG_HOME").map(Path::new).filter(|path| path.is_absolute());
    let config = match given {
        Some(path) => path.to_owned(),
        None => environment.home()?.join(".config"),
    };
    Some(config.join("portcullis"))
}

/// Refuses a file that others than its owner can write: whoever can, can start programs here.
///
/// # Errors
/// When that is so, with the way to mend it.
pub(super) fn check_permissions(path: &Path) -> Result<(), Problem> {
    {
        const GROUP_WRITE: u32 = 0o020;
        const OTHERS_WRITE: u32 = 0o002;
        let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
        // Many systems give each user a group of the same number and make files writable for it.
        let exposed = |file: &std::fs::Metadata| {
            let shared = file.uid() != file.gid() && file.mode() & GROUP_WRITE != 0;
            shared || file.mode() & OTHERS_WRITE != 0
        };
        if file.as_ref().is_some_and(exposed) {
            let shown = path.display().to_string();
            let message = "others than the owner can write this file, and so start programs in your name";
            let mend = format!("chmod go-w {shown:?}");
            return Err(Problem::of_file(shown, message).mend(mend));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &Path)]) -> Environment {
        pairs.iter().copied().collect()
    }

    ///
    #[test]
    fn only_the_folder_of_the_user_is_read() {
        let home = tempfile::tempdir().unwrap();
        let own = home.path().join(".config/portcullis");
        std::fs::create_dir_all(&own).unwrap();
        let at_home = environment(&[("HOME", home.path())]);
        let missing = discover(&at_home).unwrap_err().to_string();
        assert!(missing.contains(&*own.to_string_lossy()), "{missing}");
        assert!(missing.contains("-c FILE"), "{missing}");

        std::fs::write(own.join("portcullis.toml"), "").unwrap();
        assert_eq!(discover(&at_home).unwrap(), own.join("portcullis.toml"));
        std::fs::write(own.join("portcullis.yaml"), "").unwrap();
        assert!(discover(&at_home).is_err(), "two are one too many");

        let elsewhere = tempfile::tempdir().unwrap();
        let folder = elsewhere.path().join("portcullis");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("portcullis.json"), "{}").unwrap();
        let pairs = [("HOME", home.path()), ("XDG_CONFIG_HOME", elsewhere.path())];
        assert_eq!(discover(&environment(&pairs)).unwrap(), folder.join("portcullis.json"));
        let relative = [("HOME", home.path()), ("XDG_CONFIG_HOME", Path::new("x"))];
        assert!(discover(&environment(&relative)).is_err(), "back at home");
        assert!(discover(&Environment::default()).is_err());
    }

    ///
    #[test]
    fn a_file_that_others_can_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        std::fs::write(&path, "{}").unwrap();
        let owner = std::fs::metadata(&path).unwrap();
        let private = owner.uid() == owner.gid();
        for (mode, accepted) in [(0o600, true), (0o644, true), (0o664, private), (0o646, false)] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let checked = check_permissions(&path);
            assert_eq!(checked.is_ok(), accepted, "{mode:o}");
            if let Err(problem) = checked {
                assert!(problem.to_string().contains("chmod go-w"), "{problem}");
            }
        }
    }
}
