//! What a new connection is told before its first call, so that it stands where the one before it stood (LIFE-26): the
//! log level, then the subscriptions.

use bytes::Bytes;

use crate::call::{Handshake, LogLevel};
use crate::jsonrpc::Message;
use crate::jsonrpc::message::compose;
use crate::jsonrpc::text;
use crate::upstream::patron::{Patron, UPDATED};

/// The requests, each with an id that `next_id` gives. Whoever is subscribed to something is told that it was updated,
/// since an update may have gone unseen.
pub fn requests(patron: &Patron, handshake: &Handshake, mut next_id: impl FnMut() -> u64) -> Vec<Bytes> {
    let mut out = Vec::new();
    if let Some(level) = patron.owner().and_then(|owner| owner.log_level()) {
        out.extend(set_level(handshake, level, &mut next_id));
    }
    for (uri, sessions) in patron.subscriptions.all() {
        let params = format!(r#"{{"uri":{}}}"#, text::quote(&uri));
        out.push(compose(Some(next_id()), "resources/subscribe", &params));
        let Ok(update) = Message::parse(compose(None, UPDATED, &params)) else { continue };
        sessions.iter().for_each(|session| patron.unbound.told(session, update.clone()));
    }
    out
}

/// The request for log messages from `level` on, if the upstream has any (LOG-02).
pub fn set_level(handshake: &Handshake, level: LogLevel, next_id: impl FnOnce() -> u64) -> Option<Bytes> {
    let params = format!(r#"{{"level":"{}"}}"#, level.name());
    handshake.capabilities.logging.then(|| compose(Some(next_id()), "logging/setLevel", &params))
}
