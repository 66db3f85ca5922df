//! The table of clients' sessions: opened by `initialize`, found by a sealed id, ended by DELETE,
//! by idleness or with the process.
//!
//! *Invariants.* A session is found only by the principal and at the endpoint that opened it; to
//! anyone else it does not exist (HTTP-30). Nothing is kept for ids that are not in the table, so
//! invented ones cost nothing (F-092).
//! *Limits.* Sessions in all and per principal; an idle one ends (LIFE-27), and so does one that never
//! became ready (LIFE-07).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dashmap::DashMap;

use crate::base::seal::{Purpose, Ring};
use crate::base::{clock, ids};
use crate::call::{Attendant, Endpoint, Principal, Session, SessionKey};
use crate::config::snapshot::Sessions as Limits;
use crate::downstream::legacy::in_flight::InFlight;
use crate::downstream::legacy::outbox::Outbox;
use crate::downstream::legacy::store::{Bounds, Store};
use crate::mcp::capabilities::ClientCapabilities;
use crate::mcp::methods::ItemKind;
use crate::mcp::revision::Revision;
use crate::telemetry::events::downstream::{SessionGuard, SessionOpened};
use crate::telemetry::words::SessionEnd;

/// A client's session at the client shore.
#[derive(Debug)]
pub struct Entry {
    /// As the other stages see it.
    pub shared: Arc<Session>,
    /// Its calls without an answer.
    pub in_flight: Arc<InFlight>,
    /// The way to its client: streams, what they have to tell, open questions.
    pub outbox: Arc<Outbox>,
    /// What is given back when it ends.
    held: Mutex<Option<(SessionGuard, Place)>>,
}

impl Entry {
    /// Why it should end now, if it should.
    fn expired(&self, limits: &Limits) -> Option<SessionEnd> {
        if !self.in_flight.is_empty() || self.outbox.is_busy() {
            return None;
        }
        let (open, unused) = self.outbox.ages(clock::now());
        let half_open = !self.outbox.is_ready() && open >= limits.handshake;
        (half_open || unused >= limits.idle).then_some(SessionEnd::Idle)
    }
}

/// Why no session can be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// `portcullis.sessions.max`
    Total,
    /// `portcullis.sessions.perPrincipal`
    Principal,
}

/// How many sessions there are, also those that are about to be opened.
#[derive(Debug, Default)]
struct Taken {
    all: AtomicUsize,
    per_principal: DashMap<Arc<Principal>, usize>,
}

/// A place for one session of a principal.
///
/// *On drop*: it is free again.
#[derive(Debug)]
pub struct Place {
    taken: Arc<Taken>,
    who: Arc<Principal>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.all.fetch_sub(1, Ordering::Relaxed);
        self.taken.per_principal.alter(&self.who, |_, count| count.saturating_sub(1));
        self.taken.per_principal.remove_if(&self.who, |_, count| *count == 0);
    }
}

/// What a client and we have settled on before a session is opened.
pub struct Terms {
    /// Negotiated.
    pub revision: Revision,
    /// Who opens it.
    pub who: Arc<Principal>,
    /// Where.
    pub endpoint: Endpoint,
    /// What the client can be asked for.
    pub capabilities: ClientCapabilities,
    /// Whether it is on this machine.
    pub is_local: bool,
}

/// A session that is not in the table yet.
pub struct Proposed {
    /// As the other stages see it.
    pub shared: Arc<Session>,
    outbox: Arc<Outbox>,
}

/// The table of open sessions.
pub struct Sessions {
    limits: Limits,
    store: Arc<Store>,
    ring: Arc<Ring>,
    open: DashMap<Box<str>, Arc<Entry>>,
    taken: Arc<Taken>,
    attendant: Arc<dyn Attendant>,
}

const PURPOSE: Purpose = Purpose("session");

