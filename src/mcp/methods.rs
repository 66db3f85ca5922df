//! The table of methods that clients call: who answers, where the routed name stands, what is counted.

use crate::jsonrpc::rewrite::Node;
use crate::mcp::answers;

/// One method of the protocol, as clients send it.
#[derive(Debug)]
pub struct Method {
    /// The name on the wire.
    pub name: &'static str,
    /// The row of the metrics it is counted in (OPS-06).
    pub class: Class,
    /// Who answers it.
    pub answer: Answer,
    /// What is rewritten in an upstream's answer.
    pub rewrites: &'static Node,
    /// Whether calling it twice does no more than calling it once; only such calls may be repeated.
    pub safe: bool,
}

/// Who answers a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// The gateway, from what it knows.
    Here,
    /// The catalog, merged over upstreams.
    List(ItemKind),
    /// One upstream, found by the name or URI at the slot.
    One(Slot),
    /// All upstreams that the session is connected to; the gateway answers at once.
    All,
}

/// Where the name that decides the way stands in `params`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Slot {
    /// `params.name` of a tool
    Tool,
    /// `params.name` of a prompt
    Prompt,
    /// `params.uri`
    Resource,
    /// `params.ref`, a prompt's name or a resource's URI
    Reference,
}

/// What a catalog lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// Tools
    Tool,
    /// Prompts
    Prompt,
    /// Resources
    Resource,
    /// Resource templates
    Template,
}

impl ItemKind {
    /// All, in the order in which they are read.
    pub const ALL: [Self; 4] = [Self::Tool, Self::Prompt, Self::Resource, Self::Template];

    /// The method that lists them.
    #[must_use]
    pub const fn list_method(self) -> &'static Method {
        match self {
            Self::Tool => &TOOLS_LIST,
            Self::Prompt => &PROMPTS_LIST,
            Self::Resource => &RESOURCES_LIST,
            Self::Template => &TEMPLATES_LIST,
        }
    }

    /// The member of the result that holds them.
    #[must_use]
    pub const fn member(self) -> &'static str {
        match self {
            Self::Tool => "tools",
            Self::Prompt => "prompts",
            Self::Resource => "resources",
            Self::Template => "resourceTemplates",
        }
    }

    /// The member of an item by which it is called.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Self::Tool | Self::Prompt => "name",
            Self::Resource => "uri",
            Self::Template => "uriTemplate",
        }
    }

    /// The notification that says that the list has changed; templates have none of their own (RES-11).
    #[must_use]
    pub const fn changed(self) -> &'static str {
        match self {
            Self::Tool => "notifications/tools/list_changed",
            Self::Prompt => "notifications/prompts/list_changed",
            Self::Resource | Self::Template => "notifications/resources/list_changed",
        }
    }

    /// The place in arrays by kind.
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }
}

/// Rows of the metrics; a closed set (OPS-06).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// `initialize`
    Initialize,
    /// `ping`
    Ping,
    /// `tools/list`
    ToolsList,
    /// `tools/call`
    ToolsCall,
    /// `resources/list` and `resources/templates/list`
    ResourcesList,
    /// `resources/read`
    ResourcesRead,
    /// `resources/subscribe` and `resources/unsubscribe`
    Subscribe,
    /// `prompts/list`
    PromptsList,
    /// `prompts/get`
    PromptsGet,
    /// `completion/complete`
    Complete,
    /// `logging/setLevel`
    SetLevel,
    /// Anything else.
    Other,
}

impl Class {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Initialize,
        Self::Ping,
        Self::ToolsList,
        Self::ToolsCall,
        Self::ResourcesList,
        Self::ResourcesRead,
        Self::Subscribe,
        Self::PromptsList,
        Self::PromptsGet,
        Self::Complete,
        Self::SetLevel,
        Self::Other,
    ];

    /// The value of the label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Ping => "ping",
            Self::ToolsList => "tools/list",
            Self::ToolsCall => "tools/call",
            Self::ResourcesList => "resources/list",
            Self::ResourcesRead => "resources/read",
            Self::Subscribe => "resources/subscribe",
            Self::PromptsList => "prompts/list",
            Self::PromptsGet => "prompts/get",
            Self::Complete => "completion/complete",
            Self::SetLevel => "logging/setLevel",
            Self::Other => "other",
        }
    }
}

