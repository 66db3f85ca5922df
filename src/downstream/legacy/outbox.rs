//! What goes to a session's client, and on which of its streams (HTTP-18, HTTP-19).
//!
//! What belongs to a call goes on the stream that answers it. All else waits here until the newest standing stream takes
//! it; a question may also go on the stream of any call to the same upstream while no standing one is open. A question
//! whose stream has ended is offered again on the next standing stream that is opened anew.
//!
//! *Invariants.* A message goes on exactly one stream. Repeated changes of one list are one notice, also when they
//! happened while no stream was open (F-024, F-053). Nothing but answers goes out before the client is ready (LIFE-08).
//! *On drop* of a reader: what was not taken yet is for the next newest stream.
//! *Limits.* [`caps::STREAMS_PER_SESSION`], the oldest gives way; [`caps::RESUMABLE_STREAMS`]; notices that wait,
//! [`caps::WAITING_NOTICES`] and [`caps::WAITING_BYTES`]; open questions.

mod inner;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::futures::Notified;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::base::{caps, clock};
use crate::call::{Client, Course, Push, Question, SessionKey};
use crate::downstream::body::Broken;
use crate::downstream::legacy::asked::Open;
use crate::downstream::legacy::event_id::{EventId, prove};
use crate::downstream::legacy::outbox::inner::{Inner, Waiting, waits};
use crate::downstream::legacy::store::{Account, Store};
use crate::downstream::legacy::track::{Framing, Opening, Taken, Track};
use crate::jsonrpc::Message;
use crate::jsonrpc::message::compose;
use crate::mcp::methods::ItemKind;
use crate::mcp::revision::Revision;
use crate::telemetry::events::downstream::{AnswerDropped, QuestionDropped};

/// After how long a client may come back to a stream that we ended (HTTP-14).
pub const RETRY: Duration = Duration::from_secs(1);

/// The way to one session's client.
pub struct Outbox {
    me: Weak<Self>,
    key: SessionKey,
    revision: Revision,
    account: Arc<Account>,
    opened: Instant,
    /// Milliseconds between `opened` and the last sign of the client.
    last_used: AtomicU64,
    /// Bits of [`bit`]: lists that have changed and were not told of yet.
    changed: AtomicU8,
    /// Whether the client may be told anything (LIFE-08).
    ready: AtomicBool,
    /// Turns of [`turn`](Self::turn).
    whole: Semaphore,
    inner: Mutex<Inner>,
}

const KINDS: [ItemKind; 3] = [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource];

/// Templates have no notice of their own, they share that of resources (RES-11).
fn bit(kind: ItemKind) -> u8 {
    match kind {
        ItemKind::Tool => 1,
        ItemKind::Prompt => 2,
        ItemKind::Resource | ItemKind::Template => 4,
    }
}

