//! What an HTTP status other than success means for a call (HTTP-36, F-021, F-071).

use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};

use crate::call::Fault;
use crate::jsonrpc::{Kind, Message, Object};
use crate::upstream::blame::Blame;

/// The longest `Retry-After` that is passed on.
const LONGEST_WAIT: Duration = Duration::from_hours(1);

/// What is to be made of a refusal.
#[derive(Debug)]
pub enum Refusal {
    /// It is a JSON-RPC error, addressed to our request.
    Error(Message),
    /// The session is gone: the request was not executed (HTTP-28).
    SessionGone,
    /// The call failed.
    Fault(Fault),
}

/// What was refused.
#[derive(Debug, Clone, Copy)]
pub struct Refused<'a> {
    /// With which status.
    pub status: StatusCode,
    /// With which headers.
    pub headers: &'a HeaderMap,
    /// With which text, as far as it was read.
    pub body: &'a [u8],
    /// Our request.
    pub id: u64,
    /// Whether the request may be repeated.
    pub safe: bool,
    /// Whether it carried a session id.
    pub session: bool,
}

/// What is said of a server that answers with 401.
pub const NEEDS_AUTHORIZATION: &str = "it needs authorization";

/// What is said of one that answers with 403.
pub const NOT_ADMITTED: &str = "it does not admit the gateway";

impl Refused<'_> {
    /// What this refusal means.
    #[must_use]
    pub fn meaning(&self, blame: &Blame) -> Refusal {
        let code = self.status.as_u16();
        match code {
            404 if self.session => Refusal::SessionGone,
            400 | 410 if self.session && self.speaks_of_a_session() => Refusal::SessionGone,
            // Never relayed, and the challenge is not for the client (R-34).
            401 => Refusal::Fault(blame.broken(NEEDS_AUTHORIZATION)),
            403 => Refusal::Fault(blame.broken(NOT_ADMITTED)),
            408 | 429 | 502 | 503 | 504 => {
                let why = if code == 429 { "it is called too often" } else { "it is not ready" };
                Refusal::Fault(blame.busy(why, retry_after(self.headers)))
            }
            _ => match self.error() {
                Some(message) => Refusal::Error(message),
                None if code >= 500 && !self.safe => Refusal::Fault(blame.outcome_unknown()),
                None => Refusal::Fault(blame.protocol(format!("it answers with HTTP status {code}"))),
            },
        }
    }

    /// The JSON-RPC error in the body. On a server error it must name our request: one without an id may
    /// come from anything in between, after the call was done.
    fn error(&self) -> Option<Message> {
        let message = Message::parse(Bytes::copy_from_slice(self.body)).ok()?;
        if message.kind() != Kind::Error {
            return None;
        }
        match message.id_number() {
            Some(id) if id == self.id => Some(message),
            _ if self.status.is_server_error() && !self.safe => None,
            _ => readdressed(&message, self.id),
        }
    }

    fn speaks_of_a_session(&self) -> bool {
        // An error about parameters may mention anything; one about the session has its own words.
        let text = String::from_utf8_lossy(self.body).to_ascii_lowercase();
        text.contains("session") && !text.contains("-32602")
    }
}

/// An error message with our id in place of another or none (RPC-04).
#[must_use]
pub fn readdressed(message: &Message, id: u64) -> Option<Message> {
    let span = message.body()?;
    Object::scan(message.text(), span.start).ok()?;
    let text =
        [format!(r#"{{"jsonrpc":"2.0","id":{id},"error":"#).as_bytes(), &message.text()[span], b"}"].concat();
    Message::parse(text.into()).ok()
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    // The form with a date is rare, and a clock that is off makes nonsense of it.
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(LONGEST_WAIT))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a refusal of a `safe` call in a `session` means.
    fn meaning(status: u16, body: &str, (safe, session): (bool, bool)) -> Refusal {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, "7".parse().unwrap())]);
        let status = StatusCode::from_u16(status).unwrap();
        Refused { status, headers: &headers, body: body.as_bytes(), id: 5, safe, session }
            .meaning(&Blame::new("alpha".into()))
    }

    const NO_ID: &str = r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"no"}}"#;

    /// HTTP-28, F-014
    #[test]
    fn f_014_a_lost_session_is_told_apart() {
        assert!(matches!(meaning(404, "", (false, true)), Refusal::SessionGone));
        assert!(matches!(meaning(404, "", (false, false)), Refusal::Fault(Fault::Protocol { .. })));
        assert!(matches!(meaning(400, "Bad Request: Session expired", (false, true)), Refusal::SessionGone));
        assert!(matches!(meaning(400, "bad", (false, true)), Refusal::Fault(Fault::Protocol { .. })));
    }

    /// HTTP-36, F-071
    #[test]
    fn f_071_statuses_become_faults_without_the_upstreams_words() {
        let text = |refusal| match refusal {
            Refusal::Fault(fault) => fault.to_string(),
            _ => String::new(),
        };
        assert!(text(meaning(401, "secret", (true, true))).contains("needs authorization"));
        let Refusal::Fault(Fault::Unavailable { retry_after, unsent, .. }) = meaning(503, "", (false, true))
        else {
            panic!()
        };
        assert_eq!((retry_after, unsent), (Some(Duration::from_secs(7)), false));
        assert!(text(meaning(418, "secret", (true, true))).ends_with("HTTP status 418"));
    }

    /// F-021: nobody knows whether the call was done.
    #[test]
    fn f_021_a_server_error_leaves_the_outcome_open() {
        assert!(matches!(meaning(500, NO_ID, (false, true)), Refusal::Fault(Fault::OutcomeUnknown { .. })));
        assert!(matches!(meaning(500, "", (true, true)), Refusal::Fault(Fault::Protocol { .. })));
        let ours = r#"{"jsonrpc":"2.0","id":5,"error":{"code":-32603,"message":"no"}}"#;
        assert!(matches!(meaning(500, ours, (false, true)), Refusal::Error(_)));
    }

    /// HTTP-36, RPC-04
    #[test]
    fn errors_in_a_refusal_are_addressed_to_our_request() {
        let Refusal::Error(message) = meaning(400, NO_ID, (false, true)) else { panic!() };
        assert_eq!(message.id_number(), Some(5));
        assert!(message.text().ends_with(br#""error":{"code":-32000,"message":"no"}}"#));
    }
}
