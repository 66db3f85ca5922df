//! The compiled configuration: immutable, cheap to share, pinned by each request.
//!
//! *Invariants*: everything in it was checked; nothing in it prints a secret.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use percent_encoding::percent_decode_str;
use schemars::JsonSchema;
use serde::Serialize;
use url::Url;

pub use super::schema::auth::{ApiKey, Auth, Digest};
pub use super::schema::catalog::{Catalog, Instructions, OnFinding};
pub use super::schema::children::Children;
pub use super::schema::drain::Drain;
pub use super::schema::gateway::Runtime;
pub use super::schema::http::Http;
pub use super::schema::log::{Log, LogFormat, LogLevel};
pub use super::schema::own::Asks;
pub use super::schema::sessions::Sessions;
pub use super::schema::timeouts::{Timeouts, ToolTimeouts};

use super::environment::Environment;
use super::problem::Problem;
use super::secrets::{MASK, SealKey, Secret, Text, masked_arguments};

/// A whole configuration, checked and ready to use.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// The file it came from, absolute; none for `serve -- CMD` and `serve URL`.
    pub source: Option<PathBuf>,
    /// The environment at the start, with the `.env` beside the file.
    pub environment: Arc<Environment>,
    /// The address for clients.
    pub listen: SocketAddr,
    /// The Unix socket for clients, absolute.
    pub socket: Option<PathBuf>,
    /// The address for the operator.
    pub admin_listen: SocketAddr,
    /// The upstreams that can be tried, in the order of the file.
    pub upstreams: Vec<Arc<Upstream>>,
    /// The upstreams whose entry cannot be used, and why.
    pub failed: Vec<FailedUpstream>,
    /// The names of the entries that are switched off.
    pub disabled: Vec<Arc<str>>,
    /// What is doubtful and works all the same.
    pub warnings: Vec<Problem>,
    /// What clients may send.
    pub http: Http,
    /// How many sessions, for how long.
    pub sessions: Sessions,
    /// Who may call.
    pub auth: Auth,
    /// How lists are read, bounded, merged and named.
    pub catalog: Catalog,
    /// How many processes, for how long.
    pub children: Children,
    /// How the gateway stops.
    pub drain: Drain,
    /// What is logged.
    pub log: Log,
    /// A folder for what should outlive a restart, absolute.
    pub state_directory: Option<PathBuf>,
    /// Keys that seal handles: the first one seals, all of them open. Empty if none are configured.
    pub seal_keys: Vec<SealKey>,
    /// How the work is spread over the cores.
    pub runtime: Runtime,
    /// The largest message to or from an upstream, in bytes.
    pub max_message: usize,
}

/// An upstream whose entry cannot be used, while the others can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedUpstream {
    /// Its name in the file.
    pub name: Arc<str>,
    /// Why, and what to do; more than one if there is more than one reason.
    pub problems: Vec<Problem>,
}

/// A server behind the gateway.
#[derive(Debug, Clone)]
pub struct Upstream {
    /// Its name in paths, metrics and logs: letters, digits, `.`, `-` and `_`; unique.
    pub name: Arc<str>,
    /// Its name as it stands in the file.
    pub title: Arc<str>,
    /// The prefix of its names on merged endpoints, as `mcp::names::check_namespace` allows it; unique,
    /// also as a slug in URIs. None for no prefix.
    pub namespace: Option<Arc<str>>,
    /// Who shares a connection; none if the kind of upstream decides.
    pub isolation: Option<Isolation>,
    /// How it is reached.
    pub transport: Transport,
    /// How long it may take.
    pub timeouts: Timeouts,
    /// How long some of its tools may take, by their own names.
    pub tool_timeouts: BTreeMap<String, ToolTimeouts>,
    /// Which of its tools are shown.
    pub tools: ToolFilter,
    /// Whether its instructions are shown.
    pub instructions: Instructions,
    /// Whether the gateway is unready without it.
    pub required: bool,
    /// What it may ask clients for; none for what goes without saying.
    pub questions: Option<Vec<Asks>>,
}

/// Who shares a connection to an upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Isolation {
    /// Each session of a client has its own.
    Session,
    /// All sessions of a caller share one.
    Caller,
    /// All callers of a tenant share one.
    Tenant,
    /// All share one.
    Shared,
}

/// How an upstream is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// A child process.
    Stdio(Stdio),
    /// A server on the network.
    Remote(Remote),
}

/// A child process that speaks over its standard streams.
#[derive(Clone, PartialEq, Eq)]
pub struct Stdio {
    /// The program, to be looked up in the child's `PATH` if it has no slash.
    pub command: Text,
    /// Its arguments.
    pub args: Vec<Text>,
    /// Variables that are set for it, in the order of the file.
    pub env: Vec<(String, Secret)>,
    /// Variables of the gateway that it gets besides the usual ones.
    pub pass_env: Vec<String>,
    /// The folder it starts in; none for that of the gateway.
    pub cwd: Option<PathBuf>,
}

