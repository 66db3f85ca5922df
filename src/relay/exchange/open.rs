//! What each session has open with its upstreams.
//!
//! *Invariants.* Nothing is kept for a session that has ended, whatever comes for it afterwards (LIFE-21).

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use dashmap::{DashMap, Entry};

use crate::call::{Session, SessionKey};
use crate::relay::exchange::pages::Pages;
use crate::relay::exchange::roots::Roots;
use crate::relay::logs::Budgets;

/// What one session has open; made when something is.
#[derive(Default)]
pub struct Exchange {
    /// Its client's roots.
    pub roots: Arc<Roots>,
    /// The session itself, once it wants to hear of the gateway.
    pub listener: OnceLock<Weak<Session>>,
    pages: Mutex<Pages>,
    budgets: Mutex<Budgets>,
}

impl Exchange {
    /// The pages that its user was sent to.
    pub fn pages(&self) -> MutexGuard<'_, Pages> {
        // A panic while the lock was held cannot have left them half changed; the same holds below.
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The log messages that it takes.
    pub fn budgets(&self) -> MutexGuard<'_, Budgets> {
        self.budgets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all sessions have open.
#[derive(Default)]
pub struct Exchanges(DashMap<SessionKey, Arc<Exchange>>);

impl Exchanges {
    /// What a session has open, made if need be; none when it has ended.
    #[must_use]
    pub fn of(&self, session: &Session) -> Option<Arc<Exchange>> {
        if let Some(found) = self.known(session) {
            return Some(found);
        }
        match self.0.entry(session.key) {
            Entry::Occupied(found) => Some(Arc::clone(found.get())),
            // A session is marked as ended first and removed here then, so what is put in now will be removed.
            Entry::Vacant(_) if session.ended.is_cancelled() => None,
            Entry::Vacant(place) => Some(Arc::clone(&place.insert(Arc::default()))),
        }
    }

    /// What a session has open, if anything.
    #[must_use]
    pub fn known(&self, session: &Session) -> Option<Arc<Exchange>> {
        self.0.get(&session.key).map(|found| Arc::clone(&found))
    }

    /// The sessions that want to hear of the gateway.
    #[must_use]
    pub fn listeners(&self) -> Vec<Arc<Session>> {
        // Collected, so that nothing is locked while they are told.
        self.0.iter().filter_map(|exchange| exchange.listener.get()?.upgrade()).collect()
    }

    /// Forgets a session that has ended.
    pub fn ended(&self, session: &Session) {
        self.0.remove(&session.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Endpoint, Principal};
    use crate::mcp::revision::Revision;

    /// LIFE-21
    #[test]
    fn life_21_nothing_is_kept_for_a_session_that_has_ended() {
        let who = Arc::new(Principal::anonymous());
        let session = |n| Session::new(SessionKey([n; 16]), Revision::LATEST, who.clone(), Endpoint::Merged);
        let (one, other) = (session(1), session(2));
        let exchanges = Exchanges::default();
        assert!(exchanges.known(&one).is_none());
        let first = exchanges.of(&one).unwrap();
        assert!(Arc::ptr_eq(&first, &exchanges.of(&one).unwrap()));
        assert!(!Arc::ptr_eq(&first, &exchanges.of(&other).unwrap()));
        one.ended.cancel();
        exchanges.ended(&one);
        assert!(exchanges.of(&one).is_none());
        assert_eq!(exchanges.0.len(), 1);
    }
}
