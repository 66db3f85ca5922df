//! Listening for clients: binding, accepting with a back-off.
//!
//! *On drop* of the future: the listener closes; connections run on until they end by themselves.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::base::{clock, tasks};
use crate::downstream::connection::{self, Engines};
use crate::downstream::shore::Shore;
use crate::telemetry::events::downstream::{AcceptFailed, ConnectionOpened};

/// How long a silent connection is believed in before the kernel asks whether its client is still there.
const PROBE: Duration = Duration::from_secs(60);

/// Connections that the kernel keeps for us until we accept them.
pub(super) const BACKLOG: i32 = 4096;

/// The pause after a failed accept: a process out of descriptors needs a moment, not a busy loop (F-086).
const PAUSE: Duration = Duration::from_millis(100);

/// How long connections get to write what they have, once told to end.
const LAST: Duration = Duration::from_secs(2);

/// Binds `copies` sockets to one address, so that each run time accepts by itself.
///
/// # Errors
/// What the system says; an address in use is in use, also by another gateway.
pub fn bind(address: SocketAddr, copies: usize) -> io::Result<Vec<std::net::TcpListener>> {
    let shared = copies > 1;
    if shared && address.port() != 0 {
        // Sockets that share a port would share it with another gateway, too. One that does not
        // share finds out whether the port is free.
        drop(socket(address, Sharing::Alone)?);
    }
    let sharing = if shared { Sharing::Shared } else { Sharing::Alone };
    let first = socket(address, sharing)?;
    let bound = first.local_addr()?;
    let mut sockets = vec![first];
    for _ in 1..copies {
        sockets.push(socket(bound, sharing)?);
    }
    Ok(sockets)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sharing {
    Alone,
    Shared,
}

fn socket(address: SocketAddr, sharing: Sharing) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if sharing == Sharing::Shared {
        socket.set_reuse_port(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What accepts connections of one kind.
pub trait Listener: Send + Sync + 'static {
    /// A connection.
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// The next connection, and the address that it comes from; none for a client on this machine that has no address. Safe
    /// to cancel.
    ///
    /// # Errors
    /// What the system says.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Option<IpAddr>)>> + Send;
}

impl Listener for TcpListener {
    type Stream = TcpStream;

    async fn accept(&self) -> io::Result<(TcpStream, Option<IpAddr>)> {
        let (stream, peer) = TcpListener::accept(self).await?;
        tune(&stream);
        Ok((stream, Some(peer.ip())))
    }
}

/// Accepts and serves on a TCP socket, as [`serve`] does.
///
/// # Errors
/// When the socket cannot be used on this run time.
pub async fn run(
    shore: Arc<Shore>,
    socket: std::net::TcpListener,
    stop: CancellationToken,
) -> io::Result<()> {
    serve(shore, TcpListener::from_std(socket)?, stop).await;
    Ok(())
}

/// Accepts and serves until `stop`; returns when connections have finished what they had begun.
pub async fn serve(shore: Arc<Shore>, listener: impl Listener, stop: CancellationToken) {
    let engines = Arc::new(Engines::new(shore.config.http.header_limit));
    let connections = tasks::Group::new();
    loop {
        let accepted = tokio::select! {
            biased;
            // Both are safe to cancel.
            () = stop.cancelled() => break,
            accepted = accept(&listener, &shore.connections) => accepted,
        };
        match accepted {
            Ok((stream, peer, permit)) => {
                let open = (ConnectionOpened.emit(), permit);
                let work = connection::serve(shore.clone(), engines.clone(), stream, peer, stop.clone());
                connections.spawn("client connection", work.map(move |()| drop(open))).detach();
            }
            Err(error) => {
                AcceptFailed { error: &error }.emit();
                clock::sleep(PAUSE).await;
            }
        }
    }
    drop(listener);
    // Who is still here after this is cut off with the run time.
    let _ = connections.drain(LAST).await;
}

/// A connection that cannot be tuned still works.
fn tune(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let probe = TcpKeepalive::new().with_time(PROBE).with_interval(PROBE / 4);
    let _ = SockRef::from(stream).set_tcp_keepalive(&probe);
}

/// Takes the next connection once there is room for it; those that come meanwhile wait in the kernel. Safe to cancel.
async fn accept<L: Listener>(
    listener: &L,
    room: &Arc<Semaphore>,
) -> io::Result<(L::Stream, Option<IpAddr>, OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}
