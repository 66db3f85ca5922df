//! The only source of time: reading it, waiting for it, and giving every wait an end.
//!
//! *Invariants:* follows the run time's clock, so a test that pauses that clock pauses everything.

use std::future::Future;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::TryFutureExt;

/// A deadline passed before the work was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("deadline passed")]
pub struct Elapsed;

/// How long a wait may last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// So long from now.
    For(Duration),
    /// Up to this moment.
    Until(Instant),
}

impl From<Duration> for Limit {
    fn from(duration: Duration) -> Self {
        Self::For(duration)
    }
}

impl From<Instant> for Limit {
    fn from(deadline: Instant) -> Self {
        Self::Until(deadline)
    }
}

/// The present moment, for measuring and for deadlines.
#[must_use]
pub fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The present moment as milliseconds since 1970, for expiries that outlive the process. May jump with the system clock.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads the system clock")]
pub fn unix_millis() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// The present moment as HTTP writes it.
#[must_use]
#[allow(clippy::disallowed_methods, reason = "this is the one place that reads the system clock")]
pub fn http_date() -> String {
    httpdate::fmt_http_date(SystemTime::now())
}

/// Waits for a duration. Safe to cancel.
#[allow(clippy::disallowed_methods, reason = "this is the one place that waits for time")]
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits for a moment; returns at once if it has passed. Safe to cancel.
#[allow(clippy::disallowed_methods, reason = "this is the one place that waits for time")]
pub async fn sleep_until(deadline: Instant) {
    tokio::time::sleep_until(deadline.into()).await;
}

/// Runs `work` until it is done or the limit (a `Duration`, counted from this call, or an `Instant`) is reached; then
/// `work` is dropped.
///
/// # Errors
///
/// [`Elapsed`] if the limit came first. Work that is ready at once never fails, not even with a limit of zero.
#[allow(clippy::disallowed_methods, reason = "this is the one place that waits for time")]
pub fn within<F: Future>(
    limit: impl Into<Limit>,
    work: F,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    // No `async fn`: its future would hold the work twice, once as it came and once as it is awaited.
    let timeout = match limit.into() {
        Limit::For(duration) => tokio::time::timeout(duration, work),
        Limit::Until(deadline) => tokio::time::timeout_at(deadline.into(), work),
    };
    timeout.map_err(|_| Elapsed)
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    #[tokio::test]
    async fn work_that_is_ready_never_elapses() {
        assert_eq!(within(Duration::ZERO, ready(1)).await, Ok(1));
        assert_eq!(within(now(), ready(2)).await, Ok(2));
        assert_eq!(within(Duration::MAX, ready(3)).await, Ok(3));
    }

    #[tokio::test]
    async fn work_that_never_ends_elapses() {
        assert_eq!(within(Duration::from_millis(1), pending::<()>()).await, Err(Elapsed));
        assert_eq!(within(now(), pending::<()>()).await, Err(Elapsed));
    }

    #[tokio::test]
    async fn sleeping_lasts_at_least_as_long_as_asked() {
        let start = now();
        sleep(Duration::from_millis(2)).await;
        sleep_until(start + Duration::from_millis(4)).await;
        sleep_until(start).await;
        assert!(now() >= start + Duration::from_millis(4));
    }

    #[test]
    fn the_year_is_plausible() {
        const YEAR_2026: u64 = 1_767_225_600_000;
        assert!(unix_millis() > YEAR_2026);
    }
}
