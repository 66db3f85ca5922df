//! The text of a call as it is sent: our id, our progress token, the relay's edits.

use bytes::Bytes;

use crate::call::{OutCall, Params};
use crate::jsonrpc::Id;
use crate::jsonrpc::message::compose;
use crate::jsonrpc::text;

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

/// The notice that a request of ours is given up (CANC-01). The reason may be a client's: any text.
#[must_use]
pub fn cancelled(id: u64, reason: &str) -> Bytes {
    let reason = text::quote(reason);
    compose(None, "notifications/cancelled", &format!(r#"{{"requestId":{id},"reason":{reason}}}"#))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::Message;

    /// CANC-07: a client's words are a text to the upstream and nothing else.
    #[test]
    fn canc_07_a_reason_cannot_become_members() {
        for reason in
            ["because", r#"a "quote" \ {}"#, r#"x"},"id":9,"method":"tools/call","params":{"name":"t"#]
        {
            let written = cancelled(7, reason);
            let message = Message::parse(written.clone()).unwrap();
            assert_eq!((&*message.method(), message.id().is_none()), ("notifications/cancelled", true));
            let read: serde_json::Value = serde_json::from_slice(&written).unwrap();
            assert_eq!(read["params"], serde_json::json!({"requestId": 7, "reason": reason}));
        }
    }
}
