//! Portcullis stands in front of many MCP servers and shows clients one.
//!
//! A message takes this way, and the folders are named after its stations:
//!
//! ```text
//! client ─▶ downstream ─▶ gate ─▶ relay ─▶ upstream ─▶ MCP server
//!              ▲ call::Call        call::OutCall ▲
//!              └────────── call::Reply ──────────┘
//! ```
//!
//! The four stations never import each other. They meet as services over the narrow waist in
//! [`call`], and [`app`] joins them. Below them lies the language they share, beside them the
//! services they use. Every module has a rank, and an import may only point to a lower one;
//! `tests/architecture.rs` holds the list and checks it.
//!
//! | rank | modules |
//! |---|---|
//! | 0 | [`base`] |
//! | 1 | [`jsonrpc`], [`framing`] |
//! | 2 | [`mcp`] |
//! | 3 | [`config`] |
//! | 4 | [`call`] |
//! | 5 | [`egress`] |
//! | 6 | [`telemetry`] |
//! | 9 | [`downstream`], [`gate`], [`relay`], [`upstream`] |
//! | 10 | [`admin`] |
//! | 11 | [`app`] |
//! | 12 | [`cli`] |
//!
//! Ranks 7 and 8 are kept for `state`, what outlives a process, and `cluster`, replicas that know each other.

#![warn(missing_docs, clippy::allow_attributes_without_reason, clippy::unused_async)]
#![deny(unsafe_code)]
// Tests may read clocks, spawn, and unwrap.
#![cfg_attr(
    not(test),
    warn(
        clippy::disallowed_macros,
        clippy::disallowed_methods,
        clippy::large_futures,
        clippy::panic,
        clippy::unwrap_used
    )
)]

pub mod base;

pub mod framing;
pub mod jsonrpc;

pub mod mcp;

pub mod config;

pub mod call;

pub mod egress;

pub mod telemetry;

pub mod downstream;
pub mod gate;
pub mod relay;
pub mod upstream;

pub mod admin;

pub mod app;

pub mod cli;
