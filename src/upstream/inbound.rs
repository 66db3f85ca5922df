//! What an upstream may send unasked, and what is due for it.

use bytes::Bytes;

use crate::jsonrpc::error::METHOD_NOT_FOUND;
use crate::jsonrpc::{ErrorObject, Id, Kind, Message, batch};
use crate::mcp::methods::ItemKind;
use crate::upstream::progress;

/// A message of an upstream, by what is to be done with it.
#[derive(Debug)]
pub enum Inbound {
    /// Answers a request of ours.
    Answer(Message),
    /// Progress of a request of ours.
    Progress(Message),
    /// A list has changed.
    ListChanged(ItemKind),
    /// Asks for something; this is the answer (PING-01, LIFE-14: we declared nothing).
    Request(Bytes),
    /// Nothing that is carried.
    Other,
}

impl Inbound {
    /// Sorts a message.
    #[must_use]
    pub fn of(message: Message) -> Self {
        match message.kind() {
            Kind::Result | Kind::Error => Self::Answer(message),
            Kind::Request => Self::Request(answer(&message)),
            Kind::Notification => {
                let method = message.method();
                if method == progress::METHOD {
                    return Self::Progress(message);
                }
                let kinds = [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource];
                kinds.into_iter().find(|kind| kind.changed() == method).map_or(Self::Other, Self::ListChanged)
            }
        }
    }
}

/// The messages in a text, which may be a batch (RPC-15), and how many parts of it are none.
#[must_use]
pub fn messages(text: Bytes) -> (Vec<Message>, usize) {
    if !batch::is_batch(&text) {
        return match Message::parse(text) {
            Ok(message) => (vec![message], 0),
            Err(_) => (Vec::new(), 1),
        };
    }
    let Ok(parts) = batch::split(&text) else { return (Vec::new(), 1) };
    let all = parts.len();
    let good: Vec<_> = parts.into_iter().filter_map(|part| Message::parse(part).ok()).collect();
    let bad = all - good.len();
    (good, bad)
}

fn answer(request: &Message) -> Bytes {
    let id: Option<Id> = request.id();
    if request.method() == "ping" {
        let id = id.map_or_else(|| Bytes::from_static(b"null"), |id| id.text().clone());
        return [br#"{"jsonrpc":"2.0","id":"#.as_slice(), &id, br#","result":{}}"#].concat().into();
    }
    ErrorObject::new(METHOD_NOT_FOUND, "Method not found").answer(id.as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Inbound {
        Inbound::of(Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap())
    }

    /// PING-01, F-056: answered on this hop; F-055 comes with questions to clients.
    #[test]
    fn f_056_pings_are_answered_and_questions_refused() {
        let Inbound::Request(pong) = of(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#) else { panic!() };
        assert_eq!(pong, r#"{"jsonrpc":"2.0","id":"p","result":{}}"#);
        let Inbound::Request(no) = of(r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#) else { panic!() };
        assert!(String::from_utf8_lossy(&no).contains("-32601"));
    }

    /// F-052
    #[test]
    fn f_052_changes_of_lists_are_known() {
        for kind in [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource] {
            let text = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, kind.changed());
            assert!(matches!(of(&text), Inbound::ListChanged(found) if found == kind));
        }
        assert!(matches!(of(r#"{"jsonrpc":"2.0","method":"notifications/message"}"#), Inbound::Other));
    }

    /// RPC-15, F-040
    #[test]
    fn f_040_batches_are_split_and_bad_parts_dropped() {
        let (good, bad) = messages(Bytes::from(r#"[{"jsonrpc":"2.0","id":1,"result":{}},null]"#));
        assert_eq!((good.len(), bad), (1, 1));
        assert_eq!(messages(Bytes::from("[1")).1, 1);
    }
}
