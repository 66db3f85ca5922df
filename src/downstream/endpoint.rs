//! The decision table of an endpoint: which request may do what now (HTTP-01 to HTTP-32).

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::request::Parts;
use http::{HeaderName, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;

use crate::base::clock;
use crate::call::{Endpoint, Principal};
use crate::downstream::answer::respond;
use crate::downstream::body::OutBody;
use crate::downstream::legacy::session::Entry;
use crate::downstream::media::{self, Accepts};
use crate::downstream::one::Begun;
use crate::downstream::rescue::{self, Refusal};
use crate::downstream::shore::Shore;
use crate::downstream::{events, handshake, many, one};
use crate::jsonrpc::scan::ScanError;
use crate::jsonrpc::{Id, Kind, Message, batch};
use crate::mcp::revision::Revision;
use crate::telemetry::words::{SessionEnd, StreamKind};

/// `MCP-Session-Id`; header names have no case.
pub static SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
static PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
static LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// How long a body may take to arrive; a slow client holds nothing but its own connection.
const BODY: Duration = Duration::from_secs(30);

/// Who asks what, where.
#[derive(Clone)]
pub struct Caller<'r> {
    /// The client shore.
    pub shore: &'r Arc<Shore>,
    /// Authenticated in this very request.
    pub who: Arc<Principal>,
    /// Where.
    pub endpoint: Endpoint,
    /// Where the connection comes from; none for a client on this machine, at the Unix socket.
    pub peer: Option<IpAddr>,
    /// The head of the request.
    pub head: &'r Parts,
}

/// POST: one message, or a batch in the revision that has them.
///
/// # Errors
/// Whatever keeps the message from becoming a call.
pub async fn post(caller: Caller<'_>, body: Incoming) -> Result<Response<OutBody>, Refusal> {
    let accepts = Accepts::of(&caller.head.headers);
    if accepts.nothing() {
        return Err(Refusal::NotAcceptable);
    }
    let text = text(&caller, body).await?;
    if batch::is_batch(&text) {
        return many::post(&caller, &text, accepts).await;
    }
    let message = Message::parse(text)?;
    if message.kind() == Kind::Request && message.method() == "initialize" {
        return handshake::initialize(&caller, message).await;
    }
    let entry = caller.session(message.id())?;
    match message.kind() {
        Kind::Request => {
            let keep_alive = caller.shore.config.http.keep_alive;
            Ok(match one::begin(caller.shore, &entry, message)? {
                Begun::Call(exchange) => respond(exchange, accepts, keep_alive).await,
                Begun::Failed(fault, id) => rescue::failed_call(&fault, &id),
            })
        }
        Kind::Notification => {
            one::notice(caller.shore, &entry, message);
            Ok(rescue::bare(StatusCode::ACCEPTED))
        }
        // RPC-09: whether anyone waits for it or not.
        Kind::Result | Kind::Error => {
            entry.outbox.answered(message);
            Ok(rescue::bare(StatusCode::ACCEPTED))
        }
    }
}

/// The text of what was posted, within its limits.
///
/// # Errors
/// Whatever keeps it from being read: its form, its size, the time that it takes.
pub async fn text(caller: &Caller<'_>, body: Incoming) -> Result<Bytes, Refusal> {
    let headers = &caller.head.headers;
    if headers.contains_key(CONTENT_ENCODING) {
        return Err(Refusal::Encoded);
    }
    if !media::is_json(headers) {
        return Err(Refusal::NotJson);
    }
    let text = read(body, caller.shore.config.http.body_limit).await?;
    caller.shore.meter.received(text.len());
    if caller.shore.is_too_deep(&text) {
        return Err(Refusal::Message(ScanError::Depth.into()));
    }
    Ok(text)
}

/// GET: a standing stream (HTTP-16), or the rest of an earlier stream of any kind (HTTP-21).
///
/// # Errors
/// `NotAcceptable`, `NotResumable`, and whatever is wrong with the session.
pub fn get(caller: &Caller<'_>) -> Result<Response<OutBody>, Refusal> {
    if !Accepts::of(&caller.head.headers).events {
        return Err(Refusal::NotAcceptable);
    }
    let entry = caller.session(None)?;
    let keep_alive = caller.shore.config.http.keep_alive;
    let mut last_ids = caller.head.headers.get_all(&LAST_EVENT_ID).iter();
    let Some(last_id) = last_ids.next() else {
        if caller.shore.is_draining() {
            return Err(Refusal::Draining);
        }
        return Ok(events::read(
            &entry.outbox,
            entry.outbox.open_standing(),
            StreamKind::Standalone,
            keep_alive,
        ));
    };
    let reader = last_id.to_str().ok().filter(|_| last_ids.next().is_none());
    let reader = reader.and_then(|id| entry.outbox.resume(id)).ok_or(Refusal::NotResumable)?;
    if caller.shore.is_draining() && !reader.track().is_answer() {
        return Err(Refusal::Draining);
    }
    Ok(events::read(&entry.outbox, reader, StreamKind::Resumed, keep_alive))
}

/// DELETE: the session ends (HTTP-29).
///
/// # Errors
/// Whatever is wrong with the session.
pub fn delete(caller: &Caller<'_>) -> Result<Response<OutBody>, Refusal> {
    caller.session(None)?;
    if let Some(id) = caller.session_id() {
        caller.shore.sessions.close(id, SessionEnd::Deleted);
    }
    Ok(rescue::bare(StatusCode::NO_CONTENT))
}

impl Caller<'_> {
    /// The session id that was sent, if it is one line of visible ASCII (HTTP-25).
    pub fn session_id(&self) -> Option<&str> {
        let mut lines = self.head.headers.get_all(&SESSION_ID).iter();
        match (lines.next(), lines.next()) {
            (Some(line), None) => line.to_str().ok(),
            _ => None,
        }
    }

    /// The caller's session (HTTP-26, HTTP-27, HTTP-30), its version checked (HTTP-31).
    ///
    /// # Errors
    /// `NoSession`, `UnknownSession` or `Version`, with the request's id.
    pub fn session(&self, id: Option<Id>) -> Result<Arc<Entry>, Refusal> {
        if !self.head.headers.contains_key(&SESSION_ID) {
            return Err(Refusal::NoSession(id));
        }
        let found = self.session_id().and_then(|sid| self.shore.sessions.find(sid, &self.who, self.endpoint));
        let entry = found.ok_or(Refusal::UnknownSession(id))?;
        // HTTP-32: any revision that we speak may be named; the session's own governs.
        let known =
            |line: &http::HeaderValue| line.to_str().is_ok_and(|name| Revision::parse(name.trim()).is_some());
        if self.head.headers.get_all(&PROTOCOL_VERSION).iter().all(known) {
            Ok(entry)
        } else {
            Err(Refusal::Version)
        }
    }
}

/// The whole body, within its limits (RPC-24, F-096).
#[allow(clippy::disallowed_methods, reason = "the body is limited")]
async fn read(body: Incoming, limit: usize) -> Result<Bytes, Refusal> {
    if http_body::Body::size_hint(&body).lower() > limit as u64 {
        return Err(Refusal::TooLarge(limit));
    }
    let collected = clock::within(BODY, Limited::new(body, limit).collect()).await;
    match collected {
        Err(clock::Elapsed) => Err(Refusal::SlowBody),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(Refusal::TooLarge(limit)),
        Ok(Err(_)) => Err(Refusal::BrokenBody),
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
    }
}
