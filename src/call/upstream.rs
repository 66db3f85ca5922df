//! Upstreams as the relay and the client shore know them.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;

use crate::call::fault::Fault;
use crate::call::question::Question;
use crate::call::session::Session;
use crate::jsonrpc::Message;
use crate::mcp::capabilities::ServerCapabilities;
use crate::mcp::methods::ItemKind;
use crate::mcp::revision::Revision;

/// An upstream's place in the configuration; stable for the life of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(pub u16);

impl UpstreamId {
    /// The place in tables.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// What an upstream said when it was met (LIFE-06).
#[derive(Debug, Clone)]
pub struct Handshake {
    /// The revision in use with it.
    pub revision: Revision,
    /// What it declared.
    pub capabilities: ServerCapabilities,
    /// The text of its `serverInfo`.
    pub server_info: Bytes,
    /// Its instructions, as plain text.
    pub instructions: Option<String>,
}

/// What the other stages ask of the server shore beside calls.
pub trait Upstreams: Send + Sync {
    /// Opens the catalog connection, or gives the handshake of the one that is open (D7).
    fn connect(&self, upstream: UpstreamId) -> BoxFuture<'static, Result<Arc<Handshake>, Fault>>;

    /// Whether a change of its lists would be heard now: it has somewhere to announce it (HTTP-16).
    fn announces(&self, upstream: UpstreamId) -> bool;

    /// Tells the session's connections the log level that it asked for (LOG-02); later connections
    /// learn it when they open. Done when those that can be told have been.
    fn set_log_level(&self, session: &Arc<Session>) -> BoxFuture<'static, ()>;

    /// Tells the session's connections that its client's roots have changed, those that were told it could say so
    /// (ROOT-01, ROOT-03).
    fn roots_changed(&self, session: &Arc<Session>);

    /// Whether the upstream can know which person this session's client serves, so that it may send that person to a
    /// page (ELIC-15, R-45).
    fn is_bound(&self, upstream: UpstreamId, session: &Session) -> bool;

    /// Ends what belongs to a session that has ended (LIFE-21).
    fn release(&self, session: &Arc<Session>);
}

/// What the client shore tells the relay.
pub trait Attendant: Send + Sync {
    /// A client's roots have changed (ROOT-01).
    fn roots_changed(&self, session: &Arc<Session>);

    /// A session has ended (LIFE-21).
    fn ended(&self, session: &Arc<Session>);
}

/// How a change of lists was announced.
#[derive(Debug, Clone, Copy)]
pub struct News<'a> {
    /// The session that owns the connection, if one does.
    pub owner: Option<&'a Arc<Session>>,
    /// The same was said on this connection a moment ago.
    pub repeated: bool,
}

/// What the server shore tells the relay.
pub trait Observer: Send + Sync {
    /// An upstream says that a list has changed; how it came to be known is told beside.
    fn list_changed(&self, upstream: UpstreamId, kind: ItemKind, news: News<'_>);

    /// The catalog connection was lost; what it listed may be old.
    fn connection_lost(&self, upstream: UpstreamId);

    /// A push channel was opened again: lists may have changed unseen (LIFE-26, F-024).
    fn reconnected(&self, upstream: UpstreamId);

    /// An upstream sends a notification that concerns this session, and no call of it: a log message, the update of a
    /// resource that the session has subscribed to, the completion of an elicitation. It is as the upstream wrote it.
    fn told(&self, upstream: UpstreamId, session: &Arc<Session>, notification: Message);

    /// An upstream asks this session's client, and it cannot be said for which of its calls.
    fn asked(&self, session: &Arc<Session>, question: Question);
}

/// What the relay tells the client shore.
pub trait Audience: Send + Sync {
    /// What clients of an endpoint are shown has changed.
    fn list_changed(&self, endpoint: super::Endpoint, kind: ItemKind);
}
