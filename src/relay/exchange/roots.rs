//! The roots of a session's client, asked for once on behalf of all its upstreams (ROOT-03).
//!
//! Who asks first leads: its question goes to the client. Who asks meanwhile follows and gets the same answer. When the
//! leader's question is withdrawn or lost, one of those who wait leads, in its own way.
//!
//! *Invariants.* Errors are shared and not kept. An answer to a question that was put before the roots changed is not
//! kept, and nobody who asks after the change gets it.
//!
//! *Limits.* 64 wait at a time; an answer above 64 KiB is shared and not kept.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{mpsc, watch};

use crate::base::tasks;
use crate::call::{Heard, Push, Question, Session, ask};
use crate::jsonrpc::error::INTERNAL_ERROR;
use crate::jsonrpc::view::{elements_at, object_at};
use crate::jsonrpc::{Edits, ErrorObject, Id, Kind, Message, Object};

/// Upstreams that may wait for one client's roots: more than ask at a time.
const MOST: usize = 64;

/// Bytes of an answer that is kept: some hundreds of roots.
const KEPT: usize = 64 * 1024;

/// How a question gets to the client.
pub enum Way {
    /// With the call that it belongs to.
    Call(mpsc::Sender<Question>),
    /// Beside all calls.
    Session(Arc<Session>),
}

impl Way {
    /// Whether it could be put.
    fn put(&self, question: Question) -> bool {
        match self {
            Self::Call(call) => call.try_send(question).is_ok(),
            Self::Session(session) => {
                session.client.push(Push::Ask(question));
                true
            }
        }
    }
}

/// What is known of one client's roots.
#[derive(Default)]
pub struct Roots(Mutex<State>);

#[derive(Default)]
struct State {
    kept: Option<Message>,
    /// The question that is being asked, for who follows.
    asked: Option<watch::Receiver<Option<Message>>>,
    waiting: usize,
}

impl Roots {
    /// Forgets what is known (ROOT-01).
    pub fn changed(&self) {
        let mut state = self.lock();
        (state.kept, state.asked) = (None, None);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic while the lock was held cannot have left the state half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers a question for roots, from what is known or by asking the client in this way. The answer is kept where the
/// client would `tell` of a change.
pub fn serve(roots: &Arc<Roots>, question: Question, way: Way, tells: bool) {
    let known = roots.lock().kept.clone();
    if let Some(answer) = known {
        return question.asker.answer(answer);
    }
    let Some(turn) = Turn::begin(roots) else {
        let full = ErrorObject::new(INTERNAL_ERROR, "too many requests for roots are waiting");
        return question.asker.refuse(&full);
    };
    tasks::spawn("roots", turn.run(question, way, tells)).detach();
}

/// One question for roots that waits.
struct Turn(Arc<Roots>);

impl Turn {
    fn begin(roots: &Arc<Roots>) -> Option<Self> {
        let mut state = roots.lock();
        (state.waiting < MOST).then(|| {
            state.waiting += 1;
            Self(Arc::clone(roots))
        })
    }

    async fn run(self, question: Question, way: Way, tells: bool) {
        loop {
            let answer = match self.join() {
                Part::Know(answer) => answer,
                Part::Lead(lead) => {
                    let Some(answer) = lead.ask(&question, &way).await else { return };
                    lead.share(cleaned(answer), tells)
                }
                Part::Follow(mut asked) => {
                    // Both are safe to cancel.
                    let answer = tokio::select! {
                        answer = asked.wait_for(Option::is_some) => answer.ok().and_then(|answer| answer.clone()),
                        () = question.asker.withdrawn() => return,
                    };
                    // Who led has gone: somebody else has to.
                    let Some(answer) = answer else { continue };
                    answer
                }
            };
            return question.asker.answer(answer);
        }
    }

    fn join(&self) -> Part {
        let mut state = self.0.lock();
        if let Some(answer) = &state.kept {
            return Part::Know(answer.clone());
        }
        if let Some(asked) = &state.asked {
            return Part::Follow(asked.clone());
        }
        let (to, asked) = watch::channel(None);
        state.asked = Some(asked);
        Part::Lead(Lead { roots: Arc::clone(&self.0), to })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.lock().waiting -= 1;
    }
}

enum Part {
    Know(Message),
    Lead(Lead),
    Follow(watch::Receiver<Option<Message>>),
}

/// The part of who asks the client.
///
/// *On drop*: another one of those who wait leads.
struct Lead {
    roots: Arc<Roots>,
    to: watch::Sender<Option<Message>>,
}

impl Lead {
    /// The client's answer; none when there will be none, or the one who asks has gone.
    async fn ask(&self, question: &Question, way: &Way) -> Option<Message> {
        let (asker, mut hearing) = ask();
        let (upstream, kind, params) = (question.upstream, question.kind, question.params.clone());
        if !way.put(Question { upstream, kind, params, asker }) {
            return None;
        }
        loop {
            // Both are safe to cancel.
            tokio::select! {
                heard = hearing.next() => match heard? {
                    Heard::Answer(answer) => return Some(answer),
                    Heard::Progress(progress) => question.asker.progress(progress),
                },
                () = question.asker.withdrawn() => return None,
            }
        }
    }

    /// Gives the answer to all who wait for it, and keeps it where that may be.
    fn share(self, answer: Message, tells: bool) -> Message {
        let mut state = self.roots.lock();
        let is_current = self.is_current(&state);
        if is_current && tells && answer.kind() == Kind::Result && answer.text().len() <= KEPT {
            state.kept = Some(answer.clone());
        }
        drop(state);
        self.to.send_replace(Some(answer.clone()));
        answer
    }

    /// Whether the roots have not changed since.
    fn is_current(&self, state: &State) -> bool {
        state.asked.as_ref().is_some_and(|asked| asked.same_channel(&self.to.subscribe()))
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let mut state = self.roots.lock();
        if self.is_current(&state) {
            state.asked = None;
        }
    }
}

/// The answer without what is no file (ROOT-02).
fn cleaned(answer: Message) -> Message {
    match without_others(&answer) {
        Ok(None) => answer,
        Ok(Some(cleaned)) => cleaned,
        Err(error) => {
            let refused = ErrorObject::new(INTERNAL_ERROR, error);
            Message::parse(refused.answer(Some(&Id::number(0)))).unwrap_or(answer)
        }
    }
}

/// The answer with fewer roots; none when it has to lose none.
fn without_others(answer: &Message) -> Result<Option<Message>, &'static str> {
    const UNREADABLE: &str = "the client's roots cannot be read";
    if answer.kind() != Kind::Result {
        return Ok(None);
    }
    let text = answer.text();
    let result = object_at(text, answer.body()).map_err(|_| UNREADABLE)?.ok_or(UNREADABLE)?;
    let Some(span) = result.find(text, "roots") else { return Ok(None) };
    let all = elements_at(text, Some(span.clone())).map_err(|_| UNREADABLE)?;
    let kept: Vec<_> =
        all.iter().filter(|root| is_file(root)).map(|root| String::from_utf8_lossy(root)).collect();
    if kept.len() == all.len() {
        return Ok(None);
    }
    let mut edits = Edits::new();
    edits.replace(span, format!("[{}]", kept.join(",")));
    Message::parse(edits.apply(text)).map(Some).map_err(|_| UNREADABLE)
}

fn is_file(root: &[u8]) -> bool {
    let Ok(object) = Object::scan(root, 0) else { return false };
    let uri = object.string(root, "uri").unwrap_or_default();
    uri.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
}

#[cfg(test)]
mod tests;
