//! Standard output and standard error, and texts made fit for a terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use crate::cli::exit::Failure;

/// Where a text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// A terminal, which obeys control characters.
    Terminal,
    /// A file or a program, which wants the text as it is.
    Program,
}

impl Reader {
    /// Who reads standard output.
    pub fn of_results() -> Self {
        if io::stdout().is_terminal() { Self::Terminal } else { Self::Program }
    }

    /// Who reads standard error.
    pub fn of_notes() -> Self {
        if io::stderr().is_terminal() { Self::Terminal } else { Self::Program }
    }

    /// A text of somebody else as this reader may get it.
    pub fn fit<'t>(self, text: &'t str) -> Cow<'t, str> {
        match self {
            Self::Terminal => harmless(text),
            Self::Program => Cow::Borrowed(text),
        }
    }
}

/// Writes a result, a line break at its end, to standard output.
///
/// # Errors
/// When it cannot be written. A reader that has closed wants no more, which is no error.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let written = out
        .write_all(text.as_bytes())
        .and_then(|()| out.write_all(end.as_bytes()))
        .and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a line to standard error.
pub fn note(text: &str) {
    // Who does not hear us cannot be told so.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// A text of somebody else without what steers a terminal; line breaks and tabs stay.
pub fn harmless(text: &str) -> Cow<'_, str> {
    let steers = |c: char| {
        (c.is_control() && !matches!(c, '\n' | '\t'))
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(steers) { Cow::Owned(text.replace(steers, "\u{fffd}")) } else { Cow::Borrowed(text) }
}

/// The first line of a text of somebody else, of at most `width` characters.
pub fn one_line(text: &str, width: usize) -> String {
    let text = harmless(text);
    let line = text.trim().lines().next().unwrap_or_default();
    let cut = line.chars().count() > width || line.len() < text.trim().len();
    let kept: String = line.chars().take(width.saturating_sub(usize::from(cut))).collect();
    if cut { kept.trim_end().to_owned() + "…" } else { kept }
}

/// Rows with aligned columns; the last column is as wide as it likes.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |n: usize| {
        rows.iter().filter_map(|row| row.get(n)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<_> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(cell);
            line.extend(std::iter::repeat_n(' ', width + 2 - cell.chars().count()));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_taken_out() {
        assert_eq!(harmless("a\x1b[2Jb\tc\nd\u{9b}e\u{202e}"), "a\u{fffd}[2Jb\tc\nd\u{fffd}e\u{fffd}");
        assert_eq!(Reader::Program.fit("a\x1b[2J"), "a\x1b[2J");
        assert!(matches!(harmless("plain é"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_says_that_there_is_more() {
        assert_eq!(one_line("  short ", 10), "short");
        assert_eq!(one_line("first\nsecond", 10), "first…");
        assert_eq!(one_line("abcdefghijkl", 5), "abcd…");
        assert_eq!(one_line("", 5), "");
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [vec!["é".to_owned(), "b".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table(&rows), "é     b\nlong\n");
        assert_eq!(table(&[]), "");
    }
}
