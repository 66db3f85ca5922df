//! `portcullis`: the settings of the gateway as a whole.

use std::net::{Ipv4Addr, SocketAddr};

use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Auth;
use super::catalog::Catalog;
use super::children::Children;
use super::drain::Drain;
use super::http::Http;
use super::log::Log;
use super::sessions::Sessions;
use super::timeouts::Timeouts;
use crate::base::units::ByteSize;
use crate::config::secrets::Text;

/// The settings of the gateway as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Gateway {
    /// The address for clients. Port 0 picks a free one; the address that was bound is logged.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// The operator's own listener.
    pub admin: Admin,
    /// A folder for what should outlive a restart: keys, the last known lists. Relative to this file.
    pub state_directory: Option<Text>,
    /// Keys of 32 bytes, in base64, that seal session ids and cursors. The first one seals, the others
    /// still open. Without any, a key is made at the start, and kept in the state directory if there is
    /// one.
    pub seal_keys: Vec<Text>,
    /// How the work is spread over the cores.
    pub runtime: Runtime,
    /// The largest message, in either direction, to or from an upstream.
    #[serde(with = "ByteSize")]
    pub max_message: usize,
    /// What clients may send to the listener, and from where.
    pub http: Http,
    /// How many sessions clients may hold, and for how long.
    pub sessions: Sessions,
    /// Who may call.
    pub auth: Auth,
    /// How the lists of upstreams are read, bounded, merged and named.
    pub catalog: Catalog,
    /// How many processes the gateway may start for its upstreams, and for how long.
    pub children: Children,
    /// How long upstreams may take, unless their entry says otherwise.
    pub timeouts: Timeouts,
    /// How the gateway stops.
    pub drain: Drain,
    /// What is logged.
    pub log: Log,
}

/// The operator's own listener: `/livez`, `/readyz`, `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Admin {
    /// The address for the operator. Port 0 picks a free one; the address that was bound is logged.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
}

/// How the work is spread over the cores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Runtime {
    /// A connection stays on one core, with its connections to upstreams.
    #[default]
    PerCore,
    /// Cores take work from each other.
    Shared,
}

/// The port for clients when none is configured.
const CLIENT_PORT: u16 = 7420;
/// The port for the operator when none is configured.
const ADMIN_PORT: u16 = 7421;

impl Default for Gateway {
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, CLIENT_PORT).into(),
            admin: Admin::default(),
            state_directory: None,
            seal_keys: Vec::new(),
            runtime: Runtime::default(),
            max_message: 16 << 20,
            http: Http::default(),
            sessions: Sessions::default(),
            auth: Auth::default(),
            catalog: Catalog::default(),
            children: Children::default(),
            timeouts: Timeouts::default(),
            drain: Drain::default(),
            log: Log::default(),
        }
    }
}

impl Default for Admin {
    fn default() -> Self {
        Self { listen: (Ipv4Addr::LOCALHOST, ADMIN_PORT).into() }
    }
}
