//! Our delays in one place: exponential, capped, with full jitter.
//!
//! Written here and not on `backon`: its jitter is added on top of the delay, so delays exceed the cap and callers that
//! failed together stay together for the first one.
//!
//! *Invariants:* every delay lies between the first delay and the cap, both included.

use std::time::Duration;

use super::ids;

/// An endless row of delays; each is drawn at random between the first delay and a ceiling that doubles up to the cap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    ceiling: Duration,
    failures: u32,
}

impl Backoff {
    /// Delays from `first` up to `cap` (or all `first`, if the cap is smaller).
    #[must_use]
    pub fn new(first: Duration, cap: Duration) -> Self {
        Self { first, cap: cap.max(first), ceiling: first, failures: 0 }
    }

    /// Number of delays given since the start or the last reset.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Begins again, after a success.
    pub fn reset(&mut self) {
        self.ceiling = self.first;
        self.failures = 0;
    }

    /// The next delay for a given draw, 0 for the shortest and `u32::MAX` for the longest: the pure part.
    pub fn next_at(&mut self, draw: u32) -> Duration {
        self.failures = self.failures.saturating_add(1);
        self.ceiling = self.ceiling.saturating_mul(2).min(self.cap);
        let spread = self.ceiling - self.first;
        self.first + share(spread, draw)
    }
}

impl Iterator for Backoff {
    type Item = Duration;

    /// Never `None`.
    fn next(&mut self) -> Option<Duration> {
        Some(self.next_at(u32::from_ne_bytes(ids::random_bytes())))
    }
}

/// Spreads a delay that a peer asked for over up to half as much again, so that those it told the same do not come back
/// together; never shorter than asked (HTTP-14).
#[must_use]
pub fn stretched(asked: Duration) -> Duration {
    asked.saturating_add(share(asked / 2, u32::from_ne_bytes(ids::random_bytes())))
}

/// The part of a duration that a draw stands for, from nothing to all of it.
fn share(whole: Duration, draw: u32) -> Duration {
    let seconds = whole.as_secs_f64() * f64::from(draw) / f64::from(u32::MAX);
    Duration::try_from_secs_f64(seconds).map_or(whole, |part| part.min(whole))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FIRST: Duration = Duration::from_millis(100);
    const CAP: Duration = Duration::from_secs(1);

    #[test]
    fn the_ceiling_doubles_up_to_the_cap() {
        let mut backoff = Backoff::new(FIRST, CAP);
        let longest: Vec<_> = (0..5).map(|_| backoff.next_at(u32::MAX).as_millis()).collect();
        assert_eq!(longest, [200, 400, 800, 1000, 1000]);
        assert_eq!((backoff.failures(), backoff.next_at(0)), (5, FIRST));
        backoff.reset();
        assert_eq!(backoff, Backoff::new(FIRST, CAP));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::MAX);
        assert!((0..200).all(|_| backoff.next_at(u32::MAX) >= Duration::from_secs(1)));
        assert_eq!(Backoff::new(CAP, FIRST).next(), Some(CAP));
        assert_eq!(stretched(Duration::ZERO), Duration::ZERO);
        assert_eq!(stretched(Duration::MAX), Duration::MAX);
    }

    proptest! {
        #[test]
        fn delays_stay_within_their_bounds(draws in proptest::collection::vec(any::<u32>(), 1..20), asked in 0u64..100_000) {
            let mut backoff = Backoff::new(FIRST, CAP);
            for draw in draws {
                let delay = backoff.next_at(draw);
                prop_assert!(FIRST <= delay && delay <= CAP);
            }
            let asked = Duration::from_millis(asked);
            let got = stretched(asked);
            prop_assert!(asked <= got && got <= asked * 3 / 2);
        }
    }
}
