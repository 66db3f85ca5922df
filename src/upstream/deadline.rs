//! How long a call may take, and which limit to name when it took longer (R-15, LIFE-22, LIFE-23, F-060).

use std::future::Future;
use std::time::{Duration, Instant};

use std::sync::Arc;

use futures_util::TryFutureExt;

use crate::base::{clock, ticks};
use crate::call::Fault;
use crate::config::snapshot::Upstream;
use crate::mcp::methods::{Class, Method};
use crate::upstream::blame::Blame;
use crate::upstream::signs::{Clock, Signs};

/// A limit, under its name in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The key under `timeouts`.
    pub key: &'static str,
    /// Its value.
    pub after: Duration,
}

/// How often is looked whether a client has answered, while the clock stands still for that.
const LOOK: Duration = Duration::from_millis(250);

/// The limits of one call: one between signs of life, one in all. Neither counts while a client is asked (LIFE-24).
#[derive(Debug, Clone)]
pub struct Deadline {
    idle: Limit,
    total: Limit,
    ends: Instant,
    blame: Blame,
    signs: Arc<Signs>,
}

impl Deadline {
    /// The limits for a call of `method`, and of `tool` if it calls one, counted from now.
    #[must_use]
    pub fn of(upstream: &Upstream, method: &Method, tool: Option<&str>, signs: Arc<Signs>) -> Self {
        let times = &upstream.timeouts;
        let (idle, total) = match method.class {
            Class::ToolsCall => {
                let (idle, total) = tool.map_or((times.call_idle, times.call), |tool| {
                    (upstream.call_idle(tool), upstream.call_total(tool))
                });
                (Limit { key: "callIdle", after: idle }, Limit { key: "call", after: total })
            }
            Class::ToolsList | Class::ResourcesList | Class::PromptsList => {
                let list = Limit { key: "list", after: times.list };
                (list, list)
            }
            _ => {
                let read = Limit { key: "read", after: times.read };
                (read, read)
            }
        };
        Self::new(idle, total, Blame::new(upstream.name.clone()), signs)
    }

    /// One limit in all, counted from now.
    #[must_use]
    pub fn once(limit: Limit, blame: Blame) -> Self {
        Self::new(limit, limit, blame, Arc::default())
    }

    fn new(idle: Limit, total: Limit, blame: Blame, signs: Arc<Signs>) -> Self {
        let now = clock::now();
        // A limit beyond what the clock can count is no limit.
        let ends = now.checked_add(total.after).unwrap_or(now + Duration::from_hours(24 * 365));
        Self { idle, total, ends, blame, signs }
    }

    /// Whether an answer that is late is a failure of the upstream's: a tool may take as long as it likes.
    #[must_use]
    pub fn is_of_the_way(&self) -> bool {
        self.idle.key != "callIdle"
    }

    /// Waits for the next sign of life.
    ///
    /// *On drop:* safe to cancel when `work` is.
    ///
    /// # Errors
    /// `Timeout` naming the limit that passed first.
    pub fn next<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output, Fault>> {
        let began = clock::now();
        let until = self.after(began, Duration::ZERO).0;
        ticks::renewable(until, work, move || self.renewed(began)).map_err(move |_| self.late(began))
    }

    /// When the first limit passes after a sign of life, and which one.
    fn after(&self, sign: Instant, stood: Duration) -> (Instant, Limit) {
        let ends = self.ends + stood;
        match sign.checked_add(self.idle.after) {
            Some(idle) if idle < ends => (idle, self.idle),
            _ => (ends, self.total),
        }
    }

    /// A later moment than the one that has come, for a wait that began then: the clock stands, has stood, or there was
    /// a sign of life beside what is waited for.
    fn renewed(&self, began: Instant) -> Option<Instant> {
        let now = clock::now();
        match self.signs.clock() {
            Clock::Stands => Some(now + LOOK),
            Clock::Runs { stood, last } => {
                let until = self.after(last.map_or(began, |last| last.max(began)), stood).0;
                (until > now).then_some(until)
            }
        }
    }

    fn late(&self, began: Instant) -> Fault {
        let (sign, stood) = match self.signs.clock() {
            Clock::Stands => (began, Duration::ZERO),
            Clock::Runs { stood, last } => (last.map_or(began, |last| last.max(began)), stood),
        };
        let limit = self.after(sign, stood).1;
        self.blame.timeout(limit.key, limit.after)
    }

    /// Waits for what comes before the call itself, such as a connection, which has limits of its own.
    ///
    /// *On drop:* safe to cancel when `work` is.
    ///
    /// # Errors
    /// `Timeout` when the limit in all passed.
    pub fn before<F: Future>(&self, work: F) -> impl Future<Output = Result<F::Output, Fault>> {
        let late = |_| self.blame.timeout(self.total.key, self.total.after);
        clock::within(self.ends, work).map_err(late)
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    fn limits(idle: u64, total: u64) -> Deadline {
        let limit = |key, ms| Limit { key, after: Duration::from_millis(ms) };
        Deadline::new(
            limit("callIdle", idle),
            limit("call", total),
            Blame::new("alpha".into()),
            Arc::default(),
        )
    }

    fn key(fault: Fault) -> &'static str {
        match fault {
            Fault::Timeout { limit, .. } => limit,
            _ => "",
        }
    }

    /// F-060, LIFE-23: signs of life renew the idle limit, never the total one.
    #[tokio::test(start_paused = true)]
    async fn f_060_the_limit_that_passed_is_named() {
        let deadline = limits(30, 100);
        for _ in 0..4 {
            assert!(deadline.next(clock::sleep(Duration::from_millis(20))).await.is_ok());
        }
        assert_eq!(key(deadline.next(pending::<()>()).await.unwrap_err()), "call");
        let deadline = limits(30, 100);
        assert_eq!(key(deadline.next(pending::<()>()).await.unwrap_err()), "callIdle");
    }

    /// LIFE-24: a human may take as long as the question's own limit allows.
    #[tokio::test(start_paused = true)]
    async fn life_24_neither_limit_counts_while_a_client_is_asked() {
        let deadline = limits(1000, 3000);
        let asked = deadline.signs.pause();
        let answered = async {
            clock::sleep(Duration::from_secs(60)).await;
            drop(asked);
            clock::sleep(Duration::from_millis(900)).await;
        };
        assert!(deadline.next(answered).await.is_ok());
        assert_eq!(key(deadline.next(pending::<()>()).await.unwrap_err()), "callIdle");
    }

    /// LIFE-23: progress that comes on another stream renews the limit as well, up to the one in all.
    #[tokio::test(start_paused = true)]
    async fn life_23_signs_beside_the_stream_count() {
        let deadline = limits(1000, 3000);
        let signs = Arc::clone(&deadline.signs);
        let beside = async {
            loop {
                clock::sleep(Duration::from_millis(600)).await;
                signs.alive();
            }
        };
        let late = tokio::select! {
            late = deadline.next(pending::<()>()) => late.unwrap_err(),
            () = beside => unreachable!(),
        };
        assert_eq!(key(late), "call");
    }
}
