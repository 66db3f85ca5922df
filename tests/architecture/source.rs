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
    test_modules: Vec<String>,
}

/// A path in the tokens of a file: `a::b::c`, a macro's name, or one leaf of a grouped import.
#[derive(Debug)]
pub struct Use {
    pub segments: Vec<String>,
    pub kind: Kind,
    /// Its first word was imported from a module of ours.
    pub is_own: bool,
    /// Inside of something that only exists in tests.
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
        let (mut uses, test_modules) = Reader::read(&flat);
        mark_own(&mut uses);
        let mut source = Self { path: path.to_owned(), text: text.to_owned(), uses, test_modules };
        if path.ends_with("/tests.rs") || path.contains("/tests/") {
            source.mark_as_test();
        }
        source
    }

    fn mark_as_test(&mut self) {
        self.uses.iter_mut().for_each(|path| path.in_tests = true);
    }

    /// Files of modules that this one declares for tests only; of each pair one exists.
    fn test_files(&self) -> Vec<String> {
        let stem = self.path.trim_end_matches(".rs");
        let folder =
            stem.strip_suffix("mod").or(stem.strip_suffix("lib")).map_or(format!("{stem}/"), str::to_owned);
        let files = |name: &String| [format!("{folder}{name}.rs"), format!("{folder}{name}/mod.rs")];
        self.test_modules.iter().flat_map(files).collect()
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

/// Marks paths that start with a name imported from `crate`, `super` or `self`.
fn mark_own(uses: &mut [Use]) {
    let ours = |path: &&Use| matches!(path.segments[0].as_str(), "crate" | "super" | "self");
    let names: Vec<_> = uses.iter().filter(ours).filter_map(|path| path.segments.last().cloned()).collect();
    for path in uses {
        path.is_own = names.contains(&path.segments[0]);
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
    /// Names of modules that are files of their own and exist in tests only.
    test_modules: Vec<String>,
    in_tests: bool,
    inline_depth: usize,
}

impl<'a> Reader<'a> {
    fn read(tokens: &'a [Token]) -> (Vec<Use>, Vec<String>) {
        let mut reader =
            Self { tokens, uses: Vec::new(), test_modules: Vec::new(), in_tests: false, inline_depth: 0 };
        reader.walk(0, tokens.len());
        (reader.uses, reader.test_modules)
    }

    fn walk(&mut self, mut at: usize, end: usize) {
        while at < end {
            at = if let Some(item) = self.test_attribute(at) {
                let item_end = self.end_of_item(item, end);
                if self.word(item) == Some("mod") && self.mark(item + 2) == Some(';') {
                    self.test_modules.extend(self.word(item + 1).map(str::to_owned));
                }
                let before = std::mem::replace(&mut self.in_tests, true);
                self.walk(item, item_end);
                self.in_tests = before;
                item_end
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
        self.uses.push(Use { segments, kind, is_own: false, in_tests, inline_depth });
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

    /// The end of an attribute `#[cfg(…)]` that is only true in tests, if one starts here.
    fn test_attribute(&self, at: usize) -> Option<usize> {
        let is_cfg =
            self.mark(at) == Some('#') && self.mark(at + 1) == Some('[') && self.word(at + 2) == Some("cfg");
        let end = is_cfg.then(|| self.closing(at + 1) + 1)?;
        let says = |word| (at..end).any(|place| self.word(place) == Some(word));
        (says("test") && !says("not")).then_some(end)
    }

    /// The end of the item under an attribute: its first `;` or closing brace outside of other groups.
    fn end_of_item(&self, from: usize, end: usize) -> usize {
        let mut at = from;
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
        let mut sources: Vec<_> = files.iter().map(read).collect();
        let tests: Vec<_> = sources.iter().flat_map(Source::test_files).collect();
        sources.iter_mut().filter(|source| tests.contains(&source.path)).for_each(Source::mark_as_test);
        sources
    })
}
