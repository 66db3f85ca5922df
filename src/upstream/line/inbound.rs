//! What comes in on a line: each message to the call it belongs to, the end to all.
//!
//! *Invariants.* Nothing here waits for a client, so that one slow client holds up nobody (F-029, F-087).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::oversized::meant;
use super::{Line, Outlet};
use crate::framing::oversized::Oversized;
use crate::jsonrpc::{Message, batch, id, text};
use crate::upstream::inbound::{self, Inbound};
use crate::upstream::patron::Bound;
use crate::upstream::progress;
use crate::upstream::report::Dropped;

impl<O: Outlet> Line<O> {
    /// Hands out a text of the other side: a message, or a batch of them (RPC-15). Says whether all of it was that.
    pub fn take(self: &Arc<Self>, text: &Bytes) -> bool {
        if batch::is_batch(text) {
            let (messages, bad) = inbound::messages(text.clone());
            messages.into_iter().for_each(|message| self.sort(message));
            return bad == 0;
        }
        match Message::parse(text.clone()) {
            Ok(message) => self.sort(message),
            Err(error) => {
                // Whoever sends both a result and an error has answered, and wrongly (RPC-06, F-040).
                let leg = error.id().and_then(|id| self.legs().remove(&id.as_number()?));
                let Some(leg) = leg else { return false };
                let why = format!("its answer is no message: {error}");
                leg.mailbox.answer(Err(self.manners.blame.protocol(why)));
            }
        }
        true
    }

    fn sort(self: &Arc<Self>, message: Message) {
        match Inbound::of(message) {
            Inbound::Answer(message) => self.answered(message),
            Inbound::Progress(message) => self.progressed(&message),
            Inbound::Aside(message) => self.told(message),
        }
    }

    /// On a line nothing says which call a message belongs to: to the one that is alone, or to none (STDIO-09).
    fn told(self: &Arc<Self>, message: Message) {
        let open: Vec<_> = self.legs().values().filter_map(|waiting| waiting.notices.clone()).collect();
        let patron = &self.manners.patron;
        match &*open {
            [only] => patron.take(self, message, Bound::Call(only)),
            _ => patron.take(self, message, Bound::Unknown(open)),
        }
    }

    fn answered(&self, message: Message) {
        let waiting = {
            let mut legs = self.legs();
            let number = number(&message).or_else(|| {
                // An id that we never sent, or none: it can only mean the call that is alone (F-039, RPC-04).
                let mut open = legs.keys();
                open.next().copied().filter(|_| open.next().is_none())
            });
            number.and_then(|number| legs.remove(&number))
        };
        match waiting {
            Some(waiting) => waiting.mailbox.answer(Ok(message)),
            None => self.report().dropped(Dropped::Late),
        }
    }

    fn progressed(&self, message: &Message) {
        let legs = self.legs();
        let waiting = progress::request_of(message).and_then(|id| legs.get(&id));
        let Some(waiting) = waiting else {
            return self.report().dropped(Dropped::Progress);
        };
        waiting.mailbox.alive();
        if let (Some(progress), Some(notices)) = (&waiting.progress, &waiting.notices)
            && let Some(notice) = progress.readdress(message)
        {
            notices.add(notice);
        }
    }

    /// Takes what is left of a message that was too large. Only the call whose answer it was fails (F-035).
    pub fn oversized(&self, frame: &Oversized) {
        self.report().dropped(Dropped::Oversized);
        let waiting = {
            let mut legs = self.legs();
            meant(frame, legs.keys().copied()).and_then(|number| legs.remove(&number))
        };
        if let Some(waiting) = waiting {
            let (bytes, most) = (frame.bytes, self.manners.max_message);
            let why = format!("its answer of {bytes} bytes exceeds `maxMessage`, {most} bytes");
            waiting.mailbox.answer(Err(self.manners.blame.protocol(why)));
        }
    }

    /// Nothing comes any more, for this reason: all calls fail (F-026).
    pub fn end(&self, why: impl Into<Arc<str>>) {
        self.lose(why);
        let legs = std::mem::take(&mut *self.legs());
        legs.into_values().for_each(|waiting| waiting.mailbox.end());
        if self.lost.get().is_some() && self.manners.serves_catalog && self.met.load(Ordering::Relaxed) {
            self.manners.patron.unbound.connection_lost();
        }
    }
}

/// The id of an answer by our numbering, also where it came back as a string (F-039).
fn number(message: &Message) -> Option<u64> {
    message.id_number().or_else(|| {
        let id = message.id()?;
        id::number(text::unquote(id.text())?.as_bytes())
    })
}
