//! Requests of clients in the terms of the upstream's revision (VER-05).

use crate::mcp::methods::{Class, Method};
use crate::mcp::revision::Revision;

/// The members of `params` that are kept from an upstream which speaks `to`, if that is known yet.
///
/// `context` of completions is of 2025-06-18 (COMP-02). `task` is of 2025-11-25, but also a peer of that revision gets
/// none: nobody was promised tasks, so a request that asks for one is handled as an ordinary one (TASK-06).
#[must_use]
pub fn unknown_members(method: &Method, to: Option<Revision>) -> &'static [&'static str] {
    if method.class == Class::Complete && to.is_some_and(|to| to < Revision::V2025_06_18) {
        &["task", "context"]
    } else {
        &["task"]
    }
}
