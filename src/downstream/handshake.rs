//! `initialize`: a session is opened, or refused (LIFE-01 to LIFE-06, LIFE-18).

use bytes::Bytes;
use http::{HeaderValue, Response};

use crate::call::{Body, Call, Reply};
use crate::downstream::answer::whole;
use crate::downstream::body::OutBody;
use crate::downstream::endpoint::{Caller, SESSION_ID};
use crate::downstream::legacy::session::{Full, Terms};
use crate::downstream::one;
use crate::downstream::rescue::{self, Refusal};
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

/// Opens a session.
///
/// # Errors
/// `Invalid` with a session id, `Handshake` for wrong parameters, `Full`, `Draining`.
pub async fn initialize(caller: &Caller<'_>, message: Message) -> Result<Response<OutBody>, Refusal> {
    let Some(id) = message.id() else {
        return Err(Refusal::Invalid { what: "the request has no id", id: None });
    };
    // LIFE-18, R-09: an id that is not of a session that lives is of no account here.
    if caller.session(None).is_ok() {
        return Err(Refusal::Invalid { what: "the session is initialized already", id: Some(id) });
    }
    let hello = read(&message).map_err(|what| Refusal::Handshake { what, id: Some(id.clone()) })?;
    if caller.shore.is_draining() {
        return Err(Refusal::Draining);
    }
    let sessions = &caller.shore.sessions;
    let place = sessions.reserve(&caller.who).map_err(|full| refused(full, &id))?;
    let session = sessions.propose(Terms {
        revision: hello.revision,
        who: caller.who.clone(),
        endpoint: caller.endpoint,
        capabilities: hello.capabilities,
        is_local: caller.peer.is_some_and(|peer| peer.to_canonical().is_loopback()),
    });
    let call = Call::new(session.shared.clone(), &INITIALIZE, message)
        .map_err(|error| Refusal::Message(error.into()))?;
    let mut answer = match one::through(caller.shore, call).await {
        Ok(Reply::Done(answer)) => answer,
        Ok(Reply::Items(_)) => return Ok(rescue::failed_call(&crate::call::Fault::Internal, &id)),
        Err(fault) => return Ok(rescue::failed_call(&fault, &id)),
    };
    let watch = answer.watch.take();
    let plan = Plan { root: answer.rewrites, id: id.text().clone(), uris: None };
    let Body::Result(_) = &answer.body else {
        return Ok(rescue::failed_call(&crate::call::Fault::Internal, &id));
    };
    let (parts, outcome) = match whole(answer.body, plan) {
        Ok(done) => done,
        Err(fault) => return Ok(rescue::failed_call(&fault, &id)),
    };
    if let Some(watch) = watch {
        watch.ended(outcome);
    }
    let opened = SessionOpened {
        revision: hello.revision,
        client: &hello.name,
        client_version: &hello.version,
        endpoint: caller.head.uri.path(),
    };
    let sealed = sessions.open(place, session, opened);
    let mut response = rescue::json(http::StatusCode::OK, Bytes::new());
    *response.body_mut() = OutBody::Parts(parts);
    // A seal is base64url, which is a valid header value.
    if let Ok(value) = HeaderValue::from_str(&sealed) {
        response.headers_mut().insert(&SESSION_ID, value);
    }
    Ok(response)
}

fn refused(full: Full, id: &Id) -> Refusal {
    let key = match full {
        Full::Total => "portcullis.sessions.max",
        Full::Principal => "portcullis.sessions.perPrincipal",
    };
    Refusal::Full { what: "sessions", key, id: Some(id.clone()) }
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
