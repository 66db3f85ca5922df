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
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dashmap::DashMap;

use crate::base::{caps, tasks};
use crate::call::{Endpoint, Purpose, Push, Session, SessionKey, UpstreamId};
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::board::Board;
use crate::relay::catalog::item::Item;
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
    /// One reading of a session at a time, so that none overtakes another.
    turns: DashMap<SessionKey, Arc<tokio::sync::Mutex<()>>>,
    epochs: AtomicU64,
}

/// What one session sees.
struct Lists {
    endpoint: Endpoint,
    board: Arc<Board>,
    differ: Mutex<Vec<(UpstreamId, Differing)>>,
}

/// Lists of one upstream, by [`ItemKind::index`], where they are not those of the catalog.
type Differing = [Option<Arc<Vec<Item>>>; 4];

impl Default for Own {
    fn default() -> Self {
        Self { lists: DashMap::new(), turns: DashMap::new(), epochs: AtomicU64::new(EPOCHS) }
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
        self.turns.remove(&session.key);
    }

    /// The lists of an upstream as a session sees them, where they differ.
    fn known(&self, session: &Session, upstream: UpstreamId) -> Option<Differing> {
        let lists = Arc::clone(&*self.lists.get(&session.key)?);
        let differ = lists.lock();
        differ.iter().find(|(id, _)| *id == upstream).map(|(_, differing)| differing.clone())
    }

    /// Whether there is room for what this session sees.
    fn has_room(&self, session: &Session) -> bool {
        self.lists.len() < caps::OWN_LISTS || self.lists.contains_key(&session.key)
    }
}

impl Lists {
    fn lock(&self) -> MutexGuard<'_, Vec<(UpstreamId, Differing)>> {
        // A panic while the lock was held leaves a list more or less, which the next reading mends.
        self.differ.lock().unwrap_or_else(PoisonError::into_inner)
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
        let turn = Arc::clone(&*self.own.turns.entry(session.key).or_default());
        let _turn = turn.lock().await;
        let changed = match member.state().snapshot {
            Some(shared) if self.own.has_room(session) => {
                self.compare(member, session, kinds, &shared).await.unwrap_or_default()
            }
            _ => Vec::new(),
        };
        // One that has ended meanwhile is not forgotten a second time.
        if session.ended.is_cancelled() {
            self.own.ended(session);
        }
        changed
    }

    /// What is read, against what the catalog has and against what the session has seen; `None` for lists that cannot be
    /// read now, which are left as they were known.
    async fn compare(
        &self,
        member: &Member,
        session: &Arc<Session>,
        kinds: &[ItemKind],
        shared: &Arc<Snapshot>,
    ) -> Option<Vec<ItemKind>> {
        let known = self.own.known(session, member.id);
        let before = Arc::new(overlaid(shared, known.as_ref()));
        let source = read::From { member, out: &self.out, purpose: Purpose::Session(Arc::clone(session)) };
        let mut read = kinds.to_vec();
        // RES-11: one signal for both.
        read.extend(kinds.contains(&ItemKind::Resource).then_some(ItemKind::Template));
        let (handshake, limits) = (Arc::clone(&shared.handshake), &self.config.catalog);
        let reading = read::read(&source, handshake, Some(Arc::clone(&before)), limits, &read).await;
        let Reading { mut snapshot, broken: None, .. } = reading.ok()? else { return None };
        let state = State { snapshot: Some(Arc::clone(&before)), tried: true, ..State::default() };
        self.judge(&state, member, &mut snapshot);
        let items = |kind: &ItemKind| &snapshot.items[kind.index()];
        let is_new = |kind: &&ItemKind| items(kind) != &before.items[kind.index()];
        let changed = kinds.iter().filter(is_new).copied().collect();
        let differing = |kind: &ItemKind| {
            let differs = *items(kind) != shared.items[kind.index()];
            (*kind, differs.then(|| Arc::clone(items(kind))))
        };
        self.show_own(session, member.id, read.iter().map(differing));
        Some(changed)
    }

    /// Shows a session the lists that were read, those that are not the catalog's.
    fn show_own(
        &self,
        session: &Session,
        upstream: UpstreamId,
        read: impl Iterator<Item = (ItemKind, Option<Arc<Vec<Item>>>)>,
    ) {
        let none = || {
            let (endpoint, board, differ) = (session.endpoint, Arc::default(), Mutex::default());
            Arc::new(Lists { endpoint, board, differ })
        };
        let lists = Arc::clone(&*self.own.lists.entry(session.key).or_insert_with(none));
        let mut differ = lists.lock();
        let at = differ.iter().position(|(id, _)| *id == upstream).unwrap_or_else(|| {
            differ.push((upstream, Differing::default()));
            differ.len() - 1
        });
        for (kind, items) in read {
            differ[at].1[kind.index()] = items;
        }
        differ.retain(|(_, differing)| differing.iter().any(Option::is_some));
        if differ.is_empty() {
            self.own.lists.remove(&session.key);
        } else {
            lists.board.show(self.view_of(lists.endpoint, &differ));
        }
    }

    /// Merges anew what sessions see for themselves, after the catalog has changed, and before clients are told of that.
    pub(super) fn merge_own(&self) {
        let all: Vec<_> = self.own.lists.iter().map(|lists| Arc::clone(&lists)).collect();
        for lists in all {
            let differ = lists.lock();
            lists.board.show(self.view_of(lists.endpoint, &differ));
        }
    }

    fn view_of(&self, endpoint: Endpoint, differ: &[(UpstreamId, Differing)]) -> View {
        let mut all = self.shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for source in &mut all {
            let own = differ.iter().find(|(id, _)| *id == source.id).map(|(_, differing)| differing);
            source.snapshot = source.snapshot.take().map(|shared| match own {
                None => shared,
                own => Arc::new(overlaid(&shared, own)),
            });
        }
        let limits = &self.config.catalog;
        let epoch = self.own.epochs.fetch_add(1, Ordering::Relaxed);
        match endpoint {
            Endpoint::Merged => view::merge(&all, limits.name_budget, epoch),
            Endpoint::Upstream(id) => {
                let alone = Source { namespace: None, barred: Arc::default(), ..all[id.index()].clone() };
                view::merge(&[alone], limits.upstream_name_budget, epoch)
            }
        }
    }
}

/// The catalog's lists, with those in their place that a session sees.
fn overlaid(shared: &Snapshot, own: Option<&Differing>) -> Snapshot {
    let mut snapshot = shared.clone();
    for (items, own) in snapshot.items.iter_mut().zip(own.into_iter().flatten()) {
        if let Some(own) = own {
            *items = Arc::clone(own);
        }
    }
    snapshot
}