impl Outbox {
    /// The way to the client of a session that is about to open.
    #[must_use]
    pub fn new(key: SessionKey, revision: Revision, store: Arc<Store>) -> Arc<Self> {
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            key,
            revision,
            account: Account::new(store),
            opened: clock::now(),
            last_used: AtomicU64::new(0),
            changed: AtomicU8::new(0),
            ready: AtomicBool::new(false),
            whole: Semaphore::new(caps::WHOLE_ANSWERS),
            inner: Mutex::default(),
        })
    }

    /// Whether streams of this session begin with an event of an id and no data (HTTP-13).
    #[must_use]
    pub fn primes(&self) -> bool {
        self.revision.has_priming() && self.account.store.bounds.bytes > 0
    }

    // --- the client's life ---

    /// Notes `notifications/initialized`; what has waited until then is told now (LIFE-07, LIFE-08).
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
        self.lock().tracks.iter().for_each(|track| track.wake());
    }

    /// Whether the client has said that it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Notes a sign of the client.
    pub fn touch(&self) {
        let since = clock::now().saturating_duration_since(self.opened);
        self.last_used.store(u64::try_from(since.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long ago the session was opened, and how long ago there was the last sign of its client.
    #[must_use]
    pub fn ages(&self, now: Instant) -> (Duration, Duration) {
        let used = self.opened + Duration::from_millis(self.last_used.load(Ordering::Relaxed));
        (now.saturating_duration_since(self.opened), now.saturating_duration_since(used))
    }

    /// Whether a stream is open or a question is (LIFE-27).
    #[must_use]
    pub fn is_busy(&self) -> bool {
        let inner = self.lock();
        !inner.asked.is_empty() || inner.tracks.iter().any(|track| track.is_read())
    }

    /// Ends all streams and drops all questions, at the end of the session (LIFE-21).
    pub fn close(&self) {
        let mut inner = self.lock();
        inner.closed = true;
        inner.asked.clear();
        inner.waiting = VecDeque::new();
        inner.standing = Vec::new();
        std::mem::take(&mut inner.tracks).iter().for_each(|track| track.end());
    }

    /// Drops all questions: their askers learn that nobody will answer.
    pub fn drop_questions(&self) {
        self.lock().asked.clear();
    }

    /// Ends the standing streams cleanly, when the process is about to stop (F-098, OPS-11).
    pub fn end_standing(&self) {
        let retry = self.primes().then_some(RETRY);
        self.lock().standing.iter().for_each(|track| track.send_away(retry));
    }

    /// Drops what was kept for replay and is too old.
    pub fn expire(&self, now: Instant) {
        let age = self.account.store.bounds.age;
        self.lock().tracks.retain(|track| !track.expire(now, age));
    }

    /// Makes room where too much is kept for replay: the oldest streams lose first.
    pub fn relieve(&self) {
        if self.account.is_over() {
            for track in &self.lock().tracks {
                track.shed();
                if !self.account.is_over() {
                    break;
                }
            }
        }
        self.account.store.relieve();
    }

    // --- streams ---

    /// Opens the stream that answers a call, or a batch, which has no course and cannot be resumed.
    #[must_use]
    pub fn open_answer(self: &Arc<Self>, course: Option<Arc<Course>>) -> Reader {
        let numbered = course.is_some() && self.numbers();
        let framing = if numbered { Framing::Numbered } else { Framing::Events };
        let mut inner = self.lock();
        let track = self.open(&mut inner, framing, course);
        drop(inner);
        self.read(track, 0)
    }

    /// Opens a standing stream (HTTP-16), which is the newest from now on. Open questions whose streams have ended are
    /// asked on it.
    #[must_use]
    pub fn open_standing(self: &Arc<Self>) -> Reader {
        let framing = if self.numbers() { Framing::Numbered } else { Framing::Events };
        self.stand(&mut self.lock(), framing)
    }

    /// The same with a framing of one's own: for transports that have one stream for all that goes to the client.
    #[must_use]
    pub fn attach(self: &Arc<Self>, framing: Framing) -> Reader {
        let mut inner = self.lock();
        inner.attached = true;
        self.stand(&mut inner, framing)
    }

    /// Whether such a stream was attached.
    #[must_use]
    pub fn is_attached(&self) -> bool {
        self.lock().attached
    }

    fn stand(self: &Arc<Self>, inner: &mut Inner, framing: Framing) -> Reader {
        inner.offer_again();
        let track = self.open(inner, framing, None);
        inner.stand(track.clone());
        self.read(track, 0)
    }

    /// Goes on with a stream after the event of this id (HTTP-21); `None` for every id that it cannot go on from
    /// (HTTP-23).
    #[must_use]
    pub fn resume(self: &Arc<Self>, id: &str) -> Option<Reader> {
        let id = EventId::parse(id).filter(|id| id.is_of(&self.key))?;
        let mut inner = self.lock();
        let track = inner.tracks.iter().find(|track| track.number() == id.stream)?.clone();
        let reader = track.attach(id.event)?;
        if !track.is_answer() {
            inner.stand(track.clone());
        }
        drop(inner);
        Some(self.read(track, reader))
    }

    /// The newest standing stream.
    #[must_use]
    pub fn newest(&self) -> Option<Arc<Track>> {
        self.lock().standing.last().cloned()
    }

    fn numbers(&self) -> bool {
        self.revision >= Revision::V2025_03_26 && self.account.store.bounds.bytes > 0
    }

    fn open(&self, inner: &mut Inner, framing: Framing, course: Option<Arc<Course>>) -> Arc<Track> {
        inner.opened += 1;
        let number = inner.opened;
        // Where ids are not used, their proof is worth no time.
        let proof = if framing == Framing::Numbered { prove(&self.key, number) } else { 0 };
        let track = Track::open(self.account.clone(), Opening { number, proof, framing, course });
        if inner.closed {
            track.end();
        } else {
            inner.make_room();
            inner.tracks.push(track.clone());
        }
        track
    }

    fn read(self: &Arc<Self>, track: Arc<Track>, number: u32) -> Reader {
        Reader { outbox: self.clone(), track, number }
    }

    /// A reader has left.
    fn left(&self, track: &Arc<Track>) {
        self.touch();
        let mut inner = self.lock();
        if !track.is_read() {
            inner.standing.retain(|other| !Arc::ptr_eq(other, track));
            if !track.is_numbered() {
                inner.tracks.retain(|other| !Arc::ptr_eq(other, track));
            }
        }
        inner.wake();
    }

    // --- messages ---

    /// Notes that a list has changed.
    pub fn list_changed(&self, kind: ItemKind) {
        self.changed.fetch_or(bit(kind), Ordering::AcqRel);
        self.lock().wake();
    }

    /// Tells what belongs to no call that is on a stream. Without a standing stream, notices whose loss would matter
    /// wait, others are dropped.
    pub fn tell(&self, notice: Bytes) {
        let mut inner = self.lock();
        let open = !inner.standing.is_empty();
        if inner.closed || !(open || waits(&notice)) {
            return;
        }
        inner.waiting.push_back(Waiting::Notice(notice));
        inner.bound(if open { caps::UNREAD_NOTICES } else { caps::WAITING_NOTICES });
        inner.wake();
    }

    /// Writes a message on the newest standing stream, once its reader keeps up; without one it is dropped. For
    /// transports on which that is the only stream. Safe to cancel.
    pub async fn write(&self, message: &Bytes) {
        if let Some(track) = self.newest() {
            track.room().await;
            track.append(message, 0);
        }
    }

    /// Waits for the right to read a large answer whole, where it has to be written at once. Safe to cancel.
    pub async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        if let Some(track) = self.newest() {
            track.room().await;
        }
        // Never closed.
        self.whole.acquire().await.ok()
    }

    /// Asks the client: on the stream `on` if it is given and takes messages, else wherever it can be asked first.
    pub fn ask(&self, question: Question, on: Option<&Arc<Track>>) {
        let mut inner = self.lock();
        if inner.closed {
            return;
        }
        if inner.asked.len() >= self.account.store.bounds.questions {
            QuestionDropped { method: question.kind.method() }.emit();
            return;
        }
        let me = self.me.clone();
        let withdrawn = move |id| {
            if let Some(outbox) = me.upgrade() {
                outbox.withdrawn(id);
            }
        };
        let Some(id) = inner.asked.open(question, withdrawn) else { return };
        if let Some(open) = inner.asked.find(id) {
            open.bound = on.is_some();
        }
        match on.filter(|_| self.is_ready()) {
            Some(track) if inner.put(id, track) => {}
            _ => {
                inner.waiting.push_back(Waiting::Question(id));
                inner.wake();
            }
        }
    }

    /// Takes a response of the client (RPC-09).
    pub fn answered(&self, response: Message) {
        let found = self.lock().asked.answer(response);
        match found {
            // It is not asked again by a replay.
            Some((id, Some(track))) => drop(track.forget(id)),
            Some((_, None)) => {}
            None => AnswerDropped.emit(),
        }
    }

    /// Takes a progress notification of the client (PROG-07).
    pub fn progressed(&self, notification: Message) {
        self.lock().asked.progress(notification);
    }

    /// Withdraws what a call asked that has failed or was cancelled, while its stream can still tell so.
    pub fn withdraw_from(&self, track: &Arc<Track>) {
        let mut inner = self.lock();
        let here =
            |open: &Open| open.bound && open.place.as_ref().is_some_and(|place| Arc::ptr_eq(place, track));
        let ids: Vec<_> = inner.asked.iter().filter(|(_, open)| here(open)).map(|(id, _)| id).collect();
        for id in ids {
            inner.withdraw(id);
        }
    }

    /// An upstream no longer waits for an answer.
    fn withdrawn(&self, id: u64) {
        self.lock().withdraw(id);
    }

    /// Puts what waits on this stream, as far as it is for it; says whether something was.
    fn feed(&self, track: &Arc<Track>) -> bool {
        if !self.is_ready() {
            return false;
        }
        let mut inner = self.lock();
        match inner.standing.last() {
            Some(newest) if Arc::ptr_eq(newest, track) => {
                let changed = self.changed.swap(0, Ordering::AcqRel);
                for kind in KINDS.into_iter().filter(|kind| changed & bit(*kind) != 0) {
                    track.append(&compose(None, kind.changed(), ""), 0);
                }
                let waiting = std::mem::take(&mut inner.waiting);
                let some = changed != 0 || !waiting.is_empty();
                for message in waiting {
                    match message {
                        Waiting::Notice(notice) => drop(track.append(&notice, 0)),
                        Waiting::Question(id) => {
                            if !inner.put(id, track) {
                                inner.waiting.push_back(message);
                            }
                        }
                    }
                }
                some
            }
            Some(_) => false,
            None => inner.feed_answer(track),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A panic while the lock was held cannot have left a list half changed.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client for Outbox {
    fn push(&self, push: Push) {
        match push {
            Push::Notice(notice) => self.tell(notice),
            Push::Changed(kind) => self.list_changed(kind),
            Push::Ask(question) => self.ask(question, None),
        }
    }
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// The reader of one stream.
///
/// *On drop*: the stream can be resumed, if it is of that kind.
pub struct Reader {
    outbox: Arc<Outbox>,
    track: Arc<Track>,
    number: u32,
}

impl Reader {
    /// The stream.
    #[must_use]
    pub fn track(&self) -> &Arc<Track> {
        &self.track
    }

    /// What comes next.
    #[must_use]
    pub fn take(&self) -> Taken {
        match self.track.take(self.number) {
            Taken::Nothing if self.outbox.feed(&self.track) => {
                let taken = self.track.take(self.number);
                self.outbox.relieve();
                taken
            }
            taken => taken,
        }
    }

    /// Waits for what comes next; `None` at the end. Safe to cancel.
    pub async fn next(&self) -> Option<Result<Bytes, Broken>> {
        loop {
            // Before the look, so that no change is missed.
            let changed = self.changed();
            match self.take() {
                Taken::Part(part) => return Some(Ok(part)),
                Taken::Over => return None,
                Taken::Broken => return Some(Err(Broken)),
                Taken::Nothing => changed.await,
            }
        }
    }

    /// Resolves when there may be more. Safe to cancel.
    pub fn changed(&self) -> Notified<'_> {
        self.track.changed()
    }

    /// Leaves before the drop.
    pub fn leave(&self) {
        self.track.detach(self.number);
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.leave();
        self.outbox.left(&self.track);
    }
}

#[cfg(test)]
pub(in crate::downstream) mod tests;
