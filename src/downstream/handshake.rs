//! `initialize`: a session is opened, or refused (LIFE-01 to LIFE-06, LIFE-18).

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Response};

use crate::call::{Body, Call, Endpoint, Fault, Principal, Reply};
use crate::downstream::answer::{told, whole};
use crate::downstream::body::OutBody;
use crate::downstream::endpoint::{Caller, SESSION_ID};
use crate::downstream::legacy::session::{Full, Place, Terms};
use crate::downstream::one;
use crate::downstream::rescue::{self, Refusal};
use crate::downstream::shore::Shore;
use crate::jsonrpc::rewrite::Plan;
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Id, Message, MessageError, Object};
use crate::mcp::capabilities::ClientCapabilities;
use crate::mcp::methods::INITIALIZE;
use crate::mcp::revision::Revision;
use crate::telemetry::events::downstream::SessionOpened;

/// What a client says of itself (LIFE-02).
struct Hello {
    revision: Revision,
    capabilities: ClientCapabilities,
    name: String,
    version: String,
}

/// By whom a session is opened, and where.
pub struct Door<'r> {
    /// The client shore.
    pub shore: &'r Arc<Shore>,
    /// Who opens it.
    pub who: Arc<Principal>,
    /// The endpoint.
    pub endpoint: Endpoint,
    /// What the log calls the way by which the client came.
    pub path: &'r str,
    /// Whether the client is on this machine.
    pub is_local: bool,
}

impl<'r> Door<'r> {
    /// That of an HTTP request.
    #[must_use]
    pub fn of(caller: &Caller<'r>) -> Self {
        Door {
            shore: caller.shore,
            who: caller.who.clone(),
            endpoint: caller.endpoint,
            path: caller.head.uri.path(),
            is_local: caller.peer.is_none_or(|peer| peer.to_canonical().is_loopback()),
        }
    }
}

/// A session that was opened.
pub struct Opened {
    /// Its sealed id.
    pub id: Box<str>,
    /// The text of the answer to `initialize`.
    pub answer: VecDeque<Bytes>,
}

/// Why none was opened.
pub enum Unopened {
    /// The request never became a call.
    Refused(Refusal),
    /// The call failed; the id is the client's.
    Failed(Fault, Id),
}

impl From<Refusal> for Unopened {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Opens a session over Streamable HTTP; its id is in a header of the response (HTTP-25).
///
/// # Errors
/// `Invalid` with a session id, and as [`open`].
pub async fn initialize(caller: &Caller<'_>, message: Message) -> Result<Response<OutBody>, Refusal> {
    // LIFE-18, R-09: an id that is not of a session that lives is of no account here.
    if caller.session(None).is_ok() {
        let what = "the session is initialized already";
        return Err(Refusal::Invalid { what, id: message.id() });
    }
    let Opened { id, answer } = match open(Door::of(caller), message).await {
        Ok(opened) => opened,
        Err(Unopened::Refused(refusal)) => return Err(refusal),
        Err(Unopened::Failed(fault, id)) => return Ok(rescue::failed_call(&fault, &id)),
    };
    let mut response = rescue::json(http::StatusCode::OK, Bytes::new());
    *response.body_mut() = OutBody::Parts(answer);
    // A seal is base64url, which is a valid header value.
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(&SESSION_ID, value);
    }
    Ok(response)
}

/// Opens a session, whatever the transport.
///
/// # Errors
/// `Handshake` for wrong parameters, `Full`, `Draining`, and whatever the call failed with.
pub async fn open(door: Door<'_>, message: Message) -> Result<Opened, Unopened> {
    open_in(&mut None, door, message).await
}

/// The same in a place that was taken before, where there is one; it is left there when no session was opened.
///
/// # Errors
/// As [`open`].
pub async fn open_in(
    place: &mut Option<Place>,
    door: Door<'_>,
    message: Message,
) -> Result<Opened, Unopened> {
    let Some(id) = message.id() else {
        return Err(Refusal::Invalid { what: "the request has no id", id: None }.into());
    };
    let hello = read(&message).map_err(|what| Refusal::Handshake { what, id: Some(id.clone()) })?;
    if door.shore.is_draining() {
        return Err(Refusal::Draining.into());
    }
    let sessions = &door.shore.sessions;
    if place.is_none() {
        *place = Some(sessions.reserve(&door.who).map_err(|full| refused(full, Some(id.clone())))?);
    }
    let session = sessions.propose(Terms {
        revision: hello.revision,
        who: door.who,
        endpoint: door.endpoint,
        capabilities: hello.capabilities,
        is_local: door.is_local,
    });
    let failed = |fault| Unopened::Failed(fault, id.clone());
    let call = Call::new(session.shared.clone(), &INITIALIZE, message).map_err(Refusal::from)?;
    let Reply::Done(mut answer) = one::through(door.shore, call).await.map_err(failed)? else {
        return Err(failed(Fault::Internal));
    };
    let watch = answer.watch.take();
    let plan = Plan { root: answer.rewrites, id: id.text().clone(), uris: None };
    let Body::Result(_) = &answer.body else { return Err(failed(Fault::Internal)) };
    let answer = told(watch, whole(answer.body, plan)).map_err(failed)?;
    let Some(place) = place.take() else { return Err(failed(Fault::Internal)) };
    let opened = SessionOpened {
        revision: hello.revision,
        client: &hello.name,
        client_version: &hello.version,
        endpoint: door.path,
    };
    Ok(Opened { id: sessions.open(place, session, opened), answer })
}

/// The refusal for want of a place.
pub(super) fn refused(full: Full, id: Option<Id>) -> Refusal {
    let key = match full {
        Full::Total => "portcullis.sessions.max",
        Full::Principal => "portcullis.sessions.perPrincipal",
    };
    Refusal::Full { what: "sessions", key, id }
}

/// Reads and checks the parameters.
fn read(message: &Message) -> Result<Hello, &'static str> {
    let text = message.text();
    let scanned = |span| object_at(text, span).map_err(|_| "a member of `params` occurs twice");
    let params = scanned(message.params())?.ok_or("`params` is missing or not an object")?;
    let version =
        params.string(text, "protocolVersion").ok_or("`protocolVersion` is missing or not a string")?;
    let revision = Revision::negotiate(&version);
    let capabilities = params
        .value(text, "capabilities")
        .filter(|value| value.starts_with(b"{"))
        .ok_or("`capabilities` is missing or not an object")?;
    let capabilities = ClientCapabilities::read(capabilities, revision)
        .map_err(|_| "a member of `capabilities` occurs twice")?;
    let client =
        scanned(params.find(text, "clientInfo"))?.ok_or("`clientInfo` is missing or not an object")?;
    let own =
        |object: &Object, name, what| object.string(text, name).map(std::borrow::Cow::into_owned).ok_or(what);
    Ok(Hello {
        revision,
        capabilities,
        name: own(&client, "name", "`clientInfo.name` is missing or not a string")?,
        version: own(&client, "version", "`clientInfo.version` is missing or not a string")?,
    })
}

impl From<crate::jsonrpc::scan::ScanError> for Refusal {
    fn from(error: crate::jsonrpc::scan::ScanError) -> Self {
        Self::Message(MessageError::from(error))
    }
}