impl Sessions {
    /// An empty table. `attendant` is told of sessions that end.
    #[must_use]
    pub fn new(limits: Limits, bounds: Bounds, ring: Arc<Ring>, attendant: Arc<dyn Attendant>) -> Self {
        let (open, taken, store) = (DashMap::new(), Arc::default(), Store::new(bounds));
        Self { limits, store, ring, open, taken, attendant }
    }

    /// A session that is not in the table yet.
    #[must_use]
    pub fn propose(&self, terms: Terms) -> Proposed {
        let key = SessionKey(ids::random_bytes());
        let outbox = Outbox::new(key, terms.revision, self.store.clone());
        let mut session = Session::new(key, terms.revision, terms.who, terms.endpoint);
        session.capabilities = terms.capabilities;
        session.is_local = terms.is_local;
        session.client = outbox.clone();
        Proposed { shared: Arc::new(session), outbox }
    }

    /// Tells upstreams that a client's roots have changed, if it said that it could say so (ROOT-01).
    pub fn roots_changed(&self, session: &Arc<Session>) {
        if session.capabilities.roots_changed {
            self.attendant.roots_changed(session);
        }
    }

    /// Takes a place for one more session of this principal; none is over the limits, however many open at once.
    ///
    /// # Errors
    /// Which limit is reached.
    pub fn reserve(&self, who: &Arc<Principal>) -> Result<Place, Full> {
        let all = self.taken.all.fetch_add(1, Ordering::Relaxed);
        let own = {
            let mut own = self.taken.per_principal.entry(who.clone()).or_insert(0);
            *own += 1;
            *own
        };
        // What was taken beyond a limit is given back with the place.
        let place = Place { taken: self.taken.clone(), who: who.clone() };
        if all >= self.limits.max {
            return Err(Full::Total);
        }
        if own > self.limits.per_principal { Err(Full::Principal) } else { Ok(place) }
    }

    /// A new handle of this principal for something that is no session yet.
    #[must_use]
    pub fn handle(&self, purpose: Purpose, who: &Principal) -> Box<str> {
        self.seal(purpose, who, &ids::random_bytes::<16>())
    }

    fn seal(&self, purpose: Purpose, who: &Principal, text: &[u8]) -> Box<str> {
        self.ring.seal(purpose, &who.tenant, &[who.name.as_bytes()], text).into_boxed_str()
    }

    /// Puts a session into the table, in its place, and gives its sealed id (HTTP-25, R-06).
    pub fn open(&self, place: Place, proposed: Proposed, opened: SessionOpened<'_>) -> Box<str> {
        let Proposed { shared, outbox } = proposed;
        let id = self.seal(PURPOSE, &shared.who, &shared.key.0);
        let entry = Entry {
            shared,
            in_flight: InFlight::new(outbox.clone()),
            outbox,
            held: Mutex::new(Some((opened.emit(), place))),
        };
        self.open.insert(id.clone(), Arc::new(entry));
        id
    }

    /// The session with this id, if it is this caller's at this endpoint (HTTP-30, SEC-22).
    #[must_use]
    pub fn find(&self, id: &str, who: &Principal, endpoint: Endpoint) -> Option<Arc<Entry>> {
        let entry = self.open.get(id)?.value().clone();
        if *entry.shared.who != *who || entry.shared.endpoint != endpoint {
            return None;
        }
        entry.outbox.touch();
        Some(entry)
    }

    /// Ends a session: its calls are cancelled, its streams end, what it held upstream is released (LIFE-21).
    pub fn close(&self, id: &str, end: SessionEnd) {
        let Some((_, entry)) = self.open.remove(id) else { return };
        entry.shared.ended.cancel();
        entry.in_flight.cancel_all();
        entry.outbox.close();
        // Given back now, whoever still holds the entry.
        let held = entry.held.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((guard, _place)) = held {
            guard.close(end);
        }
        self.attendant.ended(&entry.shared);
    }

