//! `portcullis.http`: what clients may send, and from where.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use url::Url;

use crate::base::units::{ByteSize, Period};

/// What clients may send to the listener, and from where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Http {
    /// Origins of web pages that may call, such as `https://app.example.com`, besides those of a loopback
    /// address while the gateway itself listens on one.
    pub allowed_origins: Vec<String>,
    /// Names under which clients may address the gateway, such as `mcp.example.com`, with or without a
    /// port. Loopback names are always allowed on a loopback address.
    pub allowed_hosts: Vec<String>,
    /// The address under which clients reach the gateway, such as `https://mcp.example.com`.
    #[schemars(with = "Option<String>")]
    pub public_url: Option<Url>,
    /// The largest body of a request.
    #[serde(with = "ByteSize")]
    pub body_limit: usize,
    /// The largest head of a request.
    #[serde(with = "ByteSize")]
    pub header_limit: usize,
    /// How often a comment is sent on a silent event stream, so that nothing between closes it; 0 for
    /// never.
    #[serde(with = "Period")]
    pub keep_alive: Duration,
    /// How deep the JSON of a message may be nested.
    pub max_depth: usize,
    /// How many messages a batch may have.
    pub max_batch: usize,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            allowed_origins: Vec::new(),
            allowed_hosts: Vec::new(),
            public_url: None,
            body_limit: 16 << 20,
            header_limit: 32 << 10,
            keep_alive: Duration::from_secs(15),
            max_depth: 128,
            max_batch: 100,
        }
    }
}
