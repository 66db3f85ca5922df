//! What is kept of streams for replay, counted: for a session and for the process (HTTP-22).
//!
//! *Invariants.* What is counted is given back when it is dropped.
//! *Limits.* [`caps::REPLAY_BYTES_IN_ALL`], beyond which the oldest streams lose what they keep, of whichever session;
//! [`caps::REPLAY_BYTES_PER_SESSION`], beyond which the oldest of that session do.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use crate::base::caps;
use crate::config::snapshot::Snapshot;
use crate::downstream::legacy::track::Track;

/// How much of what concerns clients' streams is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of one stream; with 0 no stream can be resumed.
    pub bytes: usize,
    /// How long an event is kept.
    pub age: Duration,
    /// Open questions of one session.
    pub questions: usize,
}

impl Bounds {
    /// Those of a configuration.
    #[must_use]
    pub fn new(config: &Snapshot) -> Self {
        let http = &config.http;
        Self { bytes: http.replay_bytes, age: http.replay_age, questions: config.sessions.questions }
    }
}

/// What is kept in all.
#[derive(Debug)]
pub struct Store {
    /// How much may be.
    pub bounds: Bounds,
    used: AtomicUsize,
    live: AtomicUsize,
    /// Streams that can be resumed, oldest first, and some that are gone.
    order: Mutex<VecDeque<Weak<Track>>>,
}

/// What is kept in one session.
///
/// *On drop* all that was counted has been given back by the streams, which hold it.
#[derive(Debug)]
pub struct Account {
    /// The whole.
    pub store: Arc<Store>,
    used: AtomicUsize,
}

impl Store {
    /// Nothing is kept yet.
    #[must_use]
    pub fn new(bounds: Bounds) -> Arc<Self> {
        Arc::new(Self {
            bounds,
            used: AtomicUsize::new(0),
            live: AtomicUsize::new(0),
            order: Mutex::default(),
        })
    }

    /// Counts a stream that can be resumed, as the youngest.
    pub fn enter(&self, track: &Arc<Track>) {
        let live = self.live.fetch_add(1, Ordering::Relaxed) + 1;
        let mut order = self.lock();
        if order.len() >= 2 * live + caps::RESUMABLE_STREAMS {
            order.retain(|track| track.strong_count() > 0);
        }
        order.push_back(Arc::downgrade(track));
    }

    /// A stream that was entered is gone.
    pub fn leave(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// Makes room if too much is kept.
    pub fn relieve(&self) {
        self.relieve_to(caps::REPLAY_BYTES_IN_ALL);
    }

    fn relieve_to(&self, most: usize) {
        if self.used.load(Ordering::Relaxed) <= most {
            return;
        }
        // Each at most once: the rest is what readers have yet to take.
        let count = self.lock().len();
        for _ in 0..count {
            let Some(oldest) = self.lock().pop_front() else { return };
            if let Some(track) = oldest.upgrade() {
                track.shed();
                self.lock().push_back(oldest);
            }
            if self.used.load(Ordering::Relaxed) <= most {
                return;
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, VecDeque<Weak<Track>>> {
        // A panic while the lock was held cannot have left the list half changed.
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// A session that keeps nothing yet.
    #[must_use]
    pub fn new(store: Arc<Store>) -> Arc<Self> {
        Arc::new(Self { store, used: AtomicUsize::new(0) })
    }

    /// Counts bytes that are kept from now on.
    pub fn take(&self, bytes: usize) {
        self.used.fetch_add(bytes, Ordering::Relaxed);
        self.store.used.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts bytes that are no longer kept.
    pub fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.store.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether the session keeps more than it may.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.used.load(Ordering::Relaxed) > caps::REPLAY_BYTES_PER_SESSION
    }

    /// Bytes that are kept.
    #[must_use]
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::downstream::legacy::track::tests::{open, shown};

    /// HTTP-22, D11: the oldest gives way, and what is gone is not kept in mind for ever.
    #[test]
    fn http_22_the_oldest_stream_loses_first() {
        let store = Store::new(Bounds { bytes: 1 << 20, age: Duration::from_mins(1), questions: 1 });
        let account = Account::new(store.clone());
        let tracks: Vec<_> = (1..4).map(|number| open(&account, number)).collect();
        for track in &tracks {
            assert!(track.append(&[b'x'; 1000], 0));
            shown(track, 1);
        }
        let all = account.used();
        store.relieve_to(all);
        assert_eq!(account.used(), all);
        store.relieve_to(all - 1);
        assert!(tracks[0].attach(0).is_none(), "a gap is not replayed");
        assert!(tracks[1].attach(0).is_some() && tracks[2].attach(0).is_some());
        drop(tracks);
        assert_eq!((account.used(), store.used.load(Ordering::Relaxed)), (0, 0));
        for number in 0..10_000 {
            drop(open(&account, number));
        }
        assert!(store.lock().len() <= 2 + caps::RESUMABLE_STREAMS);
    }
}
