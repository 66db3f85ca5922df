//! The closed sets of words that may stand in a label or name a kind in a log line.
//!
//! *Invariants*: a label's value is a word from here or an upstream's name from the configuration
//! (OPS-06, F-101). Nothing a peer sends can become one.

use std::fmt;

use crate::call::Outcome;
use crate::mcp::methods::{Class, ItemKind};
use crate::mcp::revision::Revision;

/// A label with its value, ready to be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label<'a> {
    /// Name of the label.
    pub name: &'static str,
    /// Its value.
    pub value: &'a str,
}

impl<'a> Label<'a> {
    /// The label that names an upstream of the configuration.
    pub(super) const fn upstream(name: &'a str) -> Self {
        Self { name: UPSTREAM, value: name }
    }
}

/// Name of the label that holds an upstream's name.
pub(super) const UPSTREAM: &str = "upstream";

/// Value of the upstream label where the gateway itself answered.
pub const NO_UPSTREAM: &str = "-";

/// Name and values of one closed set, for the inventory and its test.
#[derive(Clone, Copy, Debug)]
pub struct WordSet {
    /// Name of the label.
    pub label: &'static str,
    /// Every value that it may have.
    pub values: &'static [&'static str],
}

/// Declares closed sets: an enum each, its words, and its label.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident in $label:literal { $($(#[$item_doc:meta])* $item:ident = $word:literal,)+ })+) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
            pub enum $name { $($(#[$item_doc])* $item,)+ }

            impl $name {
                /// Every member, in order.
                pub const ALL: &'static [Self] = &[$(Self::$item,)+];
                /// The set as the inventory lists it.
                pub const SET: WordSet = WordSet { label: $label, values: &[$($word,)+] };

                /// The word that stands in labels and log lines.
                #[must_use]
                pub const fn word(self) -> &'static str {
                    match self { $(Self::$item => $word,)+ }
                }
            }

            impl fmt::Display for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str(self.word())
                }
            }

            impl From<$name> for Label<'static> {
                fn from(word: $name) -> Self {
                    Self { name: $label, value: word.word() }
                }
            }
        )+
    };
}

/// The words of a closed set that another module declares.
macro_rules! words_of {
    ($all:expr, $word:ident) => {{
        let mut words = [""; $all.len()];
        let mut at = 0;
        while at < words.len() {
            words[at] = $all[at].$word();
            at += 1;
        }
        words
    }};
}

words! {
    /// Why a client's session ended.
    SessionEnd in "reason" {
        /// The client sent DELETE.
        Deleted = "deleted",
        /// The client ended the stream that is the session: HTTP+SSE.
        Left = "left",
        /// Nothing came for too long.
        Idle = "idle",
        /// The gateway is stopping.
        Drained = "drained",
    }

    /// What a stream toward a client carries.
    StreamKind in "stream" {
        /// A standalone stream that the client opened with GET.
        Standalone = "standalone",
        /// The one stream of a session over HTTP+SSE.
        Session = "session",
        /// The answer to one POST, sent as events.
        Answer = "answer",
        /// An earlier stream, gone on with after its connection was lost.
        Resumed = "resumed",
    }

    /// The rule by which the gateway itself turned a request away.
    Rule in "why" {
        /// The Host header is not one of ours.
        Host = "host",
        /// The Origin header is not allowed.
        Origin = "origin",
        /// The path is none of ours.
        Path = "path",
        /// The HTTP method is not offered there.
        HttpMethod = "http_method",
        /// Accept or Content-Type do not fit, or the body has a Content-Encoding.
        MediaType = "media_type",
        /// The body or a header is larger than allowed.
        TooLarge = "too_large",
        /// The body came too slowly.
        TooSlow = "too_slow",
        /// The body broke off.
        Broken = "broken",
        /// The body is no JSON-RPC message, or one nested too deeply.
        Malformed = "malformed",
        /// The message is right in itself, but not allowed here and now.
        Invalid = "invalid",
        /// `initialize` with parameters that are wrong.
        Handshake = "handshake",
        /// The protocol version header is unknown or contradicts the session.
        Version = "version",
        /// A session id is missing where one is needed.
        SessionMissing = "session_missing",
        /// The session id is unknown, foreign, expired or forged.
        SessionUnknown = "session_unknown",
        /// `Last-Event-ID` names nothing that can be replayed.
        Resume = "resume",
        /// No credentials, or none that are known.
        Unauthenticated = "unauthenticated",
        /// A cap on connections, sessions, streams or calls is reached.
        Full = "full",
        /// The gateway is stopping.
        Draining = "draining",
    }

    /// Result of looking at a client's credentials, where some are needed or shown.
    AuthOutcome in "outcome" {
        /// Known credentials.
        Accepted = "accepted",
        /// None where some are needed.
        Missing = "missing",
        /// Not known, or not valid any more.
        Rejected = "rejected",
    }

    /// What failed on our side while serving a request.
    Failure in "cause" {
        /// A panic, caught at the edge.
        Panic = "panic",
    }

    /// State of an upstream as a whole.
    UpstreamCondition in "state" {
        /// Not tried yet, or its first try runs.
        Starting = "starting",
        /// Its last handshake went well.
        Ready = "ready",
        /// It cannot be reached, or its child does not stay up; tries go on.
        Down = "down",
        /// Its breaker is open: calls fail at once.
        Open = "open",
        /// Given up until the configuration changes.
        Failed = "failed",
        /// Stopped on purpose.
        Stopped = "stopped",
    }

    /// How a child process ended.
    ExitCause in "cause" {
        /// We stopped it.
        Stopped = "stopped",
        /// It exited by itself.
        Exited = "exited",
        /// A signal that was not ours ended it.
        Signalled = "signalled",
    }

    /// Whether something that was tried worked.
    Attempt in "outcome" {
        /// It did.
        Done = "done",
        /// It did not.
        Failed = "failed",
    }

    /// Way that bytes went, as the gateway sees it.
    Direction in "direction" {
        /// Read by the gateway.
        In = "in",
        /// Written by the gateway.
        Out = "out",
    }

    /// Why an item was left out of a catalog.
    DropReason in "reason" {
        /// It breaks the schema of its kind.
        Malformed = "malformed",
        /// It is larger than the cap for one item.
        TooLarge = "too_large",
        /// The cap on items or on their bytes is reached.
        TooMany = "too_many",
        /// Another upstream holds the same exposed name.
        Clash = "clash",
        /// A finding in it withholds it.
        Withheld = "withheld",
        /// It appeared twice in one list.
        Duplicate = "duplicate",
        /// It has something the gateway must not pass on.
        Forbidden = "forbidden",
    }

    /// Why a notification of an upstream was not passed on to a client.
    NoticeLoss in "reason" {
        /// A log message of an upstream that did not declare any (LOG-01).
        Undeclared = "undeclared",
        /// More log messages than a session takes of one upstream (LOG-05).
        TooMany = "too_many",
        /// Of a kind that is not carried.
        Unknown = "unknown",
        /// Its parameters are wrong.
        Malformed = "malformed",
        /// It is about something that the session knows nothing of.
        Unowned = "unowned",
    }

    /// Something suspicious in a definition or in instructions.
    FindingKind in "finding" {
        /// Invisible characters.
        Invisible = "invisible",
        /// Characters that change the direction of text.
        Bidi = "bidi",
        /// Tag characters.
        Tags = "tags",
        /// Text that is too long.
        TooLong = "too_long",
        /// Text that names another upstream's tools.
        ForeignName = "foreign_name",
        /// An icon whose scheme is not allowed (RPC-26).
        IconScheme = "icon_scheme",
    }
}

