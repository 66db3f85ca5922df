//! One request and its answer, in whichever form it comes: JSON, a stream of events, a refusal.
//!
//! The answer is found by its id, not by its place or the end of the stream (F-006, F-012).

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderMap};
use http::{HeaderName, HeaderValue, Method, StatusCode};

use crate::base::{backoff, caps, clock};
use crate::call::{Answer, Body, Fault};
use crate::config::snapshot::RemoteKind;
use crate::jsonrpc::{Kind, Message, batch, id, text};
use crate::upstream::blame::Blame;
use crate::upstream::deadline::Deadline;
use crate::upstream::exchange::Notices;
use crate::upstream::flight::Failure;
use crate::upstream::http::aside;
use crate::upstream::http::content::{Content, ContentError};
use crate::upstream::http::events::{EventError, Events};
use crate::upstream::http::large::Large;
use crate::upstream::http::post::Received;
use crate::upstream::http::refusal::{Refusal, Refused, readdressed};
use crate::upstream::http::session::{HttpConnection, SESSION_ID, Side};
use crate::upstream::http::unmet::status_told;
use crate::upstream::inbound;
use crate::upstream::leg::{Leg, Reason, Watch};
use crate::upstream::patron::Bound;
use crate::upstream::progress::{self, Progress};
use crate::upstream::report::Dropped;
use crate::upstream::request;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// JSON answers up to this size are read whole; larger ones flow through.
const SMALL: usize = 64 * 1024;
/// Attempts in a row, without anything new, to resume a stream that broke before its answer (HTTP-35).
const RESUMES: u32 = 5;
/// The pause before a resume, when the upstream names none.
const RESUME_PAUSE: Duration = Duration::from_millis(500);

/// What a request is to be treated by.
pub(super) struct Round<'a> {
    /// Our id.
    pub id: u64,
    /// Whether it may be repeated.
    pub safe: bool,
    /// For how long.
    pub deadline: &'a Deadline,
    /// Where its progress goes.
    pub progress: Option<&'a Progress>,
    /// Where goes what else comes before the answer; none for the handshake.
    pub notices: Option<&'a Arc<Notices>>,
    /// The largest JSON answer that is read whole.
    pub collect: usize,
    /// Whether it carries a session id.
    pub session: bool,
    /// Set as soon as it may have left.
    pub sent: &'a AtomicBool,
}

/// What came back.
pub(super) enum Got {
    /// The answer.
    Message(Message),
    /// The beginning of a large answer, and the rest as it comes.
    Large(Vec<Bytes>, Box<Content>),
    /// The session is gone; the request was not executed.
    SessionGone,
    /// The first `initialize` was refused with a status by which servers of the older transport are known (HTTP-38).
    Unspoken(StatusCode),
}

impl HttpConnection {
    /// Makes a call.
    ///
    /// *On drop* before its end: the request is cancelled upstream and its connection closed.
    ///
    /// # Errors
    /// What failed.
    pub async fn call(self: &Arc<Self>, leg: Leg<'_>) -> Result<Answer, Fault> {
        let id = self.next_id();
        let watch = Watch::new(|why: Reason| self.post_aside(request::cancelled(id, why.text(leg.call))));
        match self.attempts(leg, id, &watch).await {
            Ok(body) => {
                watch.settle();
                Ok(Answer { body, rewrites: leg.call.method.rewrites, uris: None, watch: None })
            }
            Err(fault) => {
                watch.failed(&fault);
                Err(fault)
            }
        }
    }

