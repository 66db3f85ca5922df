//! How many log messages a session takes of each of its upstreams (LOG-05).

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::call::UpstreamId;

/// Messages that may come at once: the start of a chatty server.
const BURST: f64 = 200.0;

/// Messages a second for good: more than a person reads.
const RATE: f64 = 50.0;

/// How long nothing passes once all is spent, so that a loss is told once and not message by message.
pub const PAUSE: Duration = Duration::from_secs(1);

/// The budgets of one session, by upstream.
#[derive(Debug, Default)]
pub struct Budgets(HashMap<UpstreamId, Budget>);

#[derive(Debug)]
struct Budget {
    left: f64,
    at: Instant,
    /// Spent: nothing passes before.
    shut_until: Option<Instant>,
    lost: u64,
}

/// Whether a message passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It does.
    Pass {
        /// So many before it did not, which nobody was told.
        lost: u64,
    },
    /// It does not.
    Lost {
        /// Up to now all did.
        is_first: bool,
    },
}

impl Budgets {
    /// Takes a message of `upstream`.
    pub fn spend(&mut self, upstream: UpstreamId, now: Instant) -> Verdict {
        let budget =
            self.0.entry(upstream).or_insert(Budget { left: BURST, at: now, shut_until: None, lost: 0 });
        budget.spend(now)
    }

    /// How many messages of `upstream` were lost that nobody was told of; they count as told now.
    pub fn untold(&mut self, upstream: UpstreamId) -> u64 {
        self.0.get_mut(&upstream).map_or(0, |budget| std::mem::take(&mut budget.lost))
    }
}

impl Budget {
    fn spend(&mut self, now: Instant) -> Verdict {
        if self.shut_until.is_some_and(|until| now < until) {
            self.lost += 1;
            return Verdict::Lost { is_first: false };
        }
        self.shut_until = None;
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left, self.at) = ((self.left + since * RATE).min(BURST), now);
        if self.left < 1.0 {
            self.shut_until = Some(now + PAUSE);
            self.lost += 1;
            return Verdict::Lost { is_first: true };
        }
        self.left -= 1.0;
        Verdict::Pass { lost: std::mem::take(&mut self.lost) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::clock;

    /// LOG-05: 200 at once, 50 a second, and a loss is told once.
    #[test]
    fn log_05_a_flood_is_cut_and_its_loss_told_once() {
        let (alpha, beta, start) = (UpstreamId(0), UpstreamId(1), clock::now());
        let mut budgets = Budgets::default();
        let passed = |verdict| matches!(verdict, Verdict::Pass { .. });
        assert_eq!((0..1000).filter(|_| passed(budgets.spend(alpha, start))).count(), 200);
        assert_eq!(budgets.spend(beta, start), Verdict::Pass { lost: 0 }, "another's flood is no matter");
        let later = start + PAUSE;
        assert_eq!(budgets.spend(alpha, later), Verdict::Pass { lost: 800 });
        assert_eq!((0..1000).filter(|_| passed(budgets.spend(alpha, later))).count(), 49);
        assert_eq!(budgets.untold(alpha), 951);
        assert_eq!(budgets.untold(alpha), 0);
        assert_eq!(budgets.spend(alpha, later + PAUSE), Verdict::Pass { lost: 0 });
    }

    /// LOG-05: who keeps to the rate loses nothing.
    #[test]
    fn log_05_a_steady_pace_passes() {
        let (alpha, start) = (UpstreamId(0), clock::now());
        let mut budgets = Budgets::default();
        for n in 0..2000 {
            let now = start + Duration::from_millis(20) * n;
            assert_eq!(budgets.spend(alpha, now), Verdict::Pass { lost: 0 });
        }
    }
}
