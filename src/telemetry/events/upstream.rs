//! Facts about the server shore.

use std::fmt::Display;
use std::time::Duration;

use crate::mcp::revision::Revision;
use crate::telemetry::logs::CHILD;
use crate::telemetry::meters::Held;
use crate::telemetry::metrics;
use crate::telemetry::words::{Attempt, ExitCause, Label, UpstreamCondition};

const TARGET: &str = "portcullis::upstream";

/// An upstream as a whole changed its state.
pub struct UpstreamState<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// The new state.
    pub state: UpstreamCondition,
    /// Why, without secrets; may be empty.
    pub reason: &'a dyn Display,
}

impl UpstreamState<'_> {
    /// States it.
    pub fn emit(self) {
        for state in UpstreamCondition::ALL {
            let is = if *state == self.state { 1.0 } else { 0.0 };
            metrics::UPSTREAM_STATE.gauge(&[Label::upstream(self.upstream), (*state).into()]).set(is);
        }
        let (upstream, state, reason) = (self.upstream, self.state.word(), self.reason);
        match self.state {
            UpstreamCondition::Down | UpstreamCondition::Open | UpstreamCondition::Failed => {
                tracing::warn!(target: TARGET, upstream, state, %reason, "upstream state");
            }
            UpstreamCondition::Starting | UpstreamCondition::Ready | UpstreamCondition::Stopped => {
                tracing::info!(target: TARGET, upstream, state, %reason, "upstream state");
            }
        }
    }
}

/// A child process was started.
pub struct ChildSpawned<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Id of the process.
    pub pid: u32,
    /// The program, without its arguments.
    pub program: &'a str,
}

impl ChildSpawned<'_> {
    /// States it; the child counts until the guard is dropped.
    pub fn emit(self) -> Held {
        tracing::info!(target: TARGET, upstream = self.upstream, pid = self.pid, program = self.program, "child spawned");
        Held::new(metrics::CHILDREN.gauge(&[Label::upstream(self.upstream)]))
    }
}

/// A child process ended.
pub struct ChildExited<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Id that the process had.
    pub pid: u32,
    /// How it ended.
    pub cause: ExitCause,
    /// Exit code or signal, in words.
    pub status: &'a dyn Display,
}

impl ChildExited<'_> {
    /// States it.
    pub fn emit(self) {
        let labels = [Label::upstream(self.upstream), self.cause.into()];
        metrics::CHILD_EXITS.counter(&labels).increment(1);
        let (upstream, pid, cause, status) = (self.upstream, self.pid, self.cause.word(), self.status);
        match self.cause {
            ExitCause::Stopped => {
                tracing::info!(target: TARGET, upstream, pid, cause, %status, "child exited");
            }
            ExitCause::Exited | ExitCause::Signalled => {
                tracing::warn!(target: TARGET, upstream, pid, cause, %status, "child exited");
            }
        }
    }
}

/// A child that ended by itself is started anew after a wait.
pub struct ChildRestarting<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Ends in a row without a good handshake between them.
    pub failures: u32,
    /// The wait.
    pub after: Duration,
}

impl ChildRestarting<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::RESTARTS.counter(&[Label::upstream(self.upstream)]).increment(1);
        tracing::warn!(
            target: TARGET,
            upstream = self.upstream,
            failures = self.failures,
            after = ?self.after,
            "child restarting"
        );
    }
}

/// A child could not be started, or not far enough to answer; there will be another try.
pub struct StartFailed<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Failed starts in a row.
    pub failures: u32,
    /// Time until the next one may begin.
    pub pause: Duration,
    /// Why, without secrets; may be empty.
    pub error: &'a dyn Display,
}

impl StartFailed<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::START_FAILURES.counter(&[Label::upstream(self.upstream)]).increment(1);
        tracing::warn!(
            target: TARGET,
            upstream = self.upstream,
            failures = self.failures,
            pause = ?self.pause,
            error = %self.error,
            "child start failed"
        );
    }
}

/// Processes that had left their child's group were found and ended with it.
pub struct StraysEnded<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Id of the child that had started them.
    pub pid: u32,
    /// How many.
    pub count: usize,
}

impl StraysEnded<'_> {
    /// States it.
    pub fn emit(self) {
        tracing::info!(target: TARGET, upstream = self.upstream, pid = self.pid, count = self.count, "strays ended");
    }
}

/// The process that ends children when the gateway dies ended itself, or does not answer.
pub struct GuardianLost {
    /// What became of it.
    pub now: Guardian,
}

/// What became of the guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guardian {
    /// A new one has taken its place.
    Replaced,
    /// There is none.
    Missing,
}

