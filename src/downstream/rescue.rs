//! Anything that goes wrong into an HTTP status and a JSON-RPC error. The only place that maps them (D16).

use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};

use crate::base::caps;
use crate::call::{Denied, Fault};
use crate::downstream::body::OutBody;
use crate::jsonrpc::error::{INVALID_PARAMS, INVALID_REQUEST, QUOTA_EXCEEDED};
use crate::jsonrpc::{ErrorObject, Id, MessageError};
use crate::mcp::revision::Revision;
use crate::telemetry::words::Rule;

/// A request that never becomes a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such path, or none for this caller.
    #[error("no such endpoint")]
    NoEndpoint,
    /// The path serves these methods (HTTP-01).
    #[error("the endpoint serves these methods: {0}")]
    Method(&'static str),
    /// `Origin` is foreign (HTTP-02).
    #[error("origin `{0}` is not allowed; `portcullis.http.allowedOrigins` lists those that are")]
    Origin(String),
    /// `Host` is foreign (HTTP-03, F-091).
    #[error("host `{0}` is not allowed; `portcullis.http.allowedHosts` lists those that are")]
    Host(String),
    /// No or a wrong credential (AUTHS-05).
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Nothing that we answer is accepted (HTTP-06).
    #[error("accept `application/json` and `text/event-stream`")]
    NotAcceptable,
    /// The body is not JSON by its type (HTTP-06).
    #[error("the content type must be `application/json`")]
    NotJson,
    /// The body is encoded (R-31).
    #[error("encoded request bodies are not accepted")]
    Encoded,
    /// The body is larger than `portcullis.http.bodyLimit` (RPC-24).
    #[error("the body is larger than the {0} bytes that `portcullis.http.bodyLimit` allows")]
    TooLarge(usize),
    /// A line is larger than a body may be (RPC-24).
    #[error("the line is larger than the {limit} bytes that `portcullis.http.bodyLimit` allows")]
    TooLong {
        /// The most that it may be.
        limit: usize,
        /// The request's id.
        id: Option<Id>,
    },
    /// The body did not come in time.
    #[error("the body did not arrive in time")]
    SlowBody,
    /// The body broke off.
    #[error("the body broke off")]
    BrokenBody,
    /// The text is no message (RPC-01, RPC-10).
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The message is not allowed here: an array, a repeated `initialize`, an id in use (RPC-15, LIFE-18, RPC-02).
    #[error("{what}")]
    Invalid {
        /// What is wrong.
        what: &'static str,
        /// The request's id.
        id: Option<Id>,
    },
    /// `initialize` with wrong parameters (LIFE-02).
    #[error("{what}")]
    Handshake {
        /// What is wrong.
        what: &'static str,
        /// The request's id.
        id: Option<Id>,
    },
    /// `MCP-Protocol-Version` is not one that we speak (HTTP-31).
    #[error("`MCP-Protocol-Version` is not supported; these are: {}", Revision::ALL.map(Revision::name).join(", "))]
    Version,
    /// A session id is needed (HTTP-26).
    #[error("`MCP-Session-Id` is missing")]
    NoSession(Option<Id>),
    /// Unknown, ended or another's session (HTTP-27, HTTP-30).
    #[error("session not found")]
    UnknownSession(Option<Id>),
    /// `Last-Event-ID` names nothing that we can replay (HTTP-23).
    #[error("the stream cannot be resumed")]
    NotResumable,
    /// Full (R-37).
    #[error("{what} are exhausted; the limit is `{key}`")]
    Full {
        /// What is full.
        what: &'static str,
        /// The configuration key to raise.
        key: &'static str,
        /// The request's id.
        id: Option<Id>,
    },
    /// The session has too many calls in flight (OPS-03).
    #[error(
        "the session has {} calls in flight, which is the most that it may have",
        caps::CALLS_PER_SESSION
    )]
    Busy(Id),
    /// The gateway is stopping (F-098).
    #[error("the gateway is shutting down")]
    Draining,
}

/// After how long a refused client may try again.
const RETRY: Duration = Duration::from_secs(1);

