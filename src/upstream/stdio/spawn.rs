//! Starts children: one lasting thread that forks, and a way to ask it.
//!
//! *Invariants:* all children of a gateway are started by one thread that lasts as long as any of them, since the signal
//! at a parent's death means the death of that thread. A child is under the guardian before it gets its first
//! message. What is run comes from the configuration alone (STDIO-06).
//!
//! *On drop:* when the last [`Spawner`] and the last child are gone, the thread ends what the children left behind, then
//! the guardian, then itself; [`Spawner::close`] waits for that.
//!
//! *Limits:* [`JOBS`] starts wait for the thread; one that takes longer than [`LAUNCH`] fails.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};

use super::child::{Child, Life, Order};
use super::environment::ChildEnvironment;
use super::fact::{Fact, Sink};
use super::guardian::{Guardian, Reexec};
use super::keeper::Keeper;
use super::reaper;
use super::resolve::Unresolved;
use super::slots::{Caps, Full, Slots};
use super::streams::{self, Subject, Talk};
use super::thread::{Job, Launched, Start, serve};
use super::tree::Mark;
use crate::base::ids::RandomId;
use crate::base::tasks::{Task, spawn as spawn_task};
use crate::base::{caps, clock};

/// Starts and looks that may wait for the thread.
pub const JOBS: usize = 256;

/// How long a start may take until the program runs; longer means that a folder does not answer.
pub const LAUNCH: Duration = Duration::from_secs(30);

/// What to run, compiled from an entry of the configuration. `Debug` hides arguments and values: they may be secrets.
#[derive(Clone)]
pub struct Command {
    /// The upstream's name.
    pub upstream: Arc<str>,
    /// The program, to be found in the PATH of `environment` if it has no slash.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its whole environment.
    pub environment: ChildEnvironment,
    /// The folder it starts in; none for the gateway's.
    pub folder: Option<PathBuf>,
    /// The largest message it may send, in bytes.
    pub max_message: usize,
}

impl Command {
    /// A command without arguments and environment, in the gateway's folder.
    #[must_use]
    pub fn new(upstream: Arc<str>, program: impl Into<OsString>) -> Self {
        Self {
            upstream,
            program: program.into(),
            arguments: Vec::new(),
            environment: ChildEnvironment::default(),
            folder: None,
            max_message: caps::MESSAGE_BYTES,
        }
    }
}

impl fmt::Debug for Command {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Command")
            .field("upstream", &self.upstream)
            .field("program", &self.program)
            .field("arguments", &self.arguments.len())
            .field("environment", &self.environment)
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

/// Why a child was not started. Each says what to do, where something can be done.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// No slot came free.
    #[error(transparent)]
    Full(#[from] Full),
    /// There is no such program.
    #[error(transparent)]
    Command(#[from] Unresolved),
    /// The folder to start in is not there.
    #[error("folder `{}` does not exist; create it or change the entry's cwd", .0.display())]
    Folder(PathBuf),
    /// The program is a script and what should run it is missing.
    #[error("`{}` cannot start: the interpreter in its first line, or its loader, is missing", .0.display())]
    Interpreter(PathBuf),
    /// The system is out of processes, memory or descriptors.
    #[error(
        "the system cannot start another process ({0}); raise its limits or lower portcullis.children.total"
    )]
    Exhausted(io::Error),
    /// The system refused for another reason.
    #[error("`{}` cannot start: {source}", .program.display())]
    Refused {
        /// The file.
        program: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The program did not begin to run in time.
    #[error("the process did not start within {} s; its folder or file may lie on a disk that does not answer", LAUNCH.as_secs())]
    Slow,
    /// Too many starts at once.
    #[error("too many processes are being started")]
    Busy,
    /// The thread that starts processes is gone.
    #[error("processes are not started any more")]
    Gone,
}

/// Starts children.
#[derive(Clone)]
pub struct Spawner {
    inner: Arc<Inner>,
}

struct Inner {
    jobs: SyncSender<Job>,
    slots: Slots,
    sink: Arc<dyn Sink>,
    gateway: String,
    children: AtomicU64,
    thread_ended: watch::Receiver<()>,
    _look: Task<()>,
}

impl Spawner {
    /// Starts the thread and the guardian, and makes this process the parent of its children's orphans. To be called
    /// within a run time.
    ///
    /// # Errors
    /// If the system has no thread or no signal handler to give.
    pub fn start(sink: Arc<dyn Sink>, caps: Caps, reexec: Reexec) -> io::Result<Self> {
        reaper::become_parent();
        let mut children = signal(SignalKind::child())?;
        let (jobs, queue) = sync_channel(JOBS);
        let (alive, thread_ended) = watch::channel(());
        let gateway = RandomId::random().hex();
        let guarded = (reexec, gateway.clone(), Arc::clone(&sink));
        std::thread::Builder::new().name("children".into()).spawn(move || {
            let _alive = alive;
            let (reexec, gateway, sink) = guarded;
            serve(&queue, Guardian::start(reexec, gateway.clone(), sink), &gateway);
        })?;
        let look = {
            let jobs = jobs.clone();
            spawn_task("children-look", async move {
                while children.recv().await.is_some() {
                    // If the queue is full, the thread will look anyway.
                    let _ = jobs.try_send(Job::Look);
                }
            })
        };
        Ok(Self {
            inner: Arc::new(Inner {
                jobs,
                slots: Slots::new(caps),
                sink,
                gateway,
                children: AtomicU64::new(0),
                thread_ended,
                _look: look,
            }),
        })
    }

