//! The configuration file: reading, interpolation, decoding with positions, checking, and the compiled snapshot.

pub mod document;
pub mod environment;
pub mod problem;
pub mod schema;
pub mod secrets;
pub mod snapshot;
