//! Serves the operator's port on its own listener.
//!
//! *Limits*: 64 connections, 10 s for a request's head; more connections are closed at once.
//!
//! *On drop* of the future: the listener closes; connections end within a moment.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::health::Readiness;
use super::routes::{self, Sources};
use crate::base::{clock, tasks};
use crate::telemetry::Telemetry;

/// Most connections at a time: probes and scrapers need a few.
const CONNECTIONS: usize = 64;

/// How long a head may take, the idle time before it included.
const HEAD: Duration = Duration::from_secs(10);

/// The pause after a failed accept: a process out of descriptors needs a moment, not a busy loop (F-086).
const PAUSE: Duration = Duration::from_millis(100);

/// How long answers that have begun may take once the port closes.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// Accepts and serves until `stop`, then lets answers that have begun end.
///
/// # Errors
///
/// When the socket cannot be used on this run time.
pub async fn serve(
    socket: std::net::TcpListener,
    telemetry: Telemetry,
    readiness: Arc<dyn Readiness>,
    stop: CancellationToken,
) -> io::Result<()> {
    let listener = TcpListener::from_std(socket)?;
    let router = routes::router(Sources { telemetry, readiness });
    let permits = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = tasks::Group::new();
    loop {
        let accepted = tokio::select! {
            biased;
            // Both are safe to cancel.
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                // Without a permit the stream is dropped, which closes it.
                if let Ok(permit) = Arc::clone(&permits).try_acquire_owned() {
                    let work = connection(stream, router.clone(), stop.clone(), permit);
                    connections.spawn("operator connection", work).detach();
                }
            }
            Err(_) => clock::sleep(PAUSE).await,
        }
    }
    drop(listener);
    // What is not done by then is cut off; nothing here is worth more waiting.
    let _ = connections.drain(LAST_ANSWERS).await;
    connections.stop();
    Ok(())
}

async fn connection(
    stream: TcpStream,
    router: Router,
    stop: CancellationToken,
    permit: OwnedSemaphorePermit,
) {
    let _permit = permit;
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD);
    let serving = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut serving = std::pin::pin!(serving);
    // An error is the prober's: it vanished, or it does not speak HTTP.
    tokio::select! {
        biased;
        _ = serving.as_mut() => return,
        () = stop.cancelled() => serving.as_mut().graceful_shutdown(),
    }
    let _ = serving.await;
}

#[cfg(test)]
mod tests;
