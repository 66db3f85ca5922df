//! The streams and the open questions of one session, and what waits for them: what an outbox keeps behind its lock.
//!
//! *Invariants.* A question that waits has no place; one with a place does not wait.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::caps;
use crate::downstream::legacy::asked::Asked;
use crate::downstream::legacy::track::Track;
use crate::jsonrpc::Object;
use crate::jsonrpc::message::compose;

/// What changes of an outbox, behind its lock.
#[derive(Default)]
pub(super) struct Inner {
    /// Open questions.
    pub(super) asked: Asked,
    /// For the newest standing stream, oldest first.
    pub(super) waiting: VecDeque<Waiting>,
    /// Standing streams that are read, newest last.
    pub(super) standing: Vec<Arc<Track>>,
    /// All streams that are read or can be resumed, oldest first.
    pub(super) tracks: Vec<Arc<Track>>,
    /// There is one stream for all that goes to the client.
    pub(super) attached: bool,
    /// How many streams there have been.
    pub(super) opened: u32,
    /// The session has ended.
    pub(super) closed: bool,
}

/// What waits for a stream.
pub(super) enum Waiting {
    /// A notice, ready for the client.
    Notice(Bytes),
    /// An open question.
    Question(u64),
}

impl Inner {
    /// Makes a stream the newest standing one.
    pub(super) fn stand(&mut self, track: Arc<Track>) {
        if self.closed {
            return;
        }
        self.standing.retain(|other| !Arc::ptr_eq(other, &track));
        if self.standing.len() >= caps::STREAMS_PER_SESSION {
            self.standing.remove(0).send_away(None);
        }
        self.standing.push(track);
    }

    /// R-62: a question whose stream has ended waits again, under the same id.
    pub(super) fn offer_again(&mut self) {
        for (id, open) in self.asked.iter() {
            if let Some(track) = open.place.take_if(|track| !track.is_read()) {
                track.forget(id);
                self.waiting.push_back(Waiting::Question(id));
            }
        }
    }

    /// Asks a question on this stream; says whether it could be.
    pub(super) fn put(&mut self, id: u64, track: &Arc<Track>) -> bool {
        let Some(open) = self.asked.find(id) else { return false };
        let done = track.append(&open.text, id);
        open.place = done.then(|| track.clone());
        done
    }

    /// Takes a question back: the client is told where it was asked (CANC-06).
    pub(super) fn withdraw(&mut self, id: u64) {
        let Some(open) = self.asked.remove(id) else { return };
        let Some(track) = open.place else {
            self.waiting.retain(|waiting| !matches!(waiting, Waiting::Question(other) if *other == id));
            return;
        };
        if track.forget(id) {
            return;
        }
        let params = format!(r#"{{"requestId":{id}}}"#);
        let notice = compose(None, "notifications/cancelled", &params);
        if !track.append(&notice, 0) {
            self.waiting.push_back(Waiting::Notice(notice));
            self.wake();
        }
    }

    /// HTTP-19: without a standing stream, a question goes with a call to the same upstream.
    pub(super) fn feed_answer(&mut self, track: &Arc<Track>) -> bool {
        if self.waiting.is_empty() {
            return false;
        }
        let Some(upstream) = track.upstream() else { return false };
        let (mut some, waiting) = (false, std::mem::take(&mut self.waiting));
        for message in waiting {
            let asked = match message {
                Waiting::Question(id)
                    if self.asked.find(id).is_some_and(|open| open.upstream == upstream) =>
                {
                    self.put(id, track)
                }
                _ => false,
            };
            some |= asked;
            if !asked {
                self.waiting.push_back(message);
            }
        }
        some
    }

    /// Wakes those who may take what waits.
    pub(super) fn wake(&self) {
        match self.standing.last() {
            Some(newest) => newest.wake(),
            None if self.waiting.is_empty() => {}
            None => self.tracks.iter().filter(|track| track.is_answer()).for_each(|track| track.wake()),
        }
    }

    /// Drops the oldest notices where too many wait.
    pub(super) fn bound(&mut self, most: usize) {
        let notice = |waiting: &Waiting| matches!(waiting, Waiting::Notice(_));
        loop {
            let (mut count, mut bytes) = (0, 0);
            for waiting in &self.waiting {
                if let Waiting::Notice(text) = waiting {
                    count += 1;
                    bytes += text.len();
                }
            }
            if count <= most && (bytes <= caps::WAITING_BYTES || count <= 1) {
                return;
            }
            let Some(oldest) = self.waiting.iter().position(notice) else { return };
            self.waiting.remove(oldest);
        }
    }

    /// Forgets the oldest streams that nobody reads, those first whose answer is there.
    pub(super) fn make_room(&mut self) {
        if self.tracks.len() < caps::RESUMABLE_STREAMS {
            return;
        }
        let unread = self.tracks.iter().filter(|track| !track.is_read()).count();
        if unread < caps::RESUMABLE_STREAMS {
            return;
        }
        let ended = self.tracks.iter().position(|track| !track.is_read() && track.is_ended());
        let oldest = ended.or_else(|| self.tracks.iter().position(|track| !track.is_read()));
        if let Some(oldest) = oldest {
            self.tracks.remove(oldest).abandon();
        }
    }
}

/// HTTP-19: whether a notice is worth waiting for a stream; others tell of what is over by then.
pub(super) fn waits(notice: &[u8]) -> bool {
    let method = Object::scan(notice, 0).ok().and_then(|message| message.string(notice, "method"));
    matches!(
        method.as_deref(),
        Some("notifications/resources/updated" | "notifications/elicitation/complete")
    )
}
