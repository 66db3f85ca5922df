//! Reads the sources of the crate as paths of identifiers.

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::OnceLock;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A source file, read.
pub struct Source {
    /// Path under `src`, with slashes.
    pub path: String,
    pub text: String,
    pub uses: Vec<Use>,
}

/// A path in the tokens of a file: `a::b::c`, a macro's name, or one leaf of a grouped import.
#[derive(Debug)]
pub struct Use {
    pub segments: Vec<String>,
    pub kind: Kind,
    /// Inside of something under `#[cfg(test)]`.
    pub in_tests: bool,
    /// Modules in braces around it.
    pub inline_depth: usize,
}

/// What follows the last segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `!`: it names a macro.
    Macro,
    /// `::*`: it imports everything.
    Glob,
    /// Anything else.
    Plain,
}

impl Use {
    pub fn is_macro(&self) -> bool {
        self.kind == Kind::Macro
    }

    pub fn is_glob(&self) -> bool {
        self.kind == Kind::Glob
    }

    pub fn has_word(&self, word: &str) -> bool {
        self.segments.iter().any(|segment| segment == word)
    }

    /// Whether `first::second` occurs, `second` being one of these.
    pub fn has_pair(&self, first: &str, seconds: &[&str]) -> bool {
        self.segments.windows(2).any(|pair| pair[0] == first && seconds.contains(&pair[1].as_str()))
    }

    pub fn starts_with(&self, words: &[&str]) -> bool {
        self.segments.len() >= words.len()
            && self.segments.iter().zip(words).all(|(segment, word)| segment == word)
    }

    pub fn ends_with(&self, words: &[&str]) -> bool {
        self.segments.last().is_some_and(|last| words.contains(&last.as_str()))
    }

    pub fn text(&self) -> String {
        self.segments.join("::")
    }
}

impl Source {
    pub fn new(path: &str, text: &str) -> Self {
        let tokens = TokenStream::from_str(text).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut flat = Vec::new();
        flatten(tokens, &mut flat);
        let in_tests = path.ends_with("/tests.rs") || path.contains("/tests/");
        Self { path: path.to_owned(), text: text.to_owned(), uses: Reader::read(&flat, in_tests) }
    }

    pub fn module(&self) -> &str {
        self.path.split(['/', '.']).next().unwrap_or_default()
    }

    pub fn is_in(&self, places: &[&str]) -> bool {
        places.iter().any(|place| self.path == *place || place.ends_with('/') && self.path.starts_with(place))
    }

    pub fn is_root(&self) -> bool {
        self.path == "lib.rs" || self.path == "main.rs"
    }

    /// Modules between the top-level one and this file.
    pub fn depth(&self) -> usize {
        let below = self.path.matches('/').count();
        if self.path.ends_with("/mod.rs") { below - 1 } else { below }
    }

    /// Lines before the file's tests, which are last.
    pub fn product_lines(&self) -> usize {
        let end = self.text.find("\n#[cfg(test)]\nmod ").map_or(self.text.len(), |end| end + 1);
        self.text[..end].lines().count()
    }
}

/// One token, groups opened up.
#[derive(Clone, Debug, PartialEq)]
enum Token {
    Word(String),
    Mark(char),
    Other,
}

fn flatten(tokens: TokenStream, flat: &mut Vec<Token>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Bracket => ('[', ']'),
                    Delimiter::None => (' ', ' '),
                };
                flat.push(Token::Mark(open));
                flatten(group.stream(), flat);
                flat.push(Token::Mark(close));
            }
            TokenTree::Ident(word) => flat.push(Token::Word(word.to_string())),
            TokenTree::Punct(mark) => flat.push(Token::Mark(mark.as_char())),
            TokenTree::Literal(_) => flat.push(Token::Other),
        }
    }
}

/// Walks over the tokens and collects paths.
struct Reader<'a> {
    tokens: &'a [Token],
    uses: Vec<Use>,
    in_tests: bool,
    inline_depth: usize,
}

impl<'a> Reader<'a> {
    fn read(tokens: &'a [Token], in_tests: bool) -> Vec<Use> {
        let mut reader = Self { tokens, uses: Vec::new(), in_tests, inline_depth: 0 };
        reader.walk(0, tokens.len());
        reader.uses
    }

