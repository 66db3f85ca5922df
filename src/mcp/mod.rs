//! What the MCP specification says, as data and pure functions: methods, revisions, capabilities, names, URIs.

pub mod answers;
pub mod capabilities;
pub mod methods;
pub mod names;
pub mod project;
pub mod questions;
pub mod revision;
pub mod uris;
