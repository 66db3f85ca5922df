//! Signs of life of one call, and the time in which its clock stands still because a client is being asked.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;

/// What is known of a call that its limits depend on.
#[derive(Debug, Default)]
pub struct Signs(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Questions of the call that have no answer yet.
    open: u32,
    /// Since when there is one.
    since: Option<Instant>,
    /// How long the clock has stood still before that.
    stood: Duration,
    /// When the call was last heard of.
    last: Option<Instant>,
}

/// How the clock of a call stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// A client is being asked: it stands still (LIFE-24).
    Stands,
    /// It runs.
    Runs {
        /// For how long it has stood still in all.
        stood: Duration,
        /// When the call was last heard of, beside its own stream.
        last: Option<Instant>,
    },
}

impl Signs {
    /// Notes that the call was heard of.
    pub fn alive(&self) {
        self.lock().last = Some(clock::now());
    }

    /// Lets the clock stand still until the guard is dropped.
    #[must_use]
    pub fn pause(self: &Arc<Self>) -> Pause {
        let mut inner = self.lock();
        inner.open += 1;
        inner.since.get_or_insert_with(clock::now);
        drop(inner);
        Pause(Arc::clone(self))
    }

    /// How the clock stands.
    #[must_use]
    pub fn clock(&self) -> Clock {
        let inner = self.lock();
        match inner.open {
            0 => Clock::Runs { stood: inner.stood, last: inner.last },
            _ => Clock::Stands,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question of the call that has no answer yet.
#[derive(Debug)]
pub struct Pause(Arc<Signs>);

impl Drop for Pause {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.open -= 1;
        if inner.open == 0
            && let Some(since) = inner.since.take()
        {
            let now = clock::now();
            inner.stood += now.saturating_duration_since(since);
            // An answer is a sign of life: the upstream has work again.
            inner.last = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LIFE-24: several questions at once hold the clock once.
    #[tokio::test(start_paused = true)]
    async fn life_24_the_clock_stands_while_any_question_is_open() {
        let signs = Arc::new(Signs::default());
        assert_eq!(signs.clock(), Clock::Runs { stood: Duration::ZERO, last: None });
        let (first, second) = (signs.pause(), signs.pause());
        clock::sleep(Duration::from_secs(2)).await;
        drop(first);
        assert_eq!(signs.clock(), Clock::Stands);
        clock::sleep(Duration::from_secs(3)).await;
        drop(second);
        let Clock::Runs { stood, last: Some(_) } = signs.clock() else { panic!("it stands") };
        assert_eq!(stood, Duration::from_secs(5));
    }
}
