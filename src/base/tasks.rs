//! The only way to spawn: tasks have a name, end when their handle is dropped, and never lose a panic.
//!
//! *On drop:* dropping a [`Task`] aborts it at its next await; [`Task::detach`] lets it run on. Dropping a [`Group`] leaves
//! its tasks alone.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use futures_util::{FutureExt, TryFutureExt};
use tokio_util::future::FutureExt as _;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

use super::clock::{self, Elapsed, Limit};

/// A task panicked. The text of the panic is left out on purpose: it may quote data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("task {task} panicked")]
pub struct Panicked {
    /// Name given at the spawn.
    pub task: &'static str,
}

/// Why a task has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// It panicked.
    #[error(transparent)]
    Panicked(#[from] Panicked),
    /// It was stopped: by its group, or with the run time.
    #[error("task {task} was stopped")]
    Stopped {
        /// Name given at the spawn.
        task: &'static str,
    },
}

static PANIC_HOOK: OnceLock<fn(Panicked)> = OnceLock::new();

/// Sets who is told of every panic in a task, also in detached ones. The first call counts, later ones change nothing.
pub fn on_panic(hook: fn(Panicked)) {
    // A second composition in one process (tests) keeps the first hook.
    let _ = PANIC_HOOK.set(hook);
}

/// Starts a task on the current run time.
///
/// # Panics
///
/// Outside of a run time, as tokio does.
pub fn spawn<F>(name: &'static str, work: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Task::start(name, guarded(name, work).map(|result| result.map_err(Ended::from)))
}

/// Runs work that blocks beside the run time's own threads. It runs to its end, also if this future is dropped.
///
/// # Errors
///
/// If it panicked, or the run time went down before it began.
#[allow(clippy::disallowed_methods, reason = "this is the one place that spawns")]
pub async fn blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Ended> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => Err(report(name).into()),
        Err(_) => Err(Ended::Stopped { task: name }),
    }
}

/// A running task; a future of its result.
#[derive(Debug)]
#[must_use = "a task ends when its handle is dropped; detach it to let it run on"]
pub struct Task<T> {
    name: &'static str,
    handle: AbortOnDropHandle<Result<T, Ended>>,
}

impl<T: Send + 'static> Task<T> {
    #[allow(clippy::disallowed_methods, reason = "this is the one place that spawns")]
    fn start(name: &'static str, work: impl Future<Output = Result<T, Ended>> + Send + 'static) -> Self {
        Self { name, handle: AbortOnDropHandle::new(tokio::spawn(work)) }
    }
}

impl<T> Task<T> {
    /// Name given at the spawn.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the task is over.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }

    /// Lets the task run on by itself. A panic in it is still reported to the hook.
    pub fn detach(self) {
        drop(self.handle.detach());
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T, Ended>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let task = self.name;
        // The work catches its own panics, so a failed join means that it was aborted.
        Pin::new(&mut self.handle).poll(cx).map(|joined| joined.unwrap_or(Err(Ended::Stopped { task })))
    }
}

/// Tasks that are awaited, and if need be stopped, together: what a drain waits for.
#[derive(Debug, Clone, Default)]
pub struct Group {
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl Group {
    /// An empty group.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a task in this group. In a stopped group it ends at once.
    pub fn spawn<F>(&self, name: &'static str, work: F) -> Task<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let work = guarded(name, work).with_cancellation_token_owned(self.stop.clone());
        let work = work.map(move |ended| match ended {
            Some(result) => result.map_err(Ended::from),
            None => Err(Ended::Stopped { task: name }),
        });
        Task::start(name, self.tracker.track_future(work))
    }

    /// Number of tasks still running.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tracker.len()
    }

    /// Whether no task is running.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tracker.is_empty()
    }

    /// Waits until every task has ended, those included that are started meanwhile. Safe to cancel.
    ///
    /// # Errors
    ///
    /// [`Elapsed`] if the limit came first; the tasks run on, [`Group::stop`] ends them.
    pub async fn drain(&self, limit: impl Into<Limit>) -> Result<(), Elapsed> {
        self.tracker.close();
        clock::within(limit, self.tracker.wait()).await
    }

    /// Ends all tasks of this group at their next await, now and in future.
    pub fn stop(&self) {
        self.stop.cancel();
    }
}

/// Runs `work`; a panic in it becomes a value and is reported.
///
/// Here and above there is no `async` around the work: such a future would hold it twice, once as it came and once as it is
/// awaited.
fn guarded<F: Future>(name: &'static str, work: F) -> impl Future<Output = Result<F::Output, Panicked>> {
    // Unwind safety: whatever the work shared is behind locks or channels that have their own idea of a lost holder.
    AssertUnwindSafe(work).catch_unwind().map_err(move |_| report(name))
}

fn report(name: &'static str) -> Panicked {
    let panicked = Panicked { task: name };
    if let Some(hook) = PANIC_HOOK.get() {
        hook(panicked);
    }
    panicked
}

#[cfg(test)]
mod tests;
