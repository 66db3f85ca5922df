//! A configuration file of any format as one tree in which every key and value knows its place.
//!
//! *Invariants*: spans lie inside the text and on character borders; keys of a table are unique; a number
//! keeps the text it was written with.
//!
//! *Limits*: [`MAX_BYTES`] of text, and each reader's own depth.

mod json;
mod source;
mod toml;
mod yaml;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::path::Path;

use super::problem::Problem;

pub use source::Source;

/// No configuration file is larger.
pub const MAX_BYTES: usize = 4 << 20;

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// JSON; comments, trailing commas and the rest of JSON5 are allowed.
    Json,
    /// YAML 1.2.
    Yaml,
    /// TOML 1.
    Toml,
}

/// A part of a text, in bytes.
pub type Span = Range<usize>;

/// A value and its place.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it stands; for tables and lists of some formats only the beginning is exact.
    pub span: Span,
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number, as it was written.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A table, in the order of the file.
    Table(Vec<Member>),
}

/// A key of a table with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Span,
    /// The value.
    pub value: Node,
}

// === impl Format ===

impl Format {
    /// Guesses the format by the ending of a file's name.
    pub fn of(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        match ending.as_str() {
            "json" | "jsonc" | "json5" => Some(Self::Json),
            "yaml" | "yml" => Some(Self::Yaml),
            "toml" => Some(Self::Toml),
            _ => None,
        }
    }

    /// Reads a text.
    ///
    /// # Errors
    /// All that the reader finds wrong.
    pub fn read(self, source: &Source) -> Result<Node, Vec<Problem>> {
        match self {
            Self::Json => json::read(source),
            Self::Yaml => yaml::read(source),
            Self::Toml => toml::read(source),
        }
    }
}

// === impl Value ===

impl Value {
    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }
}
