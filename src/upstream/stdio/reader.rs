//! The reader of one child: each message to the call it belongs to, the end to all.
//!
//! *Invariants.* It never waits for a client, so that one slow client holds up nobody (F-029, F-087).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::mpsc;

use super::connection::{LAST_WORDS, Line, Loss};
use super::pipe::{Frame, Noise};
use crate::base::clock;
use crate::framing::oversized::Oversized;
use crate::jsonrpc::{Message, batch, id, text};
use crate::upstream::inbound::{self, Inbound};
use crate::upstream::patron::Bound;
use crate::upstream::progress;
use crate::upstream::report::Dropped;

/// Hands out what a child writes.
pub(super) struct Reader {
    /// Who waits.
    pub line: Arc<Line>,
    /// Counts what is no message.
    pub noise: Arc<Noise>,
}

impl Reader {
    /// Hands out what the child writes until it ends; `exit` says how it ended.
    pub async fn run(self, mut frames: mpsc::Receiver<Frame>, exit: impl Future<Output = String>) {
        tokio::pin!(exit);
        let ended = loop {
            // Both branches are safe to cancel.
            tokio::select! {
                biased;
                frame = frames.recv() => match frame {
                    Some(frame) => self.take(frame),
                    None => break None,
                },
                ended = &mut exit => break Some(ended),
            }
        };
        let why = match ended {
            // Someone else may hold its output open; what it wrote itself is there by now.
            Some(ended) => {
                while let Ok(Some(frame)) = clock::within(LAST_WORDS, frames.recv()).await {
                    self.take(frame);
                }
                format!("its process ended: {ended}")
            }
            None => match clock::within(LAST_WORDS, exit).await {
                Ok(ended) => format!("its process ended: {ended}"),
                Err(clock::Elapsed) => "its process closed its output".to_owned(),
            },
        };
        self.end(why);
    }

    /// Fails all calls (F-026).
    fn end(self, why: String) {
        let manners = &self.line.manners;
        let asked_for = self.line.closed.is_cancelled();
        if !asked_for {
            let loss = Loss { at: clock::now(), why: why.clone().into() };
            // Nobody else sets it.
            let _ = self.line.lost.set(loss);
        }
        self.line.closed.cancel();
        let legs = std::mem::take(&mut *self.line.legs());
        for waiting in legs.into_values() {
            waiting.mailbox.put(Err(manners.blame.broken(why.clone())));
        }
        if !asked_for && manners.serves_catalog && self.line.met.load(Ordering::Relaxed) {
            manners.patron.unbound.connection_lost();
        }
    }

    fn take(&self, frame: Frame) {
        let report = self.line.report();
        let line = match frame {
            Frame::Oversized(oversized) => return self.oversized(&oversized),
            Frame::Message(line) => line,
        };
        report.received(line.len());
        if batch::is_batch(&line) {
            let (messages, bad) = inbound::messages(line.clone());
            if bad > 0 {
                self.noise.skip(&line);
            }
            return messages.into_iter().for_each(|message| self.sort(message));
        }
        match Message::parse(line.clone()) {
            Ok(message) => self.sort(message),
            Err(error) => {
                // Whoever sends both a result and an error has answered, and wrongly (RPC-06, F-040).
                let leg = error.id().and_then(|id| self.line.legs().remove(&id.as_number()?));
                match leg {
                    Some(leg) => {
                        let why = format!("its answer is no message: {error}");
                        leg.mailbox.put(Err(self.line.manners.blame.protocol(why)));
                    }
                    None => self.noise.skip(&line),
                }
            }
        }
    }

    fn sort(&self, message: Message) {
        match Inbound::of(message) {
            Inbound::Answer(message) => self.answer(message),
            Inbound::Progress(message) => self.progress(&message),
            Inbound::Aside(message) => self.aside(message),
        }
    }

    /// On standard streams nothing says which call a message belongs to: to the one that is alone, or to none (STDIO-09).
    fn aside(&self, message: Message) {
        let open: Vec<_> = self.line.legs().values().filter_map(|waiting| waiting.notices.clone()).collect();
        let patron = &self.line.manners.patron;
        match &*open {
            [only] => patron.take(&self.line, message, Bound::Call(only)),
            _ => patron.take(&self.line, message, Bound::Unknown(open)),
        }
    }

