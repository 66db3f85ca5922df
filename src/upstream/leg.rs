//! One call as the transports see it, and what ends it upstream when nobody waits any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::call::{Fault, OutCall};
use crate::upstream::deadline::Deadline;
use crate::upstream::exchange::Notices;

/// A call on its way to one connection.
#[derive(Clone, Copy)]
pub struct Leg<'a> {
    /// What is asked.
    pub call: &'a OutCall,
    /// For how long.
    pub deadline: &'a Deadline,
    /// Where its notices go.
    pub notices: &'a Arc<Notices>,
}

/// Why a request is given up, as upstreams are told (CANC-07).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Nobody waits for it any more.
    Cancelled,
    /// It took too long.
    Timeout,
}

impl Reason {
    /// The words: the client's own, if it gave some.
    #[must_use]
    pub fn text(self, call: &OutCall) -> &str {
        match self {
            Self::Cancelled => call.course.reason().unwrap_or("client cancelled"),
            Self::Timeout => "timeout",
        }
    }
}

/// Watches over a request that may have been sent.
///
/// *On drop* before it is settled: the request is given up, and the upstream told (CANC-01).
pub struct Watch<F: FnOnce(Reason)> {
    /// Set as soon as the request may have left.
    pub sent: AtomicBool,
    give_up: Option<F>,
}

impl<F: FnOnce(Reason)> Watch<F> {
    /// A request that is given up by `give_up`.
    pub fn new(give_up: F) -> Self {
        Self { sent: AtomicBool::new(false), give_up: Some(give_up) }
    }

    /// It may have left.
    pub fn mark(&self) {
        self.sent.store(true, Ordering::Relaxed);
    }

    /// It has its answer.
    pub fn settle(mut self) {
        self.give_up = None;
    }

    /// It failed. After a limit has passed the upstream may still be at it (LIFE-22).
    pub fn failed(mut self, fault: &Fault) {
        let give_up = self.give_up.take().filter(|_| matches!(fault, Fault::Timeout { .. }));
        if let Some(give_up) = give_up
            && self.sent.load(Ordering::Relaxed)
        {
            give_up(Reason::Timeout);
        }
    }

    /// It was not executed, and will be sent again.
    pub fn refused(&self) {
        self.sent.store(false, Ordering::Relaxed);
    }
}

impl<F: FnOnce(Reason)> Drop for Watch<F> {
    fn drop(&mut self) {
        if let Some(give_up) = self.give_up.take()
            && *self.sent.get_mut()
        {
            give_up(Reason::Cancelled);
        }
    }
}