impl Refusal {
    /// The rule that refused, for metrics and logs.
    #[must_use]
    pub fn rule(&self) -> Rule {
        match self {
            Self::NoEndpoint => Rule::Path,
            Self::Method(_) => Rule::HttpMethod,
            Self::Origin(_) => Rule::Origin,
            Self::Host(_) => Rule::Host,
            Self::Denied(_) => Rule::Unauthenticated,
            Self::NotAcceptable | Self::NotJson | Self::Encoded => Rule::MediaType,
            Self::TooLarge(_) | Self::TooLong { .. } => Rule::TooLarge,
            Self::SlowBody => Rule::TooSlow,
            Self::BrokenBody => Rule::Broken,
            Self::Message(_) => Rule::Malformed,
            Self::Invalid { .. } => Rule::Invalid,
            Self::Handshake { .. } => Rule::Handshake,
            Self::Version => Rule::Version,
            Self::NoSession(_) => Rule::SessionMissing,
            Self::UnknownSession(_) => Rule::SessionUnknown,
            Self::NotResumable => Rule::Resume,
            Self::Full { .. } | Self::Busy(_) => Rule::Full,
            Self::Draining => Rule::Draining,
        }
    }

    fn status(&self) -> StatusCode {
        match self {
            Self::NoEndpoint | Self::UnknownSession(_) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Origin(_) | Self::Host(_) => StatusCode::FORBIDDEN,
            Self::Denied(_) => StatusCode::UNAUTHORIZED,
            Self::NotAcceptable => StatusCode::NOT_ACCEPTABLE,
            Self::NotJson | Self::Encoded => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge(_) | Self::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::SlowBody => StatusCode::REQUEST_TIMEOUT,
            Self::Full { .. } | Self::Busy(_) => StatusCode::TOO_MANY_REQUESTS,
            Self::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Self::BrokenBody
            | Self::Message(_)
            | Self::Invalid { .. }
            | Self::Handshake { .. }
            | Self::Version
            | Self::NoSession(_)
            | Self::NotResumable => StatusCode::BAD_REQUEST,
        }
    }

    fn error(&self) -> ErrorObject {
        let code = match self {
            Self::Message(message) => message.code(),
            Self::Handshake { .. } => INVALID_PARAMS,
            Self::Full { .. } | Self::Busy(_) => QUOTA_EXCEEDED,
            _ => INVALID_REQUEST,
        };
        let mut message = self.to_string();
        if let Some(first) = message.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        let data = matches!(self, Self::Full { .. } | Self::Busy(_)).then(|| {
            format!(
                r#"{{"origin":"gateway","reason":"quota_exceeded","retryAfterMs":{}}}"#,
                RETRY.as_millis()
            )
        });
        ErrorObject { code, message, data }
    }

    /// The client's id of the request, where it was read.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Message(message) => message.id(),
            Self::Invalid { id, .. }
            | Self::Handshake { id, .. }
            | Self::NoSession(id)
            | Self::UnknownSession(id)
            | Self::TooLong { id, .. }
            | Self::Full { id, .. } => id.as_ref(),
            Self::Busy(id) => Some(id),
            _ => None,
        }
    }

    /// The text of the error.
    #[must_use]
    pub fn answer(&self) -> Bytes {
        self.error().answer(self.id())
    }

    /// The response.
    #[must_use]
    pub fn into_response(self) -> Response<OutBody> {
        let mut response = json(self.status(), self.answer());
        let headers = response.headers_mut();
        match self {
            Self::Method(served) => {
                headers.insert(ALLOW, HeaderValue::from_static(served));
            }
            Self::Denied(denied) => {
                headers.insert(WWW_AUTHENTICATE, challenge(denied));
            }
            Self::Full { .. } | Self::Busy(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(RETRY.as_secs()));
            }
            Self::Draining => {
                headers.insert(RETRY_AFTER, HeaderValue::from(RETRY.as_secs()));
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            // The rest of the body is not read, so the connection cannot be used again.
            Self::TooLarge(_) | Self::SlowBody => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            _ => {}
        }
        response
    }
}

