//! The one outbound HTTP client beside the calls: for the command line, and for what the gateway
//! fetches on its own account.

pub mod http;
pub mod wire;
