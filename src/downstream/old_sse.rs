//! HTTP+SSE, the transport of 2024-11-05, beside Streamable HTTP for clients that know nothing newer (HTTP-37).
//!
//! GET opens the one stream that a client has. Its first event says where to POST messages to; each POST is answered with
//! 202, and whatever it leads to comes on the stream (LSSE-01, LSSE-02).
//!
//! *Invariants.* The stream is the session: with its end the session ends, and there is nothing to come back to
//! (LSSE-04). The handle in the address to POST to is no credential: every POST is authenticated, and to anyone but who
//! opened the stream it does not exist (LSSE-05). The transport does not decide the revision (LSSE-06).
//! *Limits.* A stream counts as a session from its beginning, and ends when `initialize` did not succeed within
//! `portcullis.sessions.handshake`.

mod stream;
mod table;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::{Response, StatusCode};
use hyper::body::Incoming;

use crate::downstream::body::OutBody;
use crate::downstream::duplex;
use crate::downstream::endpoint::{self, Caller};
use crate::downstream::handshake::{self, Opened, Unopened};
use crate::downstream::legacy::session::Entry;
use crate::downstream::legacy::track::Framing;
use crate::downstream::media::Accepts;
use crate::downstream::rescue::{self, Refusal};
use crate::framing::sse;
use crate::jsonrpc::{Id, Kind, Message, batch};
use crate::telemetry::words::SessionEnd;

pub use table::Streams;

/// The parameter with the handle of a stream.
const HANDLE: &str = "sessionId";

/// GET: the stream.
///
/// # Errors
/// `NotAcceptable`, `Full`, `Draining`.
pub fn get(caller: &Caller<'_>) -> Result<Response<OutBody>, Refusal> {
    if !Accepts::of(&caller.head.headers).events {
        return Err(Refusal::NotAcceptable);
    }
    let shore = caller.shore;
    let place = shore.sessions.reserve(&caller.who).map_err(|full| handshake::refused(full, None))?;
    let handle = shore.sessions.handle(table::PURPOSE, &caller.who);
    let opened = shore.streams.open(handle.clone(), caller.who.clone(), caller.endpoint, place);
    let response = stream::response(shore.clone(), handle.clone(), opened, greeting(caller, &handle));
    // Looked at last, so that a drain that begins meanwhile misses no stream; the response ends what it holds.
    if shore.is_draining() { Err(Refusal::Draining) } else { Ok(response) }
}

/// POST: one message, or a batch in the revision that has them.
///
/// # Errors
/// Whatever is wrong with it or with its session; what the message leads to comes on the stream.
pub async fn post(caller: Caller<'_>, body: Incoming) -> Result<Response<OutBody>, Refusal> {
    let text = endpoint::text(&caller, body).await?;
    if batch::is_batch(&text) {
        let entry = session(&caller, None)?;
        room(&entry).await;
        duplex::take_batch(caller.shore, &entry, &text)?;
        return Ok(rescue::bare(StatusCode::ACCEPTED));
    }
    let message = Message::parse(text)?;
    if message.kind() == Kind::Request && message.method() == "initialize" {
        initialize(&caller, message).await?;
    } else {
        let entry = session(&caller, message.id())?;
        room(&entry).await;
        duplex::take(caller.shore, &entry, message)?;
    }
    Ok(rescue::bare(StatusCode::ACCEPTED))
}

/// Waits until the client has read what there is for it: whoever asks without reading is not read either (RPC-24).
async fn room(entry: &Entry) {
    if let Some(track) = entry.outbox.newest() {
        track.room().await;
    }
}

/// The session of the stream that the request names.
fn session(caller: &Caller<'_>, id: Option<Id>) -> Result<Arc<Entry>, Refusal> {
    let Some(stream) = stream(caller) else { return Err(Refusal::UnknownSession(id)) };
    let Some(session) = stream.session() else {
        return Err(Refusal::Invalid { what: "the session is not initialized yet", id });
    };
    // It may have ended in this moment.
    let found = caller.shore.sessions.find(&session, &caller.who, caller.endpoint);
    found.ok_or(Refusal::UnknownSession(id))
}

fn stream(caller: &Caller<'_>) -> Option<Arc<table::Stream>> {
    let query = caller.head.uri.query()?;
    let handle = query.split('&').find_map(|pair| pair.strip_prefix(HANDLE)?.strip_prefix('='))?;
    caller.shore.streams.find(handle, &caller.who, caller.endpoint)
}

/// `initialize`: the stream becomes a session. A refusal leaves it as it was, so that the client may try again.
async fn initialize(caller: &Caller<'_>, message: Message) -> Result<(), Refusal> {
    let id = message.id();
    let stream = stream(caller).ok_or(Refusal::UnknownSession(id.clone()))?;
    let Some(mut begun) = stream.begin() else {
        return Err(Refusal::Invalid { what: "the session is initialized already", id });
    };
    let Opened { id: session, answer } =
        match handshake::open_in(&mut begun.place, handshake::Door::of(caller), message).await {
            Ok(opened) => opened,
            Err(Unopened::Refused(refusal)) => {
                if matches!(refusal, Refusal::Draining) {
                    begun.give_up();
                }
                return Err(refusal);
            }
            Err(Unopened::Failed(fault, id)) => {
                begun.fail(event(&fault.to_error().answer(Some(&id))));
                return Ok(());
            }
        };
    let sessions = &caller.shore.sessions;
    // It may have ended already, with the process.
    let Some(entry) = sessions.find(&session, &caller.who, caller.endpoint) else {
        begun.give_up();
        return Err(Refusal::Draining);
    };
    let reader = entry.outbox.attach(Framing::Events);
    duplex::say(&entry, &Vec::from(answer).concat().into());
    if !begun.succeed(session.clone(), reader) {
        sessions.close(&session, SessionEnd::Left);
        return Err(Refusal::UnknownSession(id));
    }
    Ok(())
}

/// The first event: where to POST messages to. Clients resolve it against the address of the stream, as they see that. So
/// a query alone is right behind every proxy, whatever prefix it adds; the path of `portcullis.http.publicUrl` is put
/// before it for clients that resolve in ways of their own (F-009).
fn greeting(caller: &Caller<'_>, handle: &str) -> Bytes {
    let mut target = String::new();
    if let Some(url) = &caller.shore.config.http.public_url {
        target.push_str(url.path().trim_end_matches('/'));
        target.push_str(caller.head.uri.path());
    }
    for part in ["?", HANDLE, "=", handle] {
        target.push_str(part);
    }
    let mut out = BytesMut::new();
    sse::encode(&mut out, "endpoint", None, target.as_bytes());
    out.freeze()
}

fn event(message: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    sse::encode(&mut out, "message", None, message);
    out.freeze()
}
