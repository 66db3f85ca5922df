//! States what happens to children: logs and metrics, by telemetry's vocabulary.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::exit::{Cause, Ending, Exit};
use super::fact::{Fact, Sink};
use crate::telemetry::events::upstream as events;
use crate::telemetry::meters::Held;
use crate::telemetry::words::ExitCause;

/// A sink that logs and counts.
///
/// *Limits:* keeps one entry per running child.
#[derive(Debug, Default)]
pub struct Stated {
    /// Each counts as running while its entry is there.
    running: Mutex<HashMap<u32, Held>>,
}

impl Sink for Stated {
    fn tell(&self, fact: Fact<'_>) {
        match fact {
            Fact::Spawned { upstream, pid, program, arguments: _ } => {
                let program = program.to_string_lossy();
                let held = events::ChildSpawned { upstream, pid, program: &program }.emit();
                self.running.lock().unwrap_or_else(PoisonError::into_inner).insert(pid, held);
            }
            Fact::Exited { upstream, pid, exit } => {
                self.running.lock().unwrap_or_else(PoisonError::into_inner).remove(&pid);
                events::ChildExited { upstream, pid, cause: cause(exit), status: exit }.emit();
            }
            Fact::StderrLine { upstream, pid, line, unshown } => {
                events::StderrLine { upstream, pid, line, unshown }.emit();
            }
            Fact::Noise { upstream, pid, sample, unshown } => {
                events::NoiseLine { upstream, pid, sample, unshown }.emit();
            }
            Fact::StraysEnded { upstream, pid, count } => {
                events::StraysEnded { upstream, pid, count }.emit();
            }
            Fact::StartFailed { upstream, failures, pause, broken: _, error } => {
                events::StartFailed { upstream, failures, pause, error: &error }.emit();
            }
            Fact::GuardianLost { replaced } => {
                let now = if replaced { events::Guardian::Replaced } else { events::Guardian::Missing };
                events::GuardianLost { now }.emit();
            }
        }
    }
}

fn cause(exit: &Exit) -> ExitCause {
    match (exit.cause, exit.ending) {
        (Cause::Stopped | Cause::Dropped, _) => ExitCause::Stopped,
        (Cause::Itself, Ending::Signal(_)) => ExitCause::Signalled,
        (Cause::Itself | Cause::InputClosed | Cause::OutputClosed, _) => ExitCause::Exited,
    }
}
