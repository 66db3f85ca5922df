//! The text of a call as it is sent: our id, our progress token, the relay's edits.

use bytes::Bytes;

use crate::call::{OutCall, Params};
use crate::jsonrpc::Id;
use crate::jsonrpc::message::compose;

/// Writes the request `id` for `call` (RPC-07, PROG-04).
#[must_use]
pub fn write(call: &OutCall, id: u64) -> Bytes {
    match &call.params {
        Params::Own(params) => {
            // Params of our own are JSON, which is UTF-8.
            compose(Some(id), call.method.name, &String::from_utf8_lossy(params))
        }
        Params::Edited(message, edits) => match &call.progress {
            Some((span, _)) => {
                let mut edits = edits.clone();
                edits.replace(span.clone(), Id::number(id).text().clone());
                message.readdress(Some(id), call.method.name, &edits)
            }
            None => message.readdress(Some(id), call.method.name, edits),
        },
    }
}

/// The notice that a request of ours is given up (CANC-01).
#[must_use]
pub fn cancelled(id: u64, reason: &str) -> Bytes {
    compose(None, "notifications/cancelled", &format!(r#"{{"requestId":{id},"reason":"{reason}"}}"#))
}
