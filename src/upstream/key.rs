//! Whose connection a call takes (D7, R-10).

use std::sync::Arc;

use crate::call::{Principal, Purpose, Session, SessionKey};
use crate::config::snapshot::Isolation;

/// What tells connections of one upstream apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// The one of the catalog, which is also the one that all share.
    Shared,
    /// One for each session.
    Session(SessionKey),
    /// One for all sessions of a caller.
    Caller(Arc<Principal>),
    /// One for all callers of a tenant.
    Tenant(Arc<str>),
}

impl Key {
    /// The key of a call.
    #[must_use]
    pub fn of(purpose: &Purpose, isolation: Isolation) -> Self {
        match (purpose, isolation) {
            (Purpose::Catalog, _) | (_, Isolation::Shared) => Self::Shared,
            (Purpose::Session(session), Isolation::Session) => Self::Session(session.key),
            (Purpose::Session(session), Isolation::Caller) => Self::Caller(Arc::clone(&session.who)),
            (Purpose::Session(session), Isolation::Tenant) => Self::Tenant(Arc::clone(&session.who.tenant)),
        }
    }

    /// The session that a connection of this key belongs to, if it belongs to one.
    #[must_use]
    pub fn owner<'p>(&self, purpose: &'p Purpose) -> Option<&'p Arc<Session>> {
        match (self, purpose) {
            (Self::Session(_), Purpose::Session(session)) => Some(session),
            _ => None,
        }
    }
}
