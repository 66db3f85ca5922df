//! The vocabulary of events, and the metrics and logs that they become.
//!
//! A stage states a fact as a plain struct of [`events`] and calls its `emit`; that writes the log
//! line and counts. What is counted for every message goes through the handles of [`meters`].
//!
//! *Invariants*: nothing else in the crate logs or counts; labels come from [`words`] or from the
//! configuration only (OPS-06); outcomes are those of JSON-RPC (F-102); no secret has a printable
//! form here (F-103).

pub mod events;
pub mod logs;
pub mod meters;
pub mod metrics;
pub mod words;

mod handle;
#[cfg(test)]
mod inventory;
mod process;
mod registry;

pub use self::handle::{StartError, Telemetry, UPKEEP_EVERY};