    fn walk(&mut self, mut at: usize, end: usize) {
        while at < end {
            at = if self.is_test_attribute(at) {
                let item = self.end_of_item(at, end);
                let before = std::mem::replace(&mut self.in_tests, true);
                self.walk(at + TEST_ATTRIBUTE, item);
                self.in_tests = before;
                item
            } else if self.word(at) == Some("mod") && self.mark(at + 2) == Some('{') {
                let close = self.closing(at + 2);
                self.inline_depth += 1;
                self.walk(at + 3, close);
                self.inline_depth -= 1;
                close + 1
            } else if self.word(at).is_some() {
                self.path(at, Vec::new())
            } else {
                at + 1
            };
        }
    }

    /// Collects the path that starts here and returns where it ends.
    fn path(&mut self, mut at: usize, mut segments: Vec<String>) -> usize {
        while let Some(word) = self.word(at) {
            if word != "self" || segments.is_empty() {
                segments.push(word.to_owned());
            }
            at += 1;
            if !self.is_separator(at) {
                let is_macro = self.mark(at) == Some('!') && self.mark(at + 1) != Some('=');
                self.push(segments, if is_macro { Kind::Macro } else { Kind::Plain });
                return at;
            }
            at += 2;
        }
        match self.mark(at) {
            Some('*') => {
                self.push(segments, Kind::Glob);
                at + 1
            }
            Some('{') => {
                let close = self.closing(at);
                at += 1;
                while at < close {
                    at = match self.word(at) {
                        Some("as") => at + 2,
                        Some(_) => self.path(at, segments.clone()),
                        None if self.mark(at) == Some('*') => self.path(at, segments.clone()),
                        None => at + 1,
                    };
                }
                close + 1
            }
            // Generic arguments, or the end.
            _ => {
                self.push(segments, Kind::Plain);
                at
            }
        }
    }

    fn push(&mut self, segments: Vec<String>, kind: Kind) {
        let (in_tests, inline_depth) = (self.in_tests, self.inline_depth);
        self.uses.push(Use { segments, kind, in_tests, inline_depth });
    }

    fn word(&self, at: usize) -> Option<&'a str> {
        match self.tokens.get(at) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn mark(&self, at: usize) -> Option<char> {
        match self.tokens.get(at) {
            Some(Token::Mark(mark)) => Some(*mark),
            _ => None,
        }
    }

    fn is_separator(&self, at: usize) -> bool {
        self.mark(at) == Some(':') && self.mark(at + 1) == Some(':')
    }

    /// `#[cfg(test)]`
    fn is_test_attribute(&self, at: usize) -> bool {
        self.mark(at) == Some('#')
            && self.mark(at + 1) == Some('[')
            && self.word(at + 2) == Some("cfg")
            && self.mark(at + 3) == Some('(')
            && self.word(at + 4) == Some("test")
            && self.mark(at + 5) == Some(')')
    }

    /// The end of the item under an attribute: its first `;` or closing brace outside of other groups.
    fn end_of_item(&self, from: usize, end: usize) -> usize {
        let mut at = from + TEST_ATTRIBUTE;
        while at < end {
            match self.mark(at) {
                Some(';') => return at + 1,
                Some('{') => return self.closing(at) + 1,
                Some('(' | '[') => at = self.closing(at) + 1,
                _ => at += 1,
            }
        }
        end
    }

    /// Where the group that opens here closes.
    fn closing(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for at in open..self.tokens.len() {
            match self.mark(at) {
                Some('{' | '(' | '[') => depth += 1,
                Some('}' | ')' | ']') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len()
    }
}

/// Tokens of `#[cfg(test)]`.
const TEST_ATTRIBUTE: usize = 7;

/// The folder of the package.
pub fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file in a folder and below.
pub fn files_under(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_under(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// All files under `src`, read once.
pub fn sources() -> &'static [Source] {
    static SOURCES: OnceLock<Vec<Source>> = OnceLock::new();
    SOURCES.get_or_init(|| {
        let root = package().join("src");
        let mut files = Vec::new();
        files_under(&root, &mut files);
        files.sort();
        let read = |file: &PathBuf| {
            let path = file.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
            Source::new(&path, &fs::read_to_string(file).unwrap())
        };
        files.iter().map(read).collect()
    })
}