    /// Sends a call, and once more if its session was gone.
    async fn attempts<F: FnOnce(Reason)>(
        self: &Arc<Self>,
        leg: Leg<'_>,
        id: u64,
        watch: &Watch<F>,
    ) -> Result<Body, Fault> {
        let text = request::write(leg.call, id);
        let progress =
            leg.call.progress.as_ref().map(|(_, token)| Arc::new(Progress::new(id, token.clone())));
        let _listed = progress.as_ref().map(|progress| Listed::new(self, id, progress, leg.notices));
        let mut renewed = false;
        loop {
            let live = self.live();
            let round = Round {
                id,
                safe: leg.call.method.safe,
                deadline: leg.deadline,
                progress: progress.as_deref(),
                notices: Some(leg.notices),
                collect: SMALL,
                session: live.session.is_some(),
                sent: &watch.sent,
            };
            match self.round(&live.post, text.clone(), &round).await.map_err(|failure| failure.fault)?.0 {
                Got::Message(message) => return Ok(Body::Message(message)),
                Got::Large(parts, content) => return Ok(Large::new(parts, content, self, &round).into_body()),
                // Only `initialize` is answered so.
                Got::Unspoken(status) => return Err(self.way.blame.protocol(status_told(status))),
                Got::SessionGone if renewed => {
                    return Err(self.way.blame.broken("it ends its sessions at once"));
                }
                Got::SessionGone => {
                    watch.refused();
                    let renewal = Box::pin(self.renew(live.number));
                    leg.deadline.before(renewal).await?.map_err(|failure| failure.fault)?;
                    renewed = true;
                }
            }
        }
    }

    /// Sends a request and waits for its answer; with it, the session id that came.
    ///
    /// # Errors
    /// What failed.
    pub(super) async fn round(
        self: &Arc<Self>,
        headers: &HeaderMap,
        text: Bytes,
        round: &Round<'_>,
    ) -> Result<(Got, Option<HeaderValue>), Failure> {
        // Pinned first, so that it is not moved into each of the futures around it.
        let send = pin!(self.way.endpoint.send(Method::POST, headers, text, round.sent));
        let received = round.deadline.next(send).await.map_err(|fault| self.silent(round.deadline, fault))?;
        let received = received.map_err(|error| self.way.failure(error, round.safe))?;
        if !received.status.is_success() {
            // In boxes, here and below: what is rare must not make each call's future large.
            let got = Box::pin(self.refusal(received, round)).await;
            return got.map(|got| (got, None)).map_err(Failure::plain);
        }
        let issued = received.headers.get(SESSION_ID).filter(|id| is_session_id(id)).cloned();
        let got = match kind(&received.headers) {
            Some(Form::Json) => self.json(received.content, round).await,
            Some(Form::Events) => Box::pin(self.events(received.content, round)).await.map(Got::Message),
            None => Err(self.way.blame.protocol("its answer is neither JSON nor an event stream")),
        };
        got.map(|got| (got, issued)).map_err(Failure::plain)
    }

    async fn refusal(&self, received: Received, round: &Round<'_>) -> Result<Got, Fault> {
        let Received { status, headers, content } = received;
        self.way.unbound.report.refused(status.as_u16());
        // Of the handshake of a connection that has had none.
        let first = round.notices.is_none() && self.live().number == 0;
        let old = first && self.way.kind == RemoteKind::Auto && matches!(status.as_u16(), 400 | 404 | 405);
        let body = round.deadline.next(content.head(caps::ERROR_BODY_BYTES)).await?;
        let refused = Refused {
            status,
            headers: &headers,
            body: &body,
            id: round.id,
            safe: round.safe,
            session: round.session,
        };
        match refused.meaning(&self.way.blame) {
            Refusal::Error(message) => Ok(Got::Message(message)),
            Refusal::SessionGone => Ok(Got::SessionGone),
            Refusal::Fault(Fault::Protocol { .. }) if old => Ok(Got::Unspoken(status)),
            Refusal::Fault(fault) => Err(fault),
        }
    }

    async fn json(self: &Arc<Self>, mut content: Content, round: &Round<'_>) -> Result<Got, Fault> {
        if content.declared().is_some_and(|length| length > self.way.max_message as u64) {
            return Err(too_large(&self.way.blame, self.way.max_message));
        }
        let (mut parts, mut total) = (Vec::new(), 0);
        if content.declared().is_some_and(|length| length > round.collect as u64) {
            return Ok(Got::Large(parts, Box::new(content)));
        }
        while let Some(chunk) = round.deadline.next(content.next()).await? {
            let chunk = chunk.map_err(|error| self.cut(&error, round.safe))?;
            total += chunk.len();
            parts.push(chunk);
            if total > round.collect {
                return Ok(Got::Large(parts, Box::new(content)));
            }
        }
        let text = match parts.len() {
            1 => parts.swap_remove(0),
            _ => parts.concat().into(),
        };
        self.only(text, round)
    }

