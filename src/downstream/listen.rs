//! Listening for clients: binding, accepting with a back-off, serving HTTP/1.1 and HTTP/2 on one port.
//!
//! *On drop* of the future: the listener closes; connections run on until they end by themselves.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::base::{caps, clock, tasks};
use crate::downstream::paced::{Pace, Paced, Patience, Served};
use crate::downstream::shore::Shore;
use crate::downstream::stack;
use crate::telemetry::events::downstream::{AcceptFailed, ConnectionOpened};

/// A head may take so long from its first byte (F-096), and a client may leave what we write unread for so long.
/// An idle connection may rest without limit: load balancers end those that they do not need.
const PATIENCE: Patience = Patience { head: Duration::from_secs(20), write: Duration::from_secs(60) };

/// How long a silent connection is believed in before the kernel asks whether its client is still there.
const PROBE: Duration = Duration::from_secs(60);

/// Connections that the kernel keeps for us until we accept them.
const BACKLOG: i32 = 4096;

/// The pause after a failed accept: a process out of descriptors needs a moment, not a busy loop (F-086).
const PAUSE: Duration = Duration::from_millis(100);

/// How long connections get to write what they have, once told to end.
const LAST: Duration = Duration::from_secs(2);

/// Streams of one HTTP/2 connection at a time.
const STREAMS: u32 = 256;

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

/// Accepts and serves until `stop`; returns when connections have finished what they had begun.
///
/// # Errors
/// When the socket cannot be used on this run time.
pub async fn run(
    shore: Arc<Shore>,
    socket: std::net::TcpListener,
    stop: CancellationToken,
) -> io::Result<()> {
    let listener = TcpListener::from_std(socket)?;
    let builder = Arc::new(builder(shore.config.http.header_limit));
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
                let work = serve(shore.clone(), builder.clone(), stream, peer, stop.clone());
                connections.spawn("client connection", work.map(move |()| drop(permit))).detach();
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
    Ok(())
}

/// Takes the next connection once there is room for it; those that come meanwhile wait in the kernel. Safe to cancel.
async fn accept(
    listener: &TcpListener,
    room: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let permit = room.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, peer) = listener.accept().await?;
    Ok((stream, peer, permit))
}

fn builder(header_limit: usize) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        // Ours tells a head that trickles from a connection that rests; the engine's does not.
        .header_read_timeout(None)
        .max_headers(caps::HEADER_LINES)
        // The smallest that the engine accepts.
        .max_buf_size(header_limit.max(8192));
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(Duration::from_secs(30))
        .max_header_list_size(u32::try_from(header_limit).unwrap_or(u32::MAX));
    builder
}

async fn serve(
    shore: Arc<Shore>,
    builder: Arc<Builder<TokioExecutor>>,
    stream: TcpStream,
    peer: SocketAddr,
    stop: CancellationToken,
) {
    let _open = ConnectionOpened.emit();
    // A connection that cannot be tuned still works.
    let _ = stream.set_nodelay(true);
    let _ = SockRef::from(&stream)
        .set_tcp_keepalive(&TcpKeepalive::new().with_time(PROBE).with_interval(PROBE / 4));
    let pace = Arc::new(Pace::default());
    let paced = Paced::new(stream, pace.clone(), PATIENCE);
    let service = service_fn(move |request: Request<Incoming>| {
        let (shore, serving) = (shore.clone(), pace.head_done(request.version()));
        async move {
            let response = stack::serve(shore, Some(peer.ip()), request).await;
            Ok::<_, Infallible>(response.map(|body| Served::new(body, serving)))
        }
    });
    let mut connection = pin!(builder.serve_connection(TokioIo::new(paced), service));
    // An error is the client's: it vanished, or it does not speak HTTP. Its requests were counted.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}
