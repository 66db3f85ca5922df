//! The text of a configuration file, its name, and where its lines begin.

use std::sync::Arc;

use super::Span;
use crate::config::problem::{Position, Problem};

/// A text with a name.
#[derive(Debug)]
pub struct Source {
    name: Arc<str>,
    text: String,
    /// The offset at which each line begins.
    lines: Vec<usize>,
}

impl Source {
    /// A text under the name that messages give it. A byte-order mark is dropped.
    pub fn new(name: impl Into<Arc<str>>, text: impl Into<String>) -> Self {
        let mut text = text.into();
        if text.starts_with('\u{feff}') {
            text.drain(..'\u{feff}'.len_utf8());
        }
        let ends = text.match_indices('\n').map(|(offset, _)| offset + 1);
        let lines = std::iter::once(0).chain(ends).collect();
        let name = name.into();
        Self { name, text, lines }
    }

    /// The name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// A span that surely lies inside the text and on character borders.
    pub fn span(&self, start: usize, end: usize) -> Span {
        let start = self.text.floor_char_boundary(start.min(self.text.len()));
        let end = self.text.floor_char_boundary(end.min(self.text.len()));
        start..end.max(start)
    }

    /// Where an offset is, as editors count.
    pub fn position(&self, offset: usize) -> Position {
        let offset = self.span(offset, offset).start;
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1];
        Position { line, column: self.text[start..offset].chars().count() + 1 }
    }

    /// A problem at a place in the text.
    pub fn problem(&self, span: &Span, field: impl Into<String>, message: impl Into<String>) -> Problem {
        Problem {
            file: self.name.clone(),
            position: Some(self.position(span.start)),
            field: field.into(),
            message: message.into(),
            mend: None,
        }
    }
}
