//! Lets so many through at once and so many per second, and counts the rest.

use std::time::{Duration, Instant};

/// A limit on how often something is shown.
#[derive(Debug)]
pub(super) struct Trickle {
    burst: u32,
    every: Duration,
    tokens: u32,
    filled: Option<Instant>,
    unshown: u64,
}

impl Trickle {
    /// `burst` at once, and then one per `every`.
    pub(super) fn new(burst: u32, every: Duration) -> Self {
        Self { burst, every, tokens: burst, filled: None, unshown: 0 }
    }

    /// Whether one more may be shown now; if so, how many were not shown before it.
    pub(super) fn admit(&mut self, now: Instant) -> Option<u64> {
        let filled = *self.filled.get_or_insert(now);
        let passed = now.saturating_duration_since(filled);
        let gained = u32::try_from(passed.as_nanos() / self.every.as_nanos().max(1)).unwrap_or(u32::MAX);
        if gained > 0 {
            self.tokens = self.tokens.saturating_add(gained).min(self.burst);
            self.filled = filled.checked_add(self.every.saturating_mul(gained)).or(Some(now));
        }
        if self.tokens == 0 {
            self.unshown += 1;
            return None;
        }
        self.tokens -= 1;
        Some(std::mem::take(&mut self.unshown))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;

    #[test]
    fn f_025_a_flood_is_counted_and_a_trickle_shown() {
        let begun = clock::now();
        let mut trickle = Trickle::new(2, Duration::from_secs(1));
        let at = |millis| begun + Duration::from_millis(millis);
        let shown: Vec<_> =
            [0, 0, 0, 0, 999, 1000, 1001, 9000, 9000, 9000].map(|millis| trickle.admit(at(millis))).into();
        let expected = [Some(0), Some(0), None, None, None, Some(3), None, Some(1), Some(0), None];
        assert_eq!(shown, expected);
    }
}
