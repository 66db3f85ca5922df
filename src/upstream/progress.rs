//! Progress of one call: our token on the way out, the client's own on the way back (PROG-04, F-059).

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

use crate::jsonrpc::{Edits, Id, Message, Object, text};

/// The name of the notification.
pub const METHOD: &str = "notifications/progress";

/// What turns an upstream's progress into the client's.
///
/// *Invariants.* What it lets through increases strictly (PROG-05) and has the client's exact token.
#[derive(Debug)]
pub struct Progress {
    ours: u64,
    token: Id,
    highest: Mutex<f64>,
}

impl Progress {
    /// Progress of the request `ours`, whose number is its token; `token` is the client's.
    #[must_use]
    pub fn new(ours: u64, token: Id) -> Self {
        Self { ours, token, highest: Mutex::new(f64::NEG_INFINITY) }
    }

    /// The notification for the client; `None` for one that is not for it, or that tells nothing new.
    #[must_use]
    pub fn readdress(&self, message: &Message) -> Option<Bytes> {
        let params = Object::scan(message.text(), message.params()?.start).ok()?;
        if token(message, &params)? != self.ours {
            return None;
        }
        let value: f64 = std::str::from_utf8(params.value(message.text(), "progress")?).ok()?.parse().ok()?;
        {
            let mut highest = self.highest.lock().unwrap_or_else(PoisonError::into_inner);
            if value.is_nan() || value <= *highest {
                return None;
            }
            *highest = value;
        }
        let mut edits = Edits::new();
        edits.replace(params.find(message.text(), "progressToken")?, self.token.text().clone());
        Some(message.readdress(None, METHOD, &edits))
    }
}

/// The request that a progress notification is about, by our numbering.
#[must_use]
pub fn request_of(message: &Message) -> Option<u64> {
    token(message, &Object::scan(message.text(), message.params()?.start).ok()?)
}

/// Servers that turn our number into a string are understood as well.
fn token(message: &Message, params: &Object) -> Option<u64> {
    let literal = params.value(message.text(), "progressToken")?;
    crate::jsonrpc::id::number(literal)
        .or_else(|| crate::jsonrpc::id::number(text::unquote(literal)?.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(token: &str, progress: &str) -> Message {
        Message::parse(Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{progress},"message":"half \u00e9","x":1}}}}"#
        )))
        .unwrap()
    }

    /// PROG-02, PROG-04, PROG-05, F-059
    #[test]
    fn f_059_the_clients_token_comes_back_as_it_was_written() {
        let progress = Progress::new(7, Id::parse(Bytes::from(r#""1""#)).unwrap());
        assert_eq!(
            progress.readdress(&message("7", "0.5")).unwrap(),
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1","progress":0.5,"message":"half \u00e9","x":1}}"#
        );
        assert!(progress.readdress(&message("7", "0.5")).is_none(), "not more than before");
        assert!(progress.readdress(&message("7", "0.4")).is_none());
        assert!(progress.readdress(&message("8", "1")).is_none(), "another call's");
        assert!(progress.readdress(&message("7", "null")).is_none());
        assert!(progress.readdress(&message("\"7\"", "1")).is_some());
        assert_eq!(request_of(&message("7", "1")), Some(7));
    }
}
