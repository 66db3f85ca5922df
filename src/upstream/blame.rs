//! Faults that name one upstream.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use crate::call::Fault;

/// Makes the faults of one upstream. What is said reaches clients: no addresses, no secrets (RPC-12).
#[derive(Debug, Clone)]
pub struct Blame {
    upstream: Arc<str>,
}

impl Blame {
    /// Faults of the upstream of this name.
    #[must_use]
    pub fn new(upstream: Arc<str>) -> Self {
        Self { upstream }
    }

    /// It cannot be reached; the call surely did not get there.
    pub fn unsent(&self, why: impl Into<Cow<'static, str>>) -> Fault {
        self.unavailable(why.into(), None, true)
    }

    /// It is left alone for a while; the call was not sent.
    pub fn resting(&self, why: impl Into<Cow<'static, str>>, retry_after: Duration) -> Fault {
        self.unavailable(why.into(), Some(retry_after), true)
    }

    /// It failed after the call had left, or while it may have.
    pub fn broken(&self, why: impl Into<Cow<'static, str>>) -> Fault {
        self.unavailable(why.into(), None, false)
    }

    /// It refused the call for now.
    pub fn busy(&self, why: impl Into<Cow<'static, str>>, retry_after: Option<Duration>) -> Fault {
        self.unavailable(why.into(), retry_after, false)
    }

    /// It broke the protocol.
    pub fn protocol(&self, why: impl Into<Cow<'static, str>>) -> Fault {
        Fault::Protocol { upstream: Arc::clone(&self.upstream), why: why.into() }
    }

    /// A limit passed.
    pub fn timeout(&self, limit: &'static str, after: Duration) -> Fault {
        Fault::Timeout { upstream: Arc::clone(&self.upstream), limit, after }
    }

    /// Nobody knows whether the call was done (F-021).
    pub fn outcome_unknown(&self) -> Fault {
        Fault::OutcomeUnknown { upstream: Arc::clone(&self.upstream) }
    }

    fn unavailable(&self, why: Cow<'static, str>, retry_after: Option<Duration>, unsent: bool) -> Fault {
        Fault::Unavailable { upstream: Arc::clone(&self.upstream), why, retry_after, unsent }
    }
}
