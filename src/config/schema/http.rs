//! `portcullis.http`: what clients may send, and from where.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use url::Url;

use super::bounds::{DAY, KIB, MIB, SECOND};
use crate::base::caps;
use crate::base::units::{ByteSize, Period};
use crate::config::decode::Table;

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
    /// Whether clients that know only the older transport HTTP+SSE, of 2024-11-05, are served: at `/sse`, and those of
    /// one server at `/sse/NAME`.
    pub sse: bool,
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
    /// How much of an event stream is kept, so that a client that lost its connection can go on where it was;
    /// 0 for nothing.
    #[serde(with = "ByteSize")]
    pub replay_bytes: usize,
    /// How long it is kept.
    #[serde(with = "Period")]
    pub replay_age: Duration,
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
            sse: false,
            public_url: None,
            body_limit: 16 << 20,
            header_limit: 32 << 10,
            keep_alive: Duration::from_secs(15),
            replay_bytes: caps::REPLAY_BYTES,
            replay_age: caps::REPLAY_AGE,
            max_depth: caps::NESTING_DEPTH,
            max_batch: caps::BATCH_LENGTH,
        }
    }
}

impl Http {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        let origins = table.read("allowedOrigins", |field| field.list(|item| item.parsed(ORIGINS, origin)));
        let hosts = table.read("allowedHosts", |field| field.list(|item| item.parsed(HOSTS, host)));
        Self {
            allowed_origins: origins.unwrap_or(default.allowed_origins),
            allowed_hosts: hosts.unwrap_or(default.allowed_hosts),
            sse: table.read("sse", |field| field.flag()).unwrap_or(default.sse),
            public_url: table.read("publicUrl", |field| field.parsed(PUBLIC_URL, public_url)),
            body_limit: table
                .read("bodyLimit", |field| field.size(KIB..=caps::MESSAGE_BYTES_MAX))
                .unwrap_or(default.body_limit),
            header_limit: table
                .read("headerLimit", |field| field.size(8 * KIB..=MIB))
                .unwrap_or(default.header_limit),
            keep_alive: table
                .read("keepAlive", |field| field.period(Duration::ZERO..=DAY))
                .unwrap_or(default.keep_alive),
            replay_bytes: table
                .read("replayBytes", |field| field.size(0..=64 * MIB))
                .unwrap_or(default.replay_bytes),
            replay_age: table
                .read("replayAge", |field| field.period(SECOND..=DAY))
                .unwrap_or(default.replay_age),
            max_depth: table
                .read("maxDepth", |field| field.count(8..=caps::NESTING_DEPTH))
                .unwrap_or(default.max_depth),
            max_batch: table.read("maxBatch", |field| field.count(1..=10_000)).unwrap_or(default.max_batch),
        }
    }
}

const ORIGINS: &str = "an origin without a path, such as https://app.example.com";
const HOSTS: &str = "a host name without a scheme, with or without a port, such as mcp.example.com";
const PUBLIC_URL: &str = "an http or https URL without user, query and fragment";

/// An origin as browsers send it.
fn origin(text: &str) -> Option<String> {
    let text = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
    let (scheme, host) = text.split_once("://")?;
    if matches!(scheme, "http" | "https") {
        let url = Url::parse(&text).ok()?;
        let bare =
            url.path() == "/" && url.query().is_none() && url.fragment().is_none() && !text.contains('@');
        return bare.then(|| url.origin().ascii_serialization());
    }
    // Web views of desktop applications have schemes of their own.
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '/' | '?' | '#' | '@');
    let valid = !scheme.is_empty() && scheme.chars().all(letter);
    (valid && !host.is_empty() && host.chars().all(plain)).then_some(text)
}

/// A host as clients send it in `Host`.
fn host(text: &str) -> Option<String> {
    let url = Url::parse(&format!("http://{text}/")).ok()?;
    let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    (bare && !text.contains(['/', '@', '?', '#'])).then(|| text.to_ascii_lowercase())
}

fn public_url(text: &str) -> Option<Url> {
    let url = Url::parse(text).ok()?;
    let valid = matches!(url.scheme(), "http" | "https")
        && url.host().is_some()
        && url.username().is_empty()
        && url.password().is_none()
        && url.query().is_none()
        && url.fragment().is_none();
    valid.then_some(url)
}
