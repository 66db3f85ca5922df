//! Waits that hardly ever come to their end, such as the limits of a call: cheap to begin and to give up, and up to
//! [`TICK`] late.
//!
//! A timer of the run time is entered and removed for each wait, and rouses the run time's thread whenever it is the
//! next one due, which at a gateway is with nearly every call. Here all waits of a thread share one timer that ticks
//! while there are new ones.
//!
//! *Invariants:* a wait ends at or after its moment. Nothing ticks where nothing was begun for a second or so: then the
//! one timer sleeps up to the next moment due, or ends.
//! *On drop* of a wait: it is forgotten.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};
use std::time::{Duration, Instant};

use slab::Slab;
use tokio::sync::Notify;

use crate::base::clock::{self, Elapsed};
use crate::base::tasks;

/// How late a wait may end.
pub const TICK: Duration = Duration::from_millis(20);

/// Ticks without a new wait after which there are no more.
const QUIET: u32 = 50;

thread_local! {
    static MINE: Arc<Ticker> = Arc::default();
}

#[derive(Default)]
struct Ticker {
    waits: Mutex<Waits>,
    roused: Notify,
}

#[derive(Default)]
struct Waits {
    open: Slab<Open>,
    pace: Pace,
    /// There was a new one since the last tick.
    fresh: bool,
}

struct Open {
    at: Instant,
    /// None once its moment has come.
    waker: Option<Waker>,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// There is no timer.
    #[default]
    Still,
    /// The timer sleeps up to the next moment due.
    Resting,
    Ticking,
}

impl Ticker {
    fn lock(&self) -> MutexGuard<'_, Waits> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(self: &Arc<Self>, at: Instant, waker: &Waker) -> usize {
        let (key, before) = {
            let mut waits = self.lock();
            waits.fresh = true;
            let key = waits.open.insert(Open { at, waker: Some(waker.clone()) });
            (key, std::mem::replace(&mut waits.pace, Pace::Ticking))
        };
        match before {
            Pace::Still => {
                let mut timer = Timer(Some(Arc::clone(self)));
                tasks::spawn("ticks", async move { timer.run().await }).detach();
            }
            Pace::Resting => self.roused.notify_one(),
            Pace::Ticking => {}
        }
        key
    }

    async fn tick(&self) {
        let mut quiet = 0;
        loop {
            clock::sleep(TICK).await;
            quiet = if self.wake_due(clock::now()) { 0 } else { quiet + 1 };
            if quiet < QUIET {
                continue;
            }
            let Some(next) = self.rest() else { return };
            // Roused or not, there is the next tick.
            let _ = clock::within(next, self.roused.notified()).await;
            self.lock().pace = Pace::Ticking;
            quiet = 0;
        }
    }

    /// Wakes whose moment has come; says whether there were new waits.
    fn wake_due(&self, now: Instant) -> bool {
        let (due, fresh) = {
            let mut waits = self.lock();
            let due: Vec<_> = waits
                .open
                .iter_mut()
                .filter(|(_, open)| open.at <= now)
                .filter_map(|(_, open)| open.waker.take())
                .collect();
            (due, std::mem::take(&mut waits.fresh))
        };
        due.into_iter().for_each(Waker::wake);
        fresh
    }

    /// Ticks no more; gives the next moment due, or none if the timer is to end.
    fn rest(&self) -> Option<Instant> {
        let mut waits = self.lock();
        let next = waits.open.iter().filter(|(_, open)| open.waker.is_some()).map(|(_, open)| open.at).min();
        waits.pace = if next.is_some() { Pace::Resting } else { Pace::Still };
        next
    }
}

/// The timer's task. Where a run time ends before it, the next one on this thread begins anew.
struct Timer(Option<Arc<Ticker>>);

impl Timer {
    async fn run(&mut self) {
        if let Some(ticker) = &self.0 {
            ticker.tick().await;
        }
        // It ended by itself, and another one may run by now.
        self.0 = None;
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let Some(ticker) = &self.0 {
            ticker.lock().pace = Pace::Still;
        }
    }
}

/// A wait; see [`until`].
pub struct Wait {
    at: Instant,
    begun: Option<(Arc<Ticker>, usize)>,
}

/// Waits for a moment, and up to [`TICK`] longer. Safe to cancel.
#[must_use]
pub fn until(at: Instant) -> Wait {
    Wait { at, begun: None }
}

impl Future for Wait {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Some((ticker, key)) = &self.begun else {
            if self.at <= clock::now() {
                return Poll::Ready(());
            }
            let ticker = MINE.with(Arc::clone);
            let key = ticker.begin(self.at, cx.waker());
            self.begun = Some((ticker, key));
            return Poll::Pending;
        };
        let mut waits = ticker.lock();
        match waits.open.get_mut(*key).and_then(|open| open.waker.as_mut()) {
            Some(waker) => {
                waker.clone_from(cx.waker());
                Poll::Pending
            }
            None => Poll::Ready(()),
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        if let Some((ticker, key)) = self.begun.take() {
            let gone = ticker.lock().open.try_remove(key);
            drop(gone);
        }
    }
}

