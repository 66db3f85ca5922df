//! One request of a client on its way, and the call that the relay makes of it for an upstream.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::call::session::Session;
use crate::call::upstream::UpstreamId;
use crate::jsonrpc::scan::{ScanError, Span};
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, Id, Message, Object};
use crate::mcp::methods::Method;

/// What becomes known of a call while it is under way, shared by those who hold its ends.
#[derive(Debug, Default)]
pub struct Course {
    upstream: OnceLock<UpstreamId>,
    reason: OnceLock<Box<str>>,
}

impl Course {
    /// Notes who answers.
    pub fn goes_to(&self, upstream: UpstreamId) {
        // A call goes to one upstream.
        let _ = self.upstream.set(upstream);
    }

    /// Who answers; none for the gateway itself.
    #[must_use]
    pub fn upstream(&self) -> Option<UpstreamId> {
        self.upstream.get().copied()
    }

    /// Notes why it is cancelled, in the client's words, cut to what a log takes (CANC-07).
    pub fn cancelled_for(&self, reason: &str) {
        // The first reason counts.
        let _ = self.reason.set(reason.chars().filter(|c| !c.is_control()).take(200).collect());
    }

    /// Why the client cancelled it, if it said.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        self.reason.get().map(|reason| &**reason)
    }
}

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
    /// What becomes known of it.
    pub course: Arc<Course>,
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
        Ok(Self { session, method, message, params, progress, course: Arc::default() })
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
    /// What becomes known of it.
    pub course: Arc<Course>,
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
