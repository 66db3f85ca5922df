//! Black-box tests: the real gateway on loopback, between scripted servers and raw clients.
//!
//! One file per behaviour; each test names the fault (`f_012`), ruling or requirement it shows.
//! `kit` holds the scripted peers, and the `kit_*` files show that the kit itself can be trusted.

// The bans of the house are for the product: tests start processes, sleep, and fail by panic.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, clippy::disallowed_macros)]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod kit;

mod kit_http;
mod kit_stdio;

mod bridge;
mod calls;
mod changes;
mod chaos;
mod children;
mod framing;
mod health;
mod ids;
mod interleaving;
mod keys;
mod leaks;
mod local_socket;
mod names;
mod pages;
mod passthrough;
mod pushes;
mod questions;
mod reconnect;
mod resume;
mod resume_upstream;
mod security;
mod session;
mod sse_shore;
mod sse_upstream;
mod stdio_shore;
mod transport;
mod upstream_http;
