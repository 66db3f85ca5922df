//! A question: what an upstream asks a client while it is at work, and the way its answer takes back.
//!
//! Both ends notice when the other goes. An [`Asker`] that is dropped without an answer tells the upstream that nobody
//! will answer; a [`Hearing`] that is dropped withdraws the question, and the client is told.

use std::fmt;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::call::upstream::UpstreamId;
use crate::jsonrpc::{ErrorObject, Id, Message};
use crate::mcp::questions::QuestionKind;

/// Messages that may wait for an upstream that is slow to hear: progress beyond it is lost, the answer never is.
const WAITING: usize = 8;

/// A request of an upstream to a client, not yet addressed to it (RPC-07).
pub struct Question {
    /// Who asks.
    pub upstream: UpstreamId,
    /// For what.
    pub kind: QuestionKind,
    /// The value of `params` as JSON text, empty for none. Its progress token is still the upstream's own.
    pub params: Bytes,
    /// Where the answer goes.
    pub asker: Asker,
}

/// What comes back for a question.
#[derive(Debug)]
pub enum Heard {
    /// The client reports progress: its notification as it wrote it (PROG-07).
    Progress(Message),
    /// The client's response, a result or an error, as it wrote it; nothing follows.
    Answer(Message),
}

/// The end of a question at which it is answered.
///
/// *On drop* before an answer: the upstream learns that there will be none.
pub struct Asker {
    to: mpsc::Sender<Heard>,
    /// Kept for the answer, so that it finds room however much progress there was.
    room: mpsc::OwnedPermit<Heard>,
}

/// The end of a question at which the answer is awaited.
///
/// *On drop*: the question is withdrawn.
pub struct Hearing(mpsc::Receiver<Heard>);

/// Both ends of a question.
#[must_use]
pub fn ask() -> (Asker, Hearing) {
    let (to, from) = mpsc::channel(WAITING);
    match to.clone().try_reserve_owned() {
        Ok(room) => (Asker { to, room }, Hearing(from)),
        // A channel that was just made is open and empty.
        Err(_) => unreachable!("a new channel has room"),
    }
}

impl Asker {
    /// Hands over the answer.
    pub fn answer(self, response: Message) {
        self.room.send(Heard::Answer(response));
    }

    /// Answers with an error, for whoever will not put the question to a client.
    pub fn refuse(self, error: &ErrorObject) {
        // The id is replaced by the upstream's own, like that of any answer.
        if let Ok(response) = Message::parse(error.answer(Some(&Id::number(0)))) {
            self.answer(response);
        }
    }

    /// Hands over progress.
    pub fn progress(&self, notification: Message) {
        // An upstream that does not keep up misses some; progress is worth no waiting.
        let _ = self.to.try_send(Heard::Progress(notification));
    }

    /// Waits until the question is withdrawn. Safe to cancel.
    pub async fn withdrawn(&self) {
        self.to.closed().await;
    }
}

impl Hearing {
    /// What comes next; `None` when there will be no answer. Safe to cancel.
    pub async fn next(&mut self) -> Option<Heard> {
        self.0.recv().await
    }
}

impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its text is between the upstream and the client.
        write!(f, "Question({}, {:?})", self.kind.method(), self.upstream)
    }
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asker")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response() -> Message {
        Message::parse(Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#)).unwrap()
    }

    fn progress() -> Message {
        Message::parse(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/progress"}"#)).unwrap()
    }

    /// PROG-07: however much progress there is, the answer comes, and last.
    #[tokio::test]
    async fn prog_07_the_answer_finds_room() {
        let (asker, mut hearing) = ask();
        for _ in 0..100 {
            asker.progress(progress());
        }
        asker.answer(response());
        let mut told = 0;
        while let Some(Heard::Progress(_)) = hearing.next().await {
            told += 1;
        }
        assert_eq!(told, WAITING - 1);
        assert!(hearing.next().await.is_none());
    }

    /// SAMP-10, CANC-06: each end learns that the other has gone.
    #[tokio::test]
    async fn samp_10_each_end_learns_that_the_other_has_gone() {
        let (asker, mut hearing) = ask();
        drop(asker);
        assert!(hearing.next().await.is_none());
        let (asker, hearing) = ask();
        drop(hearing);
        asker.withdrawn().await;
        asker.answer(response());
    }
}
