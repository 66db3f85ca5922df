//! The places in answers that are rewritten on their way to a client (RES-06).

use crate::jsonrpc::rewrite::{Action, Node, leaf, walk};

static ID: Node = leaf(Action::Id);
static URI: Node = leaf(Action::Uri);
static CODE: Node = leaf(Action::Code);
static IS_ERROR: Node = leaf(Action::IsError);

/// `error.data.uri`, of a resource that was not found (RPC-12).
static DATA: Node = walk(&[("uri", &URI)]);
static ERROR: Node =
    Node { members: &[("code", &CODE), ("data", &DATA)], elements: None, action: Action::Error };

/// `resource.uri`, inside of a content block.
static EMBEDDED: Node = walk(&[("uri", &URI)]);
/// A content block: a resource link has `uri`, an embedded resource has `resource` (TOOL-09, PROM-04).
static BLOCK: Node = walk(&[("uri", &URI), ("resource", &EMBEDDED)]);
static BLOCKS: Node = Node { members: &[], elements: Some(&BLOCK), action: Action::Walk };

static TOOL_RESULT: Node =
    Node { members: &[("content", &BLOCKS), ("isError", &IS_ERROR)], elements: None, action: Action::Result };

static CONTENT: Node = walk(&[("uri", &URI)]);
static CONTENTS: Node = Node { members: &[], elements: Some(&CONTENT), action: Action::Walk };
static RESOURCE_RESULT: Node =
    Node { members: &[("contents", &CONTENTS)], elements: None, action: Action::Result };

static PROMPT_BLOCK: Node =
    Node { members: &[("uri", &URI), ("resource", &EMBEDDED)], elements: Some(&BLOCK), action: Action::Walk };
static PROMPT_MESSAGE: Node = walk(&[("content", &PROMPT_BLOCK)]);
static PROMPT_MESSAGES: Node = Node { members: &[], elements: Some(&PROMPT_MESSAGE), action: Action::Walk };
static PROMPT_RESULT: Node =
    Node { members: &[("messages", &PROMPT_MESSAGES)], elements: None, action: Action::Result };

static PLAIN_RESULT: Node = leaf(Action::Result);

/// An answer in which only the id is replaced.
pub static PLAIN: Node = walk(&[("id", &ID), ("result", &PLAIN_RESULT), ("error", &ERROR)]);
/// An answer to `tools/call`.
pub static TOOL: Node = walk(&[("id", &ID), ("result", &TOOL_RESULT), ("error", &ERROR)]);
/// An answer to `resources/read` (RES-03: every item's own URI).
pub static RESOURCE: Node = walk(&[("id", &ID), ("result", &RESOURCE_RESULT), ("error", &ERROR)]);
/// An answer to `prompts/get`.
pub static PROMPT: Node = walk(&[("id", &ID), ("result", &PROMPT_RESULT), ("error", &ERROR)]);
