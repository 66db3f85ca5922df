//! One request of a client on its way, and the call that the relay makes of it for an upstream.

use std::sync::Arc;

use bytes::Bytes;

use crate::call::session::Session;
use crate::call::upstream::UpstreamId;
use crate::jsonrpc::scan::{ScanError, Span};
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, Id, Message, Object};
use crate::mcp::methods::Method;

/// A client's request.
#[derive(Debug)]
pub struct Call {
    /// Whose it is.
    pub session: Arc<Session>,
    /// The row of the method table.
    pub method: &'static Method,
    /// As the client wrote it.
    pub message: Message,
    /// The members of `params`; none when it is absent.
    pub params: Object,
    /// Where the client's progress token stands, and the token (PROG-01).
    pub progress: Option<(Span, Id)>,
}

impl Call {
    /// Reads `params` and its `_meta` of a request.
    ///
    /// # Errors
    /// `NotObject` when `params` is no object (RPC-10), `Repeated` when a member occurs twice (RPC-23).
    pub fn new(session: Arc<Session>, method: &'static Method, message: Message) -> Result<Self, ScanError> {
        let text = message.text();
        let params = match message.params() {
            None => Object::default(),
            Some(span) => Object::scan(text, span.start)?,
        };
        let meta = object_at(text, params.find(text, "_meta"))?;
        let token = meta.and_then(|meta| meta.find(text, "progressToken"));
        let progress = token.and_then(|span| Some((span.clone(), Id::parse(message.slice(span))?)));
        Ok(Self { session, method, message, params, progress })
    }

    /// The plain text of the string `name` in `params`.
    #[must_use]
    pub fn param(&self, name: &str) -> Option<std::borrow::Cow<'_, str>> {
        self.params.string(self.message.text(), name)
    }
}

/// A call that may pass; only the gate makes one.
#[derive(Debug)]
pub struct Admitted(Call);

impl Admitted {
    /// The permit. Called by the gate only; `tests/architecture.rs` checks that.
    #[must_use]
    pub fn grant(call: Call) -> Self {
        Self(call)
    }

    /// The call that was admitted.
    #[must_use]
    pub fn call(&self) -> &Call {
        &self.0
    }

    /// The call that was admitted, for whoever carries it on.
    #[must_use]
    pub fn into_call(self) -> Call {
        self.0
    }
}

/// A request to one upstream.
#[derive(Debug)]
pub struct OutCall {
    /// To whom.
    pub upstream: UpstreamId,
    /// For whom: decides the connection (D7).
    pub purpose: Purpose,
    /// The row of the method table.
    pub method: &'static Method,
    /// What to send as `params`.
    pub params: Params,
    /// The client's progress token and where it stands in the message, to be replaced on the way out
    /// and restored on the way back (PROG-04).
    pub progress: Option<(Span, Id)>,
    /// The upstream's own name of the tool, for limits that are set per tool.
    pub tool: Option<Arc<str>>,
}

/// For whom a connection is used.
#[derive(Debug, Clone)]
pub enum Purpose {
    /// A client's session.
    Session(Arc<Session>),
    /// The gateway's own discovery.
    Catalog,
}

/// The parameters of a request to an upstream.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large variant is the common one and is moved once")]
pub enum Params {
    /// Those of a client's message, with edits.
    Edited(Message, Edits),
    /// Our own: JSON text, or empty for none.
    Own(Bytes),
}
