//! What all connections to one upstream on the network share: where requests go, and their headers.
//!
//! *Invariants.* What the configuration sets never replaces what we compute (F-093).

use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, HOST, HeaderMap, PROXY_AUTHORIZATION, USER_AGENT};
use http::{HeaderName, HeaderValue};

use crate::call::Fault;
use crate::config::secrets::Secret;
use crate::config::snapshot::RemoteKind;
use crate::upstream::blame::Blame;
use crate::upstream::deadline::Limit;
use crate::upstream::flight::Failure;
use crate::upstream::http::connect::ConnectError;
use crate::upstream::http::post::{Endpoint, PostError};
use crate::upstream::unbound::Unbound;

/// What all connections to one upstream share.
pub struct Way {
    /// Where requests go.
    pub endpoint: Endpoint,
    /// Headers that the configuration adds to each request.
    pub configured: HeaderMap,
    /// For the handshake.
    pub handshake: Limit,
    /// The largest message, in bytes.
    pub max_message: usize,
    /// Names it in faults.
    pub blame: Blame,
    /// Where its news go.
    pub unbound: Unbound,
    /// What it speaks, as far as that is said.
    pub kind: RemoteKind,
}

impl Way {
    /// The headers of a request without a session.
    #[must_use]
    pub fn headers(&self) -> HeaderMap {
        let mut headers = self.configured.clone();
        headers.insert(HOST, self.endpoint.host().clone());
        headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        // A compressed answer only costs time on the way to a client that reads it plain.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if !headers.contains_key(USER_AGENT) {
            headers.insert(
                USER_AGENT,
                HeaderValue::from_static(concat!("portcullis/", env!("CARGO_PKG_VERSION"))),
            );
        }
        if let Some(credentials) = self.endpoint.proxy_credentials() {
            headers.insert(PROXY_AUTHORIZATION, credentials.clone());
        }
        headers
    }

    /// The headers of a request for a stream of events.
    #[must_use]
    pub fn stream_headers(&self) -> HeaderMap {
        let mut headers = self.headers();
        headers.remove(CONTENT_TYPE);
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers
    }

    /// What a failed request means for a call; `safe` if the call may be repeated.
    #[must_use]
    pub fn failure(&self, error: PostError, safe: bool) -> Failure {
        let blame = &self.blame;
        let fault = match &error {
            PostError::Connect(ConnectError::Slow(after)) => blame.timeout("connect", *after),
            PostError::Connect(ConnectError::SlowTls(after)) => blame.timeout("tls", *after),
            PostError::Connect(error) => blame.unsent(error.told()),
            PostError::Closed => blame.unsent("it closes its connections"),
            PostError::Lost(_) => self.lost(safe),
            PostError::Redirect(_) | PostError::Redirects | PostError::Unusable => {
                blame.protocol("it redirects to another place")
            }
            PostError::Encoding(error) => blame.protocol(error.to_string()),
        };
        Failure::detailed(fault, error)
    }

    /// The connection broke after the request had left.
    #[must_use]
    pub fn lost(&self, safe: bool) -> Fault {
        if safe { self.blame.broken("the connection was lost") } else { self.blame.outcome_unknown() }
    }
}

/// The headers of the configuration, which refuses those that are not its to set (F-093).
#[must_use]
pub fn configured(headers: &[(String, Secret)]) -> HeaderMap {
    let mut out = HeaderMap::new();
    for (name, value) in headers {
        if let (Ok(name), Ok(mut value)) =
            (HeaderName::try_from(name.as_str()), HeaderValue::from_str(value.reveal()))
        {
            value.set_sensitive(true);
            out.append(name, value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F-093, SEC-24: what no header can hold is left out, and no value is shown.
    #[test]
    fn f_093_configured_headers_are_sent_and_not_shown() {
        let pair = |name: &str, value: &str| (name.to_owned(), Secret::from(value.to_owned()));
        let headers = configured(&[
            pair("Authorization", "Bearer secret"),
            pair("x-bad", "a\r\nx-evil: 1"),
            pair("x-team", "a"),
        ]);
        let names: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["authorization", "x-team"]);
        assert!(!format!("{headers:?}").contains("secret"));
    }
}
