//! The calls of a session that have no answer yet, by the client's own ids.
//!
//! *Invariants.* An id is in flight at most once (RPC-02). A call is cancelled only by its own
//! session, by its own id (CANC-01).
//! *Limits.* [`caps::CALLS_PER_SESSION`]; a call counts until its answer was written, whoever still waits for it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Notify;

use crate::base::caps;
use crate::call::Course;
use crate::downstream::legacy::outbox::Outbox;
use crate::jsonrpc::Id;

/// The calls in flight of one session.
#[derive(Debug)]
pub struct InFlight {
    calls: Mutex<HashMap<Id, Arc<Cancel>>>,
    outbox: Arc<Outbox>,
    emptied: Notify,
}

/// Whether a call was cancelled, and waking for who waits for that.
#[derive(Debug, Default)]
pub struct Cancel {
    set: AtomicBool,
    stopping: AtomicBool,
    wake: Notify,
    course: OnceLock<Arc<Course>>,
}

impl Cancel {
    fn set(&self) {
        self.set.store(true, Ordering::Release);
        self.wake.notify_waiters();
    }

    /// Ties it to what is known of its call.
    pub fn follows(&self, course: Arc<Course>) {
        // A call has one course.
        let _ = self.course.set(course);
    }

    /// What is known of its call, once there is one.
    #[must_use]
    pub fn course(&self) -> Option<&Arc<Course>> {
        self.course.get()
    }

    /// Whether it is the gateway that stops, so that the client is owed an error.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits for the cancellation. Safe to cancel.
    pub async fn cancelled(&self) {
        loop {
            // Registered before the flag is read, so that no wake is missed.
            let wake = self.wake.notified();
            if self.set.load(Ordering::Acquire) {
                return;
            }
            wake.await;
        }
    }
}

/// Why a call cannot begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// Its id is in flight already.
    InUse,
    /// Too many are in flight.
    Full,
}

impl InFlight {
    /// None is in flight; `outbox` is the way to the client that all of them have.
    #[must_use]
    pub fn new(outbox: Arc<Outbox>) -> Arc<Self> {
        Arc::new(Self { calls: Mutex::default(), outbox, emptied: Notify::new() })
    }

    /// Notes that a call began.
    ///
    /// # Errors
    /// Why it must not.
    pub fn begin(self: &Arc<Self>, id: Id) -> Result<Ticket, Unfit> {
        let cancel = Arc::new(Cancel::default());
        let mut calls = self.lock();
        if calls.contains_key(&id) {
            return Err(Unfit::InUse);
        }
        if calls.len() >= caps::CALLS_PER_SESSION {
            return Err(Unfit::Full);
        }
        calls.insert(id.clone(), cancel.clone());
        drop(calls);
        Ok(Ticket { id, cancel, calls: self.clone() })
    }

    /// Cancels the call with this id, for the client's reason; unknown ones are ignored (CANC-01).
    pub fn cancel(&self, id: &Id, reason: Option<&str>) {
        if let Some(cancel) = self.lock().get(id) {
            if let (Some(reason), Some(course)) = (reason, cancel.course.get()) {
                course.cancelled_for(reason);
            }
            cancel.set();
        }
    }

    /// Cancels all, at the end of the session (LIFE-21).
    pub fn cancel_all(&self) {
        for cancel in self.lock().values() {
            cancel.set();
        }
    }

    /// Ends all with an error, when the process stops (F-098).
    pub fn stop_all(&self) {
        for cancel in self.lock().values() {
            cancel.stopping.store(true, Ordering::Release);
            cancel.set();
        }
    }

    /// How many are in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether none is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Waits until none is in flight. Safe to cancel.
    pub async fn emptied(&self) {
        loop {
            // Registered before the look, so that no wake is missed.
            let emptied = self.emptied.notified();
            if self.is_empty() {
                return;
            }
            emptied.await;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Id, Arc<Cancel>>> {
        // A panic while the lock was held cannot have left the map half changed.
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call in flight.
///
/// *On drop*: its id is free again.
#[derive(Debug)]
pub struct Ticket {
    id: Id,
    cancel: Arc<Cancel>,
    calls: Arc<InFlight>,
}

impl Ticket {
    /// The client's id.
    #[must_use]
    pub fn id(&self) -> &Id {
        &self.id
    }

    /// What cancels it.
    #[must_use]
    pub fn cancel(&self) -> &Arc<Cancel> {
        &self.cancel
    }

    /// The way to the client, for what precedes the answer.
    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        &self.calls.outbox
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut calls = self.calls.lock();
        calls.remove(&self.id);
        if calls.is_empty() {
            self.calls.emptied.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::downstream::legacy::outbox::tests::outbox;
    use crate::mcp::revision::Revision;

    fn calls() -> Arc<InFlight> {
        InFlight::new(outbox(Revision::LATEST))
    }

    fn id(text: &'static str) -> Id {
        Id::parse(Bytes::from(text)).unwrap()
    }

    /// RPC-02, RPC-07: `1` and `"1"` are two ids; one in flight is refused, a finished one is free.
    #[test]
    fn an_id_is_in_flight_once() {
        let calls = calls();
        let first = calls.begin(id("1")).unwrap();
        assert_eq!(calls.begin(id("1")).unwrap_err(), Unfit::InUse);
        assert!(calls.begin(id("\"1\"")).is_ok());
        drop(first);
        assert!(calls.begin(id("1")).is_ok());
    }

    #[tokio::test]
    async fn whoever_waits_for_the_last_call_is_woken_by_it() {
        let calls = calls();
        calls.emptied().await;
        let (one, two) = (calls.begin(id("1")).unwrap(), calls.begin(id("2")).unwrap());
        let mut waiting = Box::pin(calls.emptied());
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        drop(one);
        assert!(futures_util::FutureExt::now_or_never(&mut waiting).is_none());
        drop(two);
        waiting.await;
    }

    /// OPS-03
    #[test]
    fn ops_03_calls_of_a_session_are_bounded() {
        let calls = calls();
        let begin = |number: usize| calls.begin(Id::parse(Bytes::from(number.to_string())).unwrap());
        let mut held: Vec<_> = (0..caps::CALLS_PER_SESSION).map(|number| begin(number).unwrap()).collect();
        assert_eq!(begin(usize::MAX).unwrap_err(), Unfit::Full);
        held.pop();
        assert!(begin(usize::MAX).is_ok());
    }

    /// CANC-01
    #[tokio::test]
    async fn cancelling_reaches_that_call_only() {
        let calls = calls();
        let (one, two) = (calls.begin(id("1")).unwrap(), calls.begin(id("2")).unwrap());
        calls.cancel(&id("1"), Some("enough"));
        calls.cancel(&id("3"), None);
        one.cancel().cancelled().await;
        assert!(futures_util::FutureExt::now_or_never(two.cancel().cancelled()).is_none());
        calls.cancel_all();
        two.cancel().cancelled().await;
    }
}