const fn row(name: &'static str, class: Class, answer: Answer, rewrites: &'static Node) -> Method {
    let safe = !matches!(answer, Answer::One(Slot::Tool));
    Method { name, class, answer, rewrites, safe }
}

/// `initialize`
pub static INITIALIZE: Method = row("initialize", Class::Initialize, Answer::Here, &answers::PLAIN);
/// `ping` (PING-01)
pub static PING: Method = row("ping", Class::Ping, Answer::Here, &answers::PLAIN);
/// `tools/list`
pub static TOOLS_LIST: Method =
    row("tools/list", Class::ToolsList, Answer::List(ItemKind::Tool), &answers::PLAIN);
/// `tools/call`
pub static TOOLS_CALL: Method = row("tools/call", Class::ToolsCall, Answer::One(Slot::Tool), &answers::TOOL);
/// `resources/list`
pub static RESOURCES_LIST: Method =
    row("resources/list", Class::ResourcesList, Answer::List(ItemKind::Resource), &answers::PLAIN);
/// `resources/templates/list`
pub static TEMPLATES_LIST: Method =
    row("resources/templates/list", Class::ResourcesList, Answer::List(ItemKind::Template), &answers::PLAIN);
/// `resources/read`
pub static RESOURCES_READ: Method =
    row("resources/read", Class::ResourcesRead, Answer::One(Slot::Resource), &answers::RESOURCE);
/// `resources/subscribe` (RES-09)
pub static SUBSCRIBE: Method =
    row("resources/subscribe", Class::Subscribe, Answer::One(Slot::Resource), &answers::PLAIN);
/// `resources/unsubscribe` (RES-09)
pub static UNSUBSCRIBE: Method =
    row("resources/unsubscribe", Class::Subscribe, Answer::One(Slot::Resource), &answers::PLAIN);
/// `prompts/list`
pub static PROMPTS_LIST: Method =
    row("prompts/list", Class::PromptsList, Answer::List(ItemKind::Prompt), &answers::PLAIN);
/// `prompts/get`
pub static PROMPTS_GET: Method =
    row("prompts/get", Class::PromptsGet, Answer::One(Slot::Prompt), &answers::PROMPT);
/// `completion/complete`
pub static COMPLETE: Method =
    row("completion/complete", Class::Complete, Answer::One(Slot::Reference), &answers::PLAIN);
/// `logging/setLevel`
pub static SET_LEVEL: Method = row("logging/setLevel", Class::SetLevel, Answer::All, &answers::PLAIN);

static ROWS: [&Method; 13] = [
    &TOOLS_CALL,
    &TOOLS_LIST,
    &PING,
    &RESOURCES_READ,
    &RESOURCES_LIST,
    &TEMPLATES_LIST,
    &PROMPTS_GET,
    &PROMPTS_LIST,
    &COMPLETE,
    &SUBSCRIBE,
    &UNSUBSCRIBE,
    &SET_LEVEL,
    &INITIALIZE,
];

/// The row of the request method `name`, if clients may call it in the handshake revisions.
#[must_use]
pub fn find(name: &str) -> Option<&'static Method> {
    ROWS.into_iter().find(|method| method.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_is_found_by_its_own_name_only() {
        for method in ROWS {
            assert!(std::ptr::eq(find(method.name).unwrap(), method));
        }
        assert!(find("tools/Call").is_none());
        assert!(find("").is_none());
    }

    /// TOOL-13: only tool calls may have effects.
    #[test]
    fn tool_calls_are_never_repeated() {
        assert!(!TOOLS_CALL.safe);
        assert!(ROWS.into_iter().filter(|method| !method.safe).count() == 1);
    }
}
