//! Facts about the client shore.

use std::fmt::Display;
use std::net::IpAddr;
use std::time::Duration;

use ::metrics::Gauge;

use crate::mcp::revision::Revision;
use crate::telemetry::meters::Held;
use crate::telemetry::metrics;
use crate::telemetry::words::{Failure, Rule, SessionEnd, StreamKind};

const TARGET: &str = "portcullis::downstream";

/// A client connected.
pub struct ConnectionOpened;

impl ConnectionOpened {
    /// States it; the connection counts until the guard is dropped.
    pub fn emit(self) -> Held {
        Held::new(metrics::CLIENT_CONNECTIONS.gauge(&[]))
    }
}

/// A connection could not be accepted, for want of descriptors for example.
pub struct AcceptFailed<'a> {
    /// Why.
    pub error: &'a dyn Display,
}

impl AcceptFailed<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::ACCEPT_FAILURES.counter(&[]).increment(1);
        tracing::warn!(target: TARGET, error = %self.error, "accept failed");
    }
}

/// A session of a client was opened.
pub struct SessionOpened<'a> {
    /// Revision it settled on.
    pub revision: Revision,
    /// Name the client gave itself.
    pub client: &'a str,
    /// Version the client gave itself.
    pub client_version: &'a str,
    /// Endpoint it was opened at.
    pub endpoint: &'a str,
}

impl SessionOpened<'_> {
    /// States it; the guard states the end.
    pub fn emit(self) -> SessionGuard {
        metrics::SESSIONS_OPENED.counter(&[self.revision.into()]).increment(1);
        tracing::debug!(
            target: TARGET,
            revision = self.revision.name(),
            client = self.client,
            client_version = self.client_version,
            endpoint = self.endpoint,
            "session opened"
        );
        let open = metrics::SESSIONS.gauge(&[self.revision.into()]);
        open.increment(1.0);
        SessionGuard { open, end: SessionEnd::Drained }
    }
}

/// An open session of a client.
///
/// *On drop*: states that the session ended, by draining if [`close`](Self::close) gave no reason.
#[must_use = "a dropped guard states that the session ended"]
#[derive(Debug)]
pub struct SessionGuard {
    open: Gauge,
    end: SessionEnd,
}

impl SessionGuard {
    /// Ends the session for a reason.
    pub fn close(mut self, end: SessionEnd) {
        self.end = end;
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.open.decrement(1.0);
        metrics::SESSIONS_CLOSED.counter(&[self.end.into()]).increment(1);
        tracing::debug!(target: TARGET, reason = self.end.word(), "session closed");
    }
}

/// An event stream toward a client was opened.
pub struct StreamOpened {
    /// What it carries.
    pub kind: StreamKind,
}

impl StreamOpened {
    /// States it; the stream counts until the guard is dropped.
    pub fn emit(self) -> Held {
        Held::new(metrics::STREAMS.gauge(&[self.kind.into()]))
    }
}

/// A client answered a question that is not open: late, twice or never asked (RPC-09).
pub struct AnswerDropped;

impl AnswerDropped {
    /// States it.
    pub fn emit(self) {
        metrics::CLIENT_LATE_ANSWERS.counter(&[]).increment(1);
        tracing::debug!(target: TARGET, "late answer of a client");
    }
}

/// A session has as many open questions as it may, and one more came (OPS-03).
pub struct QuestionDropped {
    /// What was asked: the method.
    pub method: &'static str,
}

impl QuestionDropped {
    /// States it.
    pub fn emit(self) {
        metrics::QUESTIONS_DROPPED.counter(&[]).increment(1);
        tracing::info!(target: TARGET, method = self.method, "too many open questions in a session");
    }
}

/// The gateway itself turned a request away (F-104: who, by which rule, which request).
pub struct Refused<'a> {
    /// The rule.
    pub why: Rule,
    /// More about it, without anything secret; may be empty.
    pub detail: &'a str,
    /// The client's own id of the request, where it was read.
    pub request: Option<&'a dyn Display>,
    /// Address of the client.
    pub peer: Option<IpAddr>,
}

impl Refused<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::REFUSALS.counter(&[self.why.into()]).increment(1);
        tracing::info!(
            target: TARGET,
            by = "gateway",
            why = self.why.word(),
            detail = self.detail,
            request = self.request.map(display),
            peer = self.peer.map(display),
            "refused"
        );
    }
}

/// A client left before its answer was sent.
pub struct ClientGone {
    /// How long after its request.
    pub after: Duration,
}

impl ClientGone {
    /// States it.
    pub fn emit(self) {
        metrics::CLIENTS_GONE.counter(&[]).increment(1);
        tracing::debug!(target: TARGET, after = ?self.after, "client gone");
    }
}

/// A request failed through a fault of the gateway; the client is told the id and nothing else.
pub struct RequestFailed<'a> {
    /// Id that the client was told.
    pub request: &'a dyn Display,
    /// Kind of the fault.
    pub cause: Failure,
    /// More about it; of a panic at most its place.
    pub detail: &'a dyn Display,
}

impl RequestFailed<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::FAILURES.counter(&[self.cause.into()]).increment(1);
        tracing::error!(
            target: TARGET,
            request = %self.request,
            cause = self.cause.word(),
            detail = %self.detail,
            "request failed"
        );
    }
}
