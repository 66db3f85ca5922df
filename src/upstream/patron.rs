//! Whom a connection works for, and what its upstream sends unasked: questions, notifications, withdrawals.
//!
//! *Invariants.* A question goes to the session whose call it belongs to, or to the one that owns the connection, and to
//! nobody else (LIFE-15, SAMP-10); every request of an upstream gets an answer, unless it was withdrawn or the
//! connection has ended.
//! *Limits.* [`caps::QUESTIONS_PER_CONNECTION`] questions at once, each for the `question` limit at most (ELIC-17).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use tokio_util::sync::CancellationToken;

use crate::base::{caps, clock, tasks};
use crate::call::{Heard, Hearing, News, Question, Session, ask};
use crate::jsonrpc::error::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND};
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, ErrorObject, Id, Kind, Message, Object};
use crate::mcp::capabilities::ClientCapabilities;
use crate::mcp::methods::ItemKind;
use crate::mcp::project;
use crate::mcp::questions::{self, QuestionKind, Unasked};
use crate::mcp::revision::Revision;
use crate::upstream::exchange::Notices;
use crate::upstream::offer::Policy;
use crate::upstream::progress;
use crate::upstream::report::Dropped;
use crate::upstream::signs::Pause;
use crate::upstream::subscriptions::Subscriptions;
use crate::upstream::unbound::Unbound;

/// The update of a resource.
pub const UPDATED: &str = "notifications/resources/updated";
const CANCELLED: &str = "notifications/cancelled";

/// Whoever announces the same change again within this time announces it all the time.
const MOMENT: Duration = Duration::from_secs(1);

/// Sends messages to an upstream that are no calls.
pub trait Voice: Send + Sync + 'static {
    /// Sends it; done when it has left, or never will.
    fn say(self: Arc<Self>, text: Bytes) -> BoxFuture<'static, ()>;

    /// Cancelled when the connection is to be used no more.
    fn closed(&self) -> &CancellationToken;

    /// The revision that the upstream speaks.
    fn revision(&self) -> Revision;
}

/// What an unasked message belongs to.
pub enum Bound<'a> {
    /// To this call.
    Call(&'a Arc<Notices>),
    /// To none, or that cannot be told; the clocks of these stand still while a client is asked (LIFE-24).
    Unknown(Vec<Arc<Notices>>),
}

/// Whom a connection works for.
pub struct Patron {
    /// What the upstream was told that it may ask for.
    pub shown: ClientCapabilities,
    /// Which sessions listen to which of its resources.
    pub subscriptions: Arc<Subscriptions>,
    /// Where news go.
    pub unbound: Unbound,
    policy: Policy,
    /// For whom; unset for the catalog and for connections of several sessions.
    owner: OnceLock<Arc<Session>>,
    /// For how long a question waits.
    patience: Duration,
    /// The upstream's own ids of its questions without an answer.
    open: Mutex<HashMap<Id, CancellationToken>>,
    /// Those who wait for the answers.
    asking: tasks::Group,
    /// Cancelled when the connection is about to close: whoever was asked has not answered.
    leaving: CancellationToken,
    /// When the upstream said last that lists of a kind had changed.
    changes: Mutex<[Option<Instant>; 4]>,
}

/// What a patron is made of, beside its owner.
#[derive(Clone)]
pub struct Manner {
    /// What the upstream is told that it may ask for.
    pub shown: ClientCapabilities,
    /// What it may ask whom for.
    pub policy: Policy,
    /// For how long a question waits.
    pub patience: Duration,
    /// Outlives the connection.
    pub subscriptions: Arc<Subscriptions>,
}

impl Patron {
    /// For a connection of `owner`, or of nobody in particular.
    #[must_use]
    pub fn new(manner: Manner, unbound: Unbound, owner: Option<Arc<Session>>) -> Self {
        let Manner { shown, policy, patience, subscriptions } = manner;
        let owner = owner.map_or_else(OnceLock::new, OnceLock::from);
        Self {
            shown,
            subscriptions,
            unbound,
            policy,
            owner,
            patience,
            open: Mutex::default(),
            asking: tasks::Group::new(),
            leaving: CancellationToken::new(),
            changes: Mutex::default(),
        }
    }

