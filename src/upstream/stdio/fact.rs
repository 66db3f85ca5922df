//! What the outside is told about children: facts, handed to a sink that logs and counts them.

use std::path::Path;
use std::time::Duration;

use super::exit::Exit;

/// Takes facts about children.
///
/// Called from the tasks that drain a child's pipes, so an implementation returns at once, whatever its own output does
/// (F-025).
pub trait Sink: Send + Sync + 'static {
    /// Takes a fact.
    fn tell(&self, fact: Fact<'_>);
}

impl<F: Fn(Fact<'_>) + Send + Sync + 'static> Sink for F {
    fn tell(&self, fact: Fact<'_>) {
        self(fact);
    }
}

/// Something that happened to a child. Texts of a child are cut and hold no control characters; they may hold secrets.
#[derive(Debug, Clone, Copy)]
pub enum Fact<'a> {
    /// A child was started (STDIO-06).
    Spawned {
        /// The upstream's name.
        upstream: &'a str,
        /// The child's process id, which is also that of its group and session.
        pid: u32,
        /// The file that is run.
        program: &'a Path,
        /// How many arguments it was given; they may be secrets.
        arguments: usize,
    },
    /// A child has ended and is reaped.
    Exited {
        /// The upstream's name.
        upstream: &'a str,
        /// The child's process id.
        pid: u32,
        /// How and why.
        exit: &'a Exit,
    },
    /// A child wrote a line to stderr (STDIO-03).
    StderrLine {
        /// The upstream's name.
        upstream: &'a str,
        /// The child's process id.
        pid: u32,
        /// The line; none if there are too many to show.
        line: Option<&'a str>,
        /// How many lines were not shown before this one.
        unshown: u64,
    },
    /// A child wrote a line to stdout that is no message (F-034).
    Noise {
        /// The upstream's name.
        upstream: &'a str,
        /// The child's process id.
        pid: u32,
        /// The beginning of the line; none if there are too many to show.
        sample: Option<&'a str>,
        /// How many lines were not shown before this one.
        unshown: u64,
    },
    /// Processes that had left their child's group were found and ended with it.
    StraysEnded {
        /// The upstream's name.
        upstream: &'a str,
        /// The child's process id.
        pid: u32,
        /// How many.
        count: usize,
    },
    /// A start failed; there will be another one.
    StartFailed {
        /// The upstream's name.
        upstream: &'a str,
        /// Failed starts in a row.
        failures: u32,
        /// Until the next one may begin.
        pause: Duration,
        /// The crash-loop breaker is open: the upstream counts as failed and is retried rarely (F-027).
        broken: bool,
        /// Why it failed, without secrets.
        error: &'a str,
    },
    /// The guardian process ended or does not answer.
    GuardianLost {
        /// A new one has taken its place. If not, children are tied to the gateway by their parent-death signal alone.
        replaced: bool,
    },
}
