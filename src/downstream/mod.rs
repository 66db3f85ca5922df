//! The client shore: sockets, Streamable HTTP, sessions and streams of clients.
//!
//! A connection is accepted in [`listen`] and served in [`connection`]; each request goes down [`stack`], is decided on in
//! [`endpoint`], and becomes a call in [`one`]; its answer goes out through [`answer`] or [`events`]. HTTP+SSE of
//! 2024-11-05 is decided on in [`old_sse`]; [`local`] is the Unix socket.

pub mod access;
pub mod answer;
pub mod body;
pub mod connection;
pub mod cors;
pub mod drive;
pub mod duplex;
pub mod endpoint;
pub mod events;
pub mod exchange;
pub mod handshake;
pub mod legacy;
pub mod listen;
pub mod local;
pub mod many;
pub mod media;
pub mod old_sse;
pub mod one;
pub mod paced;
pub mod preface;
pub mod rescue;
pub mod shore;
pub mod stack;
pub mod standing;
pub mod stdio;
