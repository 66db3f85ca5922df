//! What a scripted server may do with a request: answer well, answer badly, or not at all.

use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};

/// The end of one request at a scripted server.
#[derive(Clone, Debug)]
pub enum Reply {
    /// A JSON-RPC result, as JSON text.
    Result(String),
    /// A JSON-RPC error object, as JSON text.
    Error(String),
    /// Nothing more is said; a stream that has begun ends in order.
    Done,
    /// Nothing more is said and nothing is closed.
    Hang,
    /// The connection is closed, whatever has been said so far (a child: its standard output).
    Cut,
    /// As `Cut`, but with a reset. HTTP only.
    Reset,
    /// These bytes go out as they are, then the connection ends. On stdio it stays open.
    Bytes(Bytes),
    /// An HTTP response of one's own. HTTP only.
    Http(Box<Page>),
    /// The process exits with this code. stdio only.
    Exit(u8),
    /// The process is killed by SIGKILL. stdio only.
    Killed,
}

impl Reply {
    /// A tool result of one text block.
    pub fn text(text: impl Into<String>) -> Self {
        said(text).into()
    }

    /// A result given as JSON text, sent byte for byte.
    pub fn raw(result: impl Into<String>) -> Self {
        Reply::Result(result.into())
    }

    pub fn error(code: i64, message: &str) -> Self {
        Reply::Error(json!({"code": code, "message": message}).to_string())
    }

    /// An error given as JSON text.
    pub fn raw_error(error: impl Into<String>) -> Self {
        Reply::Error(error.into())
    }

    /// An HTTP response without a body.
    pub fn status(status: u16) -> Self {
        Page::new(status).into()
    }
}

impl From<Value> for Reply {
    fn from(result: Value) -> Self {
        Reply::Result(result.to_string())
    }
}

impl From<Page> for Reply {
    fn from(page: Page) -> Self {
        Reply::Http(Box::new(page))
    }
}

/// A tool result of one text block.
pub fn said(text: impl Into<String>) -> Value {
    json!({"content": [{"type": "text", "text": text.into()}]})
}

/// An HTTP response in pieces, with the way it ends.
#[derive(Clone, Debug)]
pub struct Page {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub pieces: Vec<Bytes>,
    /// The pause before each piece but the first; every piece is its own TCP segment.
    pub pace: Duration,
    pub end: End,
}

/// How a response body ends.
#[derive(Clone, Debug, PartialEq)]
pub enum End {
    /// In order.
    Clean,
    /// It does not; the connection stays open and silent.
    Hang,
    /// The connection closes before the body is complete.
    Cut,
    /// It does not; this piece is sent again and again, each millisecond.
    Flood(Bytes),
}

impl Page {
    pub fn new(status: u16) -> Self {
        Page { status, headers: Vec::new(), pieces: Vec::new(), pace: Duration::ZERO, end: End::Clean }
    }

    /// A 200 with a JSON body.
    pub fn json(body: impl Into<Bytes>) -> Self {
        Page::new(200).header("content-type", "application/json").piece(body)
    }

    /// A 200 with an event stream.
    pub fn stream() -> Self {
        Page::new(200).header("content-type", "text/event-stream")
    }

    pub fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn piece(mut self, piece: impl Into<Bytes>) -> Self {
        self.pieces.push(piece.into());
        self
    }

    /// The bytes one at a time, each in a segment of its own.
    pub fn trickle(mut self, bytes: &[u8]) -> Self {
        self.pieces.extend(bytes.iter().map(|byte| Bytes::copy_from_slice(&[*byte])));
        self
    }

    pub fn pace(mut self, pace: Duration) -> Self {
        self.pace = pace;
        self
    }

    pub fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }
}
