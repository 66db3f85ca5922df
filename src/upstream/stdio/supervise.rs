//! When a child may be started again: back-off, a breaker for crash loops, one start at a time while it is doubtful.
//!
//! The same machine serves in two places: one per upstream that counts failed *starts*, shared by all who want a
//! connection, and one per connection that counts its own crashes after a good handshake.
//!
//! *Invariants:* pure; time and chance come in as arguments. Between a failure and the next good start at most one start
//! is under way, however many ask (F-027). Failures are forgotten only once a child has lived for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

use super::fact::{Fact, Sink};
use crate::base::backoff::{Backoff, stretched};
use crate::base::{caps, clock, ids};

/// How patient to be with an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Shortest pause after a failure.
    pub first_pause: Duration,
    /// Longest pause while it is not given up.
    pub longest_pause: Duration,
    /// Failures in a row after which it counts as failed.
    pub failures: u32,
    /// Pause between the rare attempts after that; stretched at random by up to half.
    pub rest: Duration,
    /// A child that lived so long has proven itself; earlier failures are forgotten.
    pub steady: Duration,
    /// How long the first start may take: a package may have to be downloaded (F-028).
    pub first_start: Duration,
    /// How long a start may take once one has succeeded.
    pub start: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(30),
            failures: 5,
            rest: Duration::from_mins(5),
            steady: Duration::from_mins(1),
            first_start: caps::FIRST_HANDSHAKE,
            start: caps::HANDSHAKE,
        }
    }
}

/// The answer to "may I start a child?".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Yes; a start that takes longer than this has failed.
    Start {
        /// How long to wait for a good handshake.
        patience: Duration,
    },
    /// Someone else is trying; ask again when that is over.
    Busy,
    /// Not yet.
    Held(Held),
}

/// No start for now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{failures} failed starts in a row, {}", if *.broken { "given up for now" } else { "waiting to try again" })]
pub struct Held {
    /// When to ask again.
    pub until: Instant,
    /// Failures in a row.
    pub failures: u32,
    /// The breaker is open.
    pub broken: bool,
}

/// What to do after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pause {
    /// How long to wait.
    pub length: Duration,
    /// The breaker is open.
    pub broken: bool,
}

/// The state of one upstream's starts, or of one connection's restarts.
#[derive(Debug)]
pub struct Supervision {
    policy: Policy,
    backoff: Backoff,
    standing: Standing,
    /// Starts under way.
    starting: u32,
    ever_started: bool,
}

#[derive(Debug, Clone, Copy)]
enum Standing {
    /// Nothing is known: never tried, or the pause is over.
    Doubtful,
    /// The last start was good, at this moment.
    Good { since: Instant },
    /// The last start failed.
    Paused(Held),
}

impl Supervision {
    /// Nothing known yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            backoff: Backoff::new(policy.first_pause, policy.longest_pause),
            standing: Standing::Doubtful,
            starting: 0,
            ever_started: false,
        }
    }

    /// Asks for a start. After [`Answer::Start`] exactly one of [`started`](Self::started), [`failed`](Self::failed) and
    /// [`abandoned`](Self::abandoned) must follow.
    pub fn ask(&mut self, now: Instant) -> Answer {
        match self.standing {
            Standing::Good { .. } => {}
            Standing::Paused(held) if now < held.until => return Answer::Held(held),
            Standing::Paused(_) | Standing::Doubtful if self.starting > 0 => return Answer::Busy,
            Standing::Paused(_) | Standing::Doubtful => {}
        }
        self.starting += 1;
        Answer::Start {
            patience: if self.ever_started { self.policy.start } else { self.policy.first_start },
        }
    }

    /// A start ended with a good handshake.
    pub fn started(&mut self, now: Instant) {
        self.abandoned();
        self.ever_started = true;
        if !matches!(self.standing, Standing::Good { .. }) {
            self.standing = Standing::Good { since: now };
        }
    }

    /// A start failed, or (where crashes of one connection are counted) its child ended unasked. `draw` is a random
    /// number. Starts that fail together count once.
    pub fn failed(&mut self, now: Instant, draw: u32) -> Pause {
        self.abandoned();
        if let Some(held) = self.held(now) {
            return Pause { length: held.until.saturating_duration_since(now), broken: held.broken };
        }
        if let Standing::Good { since } = self.standing
            && now.saturating_duration_since(since) >= self.policy.steady
        {
            self.backoff.reset();
        }
        let mut length = self.backoff.next_at(draw);
        let broken = self.backoff.failures() >= self.policy.failures;
        if broken {
            length = stretched(self.policy.rest);
        }
        self.standing =
            Standing::Paused(Held { until: now + length, failures: self.backoff.failures(), broken });
        Pause { length, broken }
    }

    /// A start was given up by who asked for it; it says nothing about the upstream.
    pub fn abandoned(&mut self) {
        self.starting = self.starting.saturating_sub(1);
    }

    /// Failures in a row that are not forgotten.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.backoff.failures()
    }

    /// What stands against a start at this moment.
    #[must_use]
    pub fn held(&self, now: Instant) -> Option<Held> {
        match self.standing {
            Standing::Paused(held) if now < held.until => Some(held),
            _ => None,
        }
    }
}

