//! CORS: web pages of allowed origins may call, and read what they are answered (HTTP-33, F-097).
//!
//! *Invariants.* Only origins that [`Access`](crate::downstream::access::Access) lets in are ever named, never `*`.

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};

use crate::downstream::body::OutBody;
use crate::downstream::rescue;

/// What a page may send beyond what every page may.
const ASKED: &str = "authorization, content-type, accept, mcp-session-id, mcp-protocol-version, last-event-id, \
     mcp-method, mcp-name";

/// What a page may read of an answer's head beyond what every page may.
const TOLD: &str = "mcp-session-id, www-authenticate, retry-after";

/// Whether a browser asks what a page may do.
#[must_use]
pub fn is_preflight(request: &Parts) -> bool {
    request.method == Method::OPTIONS
        && request.headers.contains_key(ORIGIN)
        && request.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to that; browsers show no credentials with the question.
#[must_use]
pub fn preflight() -> Response<OutBody> {
    let mut response = rescue::bare(StatusCode::NO_CONTENT);
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST, DELETE, OPTIONS"));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static(ASKED));
    // A day; browsers keep it for less.
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    response
}

/// Lets a page of an allowed origin read the response.
pub fn expose(headers: &mut HeaderMap, origin: HeaderValue) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static(TOLD));
    headers.append(VARY, HeaderValue::from_static("origin"));
}
