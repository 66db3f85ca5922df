//! Upstreams on the network: connections, requests, sessions and streams of Streamable HTTP.

pub mod address;
pub mod compression;
pub mod connect;
pub mod link;
pub mod pool;
pub mod proxy;
pub mod tls;
