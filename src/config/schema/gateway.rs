//! `portcullis`: the settings of the gateway as a whole.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};
use schemars::JsonSchema;
use serde::Serialize;

use super::auth::Auth;
use super::bounds::KIB;
use super::catalog::Catalog;
use super::children::Children;
use super::drain::Drain;
use super::http::Http;
use super::log::Log;
use super::sessions::Sessions;
use super::timeouts::Timeouts;
use crate::base::caps;
use crate::base::units::ByteSize;
use crate::config::decode::{Field, Refusal, Table, Wrong};
use crate::config::secrets::SealKey;

/// The settings of the gateway as a whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Gateway {
    /// The address for clients. Port 0 picks a free one; the address that was bound is logged.
    #[schemars(with = "String")]
    pub listen: SocketAddr,
    /// A Unix socket for clients, besides the address: its file, which only the user that runs the gateway can use. Relative
    /// to this file.
    #[schemars(with = "Option<String>")]
    pub socket: Option<PathBuf>,
    /// The operator's own listener.
    pub admin: Admin,
    /// A folder for what should outlive a restart: keys, the last known lists. Relative to this file.
    #[schemars(with = "Option<String>")]
    pub state_directory: Option<PathBuf>,
    /// Keys of 32 bytes, in base64, that seal session ids and cursors. The first one seals, the others
    /// still open. Without any, a key is made at the start, and kept in the state directory if there is
    /// one.
    #[serde(skip_serializing)]
    #[schemars(with = "Vec<String>")]
    pub seal_keys: Vec<SealKey>,
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
            socket: None,
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

impl Gateway {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        let default = Self::default();
        Self {
            listen: table.read("listen", |field| field.socket()).unwrap_or(default.listen),
            socket: table.read("socket", |field| field.path()),
            admin: table.read("admin", |field| field.table(Admin::decode)).unwrap_or_default(),
            state_directory: table.read("stateDirectory", |field| field.path()),
            seal_keys: table.read("sealKeys", |field| field.list(seal_key)).unwrap_or_default(),
            runtime: table.read("runtime", |field| field.choice(&Runtime::WORDS)).unwrap_or_default(),
            max_message: table
                .read("maxMessage", |field| field.size(64 * KIB..=caps::MESSAGE_BYTES_MAX))
                .unwrap_or(default.max_message),
            http: table.read("http", |field| field.table(Http::decode)).unwrap_or_default(),
            sessions: table.read("sessions", |field| field.table(Sessions::decode)).unwrap_or_default(),
            auth: table.read("auth", |field| field.table(Auth::decode)).unwrap_or_default(),
            catalog: table.read("catalog", |field| field.table(Catalog::decode)).unwrap_or_default(),
            children: table.read("children", |field| field.table(Children::decode)).unwrap_or_default(),
            timeouts: table
                .read("timeouts", |field| field.table(|table| Timeouts::decode(table, &default.timeouts)))
                .unwrap_or_default(),
            drain: table.read("drain", |field| field.table(Drain::decode)).unwrap_or_default(),
            log: table.read("log", |field| field.table(Log::decode)).unwrap_or_default(),
        }
    }
}

impl Admin {
    fn decode(table: &mut Table<'_, '_>) -> Self {
        let listen = table.read("listen", |field| field.socket());
        listen.map_or_else(Self::default, |listen| Self { listen })
    }
}

impl Runtime {
    const WORDS: [(&str, Self); 2] = [("perCore", Self::PerCore), ("shared", Self::Shared)];
}

/// A key in base64, of either alphabet, padded or not. It is never shown, right or wrong.
fn seal_key(field: &mut Field<'_, '_>) -> Result<SealKey, Refusal> {
    let text = field.text()?;
    let bare = text.reveal().trim_end_matches('=');
    let bytes = BASE64_STANDARD_NO_PAD.decode(bare).or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(bare));
    if let Some(key) = bytes.ok().and_then(|bytes| bytes.try_into().ok()) {
        return Ok(SealKey::new(key));
    }
    let wrong = Wrong::new("this is not a key of 32 bytes in base64");
    Err(wrong.mend("`portcullis keys seal` prints one").into())
}
