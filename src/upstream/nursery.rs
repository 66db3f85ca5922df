//! Where children come from: the spawner, its facts told to the operator, the commands of the entries.

use std::ffi::{OsStr, OsString};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::environment::Environment;
use crate::config::snapshot::{Children, Stdio, Upstream};
use crate::upstream::stdio::environment::ChildEnvironment;
use crate::upstream::stdio::fact::Sink;
use crate::upstream::stdio::guardian::Reexec;
use crate::upstream::stdio::slots::Caps;
use crate::upstream::stdio::spawn::{Command, Spawner};
use crate::upstream::stdio::stated::Stated;

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
        let sink: Arc<dyn Sink> = Arc::new(Stated::default());
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
