//! Facts, a file for each stage: plain structs whose `emit` writes the log line and counts.
//!
//! Events that open something (`SessionOpened`, `StreamOpened`, …) return a guard from `emit`, which
//! states the end when it is dropped.

pub mod app;
pub mod downstream;
pub mod gate;
pub mod relay;
pub mod upstream;
pub mod wire;

#[cfg(test)]
mod tests;
