//! How Windows finds a command and takes its arguments (F-113): candidates by PATHEXT, and command lines.
//!
//! *Invariants:* text in, text out, so that the rules are tested on every system (R-57). Batch files are the one case
//! that needs `cmd.exe`; what cannot be quoted for it safely is refused.

/// Used when PATHEXT is not set.
const DEFAULT_EXTENSIONS: &str = ".COM;.EXE;.BAT;.CMD";

/// Why arguments cannot be handed to a batch file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("argument {0} has a line break or a zero byte, which a batch file cannot take")]
pub struct Unquotable(
    /// Which argument, counted from one; zero is the command.
    pub usize,
);

/// The files to try for `command`, in order. A name without extension stands for each of PATHEXT and never for itself:
/// a bare `npx` beside `npx.cmd` is a script for another system.
#[must_use]
pub fn candidates(command: &str, path: &str, extensions: Option<&str>, folder: &str) -> Vec<String> {
    let extensions = extensions.filter(|list| !list.is_empty()).unwrap_or(DEFAULT_EXTENSIONS);
    let names = names(command, extensions);
    let places: Vec<&str> = if is_full(command) {
        vec![""]
    } else if command.contains(['\\', '/']) {
        vec![folder]
    } else {
        path.split(';')
            .map(|place| place.trim().trim_matches('"'))
            .filter(|place| !place.is_empty())
            .collect()
    };
    places.iter().flat_map(|place| names.iter().map(|name| join(place, name))).collect()
}

/// Whether a file has to be run by `cmd.exe`.
#[must_use]
pub fn is_batch(file: &str) -> bool {
    let lower = file.to_ascii_lowercase();
    lower.ends_with(".bat") || lower.ends_with(".cmd")
}

/// The command line of a program that splits it by the usual rules: backslashes count only before a quote.
#[must_use]
pub fn command_line(file: &str, arguments: &[&str]) -> String {
    let mut line = format!("\"{file}\"");
    for argument in arguments {
        line.push(' ');
        if !argument.is_empty() && !argument.contains([' ', '\t', '\n', '\x0b', '"']) {
            line.push_str(argument);
            continue;
        }
        line.push('"');
        push_escaped(&mut line, argument, "\\\"");
        line.push('"');
    }
    line
}

/// The command line that runs a batch file: `cmd.exe` without autorun commands and without delayed expansion, every
/// argument in quotes, so that `&`, `|`, `<`, `>` and `^` are plain characters.
///
/// # Errors
/// [`Unquotable`] for what would end the line.
pub fn batch_line(file: &str, arguments: &[&str]) -> Result<String, Unquotable> {
    let mut line = String::from("cmd.exe /e:on /v:off /d /c \"");
    for (nth, word) in std::iter::once(&file).chain(arguments).enumerate() {
        if word.contains(['\r', '\n', '\0']) {
            return Err(Unquotable(nth));
        }
        if nth > 0 {
            line.push(' ');
        }
        line.push('"');
        // `%cd:~,%` expands to nothing, and so keeps the characters around it from forming the name of a variable.
        push_escaped(&mut line, &word.replace('%', "%%cd:~,%"), "\"\"");
        line.push('"');
    }
    line.push('"');
    Ok(line)
}

fn names(command: &str, extensions: &str) -> Vec<String> {
    let lower = command.to_ascii_lowercase();
    let mut list = extensions.split(';').filter(|extension| extension.len() > 1);
    if list.clone().any(|extension| lower.ends_with(&extension.to_ascii_lowercase())) {
        return vec![command.to_owned()];
    }
    let mut names = Vec::new();
    for extension in &mut list {
        names.push([command, extension].concat());
    }
    names
}

fn is_full(command: &str) -> bool {
    let drive = command.as_bytes().get(1) == Some(&b':');
    drive || command.starts_with(['\\', '/'])
}

fn join(place: &str, name: &str) -> String {
    if place.is_empty() || place.ends_with(['\\', '/']) {
        [place, name].concat()
    } else {
        [place, "\\", name].concat()
    }
}

/// Appends `word` for use inside quotes: a quote becomes `quote`, and backslashes before one or at the end are doubled.
fn push_escaped(line: &mut String, word: &str, quote: &str) {
    let mut backslashes = 0;
    for character in word.chars() {
        match character {
            '\\' => backslashes += 1,
            '"' => {
                line.extend(std::iter::repeat_n('\\', backslashes));
                line.push_str(quote);
                backslashes = 0;
                continue;
            }
            _ => backslashes = 0,
        }
        line.push(character);
    }
    line.extend(std::iter::repeat_n('\\', backslashes));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f_113_candidates_by_path_and_pathext() {
        let path = r#"C:\Windows;"C:\Tool Box\é";;D:\"#;
        assert_eq!(
            candidates("npx", path, Some(".EXE;.CMD"), r"C:\w"),
            [
                r"C:\Windows\npx.EXE",
                r"C:\Windows\npx.CMD",
                r"C:\Tool Box\é\npx.EXE",
                r"C:\Tool Box\é\npx.CMD",
                r"D:\npx.EXE",
                r"D:\npx.CMD"
            ]
        );
        assert_eq!(candidates("npx.cmd", r"C:\a", Some(".EXE;.CMD"), r"C:\w"), [r"C:\a\npx.cmd"]);
        assert_eq!(candidates(r"C:\Tool Box\s é\srv.exe", path, None, r"C:\w"), [r"C:\Tool Box\s é\srv.exe"]);
        assert_eq!(candidates(r".\srv.exe", path, None, r"C:\w"), [r"C:\w\.\srv.exe"]);
        assert_eq!(candidates("a.b", r"C:\a", Some(".EXE"), r"C:\w"), [r"C:\a\a.b.EXE"]);
        assert_eq!(candidates("npx", r"C:\a", Some(""), r"C:\w").len(), 4, "PATHEXT that is empty");
    }

    #[test]
    fn f_113_quoting_table() {
        let table = [
            (vec!["-y", "pkg"], r#""srv" -y pkg"#),
            (vec!["a b"], r#""srv" "a b""#),
            (vec![""], r#""srv" """#),
            (vec!["x&y\"z"], r#""srv" "x&y\"z""#),
            (vec![r"C:\a b\"], r#""srv" "C:\a b\\""#),
            (vec![r"C:\ab\"], r#""srv" C:\ab\"#),
            (vec![r#"a\"b"#], r#""srv" "a\\\"b""#),
        ];
        for (arguments, line) in table {
            assert_eq!(command_line("srv", &arguments), line, "{arguments:?}");
        }
    }

    #[test]
    fn f_113_batch_files() {
        assert!(is_batch(r"C:\n\NPX.CMD") && is_batch("a.bat") && !is_batch("a.exe"));
        assert_eq!(
            batch_line(r"C:\n\npx.cmd", &["-y", "a b", "x&y\"z", "%PATH%", r"c:\"]).unwrap(),
            r#"cmd.exe /e:on /v:off /d /c ""C:\n\npx.cmd" "-y" "a b" "x&y""z" "%%cd:~,%PATH%%cd:~,%" "c:\\"""#
        );
        assert_eq!(batch_line("a.cmd", &["ok", "a\nb"]), Err(Unquotable(2)));
    }
}
