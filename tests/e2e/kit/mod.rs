//! The kit: everything a black-box test needs to speak in sentences.
//!
//! A test names the servers behind the gateway ([`http_server`], [`stdio_server`]), starts the
//! gateway in front of them ([`gateway`]), and talks to it as a raw client ([`Client`]).
//!
//! *Invariants.* Every wait has a limit and a name ([`deadline`]). Every test has its own gateway,
//! servers and ports, so all of them run in parallel.
//!
//! *On drop.* Servers close, children end, the gateway is killed: nothing outlives its test.

// Each family of tests uses a part of the kit.
#![allow(dead_code, unused_imports)]

pub mod client;
pub mod deadline;
pub mod events;
pub mod exchange;
pub mod gateway;
mod http_answers;
pub mod http_server;
pub mod letter;
pub mod listener;
pub mod metrics;
pub mod outcome;
pub mod peer;
pub mod piped;
pub mod ports;
pub mod process;
pub mod puppet;
pub mod reply;
pub mod script;
pub mod sse_client;
pub mod sse_server;
pub mod stdio_server;
pub mod text;

pub use client::{BOTH, Client, names, progressing};
pub use deadline::{SOON, eventually, ms, pass, secs, soon, still_waiting, timed, within};
pub use exchange::Exchange;
pub use gateway::{Entry, Gateway, gateway};
pub use letter::{Answer, Letter};
pub use outcome::Outcome;
pub use piped::Piped;
pub use ports::{Refusing, Silent};
pub use puppet::Place;
pub use reply::{End, Page, Reply, said};
pub use script::{NEWEST, REVISIONS, http_server, sse_server, stdio_server, tool};
pub use sse_client::SseClient;
