//! From the positioned tree to the types of the schema: every fault is noted where it stands, none ends
//! the reading.
//!
//! A [`Table`] is asked for its keys one by one. What was asked for is what is allowed, so that the list
//! of allowed keys in a message cannot differ from what is read.
//!
//! *Invariants*: a value that came out of a variable or a file is never part of a message.

mod field;
mod nearest;
mod table;

#[cfg(test)]
mod tests;

use super::document::{Source, Span};
use super::interpolate::Variables;
use super::problem::Problem;

pub(super) use field::Field;
pub(super) use nearest::nearest;
pub(super) use table::Table;

/// What reading a configuration brings up.
#[derive(Debug)]
pub(super) struct Decoder<'a> {
    /// The text that is read.
    pub source: &'a Source,
    /// What placeholders stand for.
    pub variables: Variables<'a>,
    /// Faults of the file.
    pub problems: Vec<Problem>,
    /// Faults of the world around it, which concern one entry only.
    pub failures: Vec<Problem>,
    /// What is doubtful.
    pub warnings: Vec<Problem>,
}

/// Why a field has no value.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It was noted already.
    Noted,
    /// It is noted by whoever reads the field.
    Wrong(Wrong),
}

/// What is wrong with a value.
#[derive(Debug)]
pub(super) struct Wrong {
    message: String,
    mend: Option<String>,
    reach: Reach,
}

/// How far a fault reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The file is wrong.
    File,
    /// The world around the file is wrong, or a kind of upstream is not known: one entry fails.
    Entry,
}

/// A place in the file: path and span.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Such as `mcpServers.alpha.env.TOKEN`.
    pub path: String,
    /// In the text.
    pub span: Span,
}

// === impl Decoder ===

impl<'a> Decoder<'a> {
    pub(super) fn new(source: &'a Source, variables: Variables<'a>) -> Self {
        Self { source, variables, problems: Vec::new(), failures: Vec::new(), warnings: Vec::new() }
    }

    /// Notes a fault.
    pub(super) fn note(&mut self, place: &Place, wrong: Wrong) {
        let mut problem = self.source.problem(&place.span, &place.path, wrong.message);
        problem.mend = wrong.mend;
        match wrong.reach {
            Reach::File => self.problems.push(problem),
            Reach::Entry => self.failures.push(problem),
        }
    }

    /// Notes what is doubtful.
    pub(super) fn warn(&mut self, place: &Place, message: impl Into<String>, mend: &str) {
        let problem = self.source.problem(&place.span, &place.path, message);
        self.warnings.push(problem.mend(mend));
    }
}

// === impl Wrong ===

impl Wrong {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), mend: None, reach: Reach::File }
    }

    pub(super) fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }

    pub(super) fn reaching(mut self, reach: Reach) -> Self {
        self.reach = reach;
        self
    }

    /// The problem that it is where there is no file.
    pub(super) fn of_argument(self, field: &str) -> Problem {
        let mut problem = Problem::of_file("command line", self.message);
        field.clone_into(&mut problem.field);
        problem.mend = self.mend;
        problem
    }
}

impl From<Wrong> for Refusal {
    fn from(wrong: Wrong) -> Self {
        Self::Wrong(wrong)
    }
}

// === impl Place ===

impl Place {
    /// The path of something inside.
    fn inside(&self, key: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '$');
        let separator = if self.path.is_empty() { "" } else { "." };
        let path = &self.path;
        if !key.is_empty() && key.chars().all(plain) {
            format!("{path}{separator}{key}")
        } else {
            format!("{path}{separator}{key:?}")
        }
    }
}

/// A value with the place it was read from.
#[derive(Debug, Clone)]
pub(super) struct Placed<T> {
    pub place: Place,
    pub value: T,
}
