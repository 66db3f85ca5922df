//! The parts of a gateway, joined. Nothing is opened, spawned or listened to here.

use std::io;
use std::sync::Arc;

use crate::app::keys;
use crate::call::{Authenticator, CallService, Upstreams};
use crate::config::snapshot::Snapshot;
use crate::downstream::legacy::session::Sessions;
use crate::downstream::legacy::store::Bounds;
use crate::downstream::shore::{Parts, Shore};
use crate::gate::measure::Meters;
use crate::gate::{authn, stack};
use crate::relay::catalog::refresh::Catalog;
use crate::relay::route::Relay;
use crate::telemetry::meters::{CallMeter, UpstreamMeter};
use crate::upstream::ServerShore;

/// A gateway that is ready to start.
#[derive(Clone)]
pub struct Gateway {
    /// What it was built from.
    pub config: Arc<Snapshot>,
    /// The gate, for whoever calls without a listener.
    pub calls: CallService,
    /// The catalog; reads nothing before it is started.
    pub catalog: Arc<Catalog>,
    /// The sessions of clients.
    pub sessions: Arc<Sessions>,
    /// The client shore.
    pub shore: Arc<Shore>,
    /// The server shore.
    pub servers: Arc<ServerShore>,
}

/// Joins the stations of a configuration.
///
/// # Errors
/// When seal keys cannot be had, or children cannot be supervised.
pub fn build(config: Arc<Snapshot>) -> io::Result<Gateway> {
    let ring = keys::ring(&config)?;
    let meters: Vec<_> = config.upstreams.iter().map(|upstream| UpstreamMeter::new(&upstream.name)).collect();
    let servers = Arc::new(ServerShore::new(config.clone(), &meters)?);
    let upstreams: Arc<dyn Upstreams> = servers.clone();
    let out = servers.service();
    let catalog = Catalog::new(config.clone(), upstreams.clone(), out.clone());
    let relay = Relay::new(config.clone(), catalog.clone(), out, upstreams, ring.clone());
    servers.observe(relay.clone());
    let meters = Arc::new(Meters { gateway: CallMeter::gateway(), upstreams: meters });
    let calls = stack::build(meters, relay.service());
    let bounds = Bounds::new(&config);
    let sessions = Arc::new(Sessions::new(config.sessions.clone(), bounds, ring, relay.clone()));
    catalog.tell(sessions.clone());
    let authenticator: Arc<dyn Authenticator> = authn::build(&config);
    let parts =
        Parts { config: config.clone(), authenticator, calls: calls.clone(), sessions: sessions.clone() };
    Ok(Gateway { config, calls, catalog, sessions, shore: Arc::new(Shore::new(parts)), servers })
}
