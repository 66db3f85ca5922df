//! Upstreams on the network: connections, requests, sessions and streams of Streamable HTTP, and the
//! older HTTP+SSE.

pub mod address;
mod aside;
pub mod compression;
pub mod connect;
pub mod content;
pub mod events;
mod large;
pub mod link;
pub mod pool;
pub mod post;
pub mod proxy;
pub mod refusal;
mod round;
pub mod session;
pub mod sse;
mod stream;
pub mod tls;
pub mod unmet;
pub mod way;