    /// The answer in a JSON body: there is one, so its id is not looked at (F-039).
    fn only(self: &Arc<Self>, text: Bytes, round: &Round<'_>) -> Result<Got, Fault> {
        let wrong = |why: String| self.way.blame.protocol(why);
        if batch::is_batch(&text) {
            let (messages, _) = inbound::messages(text);
            let mut found = None;
            for message in messages {
                match message.kind() {
                    Kind::Result | Kind::Error if found.is_none() => found = Some(message),
                    _ => self.beside(message, round),
                }
            }
            return found.map(Got::Message).ok_or_else(|| wrong("its answer holds no response".into()));
        }
        let message =
            Message::parse(text).map_err(|error| wrong(format!("its answer is no message: {error}")))?;
        match message.kind() {
            Kind::Result => Ok(Got::Message(message)),
            Kind::Error if message.id_span().is_some() => Ok(Got::Message(message)),
            Kind::Error => readdressed(&message, round.id)
                .map(Got::Message)
                .ok_or_else(|| wrong("its error is none".into())),
            Kind::Request | Kind::Notification => Err(wrong("it answers with a message of its own".into())),
        }
    }

    /// Reads events up to the answer, resuming the stream if it breaks (HTTP-35).
    async fn events(self: &Arc<Self>, content: Content, round: &Round<'_>) -> Result<Message, Fault> {
        let mut events = Events::new(content, self.way.max_message);
        let (mut last_id, mut resumes) = (None, 0);
        loop {
            if let Some(message) = self.until_answer(&mut events, round).await? {
                events.finish();
                return Ok(message);
            }
            if events.last_id().is_some_and(|id| last_id.replace(id.clone()) != Some(id)) {
                // It got on: however often it closes its streams, its answer is waited for.
                resumes = 0;
            }
            let Some(last_id) = &last_id else { return Err(self.way.lost(round.safe)) };
            if let (Some(notices), true) = (round.notices, events.ended_well()) {
                notices.pause(events.retry());
            }
            let pause = events.retry().unwrap_or(RESUME_PAUSE);
            events = loop {
                resumes += 1;
                if resumes > RESUMES {
                    return Err(self.way.lost(round.safe));
                }
                round.deadline.next(clock::sleep(backoff::stretched(pause))).await?;
                match Box::pin(self.resume(last_id, round)).await? {
                    Resumed::Stream(content) => break Events::new(*content, self.way.max_message),
                    Resumed::NotNow => {}
                    Resumed::Never => return Err(self.way.lost(round.safe)),
                }
            };
        }
    }

    /// Reads events until the answer or the end.
    async fn until_answer(
        self: &Arc<Self>,
        events: &mut Events,
        round: &Round<'_>,
    ) -> Result<Option<Message>, Fault> {
        while let Some(event) = round.deadline.next(events.next()).await? {
            let data = match event {
                Ok(data) => data,
                Err(EventError::Oversized(_)) => {
                    return Err(too_large(&self.way.blame, self.way.max_message));
                }
                Err(EventError::Inflate(error)) => return Err(self.way.blame.protocol(error.to_string())),
            };
            let (messages, bad) = match Message::parse(data.clone()) {
                Ok(message) => (vec![message], 0),
                // Whoever sends both a result and an error has answered, and wrongly (RPC-06, F-040).
                Err(error) if error.id().is_some_and(|id| id.as_number() == Some(round.id)) => {
                    return Err(self.way.blame.protocol(format!("its answer is no message: {error}")));
                }
                Err(_) => inbound::messages(data),
            };
            if bad > 0 {
                self.way.unbound.report.dropped(Dropped::Malformed);
            }
            let mut found = None;
            for message in messages {
                match self.is_answer(&message, round.id) {
                    true if found.is_none() => found = Some(message),
                    _ => self.beside(message, round),
                }
            }
            match found {
                Some(message) if message.id_span().is_none() => {
                    return readdressed(&message, round.id)
                        .map(Some)
                        .ok_or_else(|| self.way.blame.protocol("its error is none"));
                }
                Some(message) => return Ok(Some(message)),
                None => {}
            }
        }
        Ok(None)
    }

