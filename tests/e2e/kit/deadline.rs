//! Waiting with an end: every wait of a test has a name and a limit, and wakes on the event itself.
//!
//! *Limits.* [`SOON`] is what a healthy gateway may take on a busy machine; a test that judges
//! speed says so with a limit of its own.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// The ordinary limit: generous, because other tests run on the same cores.
pub const SOON: Duration = Duration::from_secs(15);

/// How often the world outside this process (files of `/proc`) is looked at.
const GLANCE: Duration = Duration::from_millis(10);

/// Milliseconds as a duration.
pub const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Seconds as a duration.
pub const fn secs(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Waits for `work`; a wait longer than `limit` ends the test with `what`.
pub async fn within<T>(limit: Duration, what: impl Display, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(limit, work).await {
        Ok(value) => value,
        Err(_) => panic!("not within {limit:?}: {what}"),
    }
}

/// Waits for `work` no longer than [`SOON`].
pub async fn soon<T>(what: impl Display, work: impl Future<Output = T>) -> T {
    within(SOON, what, work).await
}

/// True when `work` is still not done after `time`: the way to show that something stays away.
pub async fn still_waiting(time: Duration, work: impl Future) -> bool {
    tokio::time::timeout(time, work).await.is_err()
}

/// Lets time pass where the passing of time is the very thing tested (idle limits, quiet streams).
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Looks at the world outside this process until it is as wanted.
pub async fn eventually(limit: Duration, what: impl Display, mut look: impl FnMut() -> bool) {
    within(limit, what, async {
        let mut turn = tokio::time::interval(GLANCE);
        loop {
            turn.tick().await;
            if look() {
                return;
            }
        }
    })
    .await;
}

/// Does `work` and tells how long it took.
pub async fn timed<T>(work: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let value = work.await;
    (value, start.elapsed())
}

/// Wakes those who wait for a change of something that many read.
#[derive(Clone)]
pub struct Bell(Arc<watch::Sender<u64>>);

impl Bell {
    pub fn new() -> Self {
        Bell(Arc::new(watch::Sender::new(0)))
    }

    /// Something changed.
    pub fn ring(&self) {
        self.0.send_modify(|turn| *turn += 1);
    }

    /// Waits until `look` finds something; it is asked now and after each ring.
    pub async fn until<T>(
        &self,
        limit: Duration,
        what: impl Display,
        mut look: impl FnMut() -> Option<T>,
    ) -> T {
        let mut turns = self.0.subscribe();
        within(limit, what, async {
            loop {
                turns.mark_unchanged();
                if let Some(found) = look() {
                    return found;
                }
                turns.changed().await.expect("the bell outlives those who wait for it");
            }
        })
        .await
    }
}
