//! Facts about the server shore.

use std::fmt::Display;
use std::time::Duration;

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
            metrics::UPSTREAM_STATE
                .gauge(&[Label::upstream(self.upstream), (*state).into()])
                .set(is);
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
                tracing::info!(target: TARGET, upstream, pid, cause, %status, "child exited")
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
        metrics::RESTARTS
            .counter(&[Label::upstream(self.upstream)])
            .increment(1);
        tracing::warn!(
            target: TARGET,
            upstream = self.upstream,
            failures = self.failures,
            after = ?self.after,
            "child restarting"
        );
    }
}

/// A child wrote a line on standard error.
pub struct StderrLine<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// The line, cut by its reader.
    pub line: &'a str,
}

impl StderrLine<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::STDERR_LINES
            .counter(&[Label::upstream(self.upstream)])
            .increment(1);
        tracing::info!(target: CHILD, upstream = self.upstream, line = self.line, "child stderr");
    }
}

/// A child wrote something on standard output that is no message; it was skipped.
pub struct NoiseLine<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// The beginning of it.
    pub line: &'a str,
}

impl NoiseLine<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::NOISE_LINES
            .counter(&[Label::upstream(self.upstream)])
            .increment(1);
        tracing::warn!(target: TARGET, upstream = self.upstream, line = self.line, "noise on stdout");
    }
}

/// A handshake with an upstream went well.
pub struct HandshakeDone<'a> {
    /// Name of the upstream.
    pub upstream: &'a str,
    /// Revision settled on, as written on the wire.
    pub revision: &'a str,
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
        metrics::HANDSHAKES
            .counter(&[Label::upstream(self.upstream), Attempt::Done.into()])
            .increment(1);
        tracing::info!(
            target: TARGET,
            upstream = self.upstream,
            revision = self.revision,
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
}

impl HandshakeFailed<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::HANDSHAKES
            .counter(&[Label::upstream(self.upstream), Attempt::Failed.into()])
            .increment(1);
        tracing::warn!(target: TARGET, upstream = self.upstream, error = %self.error, "handshake failed");
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
        metrics::RENEWALS
            .counter(&[Label::upstream(self.upstream)])
            .increment(1);
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
        metrics::RETRIES
            .counter(&[Label::upstream(self.upstream)])
            .increment(1);
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
        metrics::LATE_ANSWERS
            .counter(&[Label::upstream(self.upstream)])
            .increment(1);
        tracing::debug!(target: TARGET, upstream = self.upstream, "late answer");
    }
}