impl GuardianLost {
    /// States it.
    pub fn emit(self) {
        match self.now {
            Guardian::Replaced => tracing::warn!(target: TARGET, now = "replaced", "guardian lost"),
            Guardian::Missing => tracing::error!(target: TARGET, now = "missing", "guardian lost"),
        }
    }
}

/// A child wrote a line on standard error; stated for each line, shown or not (STDIO-03).
pub struct StderrLine<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Id of the child.
    pub pid: u32,
    /// The line, cut by its reader; none if it is only to be counted.
    pub line: Option<&'a str>,
    /// How many lines were only counted since the last one that was shown.
    pub unshown: u64,
}

impl StderrLine<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::STDERR_LINES.counter(&[Label::upstream(self.upstream)]).increment(1);
        let Some(line) = self.line else { return };
        let unshown = (self.unshown > 0).then_some(self.unshown);
        tracing::info!(target: CHILD, upstream = self.upstream, pid = self.pid, line, unshown, "child stderr");
    }
}

/// A child wrote something on standard output that is no message; stated for each line (F-034).
pub struct NoiseLine<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Id of the child.
    pub pid: u32,
    /// The beginning of it; none if it is only to be counted.
    pub sample: Option<&'a str>,
    /// How many lines were only counted since the last one that was shown.
    pub unshown: u64,
}

impl NoiseLine<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::NOISE_LINES.counter(&[Label::upstream(self.upstream)]).increment(1);
        let Some(sample) = self.sample else { return };
        let unshown = (self.unshown > 0).then_some(self.unshown);
        tracing::warn!(target: TARGET, upstream = self.upstream, pid = self.pid, sample, unshown, "noise on stdout");
    }
}

/// A handshake with an upstream went well.
pub struct HandshakeDone<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Revision settled on.
    pub revision: Revision,
    /// Name the server gave itself.
    pub server: &'a str,
    /// Version the server gave itself.
    pub server_version: &'a str,
    /// How long it took.
    pub took: Duration,
}

impl HandshakeDone<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::HANDSHAKES.counter(&[Label::upstream(self.upstream), Attempt::Done.into()]).increment(1);
        tracing::info!(
            target: TARGET,
            upstream = self.upstream,
            revision = self.revision.name(),
            server = self.server,
            server_version = self.server_version,
            took = ?self.took,
            "handshake done"
        );
    }
}

/// A handshake with an upstream failed.
pub struct HandshakeFailed<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Why, without secrets.
    pub error: &'a dyn Display,
    /// The upstream was known to be down: the log has said so, and need not again (F-104).
    pub again: bool,
}

impl HandshakeFailed<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::HANDSHAKES.counter(&[Label::upstream(self.upstream), Attempt::Failed.into()]).increment(1);
        let Self { upstream, error, again } = self;
        if again {
            tracing::debug!(target: TARGET, upstream, error = %error, "handshake failed");
        } else {
            tracing::warn!(target: TARGET, upstream, error = %error, "handshake failed");
        }
    }
}

/// An upstream no longer knew its session, and a new one was made in silence.
pub struct SessionRenewed<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
}

impl SessionRenewed<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::RENEWALS.counter(&[Label::upstream(self.upstream)]).increment(1);
        tracing::info!(target: TARGET, upstream = self.upstream, "session renewed");
    }
}

/// A request is sent again, because it provably did not arrive or may be repeated.
pub struct Retried<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// What went wrong before.
    pub error: &'a dyn Display,
}

impl Retried<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::RETRIES.counter(&[Label::upstream(self.upstream)]).increment(1);
        tracing::info!(target: TARGET, upstream = self.upstream, error = %self.error, "retried");
    }
}

/// An upstream turned a request away at the level of its transport.
pub struct RefusedByUpstream<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// HTTP status.
    pub status: u16,
    /// Id of the request in our log.
    pub request: Option<&'a dyn Display>,
}

impl RefusedByUpstream<'_> {
    /// States it. Counted with the call's outcome, so not here.
    pub fn emit(self) {
        tracing::info!(
            target: TARGET,
            by = "upstream",
            upstream = self.upstream,
            status = self.status,
            request = self.request.map(display),
            "refused"
        );
    }
}

/// An answer came after its call was over, and was dropped (RPC-09).
pub struct LateAnswer<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
}

impl LateAnswer<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::LATE_ANSWERS.counter(&[Label::upstream(self.upstream)]).increment(1);
        tracing::debug!(target: TARGET, upstream = self.upstream, "late answer");
    }
}
