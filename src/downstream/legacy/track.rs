//! One stream toward a client: its events in their order, numbered, and kept for replay as far as there is room
//! (HTTP-20 to HTTP-23).
//!
//! Whoever has something for the stream appends it; the one reader takes what it was not given yet. A client that comes
//! back attaches a new reader after the last event that it saw.
//!
//! *Invariants.* There is at most one reader: attaching a new one replaces it (HTTP-18). What is replayed has no gap:
//! from the floor on every event is here, and no reader attaches below it. Parts of one event follow each other.
//! *On drop* what it keeps is no longer counted.
//! *Limits.* Bytes and age, see [`Bounds`](super::store::Bounds); what the reader was not given yet goes beyond them by
//! one event at most if its producer asks for [`room`](Track::room).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use crate::base::clock;
use crate::call::{Course, UpstreamId};
use crate::downstream::legacy::event_id::EventId;
use crate::downstream::legacy::store::Account;
use crate::framing::sse;

/// How a message becomes part of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// Events with ids; the stream can be resumed.
    Numbered,
    /// Events without.
    Events,
    /// A line each.
    Lines,
}

/// What a reader is given.
#[derive(Debug, PartialEq, Eq)]
pub enum Taken {
    /// The next part of the stream.
    Part(Bytes),
    /// Nothing now; wait for [`Track::changed`].
    Nothing,
    /// Nothing any more.
    Over,
    /// The stream broke off in the middle of an event.
    Broken,
}

/// The stream.
#[derive(Debug)]
pub struct Track {
    number: u32,
    proof: u64,
    framing: Framing,
    /// Of the call that it answers, if it does.
    course: Option<Arc<Course>>,
    account: Arc<Account>,
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Debug)]
struct State {
    parts: VecDeque<Part>,
    /// How many of them the reader was given.
    given: usize,
    /// Bytes of all of them, as they are counted.
    kept: usize,
    /// The last event that was begun.
    last: u64,
    /// The last event of which something is gone.
    floor: u64,
    /// The last event that any reader was given whole.
    shown: u64,
    /// Who reads, if anyone does.
    reader: Option<u32>,
    /// How many readers there have been.
    readers: u32,
    /// Since when it was at rest: without a reader, or begun.
    rests: Instant,
    /// An event was begun and is not whole.
    midway: bool,
    /// The reader is to leave, with these last words; the stream goes on.
    leave: Option<Bytes>,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Open,
    Clean,
    Broken,
}

#[derive(Debug)]
struct Part {
    text: Bytes,
    event: u64,
    at: Instant,
    /// The question that it asks, or 0.
    question: u64,
}

impl Part {
    /// As it is counted: what keeping it takes beside its text is no less than this.
    fn cost(&self) -> usize {
        self.text.len() + size_of::<Self>()
    }
}

/// So much is given at once, unless one part alone is more: a burst of notices is one write, a large one is not copied.
const BURST: usize = 16 * 1024;

/// Where a stream belongs, and what it is.
pub struct Opening {
    /// Its number in the session.
    pub number: u32,
    /// What its event ids carry.
    pub proof: u64,
    /// How it is framed.
    pub framing: Framing,
    /// The call that it answers, if it does.
    pub course: Option<Arc<Course>>,
}

impl Track {
    /// A stream with its first reader, which is reader 0.
    #[must_use]
    pub fn open(account: Arc<Account>, opening: Opening) -> Arc<Self> {
        let Opening { number, proof, framing, course } = opening;
        let state = State {
            parts: VecDeque::new(),
            given: 0,
            kept: 0,
            last: 0,
            floor: 0,
            shown: 0,
            reader: Some(0),
            readers: 0,
            rests: clock::now(),
            midway: false,
            leave: None,
            end: End::Open,
        };
        let state = Mutex::new(state);
        let track = Arc::new(Self { number, proof, framing, course, account, state, wake: Notify::new() });
        if framing == Framing::Numbered {
            track.account.store.enter(&track);
        }
        track
    }

    /// Its number in the session.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The upstream that the call goes to which it answers, once that is known.
    #[must_use]
    pub fn upstream(&self) -> Option<UpstreamId> {
        self.course.as_ref()?.upstream()
    }

