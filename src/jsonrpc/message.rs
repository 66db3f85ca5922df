//! One JSON-RPC message: its text, and where its members lie.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};

use crate::jsonrpc::error::{INVALID_REQUEST, PARSE_ERROR};
use crate::jsonrpc::id::{self, Id};
use crate::jsonrpc::scan::{self, ScanError, Span};
use crate::jsonrpc::splice::Edits;
use crate::jsonrpc::text;
use crate::jsonrpc::view::Object;

/// A message as it was received (D1).
///
/// *Invariants.* The text is one valid JSON object in UTF-8, its envelope has no repeated member
/// (RPC-23), and it is a request, a notification or a response (never a mixture).
#[derive(Debug, Clone)]
pub struct Message {
    text: Bytes,
    kind: Kind,
    id: Option<Span>,
    method: Option<Span>,
    params: Option<Span>,
    body: Option<Span>,
}

/// What sort of message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Has a method and an id.
    Request,
    /// Has a method and no id.
    Notification,
    /// Answers a request with a result.
    Result,
    /// Answers a request with an error; the id may be absent (RPC-04).
    Error,
}

/// Why a text is no message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// Not JSON, not UTF-8, too deep, or an envelope with a repeated member.
    #[error(transparent)]
    Scan(#[from] ScanError),
    /// JSON, but not the envelope of JSON-RPC 2.0.
    #[error("{what}")]
    Envelope {
        /// What is wrong with it.
        what: &'static str,
        /// The id, if it could be read.
        id: Option<Id>,
    },
}

impl MessageError {
    /// The JSON-RPC code for it (RPC-01, RPC-10).
    #[must_use]
    pub fn code(&self) -> i64 {
        match self {
            Self::Scan(scan) if scan.is_syntax() => PARSE_ERROR,
            _ => INVALID_REQUEST,
        }
    }

    /// The id to answer with, if it could be read.
    #[must_use]
    pub fn id(&self) -> Option<&Id> {
        match self {
            Self::Envelope { id, .. } => id.as_ref(),
            Self::Scan(_) => None,
        }
    }
}

impl Message {
    /// Reads a whole text as one message.
    ///
    /// # Errors
    /// `Scan` when the text is not JSON or breaks a limit, `Envelope` when it is no message.
    pub fn parse(text: Bytes) -> Result<Self, MessageError> {
        if let Err(bad) = std::str::from_utf8(&text) {
            return Err(ScanError::Syntax(bad.valid_up_to()).into());
        }
        let start = scan::skip_space(&text, 0);
        let envelope = match Object::scan(&text, start) {
            Err(ScanError::NotObject) => {
                let end = scan::skip_value(&text, start)?;
                only_space(&text, end)?;
                return Err(MessageError::Envelope { what: "the message is not an object", id: None });
            }
            other => other?,
        };
        only_space(&text, envelope.end())?;
        Self::from_envelope(text, &envelope)
    }

    fn from_envelope(text: Bytes, envelope: &Object) -> Result<Self, MessageError> {
        let id = envelope.find(&text, "id");
        let known = id.clone().and_then(|span| Id::parse(text.slice(span)));
        let wrong = |what| MessageError::Envelope { what, id: known.clone() };
        if !envelope.value(&text, "jsonrpc").is_some_and(|version| text::means(version, "2.0")) {
            return Err(wrong("`jsonrpc` is not \"2.0\""));
        }
        let method = envelope.find(&text, "method");
        let (result, error) = (envelope.find(&text, "result"), envelope.find(&text, "error"));
        let kind = match (&method, &result, &error) {
            (Some(_), None, None) if id.is_some() => Kind::Request,
            (Some(_), None, None) => Kind::Notification,
            (None, Some(_), None) => Kind::Result,
            (None, None, Some(_)) => Kind::Error,
            (None, None, None) => return Err(wrong("there is no `method`, no `result` and no `error`")),
            (None, Some(_), Some(_)) => return Err(wrong("`result` and `error` exclude each other")),
            (Some(_), ..) => return Err(wrong("`method` stands beside `result` or `error`")),
        };
        // An error may have a null id when the request's could not be read (RPC-04).
        let null = id.clone().is_some_and(|span| &text[span] == b"null");
        if id.is_some() && known.is_none() && !(null && kind == Kind::Error) {
            return Err(wrong("`id` is neither a string nor an integer"));
        }
        if kind == Kind::Result && id.is_none() {
            return Err(wrong("a result needs an `id`"));
        }
        if method.as_ref().is_some_and(|span| text[span.start] != b'"') {
            return Err(wrong("`method` is not a string"));
        }
        let params = envelope.find(&text, "params");
        let id = id.filter(|_| !null);
        Ok(Self { kind, id, method, params, body: result.or(error), text })
    }

    /// What sort of message it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The whole text.
    #[must_use]
    pub fn text(&self) -> &Bytes {
        &self.text
    }

    /// The id, if there is one.
    #[must_use]
    pub fn id(&self) -> Option<Id> {
        // The invariant of the type: a kept span is a valid id.
        self.id.clone().and_then(|span| Id::parse(self.text.slice(span)))
    }

    /// The id as a number of our own making, without allocating.
    #[must_use]
    pub fn id_number(&self) -> Option<u64> {
        self.id.clone().and_then(|span| id::number(&self.text[span]))
    }

    /// Where the id stands.
    #[must_use]
    pub fn id_span(&self) -> Option<Span> {
        self.id.clone()
    }

