//! Connections to one upstream that wait for their next request (F-088).
//!
//! *Invariants.* A connection is used again on the runtime thread that made it, so that neither its
//! socket nor its buffers wander between cores (D12). Nobody drives an idle connection: the request
//! that takes it finds out first whether the peer has closed it.
//!
//! *Limits.* `IDLE` connections per thread; the oldest go first.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::upstream::http::link::{Shared, Single};

/// Idle connections that a thread keeps: a burst of calls soon takes them up again.
const IDLE: usize = 64;

/// Idle connections, by thread.
#[derive(Debug)]
pub struct Pool {
    shards: Vec<Mutex<Shard>>,
    /// For how long a connection may have been idle, when the peer does not say.
    keep: Duration,
}

#[derive(Debug, Default)]
struct Shard {
    single: Vec<(Single, Instant)>,
    shared: Option<Shared>,
}

/// A connection that can be tried.
pub enum Taken {
    /// For one request at a time; back to the pool when the answer is read.
    Single(Single),
    /// For many; it stays in the pool.
    Shared(Shared),
}

impl Pool {
    /// An empty pool. `keep` bounds idleness where a peer does not name its own bound.
    #[must_use]
    pub fn new(keep: Duration) -> Self {
        // One more for the home run time, where each core has one of its own.
        let threads = std::thread::available_parallelism().map_or(1, usize::from) + 1;
        Self { shards: (0..threads).map(|_| Mutex::default()).collect(), keep }
    }

    /// The connection of this thread that was used last, if there is a fresh one.
    pub fn take(&self) -> Option<Taken> {
        let now = clock::now();
        let mut shard = self.shard();
        if let Some(shared) = &shard.shared {
            if shared.is_usable() {
                return Some(Taken::Shared(shared.clone()));
            }
            shard.shared = None;
        }
        let (single, since) = shard.single.pop()?;
        let idle = now.saturating_duration_since(since);
        if idle < single.keep().unwrap_or(self.keep) {
            return Some(Taken::Single(single));
        }
        // Those below were put back earlier still.
        let stale = std::mem::take(&mut shard.single);
        drop(shard);
        drop((single, stale));
        None
    }

    /// Puts a connection back, its answer read to the end.
    pub fn put(&self, single: Single) {
        let mut shard = self.shard();
        let oldest = (shard.single.len() >= IDLE).then(|| shard.single.remove(0));
        shard.single.push((single, clock::now()));
        drop(shard);
        drop(oldest);
    }

    /// Offers a connection for many requests to all that follow on this thread.
    pub fn share(&self, shared: Shared) {
        self.shard().shared = Some(shared);
    }

    /// Closes what has been idle for too long.
    pub fn sweep(&self) {
        let now = clock::now();
        for shard in &self.shards {
            let mut shard = shard.lock().unwrap_or_else(PoisonError::into_inner);
            let fresh = |(single, since): &(Single, Instant)| {
                now.saturating_duration_since(*since) < single.keep().unwrap_or(self.keep)
            };
            shard.single.retain(fresh);
        }
    }

    fn shard(&self) -> MutexGuard<'_, Shard> {
        self.shards[thread() % self.shards.len()].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A small number for this thread.
fn thread() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<Option<usize>> = const { Cell::new(None) };
    }
    MINE.with(|mine| {
        mine.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            mine.set(Some(number));
            number
        })
    })
}
