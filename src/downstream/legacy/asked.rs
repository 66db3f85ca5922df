//! The open questions of one session: what upstreams asked its client, under ids of our own (RPC-07).
//!
//! *Invariants.* An id is never used twice in a session. A question is answered once; what comes later finds nothing
//! (RPC-09).
//! *On drop*: the upstreams learn that nobody will answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::base::tasks;
use crate::call::{Asker, Heard, Question, UpstreamId, ask};
use crate::downstream::legacy::track::Track;
use crate::jsonrpc::error::INVALID_PARAMS;
use crate::jsonrpc::message::compose;
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, ErrorObject, Id, Message, Object};

/// The open questions, by our ids.
#[derive(Debug, Default)]
pub struct Asked {
    open: BTreeMap<u64, Open>,
    last: u64,
}

/// A question without an answer.
#[derive(Debug)]
pub struct Open {
    /// Who asks.
    pub upstream: UpstreamId,
    /// The request as the client gets it.
    pub text: Bytes,
    /// The stream that carried it; none while it waits for one.
    pub place: Option<Arc<Track>>,
    /// Whether it belongs to the call that its first stream answers, and ends with it at the latest when that fails.
    pub bound: bool,
    asker: Asker,
}

impl Asked {
    /// Keeps a question and gives its id; none for one that cannot be put, which is refused. `withdrawn` is run when
    /// the upstream no longer waits.
    pub fn open(&mut self, question: Question, withdrawn: impl FnOnce(u64) + Send + 'static) -> Option<u64> {
        let id = self.last + 1;
        let Some(text) = request(&question, id) else {
            question.asker.refuse(&ErrorObject::new(INVALID_PARAMS, "`params` is not a valid object"));
            return None;
        };
        self.last = id;
        let (asker, mut hearing) = ask();
        let upstream = question.upstream;
        // Ends with the entry: then nothing more is heard.
        let follow = async move {
            loop {
                tokio::select! {
                    biased;
                    // Both are safe to cancel.
                    heard = hearing.next() => match heard {
                        Some(Heard::Progress(notification)) => question.asker.progress(notification),
                        Some(Heard::Answer(response)) => return question.asker.answer(response),
                        None => return,
                    },
                    () = question.asker.withdrawn() => return withdrawn(id),
                }
            }
        };
        tasks::spawn("question", follow).detach();
        self.open.insert(id, Open { upstream, text, place: None, bound: false, asker });
        Some(id)
    }

    /// Takes the client's answer; gives the question's id and the stream that carried it, and none if it is not open
    /// (RPC-09).
    pub fn answer(&mut self, response: Message) -> Option<(u64, Option<Arc<Track>>)> {
        let id = response.id_number()?;
        let open = self.open.remove(&id)?;
        open.asker.answer(response);
        Some((id, open.place))
    }

    /// Passes the client's progress on (PROG-07); what concerns no open question is dropped.
    pub fn progress(&self, notification: Message) {
        let text = notification.text();
        let params = object_at(text, notification.params()).ok().flatten();
        let token = params.and_then(|params| params.find(text, "progressToken"));
        let id = token.and_then(|span| Id::parse(notification.slice(span))?.as_number());
        if let Some(open) = id.and_then(|id| self.open.get(&id)) {
            open.asker.progress(notification);
        }
    }

    /// Takes a question away that nobody waits for.
    pub fn remove(&mut self, id: u64) -> Option<Open> {
        self.open.remove(&id)
    }

    /// The question with this id.
    pub fn find(&mut self, id: u64) -> Option<&mut Open> {
        self.open.get_mut(&id)
    }

    /// All, in the order of their ids.
    pub fn iter(&mut self) -> impl Iterator<Item = (u64, &mut Open)> {
        self.open.iter_mut().map(|(id, open)| (*id, open))
    }

    /// How many are open.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Whether none is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Drops all, at the end of the session.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

/// The request that asks the client; its progress token is our id (PROG-04).
fn request(question: &Question, id: u64) -> Option<Bytes> {
    let params = &question.params;
    if params.is_empty() {
        return Some(compose(Some(id), question.kind.method(), ""));
    }
    let object = Object::scan(params, 0).ok()?;
    let meta = object_at(params, object.find(params, "_meta")).ok()?;
    let mut edits = Edits::new();
    if let Some(token) = meta.and_then(|meta| meta.find(params, "progressToken")) {
        edits.replace(token, Id::number(id).text().clone());
    }
    let params = edits.apply(params);
    Some(compose(Some(id), question.kind.method(), std::str::from_utf8(&params).ok()?))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::call::Hearing;
    use crate::mcp::questions::QuestionKind;

    fn question(params: &'static str) -> (Question, Hearing) {
        let (asker, hearing) = ask();
        let params = Bytes::from_static(params.as_bytes());
        (Question { upstream: UpstreamId(0), kind: QuestionKind::Elicitation, params, asker }, hearing)
    }

    fn message(text: &str) -> Message {
        Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    /// RPC-07, RPC-09, PROG-04, PROG-07: ids are ours, an answer counts once, progress goes by our token.
    #[tokio::test]
    async fn rpc_07_questions_have_ids_of_the_session() {
        let mut asked = Asked::default();
        let (first, mut hearing) = question(r#"{"message":"?","_meta":{"progressToken":"theirs","x":1}}"#);
        let (second, _other) = question("");
        assert_eq!(asked.open(first, |_| {}), Some(1));
        assert_eq!(asked.open(second, |_| {}), Some(2));
        let text = std::str::from_utf8(&asked.find(1).unwrap().text).unwrap().to_owned();
        assert_eq!(
            text,
            r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?","_meta":{"progressToken":1,"x":1}}}"#
        );
        asked.progress(message(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#));
        asked.progress(message(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":1}}"#));
        let answer = message(r#"{"jsonrpc":"2.0","id":1,"result":{"action":"decline"}}"#);
        for wrong in [
            r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
            r#"{"jsonrpc":"2.0","id":3,"result":{}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":1,"message":""}}"#,
        ] {
            assert!(asked.answer(message(wrong)).is_none(), "{wrong}");
        }
        assert!(asked.answer(answer.clone()).is_some());
        assert!(asked.answer(answer).is_none(), "once");
        assert!(matches!(hearing.next().await, Some(Heard::Progress(_))));
        assert!(matches!(hearing.next().await, Some(Heard::Answer(_))));
        assert!(hearing.next().await.is_none());
        assert_eq!(asked.len(), 1);
    }

    /// CANC-06, LIFE-21: a question that is withdrawn is told, one that is dropped has no answer.
    #[tokio::test]
    async fn canc_06_both_ends_may_go() {
        let mut asked = Asked::default();
        let (told, withdrawn) = mpsc::channel();
        let (first, hearing) = question("{}");
        asked.open(first, move |id| told.send(id).unwrap());
        drop(hearing);
        tokio::task::yield_now().await;
        assert_eq!(withdrawn.try_recv(), Ok(1));
        let (second, mut hearing) = question("{}");
        asked.open(second, |_| panic!("nobody withdrew it"));
        asked.clear();
        assert!(hearing.next().await.is_none());
        let (broken, mut hearing) = question("[]");
        assert_eq!(asked.open(broken, |_| {}), None);
        assert!(matches!(hearing.next().await, Some(Heard::Answer(_))));
        assert!(asked.is_empty());
    }
}
