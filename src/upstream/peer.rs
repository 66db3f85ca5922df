//! One upstream: its connections by whose they are, its breaker, its limits, its state.
//!
//! *Invariants.* Connections of one key are opened one at a time, and all who wait share the outcome
//! (F-089). What belongs to a session ends with it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::Semaphore;

use crate::base::{clock, tasks};
use crate::call::{Fault, LogLevel, Purpose, Session, SessionKey};
use crate::config::snapshot::{Isolation, Upstream};
use crate::mcp::revision::Revision;
use crate::telemetry::words::UpstreamCondition;
use crate::upstream::blame::Blame;
use crate::upstream::condition::Condition;
use crate::upstream::connection::{Connection, Transport};
use crate::upstream::flight::Failure;
use crate::upstream::health::Breaker;
use crate::upstream::http::way::Way;
use crate::upstream::key::Key;
use crate::upstream::offer::{self, Offer, Policy};
use crate::upstream::patron::{Manner, Patron};
use crate::upstream::report::Report;
use crate::upstream::slot::Slot;
use crate::upstream::starts::{Kin, Want, own_tenant};
use crate::upstream::unbound::Unbound;

/// Calls to one upstream that may be under way at once; more wait for their turn.
///
/// Far above what one server handles well, and low enough that its calls cannot use up the descriptors.
pub const CALLS: usize = 1024;

/// How long a connection gets to end when nobody waits for it.
const FAREWELL: Duration = Duration::from_secs(10);

/// How an upstream is reached.
pub enum Road {
    /// On the network.
    Http(Arc<Way>),
    /// As a child.
    Stdio(Box<Kin>),
    /// Not at all, for this reason, which the operator can mend.
    None(String),
}

/// One upstream.
pub struct Peer {
    /// Its entry in the configuration.
    pub config: Arc<Upstream>,
    /// How it is reached.
    pub road: Road,
    /// When it is left alone.
    pub breaker: Arc<Breaker>,
    /// How it is.
    pub condition: Arc<Condition>,
    /// Names it in faults.
    pub blame: Blame,
    /// Tells of it.
    pub report: Report,
    /// How many calls may be under way.
    pub permits: Arc<Semaphore>,
    /// What it may ask whom for.
    pub policy: Policy,
    slots: DashMap<Key, Arc<Slot>>,
    /// The log levels that sessions asked for which share a connection.
    levels: Mutex<HashMap<SessionKey, LogLevel>>,
    /// Whether it issues session ids: not known, yes, no.
    sessions: AtomicU8,
    /// Connections that are ending.
    ending: tasks::Group,
    /// Nothing is opened any more.
    stopped: AtomicBool,
    /// A session has taken over the catalog's connection before.
    adopted: AtomicBool,
}

const UNKNOWN: u8 = 0;
const ISSUES: u8 = 1;
const ISSUES_NONE: u8 = 2;

impl Peer {
    /// An upstream without connections.
    #[must_use]
    pub fn new(
        config: Arc<Upstream>,
        road: Road,
        health: crate::upstream::http::post::Health,
        ending: tasks::Group,
    ) -> Self {
        let blame = Blame::new(Arc::clone(&config.name));
        let policy = Policy::of(&config);
        Self {
            config,
            road,
            breaker: health.breaker,
            condition: health.condition,
            blame,
            report: health.report,
            permits: Arc::new(Semaphore::new(CALLS)),
            policy,
            slots: DashMap::new(),
            levels: Mutex::default(),
            sessions: AtomicU8::new(UNKNOWN),
            ending,
            stopped: AtomicBool::new(false),
            adopted: AtomicBool::new(false),
        }
    }

    /// Who shares a connection (R-10).
    fn isolation(&self) -> Isolation {
        self.config.isolation.unwrap_or(match self.road {
            Road::Http(_) if self.sessions.load(Ordering::Relaxed) == ISSUES_NONE => Isolation::Shared,
            _ => Isolation::Session,
        })
    }

    /// What an upstream is offered: a session's connection speaks the session's revision, and for its client
    /// (LIFE-14, LIFE-16).
    fn offer(&self, key: &Key, purpose: &Purpose) -> Offer {
        match (key, key.owner(purpose)) {
            (_, Some(owner)) => Offer { revision: owner.revision, capabilities: self.policy.toward(owner) },
            (Key::Shared, None) => offer::of_catalog(self.isolation(), &self.policy),
            _ => offer::of_catalog(Isolation::Shared, &self.policy),
        }
    }

