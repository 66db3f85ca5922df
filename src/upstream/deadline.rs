//! How long a call may take, and which limit to name when it took longer (R-15, LIFE-22, LIFE-23, F-060).

use std::future::Future;
use std::time::{Duration, Instant};

use futures_util::TryFutureExt;

use crate::base::{clock, ticks};
use crate::call::Fault;
use crate::config::snapshot::Upstream;
use crate::mcp::methods::{Class, Method};
use crate::upstream::blame::Blame;

/// A limit, under its name in the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// The key under `timeouts`.
    pub key: &'static str,
    /// Its value.
    pub after: Duration,
}

/// The limits of one call: one between signs of life, one in all.
#[derive(Debug, Clone)]
pub struct Deadline {
    idle: Limit,
    total: Limit,
    ends: Instant,
    blame: Blame,
}

impl Deadline {
    /// The limits for a call of `method`, and of `tool` if it calls one, counted from now.
    #[must_use]
    pub fn of(upstream: &Upstream, method: &Method, tool: Option<&str>) -> Self {
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
        Self::new(idle, total, Blame::new(upstream.name.clone()))
    }

    /// One limit in all, counted from now.
    #[must_use]
    pub fn once(limit: Limit, blame: Blame) -> Self {
        Self::new(limit, limit, blame)
    }

    fn new(idle: Limit, total: Limit, blame: Blame) -> Self {
        let now = clock::now();
        // A limit beyond what the clock can count is no limit.
        let ends = now.checked_add(total.after).unwrap_or(now + Duration::from_hours(24 * 365));
        Self { idle, total, ends, blame }
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
        let idle = clock::now().checked_add(self.idle.after).unwrap_or(self.ends);
        let (until, limit) = if idle < self.ends { (idle, self.idle) } else { (self.ends, self.total) };
        ticks::within(until, work).map_err(move |_| self.blame.timeout(limit.key, limit.after))
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
        Deadline::new(limit("callIdle", idle), limit("call", total), Blame::new("alpha".into()))
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
}