    fn answer(&self, message: Message) {
        let waiting = {
            let mut legs = self.line.legs();
            let number = number(&message).or_else(|| {
                // An id that we never sent, or none: it can only mean the call that is alone (F-039, RPC-04).
                let mut open = legs.keys();
                open.next().copied().filter(|_| open.next().is_none())
            });
            number.and_then(|number| legs.remove(&number))
        };
        match waiting {
            Some(waiting) => waiting.mailbox.put(Ok(message)),
            None => self.line.report().dropped(Dropped::Late),
        }
    }

    fn progress(&self, message: &Message) {
        let legs = self.line.legs();
        let waiting = progress::request_of(message).and_then(|id| legs.get(&id));
        let Some(waiting) = waiting else {
            return self.line.report().dropped(Dropped::Progress);
        };
        waiting.mailbox.alive();
        if let (Some(progress), Some(notices)) = (&waiting.progress, &waiting.notices)
            && let Some(notice) = progress.readdress(message)
        {
            notices.add(notice);
        }
    }

    /// Only the call whose answer was too large fails (F-035).
    fn oversized(&self, frame: &Oversized) {
        let manners = &self.line.manners;
        self.line.report().dropped(Dropped::Oversized);
        let waiting = {
            let mut legs = self.line.legs();
            meant(frame, legs.keys().copied()).and_then(|number| legs.remove(&number))
        };
        if let Some(waiting) = waiting {
            let why = format!(
                "its answer of {} bytes exceeds `maxMessage`, {} bytes",
                frame.bytes, manners.max_message
            );
            waiting.mailbox.put(Err(manners.blame.protocol(why)));
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

/// Which of the `open` calls a message is the answer to that was too large to be kept: the one that its id names,
/// or without an id to be seen the one that is alone. Requests and notifications are nobody's answer.
fn meant(frame: &Oversized, mut open: impl Iterator<Item = u64>) -> Option<u64> {
    if frame.members(br#""method""#).next().is_some() {
        return None;
    }
    let id = frame.members(br#""id""#).find_map(|rest| {
        let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        // Also where it came back as a string (F-039).
        let value = value.strip_prefix(b"\"").unwrap_or(value);
        let end = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
        id::number(&value[..end])
    });
    match id {
        Some(id) => open.find(|open| *open == id),
        None => open.next().filter(|_| open.next().is_none()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meant(head: &[u8], tail: &[u8], open: &[u64]) -> Option<u64> {
        let frame = Oversized { bytes: 1 << 30, head: head.to_vec().into(), tail: tail.to_vec().into() };
        super::meant(&frame, open.iter().copied())
    }

    /// F-035
    #[test]
    fn f_035_the_id_is_found_in_the_ends_of_a_message() {
        let open = [9, 17];
        assert_eq!(meant(br#"{"jsonrpc":"2.0","id" : 17,"result":{"id":9,"#, b"x\"}}", &open), Some(17));
        assert_eq!(
            meant(br#"{"result":{"a":[{"id":17,"#, br#"a}"}]},"jsonrpc":"2.0","id":9}"#, &open),
            Some(9)
        );
        assert_eq!(meant(br#"{"id":"9","result":"aa"#, b"aa\"}", &open), Some(9));
    }

    /// F-035: an id further inside is the server's own, and a call is not failed for another's answer.
    #[test]
    fn f_035_an_oversized_message_fails_no_innocent_call() {
        // Another call is in flight, and the items of the answer bear its number.
        assert_eq!(meant(br#"{"id":1,"result":{"items":[{"id":2,"#, br#"{"id":2}]}}"#, &[1, 2]), Some(1));
        assert_eq!(meant(br#"{"result":{"items":[{"id":2,"#, br#"{"id":2}]}}"#, &[1, 2]), None);
        // The answer comes after its call was cancelled.
        assert_eq!(meant(br#"{"id":1,"result":{"items":["#, b"]}}", &[2]), None);
        // No answer at all, whatever number the server gave it.
        assert_eq!(meant(br#"{"method":"notifications/message","params":{"data":""#, b"\"}}", &[2]), None);
        assert_eq!(meant(br#"{"id":2,"method":"sampling/createMessage","params":{"#, b"}}", &[2]), None);
        // An answer that shows no id can only be that of the call that is alone (F-039).
        assert_eq!(meant(br#"{"result":{"items":["#, b"]}}", &[2]), Some(2));
    }
}
