//! What one upstream does, told to the operator.

use std::sync::Arc;
use std::time::Duration;

use crate::call::Handshake;
use crate::jsonrpc::Object;
use crate::telemetry::events::upstream::{
    ChildRestarting, HandshakeDone, HandshakeFailed, LateAnswer, RefusedByUpstream, Retried, SessionRenewed,
};
use crate::telemetry::events::wire::{MessageDropped, Push, PushChannel, Redirected};
use crate::telemetry::meters::{Held, UpstreamMeter};
use crate::telemetry::words::UpstreamCondition;

/// Tells events of one upstream.
#[derive(Clone)]
pub struct Report {
    meter: Arc<UpstreamMeter>,
}

/// Why a message of the upstream was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dropped {
    /// An answer that nobody waits for any more (CANC-03, F-062).
    Late,
    /// Progress of no call under way, or none that increases (PROG-05).
    Progress,
    /// A notification that is not carried.
    Notification,
    /// A request of the upstream, or an answer to one: too many at once.
    Request,
    /// No message at all.
    Malformed,
    /// Larger than a message may be (F-035).
    Oversized,
}

impl Report {
    /// Events of the upstream of `meter`.
    #[must_use]
    pub fn new(meter: Arc<UpstreamMeter>) -> Self {
        Self { meter }
    }

    fn upstream(&self) -> &str {
        self.meter.name()
    }

    /// A message was dropped.
    pub fn dropped(&self, why: Dropped) {
        let upstream = self.upstream();
        let why = match why {
            Dropped::Late => return LateAnswer { upstream }.emit(),
            Dropped::Progress => "progress of no call",
            Dropped::Notification => "notification not carried",
            Dropped::Request => "too many requests at once",
            Dropped::Malformed => "malformed",
            Dropped::Oversized => "too large",
        };
        MessageDropped { upstream, why }.emit();
    }

    /// A handshake went well.
    pub fn handshake_done(&self, handshake: &Handshake, took: Duration) {
        let info = &handshake.server_info;
        let object = Object::scan(info, 0).unwrap_or_default();
        let text = |name| object.string(info, name).unwrap_or_default();
        let (server, server_version) = (&*text("name"), &*text("version"));
        let (upstream, revision) = (self.upstream(), handshake.revision);
        HandshakeDone { upstream, revision, server, server_version, took }.emit();
    }

    /// A handshake did not come about.
    pub fn handshake_failed(&self, why: &dyn std::fmt::Display, before: UpstreamCondition) {
        let again = matches!(before, UpstreamCondition::Down | UpstreamCondition::Open);
        HandshakeFailed { upstream: self.upstream(), error: why, again }.emit();
    }

    /// A session was begun anew (F-014).
    pub fn renewed(&self) {
        SessionRenewed { upstream: self.upstream() }.emit();
    }

    /// A child that has ended is started anew after a pause.
    pub fn restarting(&self, failures: u32, after: Duration) {
        ChildRestarting { upstream: self.upstream(), failures, after }.emit();
    }

    /// A call is sent once more.
    pub fn retried(&self, why: &dyn std::fmt::Display) {
        Retried { upstream: self.upstream(), error: why }.emit();
    }

    /// A request was refused with an HTTP status.
    pub fn refused(&self, status: u16) {
        RefusedByUpstream { upstream: self.upstream(), status, request: None }.emit();
    }

    /// A redirect is not followed.
    pub fn redirected(&self, location: &str) {
        Redirected { upstream: self.upstream(), location }.emit();
    }

    /// The push channel is open.
    pub fn push_opened(&self) {
        PushChannel { upstream: self.upstream(), state: Push::Open }.emit();
    }

    /// There is no push channel.
    pub fn push_absent(&self) {
        PushChannel { upstream: self.upstream(), state: Push::Absent }.emit();
    }

    /// Bytes went to it.
    pub fn sent(&self, bytes: usize) {
        self.meter.sent(bytes);
    }

    /// Bytes came from it.
    pub fn received(&self, bytes: usize) {
        self.meter.received(bytes);
    }

    /// Counts a connection until the guard is dropped.
    pub fn connection(&self) -> Held {
        self.meter.connection()
    }
}