/// A server that is reached by HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remote {
    /// Where it is.
    pub url: Address,
    /// Headers that are sent with every request, names in lower case.
    pub headers: Vec<(String, Secret)>,
    /// What it speaks.
    pub kind: RemoteKind,
    /// A file of certificates that are trusted besides those of the system, absolute.
    pub ca_file: Option<PathBuf>,
}

/// What a server on the network speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteKind {
    /// Streamable HTTP.
    Http,
    /// HTTP+SSE, the older transport with an event stream beside the requests.
    Sse,
    /// Nothing is said about it: Streamable HTTP, or the older one if that is refused.
    Auto,
}

/// A URL, shown without what may be secret in it.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    url: Url,
    secret: bool,
}

/// Addresses that stand in for those of the file.
#[derive(Debug, Clone, Copy, Default)]
pub struct Addresses {
    /// For clients.
    pub clients: Option<SocketAddr>,
    /// For the operator.
    pub operator: Option<SocketAddr>,
}

/// Which tools of an upstream are shown, by their own names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolFilter {
    /// Only these, if there is a list.
    pub include: Option<Vec<String>>,
    /// Never these.
    pub exclude: Vec<String>,
}

// === impl Snapshot ===

impl Snapshot {
    /// Whether a caller without a credential is let in.
    pub fn admits_anonymous(&self) -> bool {
        self.auth.allow_anonymous || (self.auth.keys.is_empty() && self.listen.ip().is_loopback())
    }

    /// The upstream of this name.
    pub fn upstream(&self, name: &str) -> Option<&Arc<Upstream>> {
        self.upstreams.iter().find(|upstream| &*upstream.name == name)
    }
}

// === impl Upstream ===

impl Upstream {
    /// How long a call of a tool may be silent.
    pub fn call_idle(&self, tool: &str) -> Duration {
        self.tool_timeouts.get(tool).and_then(|tool| tool.call_idle).unwrap_or(self.timeouts.call_idle)
    }

    /// How long a call of a tool may take in all.
    pub fn call_total(&self, tool: &str) -> Duration {
        self.tool_timeouts.get(tool).and_then(|tool| tool.call).unwrap_or(self.timeouts.call)
    }
}

// === impl Stdio ===

impl Stdio {
    /// Program and arguments as they may be shown, what is or looks secret masked.
    pub fn shown(&self) -> Vec<String> {
        let mut shown = vec![self.command.shown().to_owned()];
        shown.extend(masked_arguments(&self.args));
        shown
    }
}

impl fmt::Debug for Stdio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stdio")
            .field("argv", &self.shown())
            .field("env", &self.env)
            .field("pass_env", &self.pass_env)
            .field("cwd", &self.cwd)
            .finish()
    }
}

// === impl Remote ===

impl Remote {
    /// A server at an address. A user in the URL becomes a header, so that the URL can be shown.
    pub(super) fn new(mut url: Address, kind: RemoteKind) -> Self {
        let user = url.take_user();
        let mut remote = Self { url, headers: Vec::new(), kind, ca_file: None };
        if let Some(pair) = user {
            let value = format!("Basic {}", BASE64_STANDARD.encode(pair));
            remote.set_header("authorization", value.into());
        }
        remote
    }

    /// Sets a header, whose name is in lower case.
    pub(super) fn set_header(&mut self, name: &str, value: Secret) {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value));
    }
}

// === impl Address ===

impl Address {
    /// Takes user and password out of the URL, as `user:password`.
    fn take_user(&mut self) -> Option<String> {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let user = decode(self.url.username());
        let password = self.url.password().map(decode);
        if user.is_empty() && password.is_none() {
            return None;
        }
        // Neither can fail where there was a user before.
        let _ = self.url.set_username("");
        let _ = self.url.set_password(None);
        Some(format!("{user}:{}", password.unwrap_or_default()))
    }

    /// An address; `secret` as of the [`Text`] it came from.
    pub(super) fn new(url: Url, text: &Text) -> Self {
        let secret = text.is_secret();
        Self { url, secret }
    }

    /// The whole URL. Ask for it only where it is used.
    pub fn reveal(&self) -> &Url {
        &self.url
    }

    /// Whether a part of it came out of a variable or a file.
    pub(super) fn is_secret(&self) -> bool {
        self.secret
    }
}

impl From<Url> for Address {
    fn from(url: Url) -> Self {
        Self { url, secret: false }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.secret {
            return write!(f, "{}://{MASK}", self.url.scheme());
        }
        let origin = self.url.origin().ascii_serialization();
        write!(f, "{origin}{}", self.url.path())?;
        if self.url.query().is_some() {
            write!(f, "?{MASK}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl ToolFilter ===

impl ToolFilter {
    /// Whether the tool of this name is shown.
    pub fn allows(&self, tool: &str) -> bool {
        let included = self.include.as_ref().is_none_or(|names| names.iter().any(|name| name == tool));
        included && !self.exclude.iter().any(|name| name == tool)
    }
}