    /// Starts a child on behalf of a tenant, once there is a slot for it. Its pipes belong to the run time this is called
    /// in. If the wait is cancelled, the child ends at once.
    ///
    /// # Errors
    /// [`SpawnError`]
    pub async fn spawn(&self, command: &Arc<Command>, tenant: &Arc<str>) -> Result<Child, SpawnError> {
        let inner = &self.inner;
        let slot = inner.slots.acquire(&command.upstream, tenant).await?;
        let mark = Mark::new(&inner.gateway, inner.children.fetch_add(1, Ordering::Relaxed));
        let (reply, launched) = oneshot::channel();
        let start = Start { command: Arc::clone(command), mark, slot, reply, jobs: inner.jobs.clone() };
        inner.jobs.try_send(Job::Start(Box::new(start))).map_err(|refused| match refused {
            TrySendError::Full(_) => SpawnError::Busy,
            TrySendError::Disconnected(_) => SpawnError::Gone,
        })?;
        let launched = match clock::within(LAUNCH, launched).await {
            Ok(Ok(launched)) => launched?,
            Ok(Err(_)) => return Err(SpawnError::Gone),
            Err(_) => return Err(SpawnError::Slow),
        };
        self.take_over(command, launched).map_err(|(program, source)| SpawnError::Refused { program, source })
    }

    /// The slots, to see how many are taken and to change the caps.
    #[must_use]
    pub fn slots(&self) -> &Slots {
        &self.inner.slots
    }

    /// Waits until all children, what they left behind, the guardian and the thread are gone. Other clones and children
    /// that are held elsewhere have to be dropped for this; the caller sets the deadline.
    pub async fn close(self) {
        let mut thread_ended = self.inner.thread_ended.clone();
        drop(self);
        while thread_ended.changed().await.is_ok() {}
    }

    /// Gives a process that was just started its tasks.
    fn take_over(&self, command: &Command, launched: Launched) -> Result<Child, (PathBuf, io::Error)> {
        let Launched { charge, program, pipes } = launched;
        let reins = Arc::clone(&charge.kin.reins);
        let subject = Subject {
            upstream: Arc::clone(&command.upstream),
            pid: reins.pid().cast_unsigned(),
            sink: Arc::clone(&self.inner.sink),
        };
        let opened = signal(SignalKind::child())
            .and_then(|children| Ok((children, streams::open(pipes, &subject, command.max_message)?)));
        let (children, (streams, talk)) = opened.map_err(|source| (program.clone(), source))?;
        subject.sink.tell(Fact::Spawned {
            upstream: &subject.upstream,
            pid: subject.pid,
            program: &program,
            arguments: command.arguments.len(),
        });
        let (orders, order) = watch::channel(Order::Live);
        let (exit, exited) = watch::channel(None);
        let keeper =
            Keeper { charge, subject, streams, started: clock::now(), children, orders: order, exit };
        spawn_task("child-keeper", keeper.keep()).detach();
        let Talk { input, frames, noise } = talk;
        Ok(Child { input, frames, noise, life: Life { reins, orders, exit: exited } })
    }
}