    /// Ends those that are idle, and drops what the others need no longer keep; called at intervals.
    pub fn sweep(&self) {
        let now = clock::now();
        self.open.iter().for_each(|entry| entry.outbox.expire(now));
        let expired = |entry: dashmap::mapref::multiple::RefMulti<'_, Box<str>, Arc<Entry>>| {
            entry.expired(&self.limits).map(|end| (entry.key().clone(), end))
        };
        let over: Vec<_> = self.open.iter().filter_map(expired).collect();
        for (id, end) in over {
            self.close(&id, end);
        }
    }

    /// How often to sweep: often enough that an idle session outlives its limit by a fifth at most.
    #[must_use]
    pub fn sweep_interval(&self) -> Duration {
        (self.limits.idle.min(self.limits.handshake) / 5)
            .clamp(Duration::from_millis(100), Duration::from_secs(15))
    }

    /// Ends all, when the process stops.
    pub fn close_all(&self) {
        let ids: Vec<_> = self.open.iter().map(|entry| entry.key().clone()).collect();
        for id in ids {
            self.close(&id, SessionEnd::Drained);
        }
    }

    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Whether no call is in flight.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.open.iter().all(|entry| entry.in_flight.is_empty())
    }

    /// Ends the calls that are still in flight, when the grace period is over (F-098); says how many.
    pub fn stop_calls(&self) -> usize {
        let stop = |entry: dashmap::mapref::multiple::RefMulti<'_, Box<str>, Arc<Entry>>| {
            let calls = entry.in_flight.len();
            entry.in_flight.stop_all();
            calls
        };
        self.open.iter().map(stop).sum()
    }

    /// Ends all standing streams cleanly, when draining begins (F-098). One that is its session's only way back is left
    /// to the answers of its calls.
    pub fn end_streams(&self) {
        for entry in &self.open {
            if !entry.outbox.is_attached() || entry.in_flight.is_empty() {
                entry.outbox.end_standing();
            }
        }
    }
}

impl crate::call::Audience for Sessions {
    fn list_changed(&self, endpoint: Endpoint, kind: ItemKind) {
        for entry in &self.open {
            if entry.shared.endpoint == endpoint {
                entry.outbox.list_changed(kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::Proof;

    struct Nobody;

    impl Attendant for Nobody {
        fn roots_changed(&self, _: &Arc<Session>) {}

        fn ended(&self, _: &Arc<Session>) {}
    }

    /// F-092: places are taken before the handshake, so that many at once stay within the limits too.
    #[test]
    fn f_092_sessions_about_to_open_count() {
        let limits = Limits { max: 3, per_principal: 2, ..Limits::default() };
        let ring = Arc::new(Ring::random());
        let bounds = Bounds { bytes: 0, age: Duration::ZERO, questions: 0 };
        let sessions = Sessions::new(limits, bounds, ring, Arc::new(Nobody));
        let [one, two] = ["one", "two"].map(|name| Arc::new(Principal::new(name, Proof::ApiKey)));
        let (first, second) = (sessions.reserve(&one).unwrap(), sessions.reserve(&one).unwrap());
        assert_eq!(sessions.reserve(&one).unwrap_err(), Full::Principal);
        let third = sessions.reserve(&two).unwrap();
        assert_eq!(sessions.reserve(&two).unwrap_err(), Full::Total);
        drop(first);
        let session = sessions.propose(Terms {
            revision: Revision::LATEST,
            who: one.clone(),
            endpoint: Endpoint::Merged,
            capabilities: ClientCapabilities::default(),
            is_local: true,
        });
        let opened =
            SessionOpened { revision: Revision::LATEST, client: "c", client_version: "1", endpoint: "/mcp" };
        let id = sessions.open(sessions.reserve(&one).unwrap(), session, opened);
        assert!(sessions.reserve(&one).is_err());
        sessions.close(&id, SessionEnd::Deleted);
        drop((second, third));
        assert!(sessions.taken.per_principal.is_empty());
        assert_eq!(sessions.taken.all.load(Ordering::Relaxed), 0);
    }
}
