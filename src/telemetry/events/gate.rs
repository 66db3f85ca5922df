//! Facts about admission and about calls as a whole.

use std::sync::Arc;

use crate::mcp::methods::Class;
use crate::telemetry::meters::{CallGuard, CallMeter};
use crate::telemetry::metrics;
use crate::telemetry::words::AuthOutcome;

const TARGET: &str = "portcullis::gate";

/// A client's credentials were looked at.
pub struct Authenticated<'a> {
    /// Result.
    pub outcome: AuthOutcome,
    /// Name of the configured key, where one was accepted; never anything the client sent.
    pub key: Option<&'a str>,
}

impl Authenticated<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::AUTHENTICATIONS.counter(&[self.outcome.into()]).increment(1);
        tracing::debug!(target: TARGET, outcome = self.outcome.word(), key = self.key, "authenticated");
    }
}

/// A call begins.
pub struct CallStarted<'a> {
    /// Class of its method.
    pub method: Class,
    /// Whose call it is: the chosen upstream's meter, or [`CallMeter::gateway`] until one is chosen.
    pub meter: &'a Arc<CallMeter>,
}

impl CallStarted<'_> {
    /// States it; the guard states the end with an outcome. No log line: one is written at the end.
    pub fn emit(self) -> CallGuard {
        self.meter.begin(self.method)
    }
}
