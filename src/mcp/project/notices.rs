//! Notifications of upstreams in the terms of the client's revision.

use bytes::Bytes;

use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, Message};
use crate::mcp::project::edited;
use crate::mcp::revision::Revision;

/// The whole notification as a client of `to` understands it; `None` leaves it.
///
/// 2024-11-05 has no `message` beside a progress.
#[must_use]
pub fn notice(to: Revision, message: &Message) -> Option<Bytes> {
    if to >= Revision::V2025_03_26 || message.method() != "notifications/progress" {
        return None;
    }
    let params = object_at(message.text(), message.params()).ok().flatten()?;
    let mut edits = Edits::new();
    edits.remove(message.text(), &params, &["message"]);
    edited(message.text(), &edits)
}
