//! The open streams of HTTP+SSE, and which of them are sessions already.
//!
//! *Invariants.* A stream is found only by the principal and at the endpoint that opened it (LSSE-05). It has a place
//! among the sessions from its beginning; with `initialize` the place becomes its session's.
//! *On drop* of what is said about the handshake of a stream, [`Begun`]: it waits for `initialize` again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use dashmap::DashMap;
use tokio::sync::oneshot;

use crate::base::seal::Purpose;
use crate::call::{Endpoint, Principal};
use crate::downstream::legacy::outbox::Reader;
use crate::downstream::legacy::session::Place;

/// What handles of streams are sealed for: a session id of Streamable HTTP is none.
pub(super) const PURPOSE: Purpose = Purpose("stream");

/// How the handshake of a stream ended.
pub(super) enum Outcome {
    /// There is a session; this reads what it has to say.
    Session(Reader),
    /// There is none, and these are the last words of the stream.
    Failure(Bytes),
}

/// The open streams, by their handles.
#[derive(Default)]
pub struct Streams(DashMap<Box<str>, Arc<Stream>>);

/// A stream.
pub(super) struct Stream {
    who: Arc<Principal>,
    endpoint: Endpoint,
    state: Mutex<State>,
}

enum State {
    /// `initialize` is to come.
    Waiting(Waiting),
    /// It has come.
    Begun,
    /// The stream is the session of this id.
    Session(Box<str>),
    /// The stream has ended.
    Over,
}

/// What a stream has until it is a session.
struct Waiting {
    place: Place,
    tell: oneshot::Sender<Outcome>,
}

impl Streams {
    /// Adds a stream; gives what tells how its handshake ended.
    pub(super) fn open(
        &self,
        handle: Box<str>,
        who: Arc<Principal>,
        endpoint: Endpoint,
        place: Place,
    ) -> oneshot::Receiver<Outcome> {
        let (tell, told) = oneshot::channel();
        let state = Mutex::new(State::Waiting(Waiting { place, tell }));
        self.0.insert(handle, Arc::new(Stream { who, endpoint, state }));
        told
    }

    /// The stream with this handle, if it is this caller's at this endpoint.
    pub(super) fn find(&self, handle: &str, who: &Principal, endpoint: Endpoint) -> Option<Arc<Stream>> {
        let stream = self.0.get(handle)?.value().clone();
        (*stream.who == *who && stream.endpoint == endpoint).then_some(stream)
    }

    /// Removes a stream that has ended; gives the id of its session, if it was one.
    pub(super) fn close(&self, handle: &str) -> Option<Box<str>> {
        let (_, stream) = self.0.remove(handle)?;
        match std::mem::replace(&mut *stream.lock(), State::Over) {
            State::Session(id) => Some(id),
            _ => None,
        }
    }

    /// Ends those that are no sessions yet, when draining begins (F-098).
    pub fn end_waiting(&self) {
        for stream in &self.0 {
            let mut state = stream.lock();
            if matches!(*state, State::Waiting(_)) {
                *state = State::Over;
            }
        }
    }
}

impl Stream {
    /// The id of its session, once there is one.
    pub(super) fn session(&self) -> Option<Box<str>> {
        match &*self.lock() {
            State::Session(id) => Some(id.clone()),
            _ => None,
        }
    }

    /// Begins the handshake; `None` where that was done before.
    pub(super) fn begin(self: &Arc<Self>) -> Option<Begun> {
        let mut state = self.lock();
        match std::mem::replace(&mut *state, State::Begun) {
            State::Waiting(Waiting { place, tell }) => {
                Some(Begun { stream: self.clone(), place: Some(place), tell: Some(tell) })
            }
            other => {
                *state = other;
                None
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held cannot have left the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A handshake under way.
pub(super) struct Begun {
    stream: Arc<Stream>,
    /// To be taken by the session.
    pub(super) place: Option<Place>,
    tell: Option<oneshot::Sender<Outcome>>,
}

impl Begun {
    /// The stream is a session from now on; says whether it is still open.
    pub(super) fn succeed(mut self, session: Box<str>, reader: Reader) -> bool {
        let mut state = self.stream.lock();
        if matches!(*state, State::Over) {
            return false;
        }
        *state = State::Session(session);
        drop(state);
        // Where nobody is told, the stream is about to be closed, and its session with it.
        self.tell.take().is_some_and(|tell| tell.send(Outcome::Session(reader)).is_ok())
    }

    /// The stream ends with these words.
    pub(super) fn fail(mut self, words: Bytes) {
        if let Some(tell) = self.tell.take() {
            // Whoever has left need not be told.
            let _ = tell.send(Outcome::Failure(words));
        }
    }

    /// The stream ends.
    pub(super) fn give_up(mut self) {
        self.tell = None;
    }
}

impl Drop for Begun {
    fn drop(&mut self) {
        let mut state = self.stream.lock();
        if !matches!(*state, State::Begun) {
            return;
        }
        *state = match (self.place.take(), self.tell.take()) {
            (Some(place), Some(tell)) => State::Waiting(Waiting { place, tell }),
            _ => State::Over,
        };
    }
}
