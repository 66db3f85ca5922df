//! The server shore as the other stages use it: calls, handshakes, log levels, releases, the end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, join_all};
use tower::service_fn;
use tower::util::BoxCloneSyncService;

use crate::base::{clock, tasks};
use crate::call::{Fault, Handshake, Observer, OutCall, OutService, Purpose, Session, UpstreamId, Upstreams};
use crate::config::snapshot::{Remote, Snapshot, Transport, Upstream};
use crate::telemetry::meters::UpstreamMeter;
use crate::upstream::blame::Blame;
use crate::upstream::condition::{Condition, Status};
use crate::upstream::deadline::Limit;
use crate::upstream::health::Breaker;
use crate::upstream::http::address::Origin;
use crate::upstream::http::connect::Connector;
use crate::upstream::http::post::{Endpoint, Health};
use crate::upstream::http::proxy::proxy_for;
use crate::upstream::http::tls::Trust;
use crate::upstream::http::way::{Way, configured};
use crate::upstream::nursery::{Nursery, command};
use crate::upstream::peer::{Peer, Road};
use crate::upstream::report::Report;
use crate::upstream::stack;
use crate::upstream::starts::Kin;
use crate::upstream::stdio::guardian::Reexec;
use crate::upstream::unbound::{Observers, Unbound};

/// How often idle connections are looked for, at most and at least.
const SWEEP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long the guardian gets to end what is left, beyond the limit.
const LAST: Duration = Duration::from_secs(1);

/// All upstreams of a configuration.
pub struct ServerShore {
    peers: Arc<[Arc<Peer>]>,
    observers: Observers,
    ending: tasks::Group,
    nursery: Arc<Nursery>,
    idle: Duration,
    sweeping: AtomicBool,
}

impl ServerShore {
    /// The upstreams of `config`, none of them connected; `meters` are in the same order.
    ///
    /// # Errors
    /// When children cannot be supervised.
    pub fn new(config: Arc<Snapshot>, meters: &[Arc<UpstreamMeter>]) -> io::Result<Self> {
        Self::guarded(config, meters, Reexec::own()?)
    }

    /// As [`new`](Self::new), with another way to start the guardian of the children.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn guarded(config: Arc<Snapshot>, meters: &[Arc<UpstreamMeter>], reexec: Reexec) -> io::Result<Self> {
        let (observers, ending) = (Observers::default(), tasks::Group::new());
        let needed = config.upstreams.iter().any(|one| matches!(one.transport, Transport::Stdio(_)));
        let nursery = Arc::new(Nursery::start(&config.children, needed, reexec)?);
        let trust = Arc::new(Trust::new(None));
        let builder = Builder { config: &config, observers: &observers, trust, nursery: &nursery };
        let peers = config
            .upstreams
            .iter()
            .zip(meters)
            .enumerate()
            .map(|(index, (upstream, meter))| {
                let id = UpstreamId(u16::try_from(index).unwrap_or(u16::MAX));
                Arc::new(builder.peer(id, upstream, meter, ending.clone()))
            })
            .collect();
        let idle = config.children.idle;
        Ok(Self { peers, observers, ending, nursery, idle, sweeping: AtomicBool::new(false) })
    }

    /// The service that makes calls.
    #[must_use]
    pub fn service(&self) -> OutService {
        let peers = Arc::clone(&self.peers);
        BoxCloneSyncService::new(service_fn(move |call: OutCall| {
            let peer = peers.get(call.upstream.index()).cloned();
            async move {
                match peer {
                    Some(peer) => stack::call(peer, call).await,
                    None => Err(Fault::Internal),
                }
            }
        }))
    }

    /// Tells the news of upstreams to `observer`; only the first one counts.
    pub fn observe(&self, observer: Arc<dyn Observer>) {
        // There is one relay in a gateway.
        let _ = self.observers.set(observer);
    }

    /// How all upstreams are, in the order of the configuration.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        self.peers.iter().map(|peer| peer.condition.status()).collect()
    }

    /// Ends all connections and children within about `limit`.
    pub async fn shutdown(&self, limit: Duration) {
        let all = join_all(self.peers.iter().map(|peer| peer.close(limit)));
        let until = clock::now() + limit;
        // Whoever is late is cut off: what is left of its connection is dropped below.
        let _ = clock::within(until, all).await;
        let _ = self.ending.drain(until).await;
        self.ending.stop();
        let _ = clock::within(until + LAST, self.nursery.close()).await;
    }

    /// Starts to look for idle connections, once there may be some.
    fn sweep(&self) {
        if self.sweeping.swap(true, Ordering::Relaxed) {
            return;
        }
        let (peers, idle) = (Arc::downgrade(&self.peers), self.idle);
        let pause = (idle / 4).clamp(SWEEP.0, SWEEP.1);
        // Not one of those that are ending: it ends when the peers are gone.
        tasks::spawn("upstream sweep", async move {
            loop {
                clock::sleep(pause).await;
                let Some(peers) = peers.upgrade() else { return };
                peers.iter().for_each(|peer| peer.sweep(idle));
            }
        })
        .detach();
    }
}

