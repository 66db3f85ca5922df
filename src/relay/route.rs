//! The method table's last column: to one upstream, from the catalog, or answered here.

use std::sync::Arc;

use tower::util::BoxCloneSyncService;

use crate::base::seal::Ring;
use crate::call::{Admitted, Call, Fault, OutService, RelayService, Reply, Upstreams};
use crate::config::snapshot::Snapshot as Config;
use crate::jsonrpc::rewrite::UriMap;
use crate::mcp::methods::Answer;
use crate::relay::catalog::cursor::Cursors;
use crate::relay::catalog::refresh::Catalog;
use crate::relay::catalog::view::uri_map;
use crate::relay::exchange::open::Exchanges;
use crate::relay::{here, lists, logs, one};
use crate::telemetry::logs::Redactor;

/// The relay's shared state.
pub struct Relay {
    pub(super) config: Arc<Config>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) out: OutService,
    pub(super) upstreams: Arc<dyn Upstreams>,
    pub(super) cursors: Cursors,
    /// By upstream: how its URIs are shown on the merged endpoint; none without a namespace.
    pub(super) uris: Vec<Option<UriMap>>,
    /// What sessions and upstreams have open with each other.
    pub(super) exchanges: Exchanges,
    /// What must not be seen in upstreams' log messages (LOG-05).
    pub(super) secrets: Redactor,
}

impl Relay {
    /// Joins the parts.
    #[must_use]
    pub fn new(
        config: Arc<Config>,
        catalog: Arc<Catalog>,
        out: OutService,
        upstreams: Arc<dyn Upstreams>,
        ring: Arc<Ring>,
    ) -> Arc<Self> {
        let map =
            |upstream: &Arc<crate::config::snapshot::Upstream>| upstream.namespace.as_deref().map(uri_map);
        let uris = config.upstreams.iter().map(map).collect();
        let secrets = Redactor::new(config.secrets());
        let (cursors, exchanges) = (Cursors::new(ring), Exchanges::default());
        let relay = Arc::new(Self { config, catalog, out, upstreams, cursors, uris, exchanges, secrets });
        let told = Arc::downgrade(&relay);
        relay.catalog.tell_turns(move |upstream, turn| {
            if let Some(relay) = told.upgrade() {
                logs::turned(&relay, upstream, turn);
            }
        });
        relay
    }

    /// The relay as the gate sees it.
    #[must_use]
    pub fn service(self: &Arc<Self>) -> RelayService {
        let relay = self.clone();
        BoxCloneSyncService::new(tower::service_fn(move |admitted: Admitted| {
            let relay = relay.clone();
            async move { relay.route(admitted.into_call()).await }
        }))
    }

    /// Answers a call.
    ///
    /// *On drop*: a call that is at an upstream is cancelled there.
    async fn route(self: &Arc<Self>, call: Call) -> Result<Reply, Fault> {
        match call.method.answer {
            Answer::One(slot) => one::call(self, call, slot).await,
            Answer::List(kind) => lists::list(self, &call, kind).await,
            Answer::Here => here::answer(self, &call).await,
            Answer::All => here::set_level(self, &call).await,
        }
    }
}
