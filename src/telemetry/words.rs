//! The closed sets of words that may stand in a label or name a kind in a log line.
//!
//! *Invariants*: a label's value is a word from here or an upstream's name from the configuration
//! (OPS-06, F-101). Nothing a peer sends can become one.

use std::fmt;

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
        Self {
            name: UPSTREAM,
            value: name,
        }
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

words! {
    /// How a call ended, by what the client was answered, not by HTTP status (F-102).
    Outcome in "outcome" {
        /// A result without `isError`.
        Ok = "ok",
        /// A tool's result with `isError: true`.
        ToolError = "tool_error",
        /// A JSON-RPC error that the upstream, or the protocol itself, answered.
        RpcError = "rpc_error",
        /// A deadline passed.
        Timeout = "timeout",
        /// The client cancelled, or left where leaving cancels.
        Cancelled = "cancelled",
        /// The upstream could not be reached, broke off, or its breaker is open.
        UpstreamDown = "upstream_down",
        /// The gate said no.
        Denied = "denied",
        /// A limit or a full queue said no.
        RateLimited = "rate_limited",
    }

    /// A method, or the group it belongs to. What is not known is `other`.
    MethodClass in "method" {
        /// `initialize`.
        Initialize = "initialize",
        /// `ping`.
        Ping = "ping",
        /// `tools/list`.
        ToolsList = "tools/list",
        /// `tools/call`.
        ToolsCall = "tools/call",
        /// `resources/list` and `resources/templates/list`.
        ResourcesList = "resources/list",
        /// `resources/read`.
        ResourcesRead = "resources/read",
        /// `resources/subscribe` and `resources/unsubscribe`.
        ResourcesSubscribe = "resources/subscribe",
        /// `prompts/list`.
        PromptsList = "prompts/list",
        /// `prompts/get`.
        PromptsGet = "prompts/get",
        /// `completion/complete`.
        Complete = "completion/complete",
        /// `logging/setLevel`.
        SetLevel = "logging/setLevel",
        /// Every `tasks/…` method.
        Tasks = "tasks",
        /// Every `notifications/…` method.
        Notification = "notification",
        /// Anything else.
        Other = "other",
    }

    /// Revision that a session settled on.
    RevisionClass in "revision" {
        /// 2024-11-05.
        V20241105 = "2024-11-05",
        /// 2025-03-26.
        V20250326 = "2025-03-26",
        /// 2025-06-18.
        V20250618 = "2025-06-18",
        /// 2025-11-25.
        V20251125 = "2025-11-25",
        /// Any other.
        Other = "other",
    }

    /// Why a client's session ended.
    SessionEnd in "reason" {
        /// The client sent DELETE.
        Deleted = "deleted",
        /// Nothing came for too long.
        Idle = "idle",
        /// The cap on sessions pushed it out.
        Evicted = "evicted",
        /// The gateway is stopping.
        Drained = "drained",
    }

    /// What a stream toward a client carries.
    StreamKind in "stream" {
        /// A standalone stream that the client opened with GET.
        Standalone = "standalone",
        /// The answer to one POST, sent as events.
        Answer = "answer",
    }

    /// Why the gateway itself turned a request away.
    Refusal in "why" {
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
        /// The body is no JSON-RPC message, or one nested too deeply.
        Malformed = "malformed",
        /// The protocol version header is unknown or contradicts the session.
        Version = "version",
        /// A session id is missing where one is needed.
        SessionMissing = "session_missing",
        /// The session id is unknown, foreign, expired or forged.
        SessionUnknown = "session_unknown",
        /// No credentials, or none that are known.
        Unauthenticated = "unauthenticated",
        /// Known, but without the right.
        Forbidden = "forbidden",
        /// A rate limit or a quota.
        RateLimited = "rate_limited",
        /// A cap on connections, sessions, streams or calls is reached.
        Full = "full",
        /// The gateway is stopping.
        Draining = "draining",
    }

    /// Result of looking at a client's credentials.
    AuthOutcome in "outcome" {
        /// No credentials are needed here.
        Anonymous = "anonymous",
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
        /// A fault of ours that is no panic.
        Internal = "internal",
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

    /// Kind of an item in a catalog.
    ItemKind in "kind" {
        /// A tool.
        Tool = "tool",
        /// A prompt.
        Prompt = "prompt",
        /// A resource.
        Resource = "resource",
        /// A resource template.
        Template = "template",
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

impl MethodClass {
    /// Puts a method name into its class; never allocates, never fails.
    #[must_use]
    pub fn of(method: &str) -> Self {
        match method {
            "resources/templates/list" => Self::ResourcesList,
            "resources/unsubscribe" => Self::ResourcesSubscribe,
            // These two are words of groups, not of methods.
            "tasks" | "notification" => Self::Other,
            _ if method.starts_with("tasks/") => Self::Tasks,
            _ if method.starts_with("notifications/") => Self::Notification,
            _ => Self::ALL
                .iter()
                .copied()
                .find(|class| class.word() == method)
                .unwrap_or(Self::Other),
        }
    }
}

impl RevisionClass {
    /// Puts a revision, as it is written on the wire, into its class.
    #[must_use]
    pub fn of(revision: &str) -> Self {
        Self::ALL
            .iter()
            .copied()
            .find(|class| class.word() == revision)
            .unwrap_or(Self::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OPS-06, F-101
    #[test]
    fn f_101_unknown_methods_and_revisions_collapse() {
        assert_eq!(MethodClass::of("tools/call"), MethodClass::ToolsCall);
        assert_eq!(
            MethodClass::of("resources/templates/list"),
            MethodClass::ResourcesList
        );
        assert_eq!(MethodClass::of("tasks/get"), MethodClass::Tasks);
        assert_eq!(
            MethodClass::of("notifications/whatever"),
            MethodClass::Notification
        );
        for odd in ["", "tasks", "notification", "tools/Call", "x/1", "tools/call\n"] {
            assert_eq!(MethodClass::of(odd), MethodClass::Other, "{odd:?}");
        }
        assert_eq!(RevisionClass::of("2025-11-25"), RevisionClass::V20251125);
        assert_eq!(RevisionClass::of("2999-01-01"), RevisionClass::Other);
    }

    #[test]
    fn words_of_a_set_differ() {
        for set in [
            Outcome::SET,
            MethodClass::SET,
            Refusal::SET,
            DropReason::SET,
            UpstreamCondition::SET,
        ] {
            let unique: std::collections::HashSet<_> = set.values.iter().collect();
            assert_eq!(unique.len(), set.values.len(), "{}", set.label);
        }
    }
}