    /// The session it belongs to, if it belongs to one.
    #[must_use]
    pub fn owner(&self) -> Option<&Arc<Session>> {
        self.owner.get()
    }

    /// Answers the questions that are still open, as far as that can be done within `limit`: the connection is about to
    /// close, and a person who is gone has not said yes (ELIC-20).
    pub async fn settle(&self, limit: Duration) {
        self.leaving.cancel();
        // What has not left by then is lost with the connection.
        let _ = self.asking.drain(limit).await;
    }

    /// Makes it that of a session.
    pub fn belong_to(&self, session: &Arc<Session>) {
        // A connection belongs to one session once and for all.
        let _ = self.owner.set(Arc::clone(session));
    }

    /// Takes a request or a notification, other than progress.
    pub fn take<V: Voice>(self: &Arc<Self>, voice: &Arc<V>, message: Message, bound: Bound<'_>) {
        match message.kind() {
            Kind::Request => self.request(voice, &message, bound),
            Kind::Notification => self.notification(message, bound),
            Kind::Result | Kind::Error => self.unbound.report.dropped(Dropped::Late),
        }
    }

    fn notification(&self, message: Message, bound: Bound<'_>) {
        let method = message.method();
        let kinds = [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource];
        if let Some(kind) = kinds.into_iter().find(|kind| kind.changed() == method) {
            let news = News { owner: self.owner.get(), repeated: self.is_repeated(kind) };
            return self.unbound.list_changed(kind, news);
        }
        match &*method {
            CANCELLED => self.withdrawn(&message),
            UPDATED => self.updated(&message),
            _ => match bound {
                // To be told before the answer, and on its stream (RPC-28).
                Bound::Call(notices) if notices.session.is_some() => {
                    if !notices.raw(message.clone()) {
                        self.unbound.report.dropped(Dropped::Notification);
                    }
                }
                _ => self.told(message.clone()),
            },
        }
    }

    /// Whether the upstream has said the same of these lists a moment ago (F-053).
    fn is_repeated(&self, kind: ItemKind) -> bool {
        let now = clock::now();
        let before = self.changes.lock().unwrap_or_else(PoisonError::into_inner)[kind.index()].replace(now);
        before.is_some_and(|before| now.saturating_duration_since(before) < MOMENT)
    }

    /// What concerns no call goes to the owner. On a connection of several it may tell of another's work (LOG-04).
    fn told(&self, message: Message) {
        match self.owner.get() {
            Some(owner) => self.unbound.told(owner, message),
            None => self.unbound.report.dropped(Dropped::Notification),
        }
    }

    fn updated(&self, message: &Message) {
        if let Some(owner) = self.owner.get() {
            return self.unbound.told(owner, message.clone());
        }
        let params = object_at(message.text(), message.params()).ok().flatten();
        let uri = params.and_then(|params| Some(params.string(message.text(), "uri")?.into_owned()));
        let heard = uri.map(|uri| self.subscriptions.of(&uri)).unwrap_or_default();
        if heard.is_empty() {
            self.unbound.report.dropped(Dropped::Notification);
        }
        heard.iter().for_each(|session| self.unbound.told(session, message.clone()));
    }

    /// CANC-06: the upstream takes a question back.
    fn withdrawn(&self, message: &Message) {
        let params = object_at(message.text(), message.params()).ok().flatten();
        let id = params.and_then(|params| {
            let span = params.find(message.text(), "requestId")?;
            Id::parse(message.slice(span))
        });
        if let Some(question) = id.and_then(|id| self.lock().remove(&id)) {
            question.cancel();
        }
    }

