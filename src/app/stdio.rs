//! Running a gateway for one client on the standard streams of this process: no port, no sockets, no waiting for others.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

use crate::app::build::{Gateway, build};
use crate::app::drain::SERVERS;
use crate::app::serve::tell_start;
use crate::app::signals::Signals;
use crate::base::{clock, tasks};
use crate::call::{Endpoint, Fault};
use crate::config::snapshot::Snapshot;
use crate::downstream::stdio::{self, End, Ended, Greeting, Streams, Terms};
use crate::telemetry::events::app::{DrainDone, DrainStarted};
use crate::telemetry::{Telemetry, UPKEEP_EVERY};

/// What the client is served.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// What it sees.
    pub endpoint: Endpoint,
    /// Whether a session is refused while the first upstream could not be reached: the bridge to a single server has
    /// nothing to offer without it.
    pub needs_upstream: bool,
}

/// A gateway that has served its client.
pub struct Served {
    /// Its parts.
    pub gateway: Gateway,
    /// How it went.
    pub ended: Ended,
}

/// The most that calls under way get to finish once the client has closed its end. Whoever starts programs gives them a
/// few seconds to leave; somebody who pipes requests into one wants their answers.
const GRACE: Duration = Duration::from_secs(5);

/// Serves the client on the standard streams until it leaves or a signal comes.
///
/// # Errors
/// When the gateway cannot start.
pub fn run(config: Arc<Snapshot>, telemetry: &Telemetry, place: Place) -> io::Result<Served> {
    // One client needs one thread.
    let home = Builder::new_current_thread().enable_all().build()?;
    let entered = home.enter();
    let gateway = build(config)?;
    drop(entered);
    tell_start(&gateway.config);
    let ended = home.block_on(live(&gateway, telemetry, place));
    // A read that waits for the client does not hold up the end.
    home.shutdown_background();
    Ok(Served { gateway, ended: ended? })
}

async fn live(gateway: &Gateway, telemetry: &Telemetry, place: Place) -> io::Result<Ended> {
    let mut signals = Signals::listen()?;
    let telemetry = telemetry.clone();
    let upkeep = tasks::spawn("upkeep", async move {
        loop {
            clock::sleep(UPKEEP_EVERY).await;
            telemetry.upkeep();
        }
    });
    let reading = gateway.catalog.start();
    let grace = gateway.config.drain.grace.min(GRACE);
    let terms = Terms { endpoint: place.endpoint, grace, greeting: greeting(gateway, place) };
    let streams = Streams { input: tokio::io::stdin(), output: tokio::io::stdout() };
    let stop = CancellationToken::new();
    let serving =
        tasks::spawn("standard streams", stdio::serve(gateway.shore.clone(), terms, streams, stop.clone()));
    let mut ending = std::pin::pin!(async {
        let ended = serving.await;
        gateway.servers.shutdown(SERVERS).await;
        ended
    });
    let began = tokio::select! {
        biased;
        // Both are safe to cancel: the first is only looked at.
        ended = &mut ending => return ended.map_err(io::Error::other),
        cause = signals.next() => {
            DrainStarted { cause, grace }.emit();
            clock::now()
        }
    };
    stop.cancel();
    let ended = tokio::select! {
        biased;
        // Both are safe to cancel: the process ends either way.
        ended = &mut ending => ended.map_err(io::Error::other)?,
        _ = signals.next() => {
            gateway.servers.shutdown(Duration::ZERO).await;
            Ended { end: End::Stopped, opened: true }
        }
    };
    DrainDone { took: clock::now().saturating_duration_since(began), cut_off: 0 }.emit();
    drop((upkeep, reading));
    Ok(ended)
}

/// What is asked before a session is opened.
fn greeting(gateway: &Gateway, place: Place) -> Greeting {
    let (catalog, budget) = (gateway.catalog.clone(), gateway.config.catalog.start_budget);
    Box::new(move || {
        let catalog = catalog.clone();
        async move {
            if !place.needs_upstream {
                return Ok(());
            }
            catalog.settled(budget).await;
            let Some(member) = catalog.members().first() else { return Ok(()) };
            let state = member.state();
            match (state.snapshot, state.problem) {
                (None, Some(problem)) => Err(Fault::Unavailable {
                    upstream: member.upstream.name.clone(),
                    // It says itself whose it is.
                    why: problem
                        .split_once("is not available: ")
                        .map_or(&*problem, |(_, why)| why)
                        .to_owned()
                        .into(),
                    retry_after: None,
                    unsent: true,
                }),
                // It may be slow; whoever opened a session knows what to wait for.
                _ => Ok(()),
            }
        }
        .boxed()
    })
}
