//! Children: processes that speak over their standard streams. Everything about them that is not MCP.

pub mod environment;
pub mod exit;
pub mod fact;
pub mod resolve;
pub mod slots;
pub mod supervise;
pub mod tree;
