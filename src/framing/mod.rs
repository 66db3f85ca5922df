//! Bytes on the wire into frames and back: Server-Sent Events and newline-delimited lines, incremental and bounded.

pub mod lines;
pub mod oversized;
pub mod sse;
