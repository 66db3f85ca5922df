//! The sections of the configuration file, a file each. Their docs become the descriptions of the JSON
//! schema; their defaults are the gateway's.

mod bounds;

pub mod auth;
pub mod catalog;
pub mod children;
pub mod drain;
pub mod entry;
pub mod file;
pub mod gateway;
pub mod http;
pub mod log;
pub mod own;
pub mod sessions;
pub mod timeouts;
