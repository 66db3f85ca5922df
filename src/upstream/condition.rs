//! How an upstream is, as the operator sees it: state, reason, revision, restarts.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::mcp::revision::Revision;
use crate::telemetry::events::upstream::UpstreamState;
use crate::telemetry::words::UpstreamCondition;

/// How an upstream is.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its name.
    pub upstream: Arc<str>,
    /// Its state.
    pub state: UpstreamCondition,
    /// Why, for operators; empty where there is nothing to say.
    pub reason: Arc<str>,
    /// The revision of the last good handshake.
    pub revision: Option<Revision>,
    /// How many connections were opened in place of lost ones.
    pub restarts: u64,
}

/// Keeps the state of one upstream and tells its changes.
#[derive(Debug)]
pub struct Condition(Mutex<Status>);

impl Condition {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(upstream: Arc<str>) -> Self {
        Self(Mutex::new(Status {
            upstream,
            state: UpstreamCondition::Starting,
            reason: "".into(),
            revision: None,
            restarts: 0,
        }))
    }

    /// How it is.
    #[must_use]
    pub fn status(&self) -> Status {
        self.lock().clone()
    }

    /// A handshake went well.
    pub fn ready(&self, revision: Revision) {
        self.lock().revision = Some(revision);
        self.set(UpstreamCondition::Ready, "");
    }

    /// A connection was lost unasked.
    pub fn lost(&self, why: &str) {
        self.lock().restarts += 1;
        self.set(UpstreamCondition::Down, why);
    }

    /// It is in this state.
    pub fn set(&self, state: UpstreamCondition, reason: &str) {
        let upstream = {
            let mut status = self.lock();
            let known = status.state == state && *status.reason == *reason;
            status.state = state;
            if known {
                return;
            }
            status.reason = reason.into();
            Arc::clone(&status.upstream)
        };
        UpstreamState { upstream: &upstream, state, reason: &reason }.emit();
    }

    fn lock(&self) -> MutexGuard<'_, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
