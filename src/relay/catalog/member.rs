//! One upstream in the catalog: its last lists, what is known to be wrong, and what has to be read again.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

use crate::base::caps;
use crate::call::{Handshake, News, Session, UpstreamId};
use crate::config::snapshot::Upstream;
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::snapshot::Snapshot;

/// An upstream in the catalog.
pub struct Member {
    /// Which one.
    pub id: UpstreamId,
    /// Its configuration.
    pub upstream: Arc<Upstream>,
    state: Mutex<State>,
    /// Bits by [`ItemKind::index`]: lists to read again.
    dirty: AtomicU8,
    /// The same bits: lists of which it said, on a connection of nobody's, that they have changed; above them, of which it said so repeatedly.
    announced: AtomicU8,
    /// The sessions whose own connections have said so.
    voices: Mutex<Vec<Voice>>,
    wake: Notify,
}

/// A session whose own connection has said that lists have changed.
pub struct Voice {
    /// Whose.
    pub session: Arc<Session>,
    /// Which lists.
    pub kinds: Vec<ItemKind>,
    /// It says so time and again.
    pub repeated: bool,
}

/// What is known of it.
#[derive(Clone, Default)]
pub struct State {
    /// Its last lists.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Exposed names that others held before it claimed them.
    pub barred: Arc<HashSet<(ItemKind, String)>>,
    /// Why it was not read the last time.
    pub problem: Option<String>,
    /// Whether it could not be reached the last time.
    pub away: bool,
    /// Whether reading it was tried.
    pub tried: bool,
    /// When this run has last put its lists on disk.
    pub saved_at: Option<Instant>,
    /// By [`ItemKind::index`]: when clients were last told of a change that was none.
    pub echoed: [Option<Instant>; 4],
}

const ALL: u8 = 0b1111;

/// How far above the bits of what was said those are of what was said repeatedly.
const AGAIN: u8 = 4;

impl Member {
    /// An upstream that was not read yet, or whose lists of an earlier run are known.
    #[must_use]
    pub fn new(id: UpstreamId, upstream: Arc<Upstream>, known: Option<Arc<Snapshot>>) -> Self {
        let state = Mutex::new(State { snapshot: known, ..State::default() });
        Self {
            id,
            upstream,
            state,
            dirty: AtomicU8::new(ALL),
            announced: AtomicU8::new(0),
            voices: Mutex::default(),
            wake: Notify::new(),
        }
    }

    /// What is known now.
    #[must_use]
    pub fn state(&self) -> State {
        self.lock().clone()
    }

    /// What it said when it was last met; none before it was.
    #[must_use]
    pub fn handshake(&self) -> Option<Arc<Handshake>> {
        self.lock().snapshot.as_ref().map(|known| Arc::clone(&known.handshake))
    }

    /// Changes what is known.
    pub fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
    }

    /// Asks for a list to be read again.
    pub fn mark(&self, kind: ItemKind) {
        let bits = match kind {
            // RES-11: one signal for both.
            ItemKind::Resource | ItemKind::Template => {
                1 << ItemKind::Resource.index() | 1 << ItemKind::Template.index()
            }
            other => 1 << other.index(),
        };
        self.dirty.fetch_or(bits, Ordering::AcqRel);
        self.wake.notify_one();
    }

    /// As [`mark`](Self::mark), because the upstream says so.
    pub fn announce(&self, kind: ItemKind, news: News<'_>) {
        match news.owner {
            Some(session) => self.voice(session, kind, news.repeated),
            None => {
                let bit = 1 << kind.index();
                let bits = if news.repeated { bit | bit << AGAIN } else { bit };
                self.announced.fetch_or(bits, Ordering::AcqRel);
            }
        }
        self.mark(kind);
    }

    fn voice(&self, session: &Arc<Session>, kind: ItemKind, repeated: bool) {
        let mut voices = self.voices.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = voices.len() >= caps::VOICES;
        match voices.iter_mut().find(|voice| Arc::ptr_eq(&voice.session, session)) {
            Some(voice) => {
                voice.repeated |= repeated;
                if !voice.kinds.contains(&kind) {
                    voice.kinds.push(kind);
                }
            }
            None if is_full => {}
            None => voices.push(Voice { session: Arc::clone(session), kinds: vec![kind], repeated }),
        }
    }

    /// The sessions whose own connections have said that lists have changed; says them once.
    #[must_use]
    pub fn take_voices(&self) -> Vec<Voice> {
        std::mem::take(&mut *self.voices.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The lists of which it has said on a connection of nobody's that they have changed, and not time and again; says
    /// them once.
    #[must_use]
    pub fn take_announced(&self) -> Vec<ItemKind> {
        let announced = self.announced.swap(0, Ordering::AcqRel);
        let once = announced & !(announced >> AGAIN);
        ItemKind::ALL.into_iter().filter(|kind| once & 1 << kind.index() != 0).collect()
    }

    /// Asks for all lists to be read again.
    pub fn mark_all(&self) {
        self.dirty.fetch_or(ALL, Ordering::AcqRel);
        self.wake.notify_one();
    }

    /// Marks lists without waking anyone: for who reads again by itself.
    pub fn restore(&self, kinds: &[ItemKind]) {
        let bits = kinds.iter().fold(0, |bits, kind| bits | 1 << kind.index());
        self.dirty.fetch_or(bits, Ordering::AcqRel);
    }

    /// The lists that are to be read again; asks no more.
    #[must_use]
    pub fn take_marks(&self) -> Vec<ItemKind> {
        let dirty = self.dirty.swap(0, Ordering::AcqRel);
        ItemKind::ALL.into_iter().filter(|kind| dirty & 1 << kind.index() != 0).collect()
    }

    /// Waits until something asks. Safe to cancel.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held cannot have left the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
