//! The configuration file: reading, interpolation, decoding with positions, checking, and the compiled snapshot.
//!
//! ```text
//! file ─▶ document ─▶ decode (interpolate) ─▶ schema ─▶ compile ─▶ check ─▶ Snapshot
//! ```
//!
//! *Invariants*: only [`environment`] reads environment variables; only loading reads files, and nothing
//! is opened, started or connected to.

mod check;
mod compile;
mod concealed;
mod decode;
mod discover;
mod document;
mod interpolate;
mod load;
mod names;
mod schema;

pub mod environment;
pub mod problem;
pub mod secrets;
pub mod snapshot;

#[cfg(test)]
mod tests;

pub use discover::discover;
pub use document::Format;
pub use load::{load, parse, schema};
