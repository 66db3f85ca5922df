//! What every request at the client shore needs, made once by `app`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;

use crate::base::caps;
use crate::call::{Authenticator, CallService, Endpoint, UpstreamId};
use crate::config::snapshot::Snapshot;
use crate::downstream::access::Access;
use crate::downstream::legacy::session::Sessions;
use crate::downstream::old_sse::Streams;
use crate::jsonrpc::scan;
use crate::telemetry::meters::ClientMeter;

/// The client shore's shared state.
pub struct Shore {
    /// The configuration, pinned by each request.
    pub config: Arc<Snapshot>,
    /// `Host` and `Origin` rules.
    pub access: Access,
    /// The gate's authentication (layer 7).
    pub authenticator: Arc<dyn Authenticator>,
    /// The gate.
    pub calls: CallService,
    /// The open sessions.
    pub sessions: Arc<Sessions>,
    /// The open streams of HTTP+SSE.
    pub streams: Streams,
    /// Upstreams by the name in their path.
    pub paths: HashMap<Arc<str>, UpstreamId>,
    /// What is counted for every message.
    pub meter: ClientMeter,
    /// Room for connections, shared by all listeners (OPS-03).
    pub connections: Arc<Semaphore>,
    leaving: AtomicBool,
    draining: AtomicBool,
}

/// What clients speak at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Streamable HTTP.
    Streamable,
    /// HTTP+SSE of 2024-11-05 (HTTP-37).
    OldSse,
}

/// The parts that `app` brings together.
pub struct Parts {
    /// See [`Shore`].
    pub config: Arc<Snapshot>,
    /// See [`Shore`].
    pub authenticator: Arc<dyn Authenticator>,
    /// See [`Shore`].
    pub calls: CallService,
    /// See [`Shore`].
    pub sessions: Arc<Sessions>,
}

impl Shore {
    /// Joins the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts { config, authenticator, calls, sessions } = parts;
        let numbered = (0_u16..).map(UpstreamId);
        let paths = config.upstreams.iter().map(|upstream| upstream.name.clone()).zip(numbered).collect();
        Self {
            access: Access::new(&config),
            config,
            authenticator,
            calls,
            sessions,
            streams: Streams::default(),
            paths,
            meter: ClientMeter::new(),
            connections: Arc::new(Semaphore::new(caps::CONNECTIONS)),
            leaving: AtomicBool::new(false),
            draining: AtomicBool::new(false),
        }
    }

    /// What is spoken at a path, and the endpoint there; with and without a slash at its end (F-069).
    #[must_use]
    pub fn route(&self, path: &str) -> Option<(Transport, Endpoint)> {
        let (transport, rest) = match path.strip_prefix("/mcp") {
            Some(rest) => (Transport::Streamable, rest),
            None => (Transport::OldSse, path.strip_prefix("/sse").filter(|_| self.config.http.sse)?),
        };
        let endpoint = match rest.strip_suffix('/').unwrap_or(rest) {
            "" => Endpoint::Merged,
            name => self.paths.get(name.strip_prefix('/')?).copied().map(Endpoint::Upstream)?,
        };
        Some((transport, endpoint))
    }

    /// Whether a text nests deeper than `portcullis.http.maxDepth` allows; what is beyond the scan's own limit it finds
    /// itself.
    #[must_use]
    pub fn is_too_deep(&self, text: &[u8]) -> bool {
        let depth = self.config.http.max_depth;
        depth < scan::MAX_DEPTH && scan::nests_deeper(text, depth)
    }

    /// Whether no new traffic should come, though it is still served.
    #[must_use]
    pub fn is_leaving(&self) -> bool {
        self.leaving.load(Ordering::Relaxed)
    }

    /// Lets it be known that the process will stop.
    pub fn leave(&self) {
        self.leaving.store(true, Ordering::Relaxed);
    }

    /// Whether new sessions are refused because the process is stopping.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Begins to refuse new sessions.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
        self.streams.end_waiting();
        self.sessions.end_streams();
    }
}
