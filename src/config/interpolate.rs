//! Placeholders in texts of the configuration: variables, inputs, files.
//!
//! Understood are `${NAME}`, `${NAME:-default}`, `${env:NAME}`, `{env:NAME}`, `${input:id}`,
//! `${file:path}`, `${userHome}`, `${workspaceFolder}`, `${workspaceFolderBasename}`,
//! `${pathSeparator}` and `${/}`. `$${` stands for `${`; any other `$` for itself.
//!
//! *Invariants*: a text is expanded once, what was put in is never looked at again; no error shows a
//! value.
//!
//! *Limits*: [`MAX_FILE_BYTES`] for a file.

use std::path::{MAIN_SEPARATOR_STR, Path, PathBuf};

use super::environment::Environment;
use super::secrets::Text;

/// No secret is larger.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Where the values of placeholders come from.
#[derive(Debug, Clone, Copy)]
pub struct Variables<'a> {
    /// The environment.
    pub environment: &'a Environment,
    /// The folder of the configuration file, if there is a file.
    pub folder: Option<&'a Path>,
}

/// Why a placeholder has no value.
#[derive(Debug, thiserror::Error)]
pub enum Unresolved {
    /// Neither the environment nor `.env` has the variable, and there is no default.
    #[error("variable `{0}` is not set")]
    Unset(String),
    /// The variable is there and is not Unicode.
    #[error("the value of variable `{0}` is not valid text")]
    NotUnicode(String),
    /// An input of VS Code's that nothing answers.
    #[error("input `{id}` has no value: variable `{variable}` is not set")]
    Input {
        /// Its name in the file.
        id: String,
        /// The variable that would answer it.
        variable: String,
    },
    /// The file cannot be read.
    #[error("cannot read the file `{}`: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file is no secret.
    #[error("the file `{}` is not a text of at most 1MiB", .0.display())]
    NotText(PathBuf),
    /// A folder that is not known here.
    #[error("`${{{0}}}` is not known here")]
    NoFolder(&'static str),
    /// A placeholder that nothing here understands.
    #[error("unknown placeholder `${{{0}}}`")]
    Unknown(String),
    /// A placeholder without an end.
    #[error("`${{` without `}}`")]
    Unclosed,
}

impl Unresolved {
    /// What to do about it.
    pub fn mend(&self) -> String {
        match self {
            Self::Unset(name) => format!(
                "set it, write it into a file .env beside this one, or give a default: ${{{name}:-…}}"
            ),
            Self::Input { variable, .. } => {
                format!("set {variable}, or write it into a file .env beside this one")
            }
            Self::File { .. } | Self::NotText(_) => {
                "relative paths start at the folder of this file".to_owned()
            }
            Self::NotUnicode(_) | Self::NoFolder(_) => "write the value out".to_owned(),
            Self::Unknown(_) | Self::Unclosed => "allowed are ${NAME}, ${NAME:-default}, ${env:NAME}, \
                 ${input:id}, ${file:path}, ${userHome}, ${workspaceFolder}, ${pathSeparator}; \
                 write $${ where ${ itself is meant"
                .to_owned(),
        }
    }
}

impl Variables<'_> {
    /// A text with its placeholders replaced.
    ///
    /// # Errors
    /// Every placeholder that has no value.
    pub fn expand(&self, text: &str) -> Result<Text, Vec<Unresolved>> {
        let mut expanded = Expanded::default();
        let mut rest = text;
        while let Some(offset) = rest.find(['$', '{']) {
            let (before, here) = rest.split_at(offset);
            expanded.text.push_str(before);
            rest = self.step(here, &mut expanded);
        }
        expanded.text.push_str(rest);
        match (expanded.unresolved.is_empty(), expanded.secret) {
            (true, true) => Ok(Text::hidden(expanded.text)),
            (true, false) => Ok(Text::plain(expanded.text)),
            (false, _) => Err(expanded.unresolved),
        }
    }