impl Upstreams for ServerShore {
    fn connect(&self, upstream: UpstreamId) -> BoxFuture<'static, Result<Arc<Handshake>, Fault>> {
        self.sweep();
        let Some(peer) = self.peers.get(upstream.index()).cloned() else {
            return std::future::ready(Err(Fault::Internal)).boxed();
        };
        async move {
            let connection = peer.connection(&Purpose::Catalog).await.map_err(|failure| failure.fault)?;
            Ok(connection.handshake())
        }
        .boxed()
    }

    fn announces(&self, upstream: UpstreamId) -> bool {
        self.peers.get(upstream.index()).is_some_and(|peer| peer.announces())
    }

    fn set_log_level(&self, session: &Arc<Session>) -> BoxFuture<'static, ()> {
        let told = self.peers.iter().map(|peer| Arc::clone(peer).set_log_level(Arc::clone(session)));
        join_all(told).map(drop).boxed()
    }

    fn roots_changed(&self, session: &Arc<Session>) {
        self.peers.iter().for_each(|peer| peer.roots_changed(session));
    }

    fn is_bound(&self, upstream: UpstreamId, session: &Session) -> bool {
        self.peers.get(upstream.index()).is_some_and(|peer| peer.policy.is_bound(session))
    }

    fn release(&self, session: &Arc<Session>) {
        self.peers.iter().for_each(|peer| peer.release(session));
    }
}

/// What all peers are built from.
struct Builder<'a> {
    config: &'a Snapshot,
    observers: &'a Observers,
    /// The system's roots alone, read once for all.
    trust: Arc<Trust>,
    nursery: &'a Arc<Nursery>,
}

impl Builder<'_> {
    fn peer(
        &self,
        id: UpstreamId,
        upstream: &Arc<Upstream>,
        meter: &Arc<UpstreamMeter>,
        ending: tasks::Group,
    ) -> Peer {
        let health = Health {
            breaker: Arc::new(Breaker::default()),
            condition: Arc::new(Condition::new(Arc::clone(&upstream.name))),
            report: Report::new(Arc::clone(meter)),
        };
        let unbound = Unbound::new(id, Arc::clone(self.observers), health.report.clone());
        let road = match &upstream.transport {
            Transport::Remote(remote) => self
                .way(upstream, remote, health.clone(), unbound)
                .map_or_else(Road::None, |way| Road::Http(Arc::new(way))),
            Transport::Stdio(entry) => {
                let config = self.config;
                let command = command(upstream, entry, &config.environment, config.max_message);
                let nursery = Arc::clone(self.nursery);
                Road::Stdio(Box::new(Kin::new(command, nursery, upstream.timeouts.clone(), unbound)))
            }
        };
        Peer::new(Arc::clone(upstream), road, health, ending)
    }

    fn way(
        &self,
        upstream: &Upstream,
        remote: &Remote,
        health: Health,
        unbound: Unbound,
    ) -> Result<Way, String> {
        let url = remote.url.reveal();
        let origin = Origin::of(url).map_err(|error| error.to_string())?;
        let proxy = proxy_for(&self.config.environment, &origin).map_err(|error| error.to_string())?;
        let trust = match &remote.ca_file {
            Some(file) => Arc::new(Trust::new(Some(file.clone()))),
            None => Arc::clone(&self.trust),
        };
        let (connect, tls) = (upstream.timeouts.connect, upstream.timeouts.tls);
        let connector = Connector { origin, proxy, trust, connect, tls };
        let endpoint = Endpoint::new(url.clone(), connector, health).map_err(|error| error.to_string())?;
        Ok(Way {
            endpoint,
            configured: configured(&remote.headers),
            handshake: Limit { key: "handshake", after: upstream.timeouts.handshake },
            max_message: self.config.max_message,
            blame: Blame::new(Arc::clone(&upstream.name)),
            unbound,
            kind: remote.kind,
        })
    }
}