/// AUTHS-05: without a credential no `error` is named.
fn challenge(denied: Denied) -> HeaderValue {
    HeaderValue::from_static(match denied {
        Denied::Missing => r#"Bearer realm="portcullis""#,
        Denied::Invalid => r#"Bearer realm="portcullis", error="invalid_token""#,
    })
}

/// A failed call: a JSON-RPC error, with HTTP 200 unless the gateway itself is full (RPC-14, R-37).
#[must_use]
pub fn failed_call(fault: &Fault, id: &Id) -> Response<OutBody> {
    let full = matches!(fault, Fault::Exhausted { .. });
    let status = if full { StatusCode::TOO_MANY_REQUESTS } else { StatusCode::OK };
    let mut response = json(status, fault.to_error().answer(Some(id)));
    if full {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(RETRY.as_secs()));
    }
    response
}

/// A panic: nothing of it is shown but the id under which it is logged.
#[must_use]
pub fn panicked(id: &str) -> Response<OutBody> {
    let error = ErrorObject::new(crate::jsonrpc::error::INTERNAL_ERROR, format!("Internal error {id}"));
    json(StatusCode::INTERNAL_SERVER_ERROR, error.answer(None))
}

/// A JSON response of one part.
#[must_use]
pub fn json(status: StatusCode, text: Bytes) -> Response<OutBody> {
    let mut response = Response::new(OutBody::full(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A response without a body.
#[must_use]
pub fn bare(status: StatusCode) -> Response<OutBody> {
    let mut response = Response::new(OutBody::empty());
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id() -> Option<Id> {
        Id::parse(Bytes::from("7"))
    }

    /// HTTP-02, HTTP-06, HTTP-26, HTTP-27, HTTP-31, AUTHS-05, RPC-14
    #[test]
    fn statuses_are_those_that_clients_act_on() {
        for (refusal, status) in [
            (Refusal::UnknownSession(id()), 404),
            (Refusal::NoSession(id()), 400),
            (Refusal::Origin("x".into()), 403),
            (Refusal::Host("x".into()), 403),
            (Refusal::Denied(Denied::Missing), 401),
            (Refusal::NotAcceptable, 406),
            (Refusal::NotJson, 415),
            (Refusal::Encoded, 415),
            (Refusal::TooLarge(1), 413),
            (Refusal::Version, 400),
            (Refusal::NotResumable, 400),
            (Refusal::Method("GET"), 405),
            (Refusal::Full { what: "sessions", key: "x", id: id() }, 429),
            (Refusal::Busy(id().unwrap()), 429),
            (Refusal::Draining, 503),
        ] {
            assert_eq!(refusal.clone().into_response().status(), status, "{refusal:?}");
        }
    }

    /// F-104: refusals of different kinds count under different words.
    #[test]
    fn f_104_rules_tell_kinds_of_refusals_apart() {
        let what = "x";
        for (refusal, rule) in [
            (Refusal::BrokenBody, Rule::Broken),
            (Refusal::Message(crate::jsonrpc::scan::ScanError::Depth.into()), Rule::Malformed),
            (Refusal::Invalid { what, id: None }, Rule::Invalid),
            (Refusal::Handshake { what, id: None }, Rule::Handshake),
        ] {
            assert_eq!(refusal.rule(), rule, "{refusal:?}");
        }
    }

    #[test]
    fn only_a_wrong_credential_is_called_one() {
        let challenge = |denied| Refusal::Denied(denied).into_response().headers()[WWW_AUTHENTICATE].clone();
        assert!(!challenge(Denied::Missing).to_str().unwrap().contains("error"));
        assert!(challenge(Denied::Invalid).to_str().unwrap().contains("invalid_token"));
    }

    /// RPC-14, R-37
    #[test]
    fn failed_calls_are_http_successes_unless_we_are_full() {
        let id = id().unwrap();
        assert_eq!(failed_call(&Fault::Internal, &id).status(), 200);
        assert_eq!(failed_call(&Fault::Exhausted { what: "x", key: "y" }, &id).status(), 429);
    }
}