    /// Takes what stands at a `$` or `{`, and returns what follows it.
    fn step<'t>(&self, here: &'t str, expanded: &mut Expanded) -> &'t str {
        if let Some(rest) = here.strip_prefix("$${") {
            expanded.text.push_str("${");
            return rest;
        }
        if let Some(inner) = here.strip_prefix("${") {
            let Some((placeholder, rest)) = inner.split_once('}') else {
                expanded.unresolved.push(Unresolved::Unclosed);
                return "";
            };
            expanded.put(self.value(placeholder));
            return rest;
        }
        if let Some((name, rest)) = here.strip_prefix("{env:").and_then(|i| i.split_once('}'))
            && is_name(name)
        {
            expanded.put(self.variable(name, None));
            return rest;
        }
        let (one, rest) = here.split_at(1);
        expanded.text.push_str(one);
        rest
    }

    fn value(&self, placeholder: &str) -> Result<Text, Unresolved> {
        match placeholder {
            "userHome" => {
                let home = self.environment.home().and_then(Path::to_str);
                return home.map(Text::plain).ok_or(Unresolved::NoFolder("userHome"));
            }
            "workspaceFolder" => {
                let folder = self.folder.and_then(Path::to_str);
                return folder.map(Text::plain).ok_or(Unresolved::NoFolder("workspaceFolder"));
            }
            "workspaceFolderBasename" => {
                let name = self.folder.and_then(Path::file_name);
                return name
                    .and_then(|name| name.to_str())
                    .map(Text::plain)
                    .ok_or(Unresolved::NoFolder("workspaceFolderBasename"));
            }
            "pathSeparator" | "/" => return Ok(Text::plain(MAIN_SEPARATOR_STR)),
            _ => {}
        }
        if let Some(id) = placeholder.strip_prefix("input:") {
            return self.input(id);
        }
        if let Some(path) = placeholder.strip_prefix("file:") {
            return self.file(path);
        }
        let variable = placeholder.strip_prefix("env:").unwrap_or(placeholder);
        let (name, default) = match variable.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (variable, None),
        };
        if !is_name(name) {
            return Err(Unresolved::Unknown(placeholder.to_owned()));
        }
        self.variable(name, default)
    }

    /// A variable; as in a shell, a default also stands in for an empty one.
    fn variable(&self, name: &str, default: Option<&str>) -> Result<Text, Unresolved> {
        let value = self.environment.value(name);
        match (value, default) {
            (None, Some(default)) => Ok(Text::plain(default)),
            (Some(value), Some(default)) if value.is_empty() => Ok(Text::plain(default)),
            (None, None) => Err(Unresolved::Unset(name.to_owned())),
            (Some(value), _) => {
                value.to_str().map(Text::hidden).ok_or_else(|| Unresolved::NotUnicode(name.to_owned()))
            }
        }
    }

    /// An input as VS Code asks for it; here the environment answers.
    fn input(&self, id: &str) -> Result<Text, Unresolved> {
        let letter = |c: char| {
            if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }
        };
        let variable: String = "INPUT_".chars().chain(id.chars().map(letter)).collect();
        match self.environment.text(&variable) {
            Some(value) => Ok(Text::hidden(value)),
            None => Err(Unresolved::Input { id: id.to_owned(), variable }),
        }
    }

    /// The contents of a file, without one line end at the end.
    fn file(&self, path: &str) -> Result<Text, Unresolved> {
        let path = self.path(path);
        let unreadable = |source| Unresolved::File { path: path.clone(), source };
        let metadata = std::fs::metadata(&path).map_err(unreadable)?;
        if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
            return Err(Unresolved::NotText(path));
        }
        let bytes = std::fs::read(&path).map_err(unreadable)?;
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(Unresolved::NotText(path));
        };
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Text::hidden(text.strip_suffix('\r').unwrap_or(text)))
    }

    /// A path of the file as an absolute one: `~/` is the user's folder, anything relative starts at the
    /// folder of the file.
    pub fn path(&self, path: &str) -> PathBuf {
        if let (Some(rest), Some(home)) = (path.strip_prefix("~/"), self.environment.home()) {
            return home.join(rest);
        }
        match self.folder {
            Some(folder) => folder.join(path),
            None => PathBuf::from(path),
        }
    }
}

