//! The order in which a gateway ends (F-098, OPS-11): unready, refuse the new, finish the begun, end the rest.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::app::build::Gateway;
use crate::base::clock;
use crate::telemetry::events::app::{DrainDone, DrainStarted};

/// How often is looked whether the last call has ended.
const LOOK: Duration = Duration::from_millis(20);

/// How long upstreams and children get to end, beyond the grace period of calls.
pub(super) const SERVERS: Duration = Duration::from_secs(5);

/// How long responses get to be written after their calls have ended.
const WRITE: Duration = Duration::from_millis(500);

/// Drains a gateway; `stop` closes the listeners and lets connections end.
pub async fn drain(gateway: &Gateway, cause: &str, stop: &CancellationToken) {
    let began = clock::now();
    let limits = &gateway.config.drain;
    DrainStarted { cause, grace: limits.grace }.emit();
    // Whoever sends us traffic learns of it first, while everything is still served.
    gateway.shore.leave();
    clock::sleep(limits.delay).await;
    gateway.shore.drain();
    let deadline = clock::now() + limits.grace;
    while !gateway.sessions.is_quiet() && clock::now() < deadline {
        clock::sleep(LOOK).await;
    }
    let cut_off = gateway.sessions.stop_calls();
    if cut_off > 0 {
        // Before the listeners' run times end: clients get their errors, upstreams their cancellations.
        clock::sleep(WRITE).await;
    }
    stop.cancel();
    gateway.sessions.close_all();
    gateway.servers.shutdown(SERVERS).await;
    DrainDone { took: clock::now().saturating_duration_since(began), cut_off }.emit();
}