    /// The connection for a call, opened if need be; the caller sets the deadline.
    ///
    /// *On drop:* the opening goes on, for the next who asks.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn connection(self: &Arc<Self>, purpose: &Purpose) -> Result<Arc<Connection>, Failure> {
        let key = Key::of(purpose, self.isolation());
        let slot = match self.slots.get(&key) {
            Some(slot) => Arc::clone(&slot),
            None => Arc::clone(&self.slots.entry(key.clone()).or_default()),
        };
        if let Some(connection) = slot.current() {
            return Ok(connection);
        }
        let (this, purpose, place) = (Arc::clone(self), purpose.clone(), Arc::clone(&slot));
        let opening = slot.opening.join("upstream opening", move || async move {
            let opened = this.fill(&place, &key, &purpose).await;
            // A session that ended meanwhile has been released already, and will not be again; its slot may be
            // out of the map by then.
            let ended = key.owner(&purpose).is_some_and(|owner| owner.ended.is_cancelled());
            if ended {
                this.forget(&key);
            }
            if ended || this.stopped.load(Ordering::Relaxed) {
                this.retire(&place);
            }
            opened
        });
        opening.await
    }

    /// Puts a connection into a slot that has none.
    async fn fill(
        self: &Arc<Self>,
        place: &Slot,
        key: &Key,
        purpose: &Purpose,
    ) -> Result<Arc<Connection>, Failure> {
        // Someone else's attempt may have ended between the look and the join.
        if let Some(connection) = place.current() {
            return Ok(connection);
        }
        if let Some(connection) = self.adopt(place, key, purpose).await {
            *place.lock() = Some(Arc::clone(&connection));
            return Ok(connection);
        }
        if self.stopped.load(Ordering::Relaxed) {
            return Err(Failure::plain(Fault::Stopping));
        }
        let lost = place.lock().take();
        let loss = lost.as_ref().and_then(|connection| connection.loss());
        if let Some(loss) = loss {
            self.condition.lost(&loss.why);
        }
        let told = matches!(self.road, Road::Stdio(_)).then_some(&self.report);
        place.crashes.pause(loss, &self.blame, told).await?;
        drop(lost);
        let opened = self.open(place, key, purpose).await;
        place.crashes.opened(opened.is_ok());
        let connection = opened?;
        *place.lock() = Some(Arc::clone(&connection));
        self.lend(key, purpose, &connection);
        Ok(connection)
    }

    /// The catalog's connection becomes the first session's, if it has answered nothing but lists and speaks
    /// what the session speaks (R-11). The catalog goes on using it until the session ends.
    async fn adopt(&self, place: &Slot, key: &Key, purpose: &Purpose) -> Option<Arc<Connection>> {
        let (Key::Session(_), Purpose::Session(session)) = (key, purpose) else { return None };
        let slot = Arc::clone(&*self.slots.get(&Key::Shared)?);
        let shared = slot.current()?;
        let revision = shared.handshake().revision;
        // An upstream that answered the latest revision with an older one would answer the session's so, too. It has
        // to have been told of just what this client can be asked for (LIFE-14).
        let shown = shared.patron().shown.within(revision);
        if revision > session.revision || shown != self.policy.toward(session).within(revision) {
            return None;
        }
        // Where no process is saved, once is enough: lists would be read anew after each short session.
        let again = matches!(self.road, Road::Http(_)) && self.adopted.swap(true, Ordering::Relaxed);
        if again || !shared.adopt(session) {
            return None;
        }
        slot.hand_over(place);
        shared.replay().await;
        Some(shared)
    }

    /// A child that was opened while the catalog had none: what the catalog knows may be old by now, and it reads
    /// over this child rather than start another, unless the revision, or what its client cannot be asked for, would
    /// hide something from it (R-11).
    fn lend(&self, key: &Key, purpose: &Purpose, connection: &Arc<Connection>) {
        let Road::Stdio(kin) = &self.road else { return };
        let (offered, wanted) = (self.offer(key, purpose), self.offer(&Key::Shared, &Purpose::Catalog));
        if *key == Key::Shared || offered.capabilities.and(wanted.capabilities) != wanted.capabilities {
            return;
        }
        let shared = Arc::clone(&self.slots.entry(Key::Shared).or_default());
        let mut shared = shared.lock();
        if shared.as_ref().is_some_and(|connection| !connection.is_closed()) {
            return;
        }
        if offered.revision == Revision::LATEST || connection.handshake().revision < offered.revision {
            *shared = Some(Arc::clone(connection));
        }
        drop(shared);
        kin.unbound.reconnected();
    }

    /// Whom a connection will work for.
    fn patron(
        &self,
        place: &Slot,
        unbound: &Unbound,
        offered: Offer,
        owner: Option<&Arc<Session>>,
    ) -> Arc<Patron> {
        let manner = Manner {
            shown: offered.capabilities,
            policy: self.policy,
            patience: self.config.timeouts.question,
            subscriptions: place.subscriptions(),
        };
        Arc::new(Patron::new(manner, unbound.clone(), owner.cloned()))
    }

    async fn open(
        self: &Arc<Self>,
        place: &Slot,
        key: &Key,
        purpose: &Purpose,
    ) -> Result<Arc<Connection>, Failure> {
        let owner = key.owner(purpose);
        let offered = self.offer(key, purpose);
        let opened = match &self.road {
            Road::Http(way) => {
                let patron = self.patron(place, &way.unbound, offered, owner);
                Transport::on_the_network(way, offered.revision, patron, *key == Key::Shared).await
            }
            Road::Stdio(kin) => {
                let tenant = match purpose {
                    Purpose::Session(session) => Arc::clone(&session.who.tenant),
                    Purpose::Catalog => own_tenant(),
                };
                let serves_catalog = *key == Key::Shared;
                let patron = self.patron(place, &kin.unbound, offered, owner);
                let want = Want { tenant, offered: offered.revision, patron, serves_catalog };
                kin.open(want).await.map(Transport::Stdio)
            }
            Road::None(why) => Err(Failure::plain(self.blame.unsent(why.clone()))),
        };
        match opened {
            Ok(transport) => {
                let connection = Connection::new(transport, self.report.connection());
                self.met(&connection);
                if *key != Key::Shared {
                    // It is its session's from the start.
                    connection.spend();
                }
                if owner.is_none()
                    && let Some(level) = self.widest_level()
                {
                    connection.set_log_level(level).await;
                }
                Ok(Arc::new(connection))
            }
            Err(failure) => {
                self.report.handshake_failed(&failure.detail, self.condition.status().state);
                if !self.breaker.is_open() {
                    self.condition.set(UpstreamCondition::Down, &failure.detail);
                }
                Err(failure)
            }
        }
    }

    fn met(&self, connection: &Connection) {
        let sessions = if connection.has_session() { ISSUES } else { ISSUES_NONE };
        self.sessions.store(sessions, Ordering::Relaxed);
        self.condition.ready(connection.handshake().revision);
    }

    /// Tells the session's connection its log level. One on the network that logs is opened for that; a child learns it
    /// when it is started (LOG-02).
    pub async fn set_log_level(self: Arc<Self>, session: Arc<Session>) {
        let Some(level) = session.log_level() else { return };
        let purpose = Purpose::Session(Arc::clone(&session));
        let key = Key::of(&purpose, self.isolation());
        let open = self.current(&key);
        if key.owner(&purpose).is_none() {
            self.levels().insert(session.key, level);
            if let (Some(connection), Some(widest)) = (open, self.widest_level()) {
                connection.set_log_level(widest).await;
            }
        } else if let Some(connection) = open {
            connection.set_log_level(level).await;
        } else if self.logs_on_the_network() {
            // It is told while it opens. Whether it opens or not is for calls to report.
            let _ = self.connection(&purpose).await;
        }
    }

    fn logs_on_the_network(&self) -> bool {
        let logs = |connection: Arc<Connection>| connection.handshake().capabilities.logging;
        matches!(self.road, Road::Http(_)) && self.current(&Key::Shared).is_some_and(logs)
    }

    /// The level that tells enough for every session that shares a connection; each is sent only its own (LOG-02).
    fn widest_level(&self) -> Option<LogLevel> {
        self.levels().values().min().copied()
    }

    fn levels(&self) -> MutexGuard<'_, HashMap<SessionKey, LogLevel>> {
        self.levels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection of a key, if one is open.
    fn current(&self, key: &Key) -> Option<Arc<Connection>> {
        self.slots.get(key).and_then(|slot| slot.current())
    }

    /// Tells the session's own connection that its client's roots have changed (ROOT-03).
    pub fn roots_changed(&self, session: &Session) {
        if let Some(connection) = self.current(&Key::Session(session.key)) {
            let told = async move { connection.roots_changed().await };
            self.ending.spawn("upstream news of roots", told).detach();
        }
    }

    /// Ends what belongs to a session.
    pub fn release(&self, session: &Session) {
        self.forget(&Key::Session(session.key));
        self.levels().remove(&session.key);
        for slot in self.slots.iter().filter(|slot| !matches!(slot.key(), Key::Session(_))) {
            let over = slot.subscriptions().release(session);
            if let (false, Some(connection)) = (over.is_empty(), slot.current()) {
                let told = async move {
                    for uri in over {
                        connection.unsubscribe(&uri).await;
                    }
                };
                self.ending.spawn("upstream unsubscribing", told).detach();
            }
        }
    }

    /// Ends connections that nobody has used for `limit`: children, and what a caller or a tenant shares. Those that
    /// somebody listens to stay, and are opened again when they were lost (LIFE-26).
    pub fn sweep(self: &Arc<Self>, limit: Duration) {
        let now = clock::now();
        if let Road::Http(way) = &self.road {
            way.endpoint.sweep();
        }
        let is_http = matches!(self.road, Road::Http(_));
        let idle: Vec<_> = self
            .slots
            .iter()
            .filter(|slot| !is_http || matches!(slot.key(), Key::Caller(_) | Key::Tenant(_)))
            .filter(|slot| slot.subscriptions().is_empty())
            .filter(|slot| slot.current().is_some_and(|connection| connection.idle(now) >= limit))
            .map(|slot| slot.key().clone())
            .collect();
        for key in idle {
            self.forget(&key);
        }
        let missed: Vec<_> = self.slots.iter().filter_map(|slot| slot.missed()).collect();
        for session in missed {
            let this = Arc::clone(self);
            let opened = async move {
                // What fails is tried again with the next sweep, and paused like any start.
                let _ = this.connection(&Purpose::Session(session)).await;
            };
            self.ending.spawn("upstream reopening", opened).detach();
        }
    }

    /// Whether the upstream could tell of a change of its lists now. A child can while it runs, and while none runs
    /// there is nothing to tell: the next one is read when it opens.
    pub fn announces(&self) -> bool {
        match &self.road {
            Road::Http(way) => way.unbound.has_channel(),
            Road::Stdio(_) => true,
            Road::None(_) => false,
        }
    }

    /// Removes a connection and ends it.
    fn forget(&self, key: &Key) {
        if let Some((_, slot)) = self.slots.remove(key) {
            self.retire(&slot);
        }
    }

    /// Ends the connection of a slot that is used no more.
    fn retire(&self, slot: &Slot) {
        let Some(connection) = slot.lock().take() else { return };
        // The catalog may have shared it, and with it its push channel: it reads anew over one of its own. A
        // child is not started for that; while none runs, nothing changes (F-024, R-11).
        let shared = self.slots.get(&Key::Shared).map(|slot| Arc::clone(&slot));
        let mut shared = shared.as_ref().map(|slot| slot.lock());
        if let Some(open) = &mut shared
            && open.as_ref().is_some_and(|open| Arc::ptr_eq(open, &connection))
        {
            **open = None;
            if let Road::Http(way) = &self.road {
                way.unbound.connection_lost();
            }
        }
        drop(shared);
        self.ending.spawn("upstream farewell", async move { connection.close(FAREWELL).await }).detach();
    }

    /// Ends all connections, and opens no more.
    pub async fn close(&self, limit: Duration) {
        self.stopped.store(true, Ordering::Relaxed);
        let slots: Vec<_> = self.slots.iter().map(|slot| Arc::clone(&slot)).collect();
        self.slots.clear();
        let open: Vec<_> = slots.iter().filter_map(|slot| slot.lock().take()).collect();
        futures_util::future::join_all(open.iter().map(|connection| connection.close(limit))).await;
        self.condition.set(UpstreamCondition::Stopped, "");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Endpoint, Principal, SessionKey};
    use crate::config::environment::Environment;
    use crate::config::{Format, parse};
    use crate::telemetry::meters::UpstreamMeter;
    use crate::upstream::http::post::Health;

    /// LIFE-21: nothing stays behind of a session that ended before its connection was there, however that went.
    #[tokio::test]
    async fn life_21_a_session_that_ended_early_leaves_no_slot() {
        let file = r#"{"mcpServers": {"alpha": {"url": "http://127.0.0.1:1/"}}}"#;
        let config = parse(file, Format::Json, "test.json", &Environment::default()).unwrap();
        let upstream = Arc::clone(&config.upstreams[0]);
        let health = Health {
            breaker: Arc::default(),
            condition: Arc::new(Condition::new(Arc::clone(&upstream.name))),
            report: Report::new(UpstreamMeter::new(&upstream.name)),
        };
        let peer = Arc::new(Peer::new(upstream, Road::None("no road".into()), health, tasks::Group::new()));
        let who = Arc::new(Principal::anonymous());
        let session = Session::new(SessionKey([1; 16]), Revision::LATEST, who, Endpoint::Merged);
        session.ended.cancel();
        assert!(peer.connection(&Purpose::Session(Arc::new(session))).await.is_err());
        assert!(peer.slots.is_empty());
    }
}
