//! What is wrong with a configuration, said so that a person can mend it.
//!
//! *Invariants*: a problem never holds a value that came out of a variable or a secret file.

use std::fmt;
use std::sync::Arc;

/// One thing that is wrong, or, in a list of warnings, doubtful.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file, or what stands for it.
    pub file: Arc<str>,
    /// Where in the file; absent when it is about the file as a whole.
    pub position: Option<Position>,
    /// The path of the field, such as `mcpServers.alpha.env.TOKEN`; empty for the file as a whole.
    pub field: String,
    /// What is wrong: lower case, no full stop.
    pub message: String,
    /// What to do about it.
    pub mend: Option<String>,
}

/// A place in a text, as editors count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
}

/// All that is wrong with a configuration, in the order of the file. Never empty as an error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Problems(pub Vec<Problem>);

// === impl Problem ===

impl Problem {
    /// A problem of the file as a whole.
    pub fn of_file(file: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self { file: file.into(), position: None, field: String::new(), message: message.into(), mend: None }
    }

    /// The same with a way to mend it.
    pub fn mend(mut self, mend: impl Into<String>) -> Self {
        self.mend = Some(mend.into());
        self
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(Position { line, column }) = self.position {
            write!(f, ":{line}:{column}")?;
        }
        if !self.field.is_empty() {
            write!(f, ": {}", self.field)?;
        }
        write!(f, ": {}", self.message)?;
        if let Some(mend) = &self.mend {
            for line in mend.lines() {
                write!(f, "\n    {line}")?;
            }
        }
        Ok(())
    }
}

// === impl Problems ===

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_for_each_problem() {
        let first = Problem {
            file: "a.json".into(),
            position: Some(Position { line: 3, column: 7 }),
            field: "portcullis.listen".to_owned(),
            message: "not an address".to_owned(),
            mend: Some("such as 127.0.0.1:7420".to_owned()),
        };
        let second = Problem::of_file("a.json", "no servers");
        assert_eq!(
            Problems(vec![first, second]).to_string(),
            "a.json:3:7: portcullis.listen: not an address\n    such as 127.0.0.1:7420\n\n\
             a.json: no servers"
        );
    }
}