/// A text on its way.
#[derive(Default)]
struct Expanded {
    text: String,
    secret: bool,
    unresolved: Vec<Unresolved>,
}

impl Expanded {
    fn put(&mut self, value: Result<Text, Unresolved>) {
        match value {
            Ok(value) => {
                self.text.push_str(value.reveal());
                self.secret |= value.is_secret();
            }
            Err(error) => self.unresolved.push(error),
        }
    }
}

/// Whether this may be the name of a variable.
pub(super) fn is_name(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn environment() -> Environment {
        let pairs = [("X", "${Y}"), ("EMPTY", ""), ("HOME", "/home/u"), ("INPUT_API_KEY", "k")];
        pairs.into_iter().collect()
    }

    fn expand(text: &str) -> Result<(String, bool), String> {
        let environment = environment();
        let variables = Variables { environment: &environment, folder: Some(Path::new("/etc/gate")) };
        match variables.expand(text) {
            Ok(text) => Ok((text.reveal().to_owned(), text.is_secret())),
            Err(errors) => {
                let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
                Err(errors.join("; "))
            }
        }
    }

    #[test]
    fn f_082_expanded_once_and_bare_dollars_stay() {
        for (text, expected, secret) in [
            ("pa$$w${X}rd", "pa$$w${Y}rd", true),
            ("${MISSING:-z}", "z", false),
            ("${EMPTY:-z}", "z", false),
            ("${EMPTY}", "", true),
            ("$HOME", "$HOME", false),
            ("a$", "a$", false),
            ("$${X}", "${X}", false),
            ("$$${X}", "$${X}", false),
            ("${env:X}{env:X}", "${Y}${Y}", true),
            ("${env:MISSING:-d}", "d", false),
            ("{env:a b} {x} {", "{env:a b} {x} {", false),
            ("${input:api-key}", "k", true),
            ("${userHome}${/}x", "/home/u/x", false),
            ("${workspaceFolder}${pathSeparator}x", "/etc/gate/x", false),
            ("${workspaceFolderBasename}", "gate", false),
            ("${MISSING:-a:-b}", "a:-b", false),
            ("ä${X}ö", "ä${Y}ö", true),
        ] {
            assert_eq!(expand(text), Ok((expected.to_owned(), secret)), "{text}");
        }
    }

    #[test]
    fn f_082_what_is_missing_is_named() {
        for (text, error) in [
            ("${MISSING}", "variable `MISSING` is not set"),
            ("${A}${B}", "variable `A` is not set; variable `B` is not set"),
            ("{env:MISSING}", "variable `MISSING` is not set"),
            ("${input:db}", "input `db` has no value: variable `INPUT_DB` is not set"),
            ("${cmd:id}", "unknown placeholder `${cmd:id}`"),
            ("${{ secrets.A }}", "unknown placeholder `${{ secrets.A }`"),
            ("${}", "unknown placeholder `${}`"),
            ("${X", "`${` without `}`"),
        ] {
            assert_eq!(expand(text), Err(error.to_owned()), "{text}");
        }
        assert!(expand("${file:none}").unwrap_err().contains("/etc/gate/none"));
    }

    #[test]
    fn files_lose_one_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let environment = environment();
        let variables = Variables { environment: &environment, folder: Some(folder.path()) };
        for (content, expected) in
            [("s", "s"), ("s\n", "s"), ("s\r\n", "s"), ("s\n\n", "s\n"), ("${X}", "${X}")]
        {
            std::fs::write(folder.path().join("t"), content).unwrap();
            let text = variables.expand("${file:t}").unwrap();
            assert_eq!(text.reveal(), expected);
            assert!(text.is_secret());
        }
        std::fs::write(folder.path().join("t"), b"\xff").unwrap();
        assert!(variables.expand("${file:t}").is_err());
        assert!(variables.expand("${file:.}").is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in r"(\$|\{|\}|env:|:-|file:|input:|X|ä|\PC)*") {
            let _ = expand(&text);
        }
    }
}
