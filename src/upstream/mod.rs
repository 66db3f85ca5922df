//! The server shore: connections to upstreams, child processes and HTTP servers, with their sessions, limits and health.

pub mod blame;
pub mod deadline;
pub mod exchange;
pub mod facts;
pub mod flight;
pub mod handshake;
pub mod health;
pub mod http;
pub mod inbound;
pub mod leg;
pub mod progress;
pub mod request;
pub mod stdio;
pub mod unbound;
