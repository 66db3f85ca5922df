//! A client's session, as all stages see it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use crate::call::principal::Principal;
use crate::call::question::Question;
use crate::call::upstream::UpstreamId;
use crate::mcp::capabilities::ClientCapabilities;
use crate::mcp::methods::ItemKind;
use crate::mcp::revision::Revision;

/// The random part of a session id; a secret, so it prints as a stub.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey(pub [u8; 16]);

impl fmt::Debug for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionKey(…)")
    }
}

/// What a client connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// `/mcp`: all upstreams, under namespaces.
    Merged,
    /// `/mcp/<upstream>`: one, with its own names.
    Upstream(UpstreamId),
}

/// The severity from which a session wants log messages (LOG-02); unset until the client says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum LogLevel {
    /// `debug`
    Debug = 1,
    /// `info`
    Info,
    /// `notice`
    Notice,
    /// `warning`
    Warning,
    /// `error`
    Error,
    /// `critical`
    Critical,
    /// `alert`
    Alert,
    /// `emergency`
    Emergency,
}

impl LogLevel {
    const ALL: [(Self, &'static str); 8] = [
        (Self::Debug, "debug"),
        (Self::Info, "info"),
        (Self::Notice, "notice"),
        (Self::Warning, "warning"),
        (Self::Error, "error"),
        (Self::Critical, "critical"),
        (Self::Alert, "alert"),
        (Self::Emergency, "emergency"),
    ];

    /// The level with this name on the wire.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == name).map(|(level, _)| *level)
    }

    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL[self as usize - 1].1
    }
}

/// Something for a client that belongs to none of its calls.
#[derive(Debug)]
pub enum Push {
    /// A notification, ready for the client.
    Notice(Bytes),
    /// A list has changed.
    Changed(ItemKind),
    /// An upstream asks.
    Ask(Question),
}

/// The client at the other end of a session.
pub trait Client: Send + Sync {
    /// Sends it something; what cannot be sent now waits within bounds or is dropped (HTTP-19).
    fn push(&self, push: Push);
}

/// A client that takes nothing and answers nothing.
#[derive(Debug)]
pub struct Nobody;

impl Client for Nobody {
    fn push(&self, _: Push) {}
}

/// A session that is open.
///
/// *Invariants.* Revision, capabilities, principal and endpoint never change; whoever speaks in its name was
/// authenticated as its principal in that very request (SEC-10).
pub struct Session {
    /// The random part of its id.
    pub key: SessionKey,
    /// Negotiated with the client (LIFE-03).
    pub revision: Revision,
    /// Who opened it.
    pub who: Arc<Principal>,
    /// Where it was opened.
    pub endpoint: Endpoint,
    /// What its client can be asked for.
    pub capabilities: ClientCapabilities,
    /// Whether its client is on this machine, so that its files are ours (ROOT-05, R-45).
    pub is_local: bool,
    /// Its client.
    pub client: Arc<dyn Client>,
    /// Cancelled when it has ended.
    pub ended: CancellationToken,
    level: AtomicU8,
}

impl Session {
    /// A new session of a client that cannot be asked.
    #[must_use]
    pub fn new(key: SessionKey, revision: Revision, who: Arc<Principal>, endpoint: Endpoint) -> Self {
        Self {
            key,
            revision,
            who,
            endpoint,
            capabilities: ClientCapabilities::default(),
            is_local: false,
            client: Arc::new(Nobody),
            ended: CancellationToken::new(),
            level: AtomicU8::new(0),
        }
    }

    /// The level that the client asked for, if it did.
    #[must_use]
    pub fn log_level(&self) -> Option<LogLevel> {
        let level = self.level.load(Ordering::Relaxed);
        LogLevel::ALL.get(usize::from(level).checked_sub(1)?).map(|(level, _)| *level)
    }

    /// Keeps the level that the client asked for.
    pub fn set_log_level(&self, level: LogLevel) {
        self.level.store(level as u8, Ordering::Relaxed);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("revision", &self.revision)
            .field("who", &self.who)
            .field("endpoint", &self.endpoint)
            .field("capabilities", &self.capabilities)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// LOG-02
    #[test]
    fn levels_have_names_and_an_order() {
        for (level, name) in LogLevel::ALL {
            assert_eq!(LogLevel::parse(name), Some(level));
            assert_eq!(level.name(), name);
        }
        assert!(LogLevel::Debug < LogLevel::Emergency);
        assert_eq!(LogLevel::parse("verbose"), None);
    }
}
