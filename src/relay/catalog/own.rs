//! Lists of sessions that see something else than the catalog: an upstream's connection of one session may have been
//! told something by which its tools differ from those of all others, such as to turn a set of them on.
//!
//! The catalog is read over a connection of its own, where such a change cannot be seen. So when a session's connection
//! announces a change and the catalog finds none, the lists are read over the session's connection; what differs is shown
//! to that session alone.
//!
//! *Invariants.* A session's own lists are seen, and routed by, in that session only. They end with the session.
//! *Limits.* [`caps::OWN_LISTS`] sessions have lists of their own; others go on with the catalog's.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use dashmap::DashMap;

use crate::base::{caps, tasks};
use crate::call::{Endpoint, Purpose, Push, Session, SessionKey, UpstreamId};
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::board::Board;
use crate::relay::catalog::member::{Member, State, Voice};
use crate::relay::catalog::read::{self, Reading};
use crate::relay::catalog::refresh::Catalog;
use crate::relay::catalog::snapshot::Snapshot;
use crate::relay::catalog::view::{self, Source, View};

/// Views of sessions are counted from here, so that no cursor of one is taken for one of an endpoint's.
const EPOCHS: u64 = 1 << 62;

/// All sessions that see something else.
pub struct Own {
    lists: DashMap<SessionKey, Arc<Lists>>,
    epochs: AtomicU64,
}

/// What one session sees.
struct Lists {
    endpoint: Endpoint,
    board: Arc<Board>,
    /// By upstream, those that differ.
    differ: Mutex<Vec<(UpstreamId, Arc<Snapshot>)>>,
}

impl Default for Own {
    fn default() -> Self {
        Self { lists: DashMap::new(), epochs: AtomicU64::new(EPOCHS) }
    }
}

impl Own {
    /// What this session sees, if it is something else.
    #[must_use]
    pub fn board(&self, session: &Session) -> Option<Arc<Board>> {
        // Most never do, and this is on the way of each call.
        if self.lists.is_empty() {
            return None;
        }
        self.lists.get(&session.key).map(|lists| Arc::clone(&lists.board))
    }

    /// Forgets a session that has ended.
    pub fn ended(&self, session: &Session) {
        self.lists.remove(&session.key);
    }

    /// The lists of an upstream as a session sees them, if they differ.
    fn known(&self, session: &Session, upstream: UpstreamId) -> Option<Arc<Snapshot>> {
        self.lists.get(&session.key)?.of(upstream)
    }

    fn epoch(&self) -> u64 {
        self.epochs.fetch_add(1, Ordering::Relaxed)
    }
}

impl Lists {
    fn of(&self, upstream: UpstreamId) -> Option<Arc<Snapshot>> {
        let differ = self.differ.lock().unwrap_or_else(PoisonError::into_inner);
        differ.iter().find(|(id, _)| *id == upstream).map(|(_, snapshot)| Arc::clone(snapshot))
    }

    /// Keeps an upstream's lists, or none where they are the same; says whether any are left that differ.
    fn keep(&self, upstream: UpstreamId, snapshot: Option<Arc<Snapshot>>) -> bool {
        let mut differ = self.differ.lock().unwrap_or_else(PoisonError::into_inner);
        differ.retain(|(id, _)| *id != upstream);
        differ.extend(snapshot.map(|snapshot| (upstream, snapshot)));
        !differ.is_empty()
    }
}

impl Catalog {
    /// What a session sees.
    #[must_use]
    pub fn board_of(&self, session: &Session) -> Arc<Board> {
        self.own.board(session).unwrap_or_else(|| Arc::clone(self.board(session.endpoint)))
    }

