//! The breaker of an upstream on the network: after several failures in a row it is left alone for a while.
//!
//! *Invariants.* Only failures of the way there count: connect, TLS, answers without a head, transport statuses.
//! While it is open one call at a time is let through as a probe; "open" always ends by itself (F-020).

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::backoff::Backoff;

/// Failures in a row that open the breaker: more than a restart of the server behind a balancer causes.
const FAILURES: u32 = 5;
/// Shortest and longest time that an upstream is left alone: one that comes back is used again soon, and a
/// probe every two seconds costs nobody anything.
const REST: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(2));
/// A probe that has no verdict after this time is forgotten, and the next call is one.
const PROBE: Duration = Duration::from_secs(5);

/// The state of one upstream.
#[derive(Debug)]
pub struct Breaker {
    open: AtomicBool,
    failures: AtomicU32,
    rest: Mutex<Rest>,
}

#[derive(Debug)]
struct Rest {
    backoff: Backoff,
    until: Option<Instant>,
    probing: bool,
}

/// What a verdict changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// The breaker opened.
    Opened,
    /// The breaker closed.
    Closed,
}

impl Default for Breaker {
    fn default() -> Self {
        Self {
            open: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            rest: Mutex::new(Rest { backoff: Backoff::new(REST.0, REST.1), until: None, probing: false }),
        }
    }
}

impl Breaker {
    /// Whether a call may try.
    ///
    /// # Errors
    /// The time until the next probe, while the upstream is left alone.
    pub fn admit(&self, now: Instant) -> Result<(), Duration> {
        if !self.is_open() {
            return Ok(());
        }
        let mut rest = self.rest();
        match rest.until {
            Some(until) if now < until => Err(until - now),
            Some(_) => {
                rest.until = Some(now + PROBE);
                rest.probing = true;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Whether the upstream is being left alone.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// The way there works.
    pub fn succeeded(&self) -> Option<Change> {
        if self.failures.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut rest = self.rest();
        self.failures.store(0, Ordering::Relaxed);
        rest.until = None;
        rest.probing = false;
        rest.backoff.reset();
        self.open.swap(false, Ordering::Relaxed).then_some(Change::Closed)
    }

    /// The way there failed.
    pub fn failed(&self, now: Instant) -> Option<Change> {
        let mut rest = self.rest();
        let failures = self.failures.load(Ordering::Relaxed).saturating_add(1);
        self.failures.store(failures, Ordering::Relaxed);
        if failures < FAILURES {
            return None;
        }
        // Calls that were under way when it opened do not lengthen the rest; a failed probe does.
        if rest.probing || rest.until.is_none() {
            rest.probing = false;
            rest.until = Some(now + rest.backoff.next().unwrap_or(REST.1));
        }
        (!self.open.swap(true, Ordering::Relaxed)).then_some(Change::Opened)
    }

    fn rest(&self) -> MutexGuard<'_, Rest> {
        self.rest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;

    /// R-14, F-020
    #[test]
    fn f_020_opens_probes_and_comes_back() {
        let breaker = Breaker::default();
        let now = clock::now();
        for _ in 1..FAILURES {
            assert_eq!(breaker.failed(now), None);
            assert!(breaker.admit(now).is_ok());
        }
        assert_eq!(breaker.failed(now), Some(Change::Opened));
        let wait = breaker.admit(now).unwrap_err();
        assert!(wait >= REST.0 && wait <= REST.1);
        let later = now + wait;
        assert!(breaker.admit(later).is_ok(), "a probe");
        assert!(breaker.admit(later).is_err(), "one at a time");
        assert_eq!(breaker.failed(later), None);
        assert!(breaker.admit(later).is_err());
        assert!(breaker.admit(later + REST.1).is_ok());
        assert_eq!(breaker.succeeded(), Some(Change::Closed));
        assert!(breaker.admit(later).is_ok());
        assert_eq!(breaker.succeeded(), None);
    }

    #[test]
    fn a_success_in_between_forgets() {
        let breaker = Breaker::default();
        for _ in 0..3 * FAILURES {
            let _ = breaker.failed(clock::now());
            let _ = breaker.succeeded();
        }
        assert!(!breaker.is_open());
    }
}
