//! Interop tests: peers that we did not write, put before and behind the gateway.
//!
//! Each test first lets the peer talk to its counterpart directly; what comes of it is the
//! measure for the same talk through the gateway. `tests/setup.sh` installs the peers; one that
//! is absent fails its test.
//!
//! *Limits*: every wait has a deadline, every port is free when taken, every process ends with
//! the value that stands for it. The drivers (`typescript.mjs`, `python.py`) and the fixtures
//! need none of this and can be run by hand against any URL.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    clippy::disallowed_macros,
    reason = "what the package keeps to one place each is free in its tests"
)]

mod carried;
mod clients;
mod conformance;
mod gateway;
mod peers;
mod pipes;
mod plan;
mod process;
mod real;
mod revisions;
mod rust_client;
mod suite_client;
