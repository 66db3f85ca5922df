//! Where children come from: the spawner, its facts told to the operator, the commands of the entries.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::environment::Environment;
use crate::config::snapshot::{Children, Stdio, Upstream};
use crate::telemetry::events::upstream::{
    ChildExited, ChildSpawned, Guardian, GuardianLost, NoiseLine, StartFailed, StderrLine, StraysEnded,
};
use crate::telemetry::meters::Held;
use crate::telemetry::words::ExitCause;
use crate::upstream::stdio::environment::{ChildEnvironment, Platform};
use crate::upstream::stdio::exit::{Cause, Ending};
use crate::upstream::stdio::fact::{Fact, Sink};
use crate::upstream::stdio::guardian::Reexec;
use crate::upstream::stdio::slots::Caps;
use crate::upstream::stdio::spawn::{Command, Spawner};

/// Starts the children of a gateway.
///
/// *Invariants.* Without an upstream that needs one there is no thread and no guardian.
pub struct Nursery {
    spawner: Mutex<Option<Spawner>>,
    /// Where facts about children go.
    pub sink: Arc<dyn Sink>,
}

impl Nursery {
    /// A nursery by `limits`, with a guardian if any child will be started.
    ///
    /// # Errors
    /// If the system has no thread or no signal handler to give.
    pub fn start(limits: &Children, needed: bool, reexec: Reexec) -> io::Result<Self> {
        let sink: Arc<dyn Sink> = Arc::new(Teller::default());
        let caps = Caps { per_upstream: limits.per_upstream, total: limits.total, queue: limits.queue };
        let spawner = if needed { Some(Spawner::start(Arc::clone(&sink), caps, reexec)?) } else { None };
        Ok(Self { spawner: Mutex::new(spawner), sink })
    }

    /// The spawner; none once the gateway is going down.
    #[must_use]
    pub fn spawner(&self) -> Option<Spawner> {
        self.lock().clone()
    }

    /// Waits until all children and the guardian are gone; connections have to be closed before.
    pub async fn close(&self) {
        let spawner = self.lock().take();
        if let Some(spawner) = spawner {
            spawner.close().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Spawner>> {
        self.spawner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is run for an entry (R-12, STDIO-06).
#[must_use]
pub fn command(upstream: &Upstream, entry: &Stdio, captured: &Environment, max_message: usize) -> Command {
    let environment = ChildEnvironment::compile(
        Platform::HERE,
        captured.iter(),
        entry.pass_env.iter().map(String::as_str),
        entry.env.iter().map(|(name, value)| (OsStr::new(name), OsStr::new(value.reveal()))),
    );
    Command {
        arguments: entry.args.iter().map(|text| OsString::from(text.reveal())).collect(),
        environment,
        folder: entry.cwd.clone(),
        max_message,
        ..Command::new(Arc::clone(&upstream.name), entry.command.reveal())
    }
}

/// Tells facts about children as events.
#[derive(Default)]
struct Teller {
    /// Children that count as running.
    running: Mutex<HashMap<u32, Held>>,
}

impl Teller {
    fn running(&self) -> MutexGuard<'_, HashMap<u32, Held>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Teller {
    fn tell(&self, fact: Fact<'_>) {
        match fact {
            Fact::Spawned { upstream, pid, program, .. } => {
                let held = ChildSpawned { upstream, pid, program: &program.to_string_lossy() }.emit();
                self.running().insert(pid, held);
            }
            Fact::Exited { upstream, pid, exit } => {
                self.running().remove(&pid);
                let cause = match (exit.cause, exit.ending) {
                    (Cause::Stopped | Cause::Dropped, _) => ExitCause::Stopped,
                    (_, Ending::Signal(_)) => ExitCause::Signalled,
                    _ => ExitCause::Exited,
                };
                ChildExited { upstream, pid, cause, status: exit }.emit();
            }
            Fact::StderrLine { upstream, pid, line, unshown } => {
                StderrLine { upstream, pid, line, unshown }.emit();
            }
            Fact::Noise { upstream, pid, sample, unshown } => {
                NoiseLine { upstream, pid, sample, unshown }.emit();
            }
            Fact::StraysEnded { upstream, pid, count } => StraysEnded { upstream, pid, count }.emit(),
            Fact::StartFailed { upstream, failures, pause, error, .. } => {
                StartFailed { upstream, failures, pause, error: &error }.emit();
            }
            Fact::GuardianLost { replaced } => {
                GuardianLost { now: if replaced { Guardian::Replaced } else { Guardian::Missing } }.emit();
            }
        }
    }
}