    /// Reads, for each session whose connection has announced a change that the catalog does not show, what it shows to
    /// that session. `before` is what was known before the catalog was read.
    pub(super) fn hear(
        self: &Arc<Self>,
        member: &Arc<Member>,
        voices: Vec<Voice>,
        before: Option<&Snapshot>,
    ) {
        let Some(now) = member.state().snapshot else { return };
        for Voice { session, mut kinds, repeated } in voices {
            let is_own = self.own.known(&session, member.id).is_some();
            let same = |kind: &ItemKind| {
                before.is_some_and(|before| before.items[kind.index()] == now.items[kind.index()])
            };
            // What all see anew needs no reading for each of them.
            kinds.retain(|kind| is_own || same(kind));
            if kinds.is_empty() || session.ended.is_cancelled() {
                continue;
            }
            let (this, member) = (Arc::clone(self), Arc::clone(member));
            let read = async move {
                let changed = this.read_own(&member, &session, &kinds).await;
                // It was told that they have changed, and may know better than we do; a flood is no news (F-053).
                let told = if repeated { changed } else { kinds };
                told.into_iter().for_each(|kind| session.client.push(Push::Changed(kind)));
            };
            tasks::spawn("catalog of a session", read).detach();
        }
    }

    /// Reads lists over the session's connection; gives those that the session sees differently now.
    async fn read_own(&self, member: &Member, session: &Arc<Session>, kinds: &[ItemKind]) -> Vec<ItemKind> {
        let Some(shared) = member.state().snapshot else { return Vec::new() };
        let before = self.own.known(session, member.id).unwrap_or_else(|| Arc::clone(&shared));
        let source = read::From { member, out: &self.out, purpose: Purpose::Session(Arc::clone(session)) };
        let (handshake, known) = (Arc::clone(&shared.handshake), Some(Arc::clone(&before)));
        let mut read = kinds.to_vec();
        // RES-11: one signal for both.
        read.extend(kinds.contains(&ItemKind::Resource).then_some(ItemKind::Template));
        let reading = read::read(&source, handshake, known, &self.config.catalog, &read).await;
        // What cannot be read now is left as it was known.
        let Ok(Reading { mut snapshot, broken: None, .. }) = reading else { return Vec::new() };
        let known = State { snapshot: Some(Arc::clone(&before)), tried: true, ..State::default() };
        self.judge(&known, member, &mut snapshot);
        let is_new = |kind: &&ItemKind| snapshot.items[kind.index()] != before.items[kind.index()];
        let changed = kinds.iter().filter(is_new).copied().collect();
        let differs = snapshot.items != shared.items;
        self.show_own(session, member.id, differs.then(|| Arc::new(snapshot)));
        changed
    }

    fn show_own(&self, session: &Arc<Session>, upstream: UpstreamId, snapshot: Option<Arc<Snapshot>>) {
        if self.own.lists.len() >= caps::OWN_LISTS && !self.own.lists.contains_key(&session.key) {
            return;
        }
        let none = || {
            let (endpoint, board, differ) = (session.endpoint, Arc::default(), Mutex::default());
            Arc::new(Lists { endpoint, board, differ })
        };
        let lists = Arc::clone(&self.own.lists.entry(session.key).or_insert_with(none));
        // A session that has ended meanwhile is not forgotten a second time.
        if !lists.keep(upstream, snapshot) || session.ended.is_cancelled() {
            return self.own.ended(session);
        }
        lists.board.show(self.view_of(&lists));
    }

    /// Merges anew what sessions see for themselves, after the catalog has changed. Clients have been told of that.
    pub(super) fn merge_own(&self) {
        for lists in &self.own.lists {
            lists.board.show(self.view_of(&lists));
        }
    }

    fn view_of(&self, lists: &Lists) -> View {
        let mut all = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for source in &mut all {
            if let Some(own) = lists.of(source.id) {
                source.snapshot = Some(own);
            }
        }
        let limits = &self.config.catalog;
        match lists.endpoint {
            Endpoint::Merged => view::merge(&all, limits.name_budget, self.own.epoch()),
            Endpoint::Upstream(id) => {
                let alone = Source { namespace: None, barred: Arc::default(), ..all[id.index()].clone() };
                view::merge(&[alone], limits.upstream_name_budget, self.own.epoch())
            }
        }
    }
}