/// The shared starts of one upstream: a [`Supervision`] that callers can wait at.
///
/// *On drop* of a [`Start`] without an outcome: counts neither way, and the next caller may try.
#[derive(Clone)]
pub struct Starts {
    shared: Arc<Shared>,
}

struct Shared {
    upstream: Arc<str>,
    sink: Arc<dyn Sink>,
    supervision: Mutex<Supervision>,
    changed: Notify,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Supervision> {
        self.supervision.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Starts {
    /// The starts of an upstream; failures are told to the sink.
    #[must_use]
    pub fn new(upstream: Arc<str>, policy: Policy, sink: Arc<dyn Sink>) -> Self {
        Self {
            shared: Arc::new(Shared {
                upstream,
                sink,
                supervision: Mutex::new(Supervision::new(policy)),
                changed: Notify::new(),
            }),
        }
    }

    /// Waits for permission to start a child. While another start decides, waits for its outcome; the caller sets the
    /// deadline. Safe to cancel.
    ///
    /// # Errors
    /// [`Held`] at once while the upstream rests after failures.
    pub async fn enter(&self) -> Result<Start, Held> {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let answer = self.shared.lock().ask(clock::now());
            match answer {
                Answer::Start { patience } => {
                    return Ok(Start { patience, shared: Some(Arc::clone(&self.shared)) });
                }
                Answer::Held(held) => return Err(held),
                Answer::Busy => changed.await,
            }
        }
    }

    /// What stands against a start now, for status and readiness.
    #[must_use]
    pub fn held(&self) -> Option<Held> {
        self.shared.lock().held(clock::now())
    }

    /// Failed starts in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.shared.lock().failures()
    }
}

/// Permission for one start, which wants to know how it went.
pub struct Start {
    /// How long to wait for a good handshake before calling the start failed.
    pub patience: Duration,
    shared: Option<Arc<Shared>>,
}

impl Start {
    /// The handshake was good.
    pub fn succeeded(mut self) {
        if let Some(shared) = self.shared.take() {
            shared.lock().started(clock::now());
            shared.changed.notify_waiters();
        }
    }

    /// The child could not be started, ended too early, or did not answer in time.
    pub fn failed(mut self, error: &str) {
        if let Some(shared) = self.shared.take() {
            let (pause, failures) = {
                let mut supervision = shared.lock();
                let draw = u32::from_ne_bytes(ids::random_bytes());
                (supervision.failed(clock::now(), draw), supervision.failures())
            };
            shared.changed.notify_waiters();
            shared.sink.tell(Fact::StartFailed {
                upstream: &shared.upstream,
                failures,
                pause: pause.length,
                broken: pause.broken,
                error,
            });
        }
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.take() {
            shared.lock().abandoned();
            shared.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