/// Runs `work` until it is done or a moment has passed by up to [`TICK`]; then the caller drops `work`.
///
/// # Errors
///
/// [`Elapsed`] if the moment came first. Work that is ready at once never fails.
pub fn within<F: Future>(at: Instant, work: F) -> impl Future<Output = Result<F::Output, Elapsed>> {
    renewable(at, work, || None)
}

/// As [`within`], but at the moment `renew` is asked for a later one.
///
/// # Errors
///
/// [`Elapsed`] once `renew` knows none. Work that is ready at once never fails.
pub fn renewable<F: Future, R: FnMut() -> Option<Instant>>(
    at: Instant,
    work: F,
    renew: R,
) -> impl Future<Output = Result<F::Output, Elapsed>> {
    Within { work, wait: until(at), renew }
}

pin_project_lite::pin_project! {
    struct Within<F, R> {
        #[pin]
        work: F,
        wait: Wait,
        renew: R,
    }
}

impl<F: Future, R: FnMut() -> Option<Instant>> Future for Within<F, R> {
    type Output = Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(output) = this.work.poll(cx) {
            return Poll::Ready(Ok(output));
        }
        loop {
            ready!(Pin::new(&mut *this.wait).poll(cx));
            match (this.renew)() {
                Some(at) => *this.wait = until(at),
                None => return Poll::Ready(Err(Elapsed)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use futures_util::future::join_all;

    use super::*;

    fn pace() -> Pace {
        MINE.with(|ticker| ticker.lock().pace)
    }

    fn open() -> usize {
        MINE.with(|ticker| ticker.lock().open.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_wait_is_never_short_and_hardly_late() {
        let start = clock::now();
        let waits = [1_u64, 19, 20, 100, 101, 5_000, 300_000].map(|ms| async move {
            let at = start + Duration::from_millis(ms);
            until(at).await;
            (at, clock::now())
        });
        for (at, ended) in join_all(waits).await {
            assert!(at <= ended && ended <= at + TICK + Duration::from_millis(1), "{at:?} {ended:?}");
        }
        until(start).await;
        assert_eq!(open(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn work_wins_over_its_limit() {
        let now = clock::now();
        assert_eq!(within(now, ready(1)).await, Ok(1));
        let slept = clock::sleep(Duration::from_millis(90));
        assert_eq!(within(now + Duration::from_millis(100), slept).await, Ok(()));
        assert_eq!(within(clock::now() + TICK, pending::<()>()).await, Err(Elapsed));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_given_up_is_forgotten() {
        let far = clock::now() + Duration::from_secs(60);
        for _ in 0..10 {
            let wait = clock::within(Duration::from_millis(5), until(far)).await;
            assert_eq!(wait, Err(Elapsed));
        }
        assert_eq!(open(), 0);
        clock::sleep(TICK * (QUIET + 2)).await;
        assert!(pace() == Pace::Still, "nothing ticks where nobody waits");
    }

    /// A long wait alone costs no ticks, and a short one that comes meanwhile is not held up by it.
    #[tokio::test(start_paused = true)]
    async fn a_long_wait_rests_and_a_short_one_rouses() {
        let start = clock::now();
        let long = async {
            until(start + Duration::from_secs(600)).await;
            clock::now()
        };
        let short = async {
            clock::sleep(Duration::from_secs(300)).await;
            assert!(pace() == Pace::Resting);
            let at = clock::now() + Duration::from_millis(100);
            until(at).await;
            (at, clock::now())
        };
        let (long, (at, ended)) = tokio::join!(long, short);
        assert!(at <= ended && ended <= at + TICK + Duration::from_millis(1));
        assert!(long >= start + Duration::from_secs(600) && long <= start + Duration::from_secs(601));
    }

    /// One run time after the other on the same thread, as tests have them.
    #[test]
    fn the_next_run_time_begins_anew() {
        for _ in 0..2 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                until(clock::now() + Duration::from_millis(1)).await;
            });
            drop(runtime);
            assert!(pace() == Pace::Still);
        }
    }

    /// A wait that is renewed goes on to the later moment, and no further.
    #[tokio::test(start_paused = true)]
    async fn a_wait_is_renewed_until_there_is_no_later_moment() {
        let began = clock::now();
        let mut later = [3, 5].into_iter().map(|seconds| began + Duration::from_secs(seconds));
        let late = renewable(began + Duration::from_secs(1), pending::<()>(), || later.next()).await;
        assert!(late.is_err());
        let took = clock::now() - began;
        assert!(took >= Duration::from_secs(5) && took < Duration::from_secs(6), "{took:?}");
    }
}