// === closed sets of lower modules ===

/// Outcomes of calls (F-102).
pub const OUTCOMES: WordSet = WordSet { label: "outcome", values: &words_of!(Outcome::ALL, label) };
/// Classes of methods; what is not known is `other`.
pub const METHODS: WordSet = WordSet { label: "method", values: &words_of!(Class::ALL, label) };
/// Revisions of clients' sessions.
pub const REVISIONS: WordSet = WordSet { label: "revision", values: &words_of!(Revision::ALL, name) };
/// Kinds of items in catalogs.
pub const ITEM_KINDS: WordSet =
    WordSet { label: "kind", values: &["tool", "prompt", "resource", "template"] };

impl From<Outcome> for Label<'static> {
    fn from(outcome: Outcome) -> Self {
        Self { name: OUTCOMES.label, value: outcome.label() }
    }
}

impl From<Class> for Label<'static> {
    fn from(class: Class) -> Self {
        Self { name: METHODS.label, value: class.label() }
    }
}

impl From<Revision> for Label<'static> {
    fn from(revision: Revision) -> Self {
        Self { name: REVISIONS.label, value: revision.name() }
    }
}

impl From<ItemKind> for Label<'static> {
    fn from(kind: ItemKind) -> Self {
        Self { name: ITEM_KINDS.label, value: ITEM_KINDS.values[kind.index()] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPS-06, F-101
    #[test]
    fn words_of_a_set_differ() {
        let sets = [
            OUTCOMES,
            METHODS,
            REVISIONS,
            ITEM_KINDS,
            SessionEnd::SET,
            StreamKind::SET,
            Rule::SET,
            AuthOutcome::SET,
            Failure::SET,
            UpstreamCondition::SET,
            ExitCause::SET,
            Attempt::SET,
            Direction::SET,
            DropReason::SET,
            FindingKind::SET,
            NoticeLoss::SET,
        ];
        for set in sets {
            let unique: std::collections::HashSet<_> = set.values.iter().collect();
            assert_eq!(unique.len(), set.values.len(), "{}", set.label);
            assert!(set.values.iter().all(|word| !word.is_empty()), "{}", set.label);
        }
    }

    #[test]
    fn kinds_of_items_have_their_own_words() {
        for (kind, word) in ItemKind::ALL.into_iter().zip(ITEM_KINDS.values) {
            assert!(kind.key().len() > 2 && Label::from(kind).value == *word);
        }
        assert_eq!(Label::from(ItemKind::Template).value, "template");
    }
}
