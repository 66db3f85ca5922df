//! What the MCP specification says, as data and pure functions: methods, revisions, capabilities, names, URIs.

pub mod names;
pub mod uris;
