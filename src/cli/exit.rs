//! How a command ends: the exit codes, and failures that carry one.

use std::fmt;

use crate::config::problem::Problems;

/// The codes of all commands; part of the interface, never renumbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// All is well.
    Done,
    /// It went wrong while it ran.
    Failed,
    /// What was asked for makes no sense, or the configuration is wrong.
    Usage,
    /// An upstream, or the gateway at a URL, cannot be reached.
    Unavailable,
    /// A credential is missing or not accepted.
    Refused,
    /// The tool is not there, or says that it failed.
    ToolError,
}

impl Exit {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 6] =
        [Self::Done, Self::Failed, Self::Usage, Self::Unavailable, Self::Refused, Self::ToolError];

    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// What it means, for the reference.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "it failed while it ran",
            Self::Usage => "the command line or the configuration is wrong",
            Self::Unavailable => "a server cannot be reached",
            Self::Refused => "a credential is missing or refused",
            Self::ToolError => "the tool is unknown, or answered with an error",
        }
    }
}

/// Why a command ends early, and with which code.
#[derive(Debug)]
pub struct Failure {
    /// The code.
    pub exit: Exit,
    cause: anyhow::Error,
}

impl Failure {
    /// A failure that a sentence explains.
    pub fn new(exit: Exit, why: impl fmt::Display + fmt::Debug + Send + Sync + 'static) -> Self {
        Self { exit, cause: anyhow::Error::msg(why) }
    }

    /// The same failure with another code.
    #[must_use]
    pub fn with(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }
}

/// What nobody gave a code is a failure at run time; problems of the configuration have their own.
impl<E: std::error::Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let cause = anyhow::Error::new(error);
        let exit = if cause.is::<Problems>() { Exit::Usage } else { Exit::Failed };
        Self { exit, cause }
    }
}

impl fmt::Display for Failure {
    /// A line for the failure with its causes; problems of the configuration say by themselves where they are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.cause.downcast_ref::<Problems>() {
            Some(problems) => write!(f, "{problems}"),
            None => write!(f, "error: {:#}", self.cause),
        }
    }
}

/// Gives a failure its code.
pub trait Because<T> {
    /// Ends with this code if it failed.
    ///
    /// # Errors
    /// The same failure, with the code.
    fn or_exit(self, exit: Exit) -> Result<T, Failure>;
}

impl<T, E: Into<anyhow::Error>> Because<T> for Result<T, E> {
    fn or_exit(self, exit: Exit) -> Result<T, Failure> {
        self.map_err(|error| Failure { exit, cause: error.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::problem::Problem;

    #[test]
    fn codes_are_what_the_front_page_says() {
        let page = include_str!("mod.rs");
        for (code, exit) in (0..).zip(Exit::ALL) {
            assert_eq!(exit.code(), code);
            assert!(page.contains(&format!("//! | {code} | {} |", exit.meaning())), "{exit:?}");
        }
    }

    #[test]
    fn problems_keep_their_form_and_have_their_code() {
        let failure = Failure::from(Problems::from(Problem::of_file("a.json", "no servers")));
        assert_eq!((failure.exit, failure.to_string().as_str()), (Exit::Usage, "a.json: no servers"));
        let failure = Failure::from(std::io::Error::other("full")).with(Exit::Unavailable);
        assert_eq!((failure.exit, failure.to_string().as_str()), (Exit::Unavailable, "error: full"));
    }
}
