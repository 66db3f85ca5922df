//! What the server shore tells the outside about its upstreams, to be logged and counted.

use std::sync::Arc;
use std::time::Duration;

use crate::call::Outcome;
use crate::mcp::methods::Class;
use crate::mcp::revision::Revision;

/// Takes facts. Implementations return at once.
pub trait Facts: Send + Sync {
    /// Takes a fact about the upstream of this name.
    fn tell(&self, upstream: &Arc<str>, fact: Fact<'_>);
}

/// Something that happened between the gateway and an upstream. Texts are for operators and hold no secrets.
#[derive(Debug, Clone, Copy)]
pub enum Fact<'a> {
    /// A call has come back, or failed; for a large answer, its body has.
    Called {
        /// The row of the metrics.
        class: Class,
        /// From the relay's request to the end.
        took: Duration,
        /// As seen from here: the outcome within an answer is not looked at.
        outcome: Outcome,
    },
    /// A connection is ready.
    Connected {
        /// The revision in use.
        revision: Revision,
        /// From the first step to the end of the handshake.
        took: Duration,
    },
    /// A connection could not be opened.
    ConnectFailed {
        /// Why, with what a client is not told.
        why: &'a str,
    },
    /// A connection was lost unasked.
    Lost {
        /// Why.
        why: &'a str,
    },
    /// A connection's session was begun anew (F-014).
    Renewed,
    /// The push channel is open.
    PushOpened,
    /// The upstream has no push channel (F-001).
    PushAbsent,
    /// The upstream redirected to where we do not follow (F-070).
    Redirected {
        /// The target, without query.
        location: &'a str,
    },
    /// The breaker opened: calls fail at once for a while.
    BreakerOpened,
    /// The breaker closed.
    BreakerClosed,
    /// A message of the upstream was dropped.
    Dropped(Dropped),
}

/// Why a message of an upstream was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dropped {
    /// An answer that nobody waits for any more (CANC-03, F-062).
    Late,
    /// Progress of no call under way, or none that increases (PROG-05).
    Progress,
    /// A notification that is not carried.
    Notification,
    /// A request that was refused, or one too many at once.
    Request,
    /// No message at all.
    Malformed,
    /// Larger than a message may be (F-035).
    Oversized,
}

/// Tells facts about one upstream.
#[derive(Clone)]
pub struct Report {
    upstream: Arc<str>,
    facts: Arc<dyn Facts>,
}

impl Report {
    /// Facts about the upstream of this name go to `facts`.
    #[must_use]
    pub fn new(upstream: Arc<str>, facts: Arc<dyn Facts>) -> Self {
        Self { upstream, facts }
    }

    /// Tells a fact.
    pub fn tell(&self, fact: Fact<'_>) {
        self.facts.tell(&self.upstream, fact);
    }

    /// Tells that a message was dropped.
    pub fn dropped(&self, why: Dropped) {
        self.tell(Fact::Dropped(why));
    }
}

/// Tells nobody; for tests and for commands that print by themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Facts for Silent {
    fn tell(&self, _: &Arc<str>, _: Fact<'_>) {}
}