    /// Whether a message answers our request: by its id, by an id that only has the wrong type (F-039), or
    /// as an error without one, which belongs to the request on whose stream it came (RPC-04).
    fn is_answer(&self, message: &Message, wanted: u64) -> bool {
        if !matches!(message.kind(), Kind::Result | Kind::Error) {
            return false;
        }
        match message.id() {
            None => true,
            Some(other) => {
                other.as_number() == Some(wanted)
                    || text::unquote(other.text()).and_then(|text| id::number(text.as_bytes()))
                        == Some(wanted)
            }
        }
    }

    /// A message that comes before the answer.
    fn beside(self: &Arc<Self>, message: Message, round: &Round<'_>) {
        if message.method() == progress::METHOD
            && let (Some(progress), Some(notices)) = (round.progress, round.notices)
            && let Some(notice) = progress.readdress(&message)
        {
            notices.add(notice);
            return;
        }
        let bound = round.notices.map_or(Bound::Unknown(Vec::new()), Bound::Call);
        aside::take(self, message, bound);
    }

    /// Asks for what came after `last_id`.
    async fn resume(&self, last_id: &Bytes, round: &Round<'_>) -> Result<Resumed, Fault> {
        let mut headers = self.live().get.clone();
        let Ok(value) = HeaderValue::from_maybe_shared(last_id.clone()) else { return Ok(Resumed::Never) };
        headers.insert(LAST_EVENT_ID, value);
        let sent = AtomicBool::new(false);
        let send = self.way.endpoint.send(Method::GET, &headers, Bytes::new(), &sent);
        Ok(match round.deadline.next(send).await? {
            Ok(received) if received.status.is_success() && kind(&received.headers) == Some(Form::Events) => {
                Resumed::Stream(Box::new(received.content))
            }
            Ok(received) if received.status.is_server_error() => Resumed::NotNow,
            Ok(_) => Resumed::Never,
            Err(_) => Resumed::NotNow,
        })
    }

    /// A body that ended too early.
    pub(super) fn cut(&self, error: &ContentError, safe: bool) -> Fault {
        match error {
            ContentError::Lost(_) => self.way.lost(safe),
            ContentError::Inflate(error) => self.way.blame.protocol(error.to_string()),
        }
    }
}

enum Resumed {
    Stream(Box<Content>),
    NotNow,
    Never,
}

/// Keeps a call among those whose progress may come on another stream.
struct Listed<'a> {
    connection: &'a HttpConnection,
    id: u64,
}

impl<'a> Listed<'a> {
    fn new(
        connection: &'a HttpConnection,
        id: u64,
        progress: &Arc<Progress>,
        notices: &Arc<Notices>,
    ) -> Self {
        let side = Side { progress: Arc::clone(progress), notices: Arc::clone(notices) };
        connection.sides().insert(id, side);
        Self { connection, id }
    }
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.connection.sides().remove(&self.id);
    }
}

pub(super) fn too_large(blame: &Blame, max: usize) -> Fault {
    blame.protocol(format!("its answer exceeds `maxMessage`, {max} bytes"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Json,
    Events,
}

/// What a body is, by its Content-Type.
pub(super) fn kind(headers: &HeaderMap) -> Option<Form> {
    let value = headers.get(CONTENT_TYPE)?.to_str().ok()?;
    let kind = value.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Some(Form::Json);
    }
    kind.eq_ignore_ascii_case("text/event-stream").then_some(Form::Events)
}

/// Visible ASCII of a sane length (HTTP-25).
fn is_session_id(value: &HeaderValue) -> bool {
    !value.is_empty()
        && value.len() <= caps::SESSION_ID_BYTES
        && value.as_bytes().iter().all(u8::is_ascii_graphic)
}