    fn request<V: Voice>(self: &Arc<Self>, voice: &Arc<V>, message: &Message, bound: Bound<'_>) {
        // A request has an id: the message's invariant.
        let Some(id) = message.id() else { return };
        let refusal = match self.fitting(message, &bound) {
            Ok((kind, session)) => match self.put(voice, (id.clone(), kind), message, (session, bound)) {
                Ok(()) => return,
                Err(error) => error.answer(Some(&id)),
            },
            Err(Refusal::Error(error)) => error.answer(Some(&id)),
            Err(Refusal::Answer(result)) => answered(&id, result.as_bytes()),
        };
        tasks::spawn("upstream refusal", Arc::clone(voice).say(refusal)).detach();
    }

    /// Whom a request may be put to.
    fn fitting(&self, message: &Message, bound: &Bound<'_>) -> Result<(QuestionKind, Arc<Session>), Refusal> {
        let method = message.method();
        if method == "ping" {
            return Err(Refusal::Answer("{}"));
        }
        let unknown = || Refusal::Error(ErrorObject::new(METHOD_NOT_FOUND, "Method not found"));
        let kind = QuestionKind::find(&method).ok_or_else(unknown)?;
        let params = match message.params() {
            None => Object::default(),
            Some(span) => Object::scan(message.text(), span.start)
                .map_err(|_| Refusal::wrong("`params` is not an object, or repeats a member"))?,
        };
        let session = match bound {
            Bound::Call(notices) => notices.session.as_ref(),
            Bound::Unknown(_) => None,
        };
        let session = session.or_else(|| self.owner.get()).filter(|session| !session.ended.is_cancelled());
        let allowed = match session {
            Some(session) => self.shown.and(self.policy.toward(session)),
            None => self.shown,
        };
        questions::check(kind, message.text(), &params, allowed).map_err(|unasked| match unasked {
            Unasked::Never => unknown(),
            Unasked::Mode(why) => Refusal::wrong(why),
        })?;
        match session {
            Some(session) => Ok((kind, Arc::clone(session))),
            // Its lists are being read, for clients to come: of files it is shown none.
            None if kind == QuestionKind::Roots => Err(Refusal::Answer(r#"{"roots":[]}"#)),
            None => Err(Refusal::Error(unavailable())),
        }
    }

    /// Puts a question to a session's client.
    fn put<V: Voice>(
        self: &Arc<Self>,
        voice: &Arc<V>,
        (id, kind): (Id, QuestionKind),
        message: &Message,
        (session, bound): (Arc<Session>, Bound<'_>),
    ) -> Result<(), ErrorObject> {
        let withdrawn = CancellationToken::new();
        {
            let mut open = self.lock();
            if open.contains_key(&id) {
                return Err(ErrorObject::new(INVALID_REQUEST, "The id is that of a request in flight"));
            }
            if open.len() >= caps::QUESTIONS_PER_CONNECTION {
                return Err(ErrorObject::new(INTERNAL_ERROR, "Too many requests are waiting for a client"));
            }
            open.insert(id.clone(), withdrawn.clone());
        }
        let params = message.params().map(|span| message.slice(span)).unwrap_or_default();
        let token = progress_token(&params);
        let (asker, hearing) = ask();
        let question = Question { upstream: self.unbound.upstream(), kind, params, asker };
        let (over, pauses) = match bound {
            Bound::Call(notices) => (notices.ask(question), vec![notices.signs.pause()]),
            Bound::Unknown(others) => {
                self.unbound.asked(&session, question);
                (session.ended.clone(), others.iter().map(|other| other.signs.pause()).collect())
            }
        };
        let asking = Asking {
            patron: Arc::clone(self),
            voice: Arc::clone(voice),
            id,
            kind,
            token,
            hearing,
            _pauses: pauses,
        };
        self.asking.spawn("upstream question", asking.run(withdrawn, over)).detach();
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Id, CancellationToken>> {
        // A panic while the lock was held cannot have left the map half changed.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a request is not put to a client.
enum Refusal {
    /// With this error.
    Error(ErrorObject),
    /// It is answered here, with this result.
    Answer(&'static str),
}

impl Refusal {
    fn wrong(why: &'static str) -> Self {
        Self::Error(ErrorObject::new(INVALID_PARAMS, why))
    }
}

/// A question without an answer.
///
/// *On drop*: it is withdrawn, and the clock of its call runs again.
struct Asking<V: Voice> {
    patron: Arc<Patron>,
    voice: Arc<V>,
    id: Id,
    kind: QuestionKind,
    /// The upstream's progress token, as it wrote it (PROG-07).
    token: Option<Id>,
    hearing: Hearing,
    _pauses: Vec<Pause>,
}

impl<V: Voice> Asking<V> {
    /// Waits for the answer and passes it on; `over` is cancelled when the call or the session has ended.
    async fn run(mut self, withdrawn: CancellationToken, over: CancellationToken) {
        let closed = self.voice.closed().clone();
        let patron = Arc::clone(&self.patron);
        let answer = tokio::select! {
            biased;
            // All are safe to cancel. Nobody waits for an answer any more in the first two cases.
            () = withdrawn.cancelled() => return,
            () = closed.cancelled() => return self.forget(),
            answer = self.hear() => answer,
            () = over.cancelled() => None,
            () = patron.leaving.cancelled() => None,
            () = clock::sleep(patron.patience) => None,
        };
        self.forget();
        let text = match answer {
            Some(message) => self.shaped(&message),
            // A person who is gone has not said yes (ELIC-20); of the others an answer is needed (SAMP-10).
            None if self.kind == QuestionKind::Elicitation => answered(&self.id, br#"{"action":"cancel"}"#),
            None => unavailable().answer(Some(&self.id)),
        };
        let voice = Arc::clone(&self.voice);
        drop(self);
        voice.say(text).await;
    }

    /// The client's answer as the upstream's revision has it (VER-11).
    fn shaped(&self, message: &Message) -> Bytes {
        let whole = message.answering(&self.id);
        if self.kind != QuestionKind::Sampling || message.kind() != Kind::Result {
            return whole;
        }
        let result = message.body().map(|span| message.slice(span)).unwrap_or_default();
        match project::sampling_answer(&result, self.voice.revision()) {
            Ok(None) => whole,
            Ok(Some(shaped)) => answered(&self.id, &shaped),
            Err(why) => ErrorObject::new(INTERNAL_ERROR, why.to_string()).answer(Some(&self.id)),
        }
    }

    fn forget(&self) {
        self.patron.lock().remove(&self.id);
    }

    /// The client's answer; none when there will be none. Progress is passed on as it comes.
    async fn hear(&mut self) -> Option<Message> {
        loop {
            match self.hearing.next().await? {
                Heard::Answer(message) => return Some(message),
                Heard::Progress(message) => {
                    if let Some(text) = self.token.as_ref().and_then(|token| readdressed(&message, token)) {
                        Arc::clone(&self.voice).say(text).await;
                    }
                }
            }
        }
    }
}

/// The progress token in the parameters of a request, if there is one.
fn progress_token(params: &Bytes) -> Option<Id> {
    let object = Object::scan(params, 0).ok()?;
    let meta = object_at(params, object.find(params, "_meta")).ok()??;
    Id::parse(params.slice(meta.find(params, "progressToken")?))
}

/// A client's progress under the upstream's token.
fn readdressed(message: &Message, token: &Id) -> Option<Bytes> {
    let params = object_at(message.text(), message.params()).ok()??;
    let mut edits = Edits::new();
    edits.replace(params.find(message.text(), "progressToken")?, token.text().clone());
    Some(message.readdress(None, progress::METHOD, &edits))
}

fn answered(id: &Id, result: &[u8]) -> Bytes {
    [br#"{"jsonrpc":"2.0","id":"#, id.text().as_ref(), br#","result":"#, result, b"}"].concat().into()
}

/// No client can be asked (SAMP-10).
fn unavailable() -> ErrorObject {
    ErrorObject {
        code: INTERNAL_ERROR,
        message: "There is no client to ask".to_owned(),
        data: Some(r#"{"origin":"gateway","reason":"client_unavailable"}"#.to_owned()),
    }
}

#[cfg(test)]
mod tests;