    /// The method; empty for responses.
    #[must_use]
    pub fn method(&self) -> Cow<'_, str> {
        self.method.clone().and_then(|span| text::unquote(&self.text[span])).unwrap_or_default()
    }

    /// Where `params` stands.
    #[must_use]
    pub fn params(&self) -> Option<Span> {
        self.params.clone()
    }

    /// Where `result` or `error` stands.
    #[must_use]
    pub fn body(&self) -> Option<Span> {
        self.body.clone()
    }

    /// The text at `span`, sharing memory.
    #[must_use]
    pub fn slice(&self, span: Span) -> Bytes {
        self.text.slice(span)
    }

    /// This response as the answer to another hop's request `id`, its `result` or `error` untouched (RPC-07, RPC-23).
    #[must_use]
    pub fn answering(&self, id: &Id) -> Bytes {
        let body = self.body.clone().unwrap_or(0..0);
        let mut out = BytesMut::with_capacity(body.len() + id.text().len() + 48);
        out.put_slice(br#"{"jsonrpc":"2.0","id":"#);
        out.put_slice(id.text());
        out.put_slice(if self.kind == Kind::Error { br#","error":"#.as_slice() } else { br#","result":"# });
        out.put_slice(&self.text[body]);
        out.put_u8(b'}');
        out.freeze()
    }

    /// A request or notification of our own, around the edited `params` of this message (RPC-23).
    #[must_use]
    pub fn readdress(&self, id: Option<u64>, method: &str, edits: &Edits) -> Bytes {
        let params = self.params.clone().unwrap_or(0..0);
        let room = params.len().saturating_add_signed(edits.growth()) + method.len() + 72;
        let mut out = BytesMut::with_capacity(room);
        out.put_slice(br#"{"jsonrpc":"2.0","#);
        if let Some(id) = id {
            out.put_slice(br#""id":"#);
            out.put_slice(id::decimal(id, &mut [0; 20]));
            out.put_u8(b',');
        }
        out.put_slice(br#""method":""#);
        out.put_slice(method.as_bytes());
        out.put_u8(b'"');
        if !params.is_empty() {
            out.put_slice(br#","params":"#);
            edits.write(&self.text, params, &mut out);
        }
        out.put_u8(b'}');
        out.freeze()
    }
}

/// `{"jsonrpc":"2.0","id":…,"method":…,"params":…}` from parts; `params` is JSON text or empty.
#[must_use]
pub fn compose(id: Option<u64>, method: &str, params: &str) -> Bytes {
    let mut out = String::with_capacity(64 + method.len() + params.len());
    out.push_str(r#"{"jsonrpc":"2.0","#);
    if let Some(id) = id {
        out.push_str(r#""id":"#);
        out.push_str(&id.to_string());
        out.push(',');
    }
    out.push_str(r#""method":"#);
    text::quote_into(&mut out, method);
    if !params.is_empty() {
        out.push_str(r#","params":"#);
        out.push_str(params);
    }
    out.push('}');
    Bytes::from(out)
}

fn only_space(text: &[u8], end: usize) -> Result<(), ScanError> {
    match scan::skip_space(text, end) {
        at if at == text.len() => Ok(()),
        at => Err(ScanError::Syntax(at)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<Message, MessageError> {
        Message::parse(Bytes::copy_from_slice(text.as_bytes()))
    }

    /// RPC-01, RPC-02, RPC-06, RPC-10, F-039, F-040
    #[test]
    fn sorts_messages_and_names_what_is_wrong() {
        for (text, kind) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Kind::Request),
            (r#" {"id":"a","params":{},"method":"ping","jsonrpc":"2.0"} "#, Kind::Request),
            (r#"{"jsonrpc":"2.0","method":"x"}"#, Kind::Notification),
            (r#"{"result":{},"jsonrpc":"2.0","id":1}"#, Kind::Result),
            (r#"{"jsonrpc":"2.0","id":null,"error":{}}"#, Kind::Error),
            (r#"{"jsonrpc":"2.0","error":{}}"#, Kind::Error),
        ] {
            assert_eq!(parse(text).unwrap().kind(), kind, "{text}");
        }
        for (text, code) in [
            ("", PARSE_ERROR),
            ("{", PARSE_ERROR),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a"} x"#, PARSE_ERROR),
            ("[]", INVALID_REQUEST),
            ("7", INVALID_REQUEST),
            (r#"{"jsonrpc":"1.0","id":1,"method":"a"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":null,"method":"a"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{}}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","id":1}"#, INVALID_REQUEST),
            (r#"{"jsonrpc":"2.0","result":{}}"#, INVALID_REQUEST),
        ] {
            assert_eq!(parse(text).unwrap_err().code(), code, "{text}");
        }
        assert_eq!(Message::parse(Bytes::from_static(b"{\"a\":\"\xff\"}")).unwrap_err().code(), PARSE_ERROR);
    }

    #[test]
    fn readdressing_keeps_params_as_written() {
        let message = parse(r#"{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a__b","arguments":{"n":1.0}}}"#).unwrap();
        let params = Object::scan(message.text(), message.params().unwrap().start).unwrap();
        let mut edits = Edits::new();
        edits.replace(params.find(message.text(), "name").unwrap(), &b"\"b\""[..]);
        assert_eq!(
            message.readdress(Some(7), "tools/call", &edits),
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"b","arguments":{"n":1.0}}}"#
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = Message::parse(Bytes::from(text)) {
                let _ = (message.id(), message.method(), message.readdress(Some(1), "x", &Edits::new()));
            }
        }
    }
}
