//! Error objects and the numeric codes of JSON-RPC and of this gateway.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::jsonrpc::id::Id;
use crate::jsonrpc::text;

/// The text is no JSON.
pub const PARSE_ERROR: i64 = -32700;
/// JSON, but no valid message.
pub const INVALID_REQUEST: i64 = -32600;
/// Unknown method, or one whose capability was not declared.
pub const METHOD_NOT_FOUND: i64 = -32601;
/// Wrong or missing parameters; unknown names and cursors.
pub const INVALID_PARAMS: i64 = -32602;
/// A failure of the gateway or an upstream (RPC-13).
pub const INTERNAL_ERROR: i64 = -32603;
/// A resource that nobody has (MCP; `data.uri`).
pub const RESOURCE_NOT_FOUND: i64 = -32002;
/// A bounded thing is full: sessions, children (RPC-13, R-11).
pub const QUOTA_EXCEEDED: i64 = -31002;

/// Something that the caller may see and may not have now (RPC-13).
pub const POLICY_DENIED: i64 = -31003;
/// The user has to open a page first; `data.elicitations` says which (MCP, since 2025-11-25).
pub const URL_ELICITATION_REQUIRED: i64 = -32042;

/// An error that is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorObject {
    /// One of the codes above, or an upstream's own.
    pub code: i64,
    /// For people; no secrets, no inner addresses.
    pub message: String,
    /// JSON text of `data`, if any.
    pub data: Option<String>,
}

impl ErrorObject {
    /// An error without `data`.
    #[must_use]
    pub fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// The whole message; without `id` where the request's could not be read (RPC-04).
    #[must_use]
    pub fn answer(&self, id: Option<&Id>) -> Bytes {
        let mut out =
            String::with_capacity(96 + self.message.len() + self.data.as_ref().map_or(0, String::len));
        out.push_str(r#"{"jsonrpc":"2.0","#);
        if let Some(id) = id {
            // An id was scanned as JSON text, which is UTF-8.
            let _ = write!(out, r#""id":{},"#, String::from_utf8_lossy(id.text()));
        }
        // Writing into a string cannot fail.
        let _ = write!(out, r#""error":{{"code":{},"message":"#, self.code);
        text::quote_into(&mut out, &self.message);
        if let Some(data) = &self.data {
            out.push_str(r#","data":"#);
            out.push_str(data);
        }
        out.push_str("}}");
        Bytes::from(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RPC-04
    #[test]
    fn an_unreadable_id_is_left_out() {
        let error = ErrorObject::new(PARSE_ERROR, "not \"JSON\"");
        assert_eq!(
            error.answer(None),
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"not \"JSON\""}}"#
        );
        let id = Id::parse(Bytes::from(r#""a""#)).unwrap();
        let error = ErrorObject { data: Some("{}".into()), ..ErrorObject::new(1, "x") };
        assert_eq!(
            error.answer(Some(&id)),
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":1,"message":"x","data":{}}}"#
        );
    }
}