    /// Whether it answers a call.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        self.course.is_some()
    }

    /// Whether it could be resumed, as far as its kind goes.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        self.framing == Framing::Numbered
    }

    /// Whether somebody reads it.
    #[must_use]
    pub fn is_read(&self) -> bool {
        self.lock().reader.is_some()
    }

    /// Whether nothing follows.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.lock().end != End::Open
    }

    /// Whether nobody reads it and nobody can come back.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.is_gone(&self.lock())
    }

    // --- for who writes ---

    /// Writes the event by which a client can come back to the very start (HTTP-13).
    pub fn prime(&self, retry: Duration) {
        let mut out = BytesMut::with_capacity(64);
        sse::priming(&mut out, &self.id(0), Some(milliseconds(retry)));
        self.push(self.lock(), Part { text: out.freeze(), event: 0, at: clock::now(), question: 0 });
    }

    /// Adds a message, which asks the client question `question`, or none if that is 0; says whether it could be, which
    /// it cannot within an event, after the end, and where nobody will ever read it.
    pub fn append(&self, message: &[u8], question: u64) -> bool {
        let mut state = self.lock();
        if state.end != End::Open || state.midway || self.is_gone(&state) {
            return false;
        }
        state.last += 1;
        let event = state.last;
        let text = self.framed(message, event);
        self.push(state, Part { text, event, at: clock::now(), question });
        true
    }

    /// Begins a message that comes in parts.
    pub fn begin(&self) {
        let mut state = self.lock();
        state.last += 1;
        state.midway = true;
        let event = state.last;
        let head = match self.framing {
            Framing::Lines => return,
            Framing::Events => head(None),
            Framing::Numbered => head(Some(&self.id(event))),
        };
        self.push(state, Part { text: head, event, at: clock::now(), question: 0 });
    }

    /// Adds parts of the message that was begun, sharing their memory.
    pub fn more(&self, parts: impl IntoIterator<Item = Bytes>) {
        for text in parts {
            let state = self.lock();
            let event = state.last;
            self.push(state, Part { text: sse::flatten(text), event, at: clock::now(), question: 0 });
        }
    }

    /// Completes the message that was begun.
    pub fn complete(&self) {
        let mut state = self.lock();
        state.midway = false;
        let event = state.last;
        let text = Bytes::from_static(if self.framing == Framing::Lines { b"\n" } else { sse::TAIL });
        self.push(state, Part { text, event, at: clock::now(), question: 0 });
    }

    /// Nothing follows. Within an event, the stream is broken off.
    pub fn end(&self) {
        let mut state = self.lock();
        if state.end == End::Open {
            state.end = if state.midway { End::Broken } else { End::Clean };
            state.rests = clock::now();
        }
        drop(state);
        self.wake.notify_waiters();
    }

    /// Sends the reader away; the stream goes on, and can be resumed after `retry` (HTTP-14).
    pub fn send_away(&self, retry: Option<Duration>) {
        let mut words = BytesMut::new();
        if let Some(retry) = retry {
            sse::retry(&mut words, milliseconds(retry));
        }
        let mut state = self.lock();
        if state.reader.is_some() {
            state.leave = Some(words.freeze());
        }
        drop(state);
        self.wake.notify_waiters();
    }

    /// Takes the event back that asks this question; says whether the client has surely not seen it.
    pub fn forget(&self, question: u64) -> bool {
        let mut state = self.lock();
        let Some(at) = state.parts.iter().position(|part| part.question == question) else { return false };
        let Some(part) = state.parts.remove(at) else { return false };
        self.account.give_back(part.cost());
        state.kept -= part.cost();
        if at < state.given {
            state.given -= 1;
            return false;
        }
        // A reader before this one may have been given it.
        part.event > state.shown
    }

    /// Waits until the reader, if there is one, has taken nearly all it could. Safe to cancel.
    pub async fn room(&self) {
        loop {
            let changed = self.wake.notified();
            {
                let state = self.lock();
                let unread = || state.parts.iter().skip(state.given).map(Part::cost).sum::<usize>();
                if state.reader.is_none() || state.end != End::Open || unread() <= self.limit() {
                    return;
                }
            }
            changed.await;
        }
    }

    // --- for who reads ---

    /// Lets a client read on after the event that it saw last; `None` where that would leave a gap (HTTP-22).
    #[must_use]
    pub fn attach(&self, after: u64) -> Option<u32> {
        let mut state = self.lock();
        if !self.is_numbered() || after < state.floor || after > state.shown {
            return None;
        }
        state.readers += 1;
        state.reader = Some(state.readers);
        state.leave = None;
        state.given = state.parts.partition_point(|part| part.event <= after);
        let reader = state.readers;
        drop(state);
        self.wake.notify_waiters();
        Some(reader)
    }

    /// The reader leaves; one that was replaced has left already.
    pub fn detach(&self, reader: u32) {
        let mut state = self.lock();
        if state.reader == Some(reader) {
            self.leave(&mut state);
        }
        drop(state);
        self.wake.notify_waiters();
    }

    /// Resolves when something has changed since this was called. Safe to cancel.
    pub fn changed(&self) -> Notified<'_> {
        self.wake.notified()
    }

    /// What comes next for this reader.
    pub fn take(&self, reader: u32) -> Taken {
        let mut state = self.lock();
        if state.reader != Some(reader) {
            return Taken::Over;
        }
        if state.given < state.parts.len() {
            let part = self.give(&mut state);
            self.bound(&mut state);
            drop(state);
            // Whoever writes may wait for room.
            self.wake.notify_waiters();
            return Taken::Part(part);
        }
        if let Some(words) = state.leave.take() {
            if words.is_empty() {
                self.leave(&mut state);
                return Taken::Over;
            }
            // The next look finds nothing but silence.
            state.leave = Some(Bytes::new());
            return Taken::Part(words);
        }
        match state.end {
            End::Open => Taken::Nothing,
            End::Clean => Taken::Over,
            End::Broken => {
                self.leave(&mut state);
                Taken::Broken
            }
        }
    }

    // --- for who counts ---

    /// Drops what is too old; says whether nothing is left that anyone could want.
    pub fn expire(&self, now: Instant, age: Duration) -> bool {
        let mut state = self.lock();
        let old = |since: Instant| now.saturating_duration_since(since) >= age;
        while self.can_drop(&state) && state.parts.front().is_some_and(|part| old(part.at)) {
            self.drop_oldest(&mut state);
        }
        // As long as a call runs, its client may come back for the answer.
        let runs = self.is_answer() && state.end == End::Open;
        state.reader.is_none() && old(state.rests) && !runs
    }

    /// Drops all that its reader was given, or could come back for.
    pub fn shed(&self) {
        let mut state = self.lock();
        while self.can_drop(&state) {
            self.drop_oldest(&mut state);
        }
    }

    /// Nobody may come back any more.
    pub fn abandon(&self) {
        let mut state = self.lock();
        while self.can_drop(&state) {
            self.drop_oldest(&mut state);
        }
        state.floor = u64::MAX;
    }

    /// Lets whoever waits for it look again.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }

    /// As a text for `Last-Event-ID`.
    fn id(&self, event: u64) -> String {
        EventId { stream: self.number, event, proof: self.proof }.to_string()
    }

    fn framed(&self, message: &[u8], event: u64) -> Bytes {
        let mut out = BytesMut::new();
        match self.framing {
            Framing::Numbered => sse::encode(&mut out, "message", Some(&self.id(event)), message),
            Framing::Events => sse::encode(&mut out, "message", None, message),
            Framing::Lines => {
                out.reserve(message.len() + 1);
                out.extend_from_slice(&sse::flatten(Bytes::copy_from_slice(message)));
                out.extend_from_slice(b"\n");
            }
        }
        out.freeze()
    }

    fn limit(&self) -> usize {
        self.account.store.bounds.bytes
    }

    fn push(&self, mut state: MutexGuard<'_, State>, part: Part) {
        if self.is_gone(&state) {
            return;
        }
        self.account.take(part.cost());
        state.kept += part.cost();
        state.parts.push_back(part);
        self.bound(&mut state);
        drop(state);
        self.wake.notify_waiters();
    }

    /// The next parts for the reader.
    fn give(&self, state: &mut State) -> Bytes {
        let from = state.given;
        // A line is a write of its own: there are clients that lose a notice if the answer comes with it in one piece.
        let most = if self.framing == Framing::Lines { 0 } else { BURST };
        let mut size = 0;
        let fits = |part: &&Part| {
            size += part.text.len();
            size <= most
        };
        let count = state.parts.iter().skip(from).take_while(fits).count().max(1);
        state.given = from + count;
        let mut parts = state.parts.range(from..state.given).map(|part| part.text.clone());
        let part = match (count, parts.next()) {
            (1, Some(only)) => only,
            (_, first) => first.into_iter().chain(parts).collect::<Vec<_>>().concat().into(),
        };
        if let Some(last) = state.parts.get(state.given - 1) {
            // Nobody comes back after an event that is not whole.
            let partly = state.midway && last.event == state.last;
            state.shown = state.shown.max(last.event - u64::from(partly));
        }
        if !self.is_numbered() {
            while state.given > 0 {
                self.drop_oldest(state);
            }
        }
        part
    }

    fn leave(&self, state: &mut State) {
        state.reader = None;
        state.leave = None;
        state.rests = clock::now();
        if self.is_gone(state) {
            while !state.parts.is_empty() {
                self.drop_oldest(state);
            }
        }
    }

    fn is_gone(&self, state: &State) -> bool {
        state.reader.is_none() && (!self.is_numbered() || state.floor > state.shown)
    }

    /// Keeps to the limit of bytes, as far as the reader was given what has to go.
    fn bound(&self, state: &mut State) {
        while state.kept > self.limit() && self.can_drop(state) {
            self.drop_oldest(state);
        }
    }

    fn can_drop(&self, state: &State) -> bool {
        !state.parts.is_empty() && (state.given > 0 || state.reader.is_none())
    }

    fn drop_oldest(&self, state: &mut State) {
        let Some(part) = state.parts.pop_front() else { return };
        state.given = state.given.saturating_sub(1);
        state.kept -= part.cost();
        state.floor = state.floor.max(part.event);
        self.account.give_back(part.cost());
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held leaves counts wrong at worst.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Track {
    fn drop(&mut self) {
        let kept = self.state.get_mut().unwrap_or_else(PoisonError::into_inner).kept;
        self.account.give_back(kept);
        if self.is_numbered() {
            self.account.store.leave();
        }
    }
}

fn head(id: Option<&str>) -> Bytes {
    let mut out = BytesMut::with_capacity(80);
    sse::head(&mut out, "message", id);
    out.freeze()
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests;
