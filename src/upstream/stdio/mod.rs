//! Children: processes that speak over their standard streams. Everything about them that is not MCP.
//!
//! ```text
//! Starts (supervise) ─ may I? ─▶ Spawner (spawn) ─ slot, thread, fork ─▶ Child
//!                                      │                     input ─▶ stdin   (pipe)
//!                                 Guardian outlives us       frames ◀─ stdout  (pipe)
//!                                                            facts ◀─ stderr  (stderr)
//!                                                            Life ── Keeper: stop, kill, sweep, reap
//! ```

mod charge;
pub mod child;
pub mod connection;
pub mod environment;
pub mod exit;
pub mod fact;
pub mod guardian;
mod keeper;
mod launch;
pub mod pipe;
mod printable;
mod reader;
pub mod reaper;
pub mod resolve;
pub mod slots;
pub mod spawn;
pub mod stated;
pub mod stderr;
mod streams;
pub mod supervise;
mod thread;
pub mod tree;
mod trickle;
