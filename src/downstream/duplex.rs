//! Messages of a session that has one way back for everything, its standing stream: standard streams, and HTTP+SSE of
//! 2024-11-05.
//!
//! *Invariants.* Whatever a message leads to goes on the newest standing stream (see
//! [`Outbox::attach`](super::legacy::outbox::Outbox::attach)).

use std::sync::Arc;

use bytes::Bytes;

use crate::base::tasks;
use crate::downstream::drive::carry;
use crate::downstream::legacy::session::Entry;
use crate::downstream::many;
use crate::downstream::one::{self, Begun};
use crate::downstream::rescue::Refusal;
use crate::downstream::shore::Shore;
use crate::jsonrpc::{Kind, Message};

/// Takes one message. What a request brings is written by a task of its own, which ends with its call.
///
/// # Errors
/// As [`one::begin`]; where it goes is the transport's to say.
pub fn take(shore: &Arc<Shore>, entry: &Entry, message: Message) -> Result<(), Refusal> {
    match message.kind() {
        Kind::Request => match one::begin(shore, entry, message)? {
            Begun::Call(exchange) => tasks::spawn("call on a standing stream", carry(exchange)).detach(),
            Begun::Failed(fault, id) => say(entry, &fault.to_error().answer(Some(&id))),
        },
        Kind::Notification => one::notice(shore, entry, message),
        // RPC-09: whether anyone waits for it or not.
        Kind::Result | Kind::Error => entry.outbox.answered(message),
    }
    Ok(())
}

/// Takes a batch (RPC-15, STDIO-11). Its answers are written together, by a task of its own.
///
/// # Errors
/// As [`many::split`] and [`many::begin`].
pub fn take_batch(shore: &Arc<Shore>, entry: &Entry, text: &Bytes) -> Result<(), Refusal> {
    let batch = many::begin(shore, entry, many::split(shore, text)?)?;
    if !batch.is_silent() {
        let work = many::carry(entry.outbox.clone(), batch);
        tasks::spawn("batch on a standing stream", work).detach();
    }
    Ok(())
}

/// Writes a message on the standing stream; without one it is dropped.
pub fn say(entry: &Entry, text: &Bytes) {
    if let Some(track) = entry.outbox.newest() {
        track.append(text, 0);
    }
}
