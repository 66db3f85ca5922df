//! The server shore: connections to upstreams, child processes and HTTP servers, with their sessions, limits and health.

pub mod blame;
pub mod condition;
pub mod connection;
pub mod deadline;
pub mod exchange;
pub mod flight;
pub mod handshake;
pub mod health;
pub mod http;
pub mod inbound;
pub mod key;
pub mod leg;
pub mod line;
pub mod nursery;
pub mod offer;
pub mod patron;
pub mod peer;
pub mod progress;
pub mod replay;
pub mod report;
pub mod request;
pub mod shore;
pub mod signs;
pub mod slot;
pub mod stack;
pub mod starts;
pub mod stdio;
pub mod subscriptions;
pub mod unbound;

pub use shore::ServerShore;
