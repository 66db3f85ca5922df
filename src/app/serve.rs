//! Running a gateway: bind, start, wait for a signal, drain.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::app::build::{Gateway, build};
use crate::app::drain::drain;
use crate::app::ready::Gauge;
use crate::app::signals::Signals;
use crate::base::{clock, memory, tasks};
use crate::config::snapshot::{Runtime as Spread, Snapshot};
use crate::downstream::listen;
use crate::downstream::local::LocalSocket;
use crate::telemetry::events::app::{ConfigWarning, Listening, Shore as Side, Started};
use crate::telemetry::{Telemetry, UPKEEP_EVERY};

/// A gateway that listens.
pub struct Serving {
    /// Its parts.
    pub gateway: Gateway,
    /// Where clients reach it.
    pub clients: SocketAddr,
    /// Where the operator does.
    pub operator: SocketAddr,
}

/// Why a gateway does not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address cannot be bound.
    #[error("cannot listen on {address} for {side}")]
    Bind {
        /// Which one.
        address: SocketAddr,
        /// For whom: `clients` or `the operator`.
        side: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// The Unix socket cannot be bound.
    #[error("cannot listen on the Unix socket {} of `portcullis.socket`", path.display())]
    Socket {
        /// Its file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process cannot have what it needs.
    #[error("the gateway cannot start")]
    System(#[from] io::Error),
}

/// Runs a gateway until a signal says to stop. `started` is run once it listens.
///
/// # Errors
/// When it cannot start; once it runs, nothing ends it but a signal.
pub fn run<F>(
    config: Arc<Snapshot>,
    telemetry: &Telemetry,
    started: impl FnOnce(Serving) -> F,
) -> Result<(), ServeError>
where
    F: Future<Output = ()> + Send + 'static,
{
    let workers = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let (home, spread) = runtimes(config.runtime, workers)?;
    let copies = spread.len().max(1);
    let bind = |address, side, copies| {
        listen::bind(address, copies).map_err(|source| ServeError::Bind { address, side, source })
    };
    let mut operator = bind(config.admin_listen, "the operator", 1)?;
    let clients = bind(config.listen, "clients", copies)?;
    let local = config.socket.as_ref().map(|path| {
        LocalSocket::bind(path).map_err(|source| ServeError::Socket { path: path.clone(), source })
    });
    let local = local.transpose()?;
    for (side, socket) in [(Side::Clients, &clients[0]), (Side::Operator, &operator[0])] {
        Listening { shore: side, address: &socket.local_addr()? }.emit();
    }
    if let Some(path) = &config.socket {
        Listening { shore: Side::Clients, address: &path.display() }.emit();
    }
    let addresses = (clients[0].local_addr()?, operator[0].local_addr()?);
    // The catalog's tasks and the children live on the home run time.
    let entered = home.enter();
    let gateway = build(config.clone())?;
    drop(entered);
    tell_start(&config);
    let serving = Serving { gateway: gateway.clone(), clients: addresses.0, operator: addresses.1 };
    let after = started(serving);
    let stop = CancellationToken::new();
    let threads = spread_out(spread, clients, &gateway, &stop)?;
    home.block_on(async {
        let operator = operator.swap_remove(0);
        let sockets = Sockets { clients: threads.left_over, local, operator };
        live(&gateway, telemetry, sockets, after, &stop).await
    })?;
    for thread in threads.running {
        // A worker that panicked has been logged; there is nothing left to save.
        let _ = thread.join();
    }
    home.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

/// Logs what is started, and what is doubtful about it.
pub(super) fn tell_start(config: &Snapshot) {
    let source = config.source.as_ref().map(|path| path.display());
    let source = source.as_ref().map(|path| path as &dyn std::fmt::Display);
    Started { config: source, upstreams: config.upstreams.len() }.emit();
    for warning in &config.warnings {
        ConfigWarning { warning }.emit();
    }
    for failed in &config.failed {
        failed.problems.iter().for_each(|problem| ConfigWarning { warning: problem }.emit());
    }
}

/// The home run time, and one more for each core if connections are spread over run times.
fn runtimes(spread: Spread, workers: usize) -> io::Result<(Runtime, Vec<Runtime>)> {
    match spread {
        Spread::Shared => {
            Ok((Builder::new_multi_thread().worker_threads(workers).enable_all().build()?, Vec::new()))
        }
        Spread::PerCore => {
            let one = || Builder::new_current_thread().enable_all().build();
            let each = (0..workers).map(|_| one()).collect::<io::Result<_>>()?;
            Ok((one()?, each))
        }
    }
}

struct Threads {
    running: Vec<thread::JoinHandle<()>>,
    /// Sockets that the home run time serves itself.
    left_over: Vec<std::net::TcpListener>,
}

/// Starts a thread for each run time, each with a socket of its own.
fn spread_out(
    runtimes: Vec<Runtime>,
    mut sockets: Vec<std::net::TcpListener>,
    gateway: &Gateway,
    stop: &CancellationToken,
) -> io::Result<Threads> {
    let mut running = Vec::new();
    for runtime in runtimes {
        let Some(socket) = sockets.pop() else { break };
        let (shore, stop) = (gateway.shore.clone(), stop.clone());
        let work = move || {
            // The socket was bound by us; a run time that cannot use it leaves its share to the others.
            let _ = runtime.block_on(listen::run(shore, socket, stop));
            runtime.shutdown_timeout(Duration::from_millis(200));
        };
        running.push(thread::Builder::new().name("clients".into()).spawn(work)?);
    }
    Ok(Threads { running, left_over: sockets })
}

/// The sockets that the home run time serves.
struct Sockets {
    clients: Vec<std::net::TcpListener>,
    local: Option<LocalSocket>,
    operator: std::net::TcpListener,
}

/// Everything that runs on the home run time, until the drain is done.
async fn live(
    gateway: &Gateway,
    telemetry: &Telemetry,
    sockets: Sockets,
    after: impl Future<Output = ()> + Send + 'static,
    stop: &CancellationToken,
) -> io::Result<()> {
    let Sockets { clients, local, operator } = sockets;
    let work = tasks::Group::new();
    for socket in clients {
        let served = listen::run(gateway.shore.clone(), socket, stop.clone());
        work.spawn("listening", async move { drop(served.await) }).detach();
    }
    if let Some(local) = local {
        let served = listen::serve(gateway.shore.clone(), local.listener()?, stop.clone());
        work.spawn("listening on the Unix socket", served).detach();
    }
    let gauge = Arc::new(Gauge { catalog: gateway.catalog.clone(), shore: gateway.shore.clone() });
    let closed = CancellationToken::new();
    let port =
        tasks::spawn("operator's port", admin::serve(operator, telemetry.clone(), gauge, closed.clone()));
    let (telemetry, sessions) = (telemetry.clone(), gateway.sessions.clone());
    let upkeep = tasks::spawn("upkeep", async move {
        loop {
            clock::sleep(UPKEEP_EVERY).await;
            telemetry.upkeep();
        }
    });
    let memory = tasks::spawn("memory", async {
        loop {
            clock::sleep(memory::INTERVAL).await;
            memory::give_back();
        }
    });
    let sweep = tasks::spawn("session sweep", async move {
        loop {
            clock::sleep(sessions.sweep_interval()).await;
            sessions.sweep();
        }
    });
    let reading = gateway.catalog.start();
    let after = tasks::spawn("start report", after);
    let mut signals = Signals::listen()?;
    let cause = signals.next().await;
    tokio::select! {
        biased;
        // Both are safe to cancel: the process ends either way.
        () = drain(gateway, cause, stop) => {}
        _ = signals.next() => gateway.servers.shutdown(Duration::ZERO).await,
    }
    stop.cancel();
    reading.stop();
    // The rest of the listeners' connections; bounded by the listener itself.
    let _ = work.drain(Duration::from_secs(3)).await;
    closed.cancel();
    let _ = clock::within(Duration::from_secs(1), port).await;
    drop((upkeep, memory, sweep, after));
    Ok(())
}
