//! What an upstream may send, by who takes it.

use bytes::Bytes;

use crate::jsonrpc::{Kind, Message, batch};
use crate::upstream::progress;

/// A message of an upstream, by who takes it.
#[derive(Debug)]
pub enum Inbound {
    /// Answers a request of ours.
    Answer(Message),
    /// Progress of a request of ours.
    Progress(Message),
    /// Anything else: it is the patron's.
    Aside(Message),
}

impl Inbound {
    /// Sorts a message.
    #[must_use]
    pub fn of(message: Message) -> Self {
        match message.kind() {
            Kind::Result | Kind::Error => Self::Answer(message),
            Kind::Notification if message.method() == progress::METHOD => Self::Progress(message),
            Kind::Notification | Kind::Request => Self::Aside(message),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// RPC-15, F-040
    #[test]
    fn f_040_batches_are_split_and_bad_parts_dropped() {
        let (good, bad) = messages(Bytes::from(r#"[{"jsonrpc":"2.0","id":1,"result":{}},null]"#));
        assert_eq!((good.len(), bad), (1, 1));
        assert_eq!(messages(Bytes::from("[1")).1, 1);
    }
}
