//! Stack 1, HTTP, from top to bottom: a request becomes a response here, whatever happens below.
//!
//! *On drop* (the client vanished): what [`Exchange`](crate::downstream::exchange::Exchange) says.

use std::fmt::Display;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use http::header::ORIGIN;
use http::request::Parts;
use http::{Method, Request, Response};
use hyper::body::Incoming;

use crate::base::ids;
use crate::call::Credentials;
use crate::downstream::body::OutBody;
use crate::downstream::cors;
use crate::downstream::endpoint::{self, Caller};
use crate::downstream::old_sse;
use crate::downstream::rescue::{self, Refusal};
use crate::downstream::shore::{Shore, Transport};
use crate::telemetry::events::downstream::{Refused, RequestFailed};
use crate::telemetry::words::Failure;

/// Serves one request.
pub async fn serve(shore: Arc<Shore>, peer: Option<IpAddr>, request: Request<Incoming>) -> Response<OutBody> {
    // Only browsers name one.
    let origin = request.headers().get(ORIGIN).cloned();
    // 1. Nothing above may panic; a panic below is a 500 with an id.
    let served = AssertUnwindSafe(checked(&shore, peer, request)).catch_unwind().await;
    let foreign = matches!(served, Ok(Err(Refusal::Origin(_) | Refusal::Host(_))));
    let mut response = match served {
        Ok(Ok(response)) => response,
        // 2. The access event sees every refusal.
        Ok(Err(refusal)) => {
            let id = refusal.id().map(|id| String::from_utf8_lossy(id.text()));
            let request = id.as_ref().map(|id| id as &dyn Display);
            Refused { why: refusal.rule(), detail: &refusal.to_string(), request, peer }.emit();
            refusal.into_response()
        }
        Err(_) => {
            let id = ids::RandomId::random().hex();
            RequestFailed { request: &id, cause: Failure::Panic, detail: &"see the panic above" }.emit();
            rescue::panicked(&id)
        }
    };
    if let (Some(origin), false) = (origin, foreign) {
        cors::expose(response.headers_mut(), origin);
    }
    response.map(|body| body.counted(move |bytes| shore.meter.sent(bytes)))
}

async fn checked(
    shore: &Arc<Shore>,
    peer: Option<IpAddr>,
    request: Request<Incoming>,
) -> Result<Response<OutBody>, Refusal> {
    let (parts, body) = request.into_parts();
    // 3. Before any work: DNS rebinding and foreign pages.
    shore.access.check(&parts, peer)?;
    // 4. Paths and methods that we do not serve cost nothing more.
    let (transport, endpoint) = shore.route(parts.uri.path()).ok_or(Refusal::NoEndpoint)?;
    if cors::is_preflight(&parts) {
        return Ok(cors::preflight());
    }
    // 5. Who is it? Before the body is read, before any session is looked up (SEC-10).
    let shown = Credentials { authorization: authorization(&parts), peer };
    let who = shore.authenticator.authenticate(shown)?;
    // 6. What is asked.
    let caller = Caller { shore, who, endpoint, peer, head: &parts };
    match (transport, &parts.method) {
        (Transport::Streamable, &Method::POST) => endpoint::post(caller, body).await,
        (Transport::Streamable, &Method::GET) => endpoint::get(&caller),
        (Transport::Streamable, &Method::DELETE) => endpoint::delete(&caller),
        (Transport::Streamable, _) => Err(Refusal::Method("GET, POST, DELETE")),
        (Transport::OldSse, &Method::POST) => old_sse::post(caller, body).await,
        (Transport::OldSse, &Method::GET) => old_sse::get(&caller),
        (Transport::OldSse, _) => Err(Refusal::Method("GET, POST")),
    }
}

/// The one `Authorization` header; several are as good as a wrong one.
fn authorization(parts: &Parts) -> Option<&[u8]> {
    let mut lines = parts.headers.get_all(http::header::AUTHORIZATION).iter();
    match (lines.next(), lines.next()) {
        (Some(line), None) => Some(line.as_bytes()),
        (Some(_), Some(_)) => Some(b""),
        (None, _) => None,
    }
}
