//! Event ids: which stream of a session, which event of it, and a proof that we gave it (HTTP-20, R-06).
//!
//! ```text
//! <stream>.<event>.<64 bits of a MAC over session and stream, in hexadecimal>
//! ```
//!
//! *Invariants.* An id has one spelling. The key is the secret part of the session's own id, so an id of another
//! session proves nothing here.

use std::fmt;

use crate::base::ids;
use crate::call::SessionKey;

/// The id of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventId {
    /// The stream, counted from 1 in its session.
    pub stream: u32,
    /// The event, counted from 1 in its stream; 0 stands before the first.
    pub event: u64,
    /// See [`prove`].
    pub proof: u64,
}

/// What ids of this stream carry, and none that we did not give.
#[must_use]
pub fn prove(key: &SessionKey, stream: u32) -> u64 {
    ids::keyed_hash(&key.0, &[b"event id".as_slice(), &stream.to_be_bytes()].concat())
}

impl EventId {
    /// Reads what [`fmt::Display`] writes; `None` for anything else, also for other spellings of the same.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.splitn(3, '.');
        let (stream, event, proof) = (parts.next()?, parts.next()?, parts.next()?);
        let id = Self {
            stream: stream.parse().ok()?,
            event: event.parse().ok()?,
            proof: u64::from_str_radix(proof, 16).ok()?,
        };
        (id.to_string() == text).then_some(id)
    }

    /// Whether we gave it, to this session.
    #[must_use]
    pub fn is_of(&self, key: &SessionKey) -> bool {
        self.proof == prove(key, self.stream)
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{:016x}", self.stream, self.event, self.proof)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// HTTP-20, R-06: an id leads back to its stream and event, in its own session only, and no other text does.
        #[test]
        fn r_06_event_ids_round_trip_and_are_bound_to_their_session(
            (key, other) in (any::<[u8; 16]>(), any::<[u8; 16]>()),
            (stream, event) in (any::<u32>(), any::<u64>()),
            (at, with) in (any::<prop::sample::Index>(), any::<char>()),
        ) {
            let key = SessionKey(key);
            let id = EventId { stream, event, proof: prove(&key, stream) };
            let text = id.to_string();
            prop_assert!(text.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert_eq!(EventId::parse(&text), Some(id));
            prop_assert!(id.is_of(&key));
            prop_assert_eq!(id.is_of(&SessionKey(other)), key.0 == other);
            // Changed anywhere but in the event's own number, it proves nothing.
            let mut changed: Vec<char> = text.chars().collect();
            let at = at.index(changed.len());
            changed[at] = with;
            let changed: String = changed.into_iter().collect();
            if let Some(read) = EventId::parse(&changed) && read.event == event && changed != text {
                prop_assert!(!read.is_of(&key));
            }
        }

        #[test]
        fn any_text_is_survived(text in any::<String>()) {
            if let Some(id) = EventId::parse(&text) {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn an_id_has_one_spelling() {
        let text = EventId { stream: 7, event: 12, proof: 0xab }.to_string();
        assert_eq!(text, "7.12.00000000000000ab");
        for other in [
            "07.12.00000000000000ab",
            "7.+12.00000000000000ab",
            "7.12.ab",
            "7.12.00000000000000AB",
            "7.12",
            "",
            "7.12.00000000000000ab ",
        ] {
            assert_eq!(EventId::parse(other), None, "{other}");
        }
    }
}
