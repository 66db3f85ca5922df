//! One attempt at a time, whose outcome all who wait for it share (F-089).
//!
//! *On drop* of a waiter: the attempt goes on, so that the next one finds it further along.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use tokio::sync::oneshot;

use crate::base::tasks;
use crate::call::Fault;

/// Why an attempt failed: what clients are told, and what operators are.
#[derive(Debug, Clone)]
pub struct Failure {
    /// For clients.
    pub fault: Fault,
    /// For operators.
    pub detail: Arc<str>,
}

impl Failure {
    /// A failure that needs no more words for operators than for clients.
    #[must_use]
    pub fn plain(fault: Fault) -> Self {
        Self { detail: fault.to_string().into(), fault }
    }

    /// A failure with more to say to operators.
    #[must_use]
    pub fn detailed(fault: Fault, detail: impl std::fmt::Display) -> Self {
        Self { detail: detail.to_string().into(), fault }
    }
}

type Running<T> = Shared<BoxFuture<'static, Result<T, Failure>>>;

/// The attempt that is under way, if one is.
pub struct Flight<T> {
    running: Arc<Mutex<Option<Running<T>>>>,
}

impl<T> Default for Flight<T> {
    fn default() -> Self {
        Self { running: Arc::default() }
    }
}

impl<T: Clone + Send + Sync + 'static> Flight<T> {
    /// Joins the attempt that is under way, or begins one as a task.
    pub fn join<F>(&self, name: &'static str, begin: impl FnOnce() -> F) -> Running<T>
    where
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(running) = &*running {
            return running.clone();
        }
        let landing = Landing(Arc::clone(&self.running));
        let (tell, told) = oneshot::channel();
        let work = begin().map(move |outcome| {
            drop(landing);
            // All who waited may have gone.
            let _ = tell.send(outcome);
        });
        tasks::spawn(name, work).detach();
        let shared =
            told.map(|outcome| outcome.unwrap_or(Err(Failure::plain(Fault::Internal)))).boxed().shared();
        *running = Some(shared.clone());
        shared
    }
}

/// Makes room for the next attempt, however this one ended.
struct Landing<T>(Arc<Mutex<Option<Running<T>>>>);

impl<T> Drop for Landing<T> {
    fn drop(&mut self) {
        let done = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(done);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    /// F-089
    #[tokio::test]
    async fn f_089_all_who_wait_share_one_attempt() {
        let (flight, begun) = (Flight::<u32>::default(), Arc::new(AtomicU32::new(0)));
        let join = || {
            let begun = Arc::clone(&begun);
            flight.join("test", move || async move {
                tokio::task::yield_now().await;
                Ok(begun.fetch_add(1, Ordering::Relaxed))
            })
        };
        let waiters: Vec<_> = (0..50).map(|_| join()).collect();
        for waiter in waiters {
            assert_eq!(waiter.await.unwrap(), 0);
        }
        assert_eq!(join().await.unwrap(), 1, "the next one begins anew");
    }

    #[tokio::test]
    async fn an_attempt_outlives_who_began_it() {
        let (flight, (tell, told)) = (Flight::<()>::default(), tokio::sync::oneshot::channel());
        drop(flight.join("test", move || async move {
            tokio::task::yield_now().await;
            let _ = tell.send(());
            Ok(())
        }));
        told.await.unwrap();
    }
}
