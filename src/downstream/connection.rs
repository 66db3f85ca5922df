//! One client connection: which version of HTTP it speaks, and who serves it.
//!
//! *Invariants.* A standing stream of HTTP/1.1 leaves the engine and is the last response of its connection (see
//! [`standing`]).
//! *On drop*: the connection is closed, whatever it was doing.

use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use http::{Method, Request, Response, Version};
use http_body::Body as _;
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::base::caps;
use crate::downstream::paced::{Pace, Paced, Patience, Served};
use crate::downstream::preface::{self, Preface};
use crate::downstream::shore::Shore;
use crate::downstream::{stack, standing};

/// A head may take so long from its first byte (F-096), and a client may leave what we write unread for so long.
/// An idle connection may rest without limit: load balancers end those that they do not need.
const PATIENCE: Patience = Patience { head: Duration::from_secs(20), write: Duration::from_secs(60) };

/// Streams of one HTTP/2 connection at a time.
const STREAMS: u32 = 256;

/// The settings of both versions.
pub struct Engines {
    one: http1::Builder,
    two: http2::Builder<TokioExecutor>,
}

impl Engines {
    /// Those for heads of at most `header_limit` bytes.
    #[must_use]
    pub fn new(header_limit: usize) -> Self {
        let mut one = http1::Builder::new();
        // Ours tells a head that trickles from a connection that rests; the engine's does not.
        one.header_read_timeout(None)
            .max_headers(caps::HEADER_LINES)
            // The smallest that the engine accepts.
            .max_buf_size(header_limit.max(8192));
        let mut two = http2::Builder::new(TokioExecutor::new());
        two.timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS)
            .keep_alive_interval(Duration::from_secs(30))
            .max_header_list_size(u32::try_from(header_limit).unwrap_or(u32::MAX));
        Self { one, two }
    }
}

/// A response that leaves the engine.
type Left = Response<Served>;

/// Serves a connection until it ends, or, once `stop` is cancelled, until it has finished what it had begun.
pub async fn serve<S>(
    shore: Arc<Shore>,
    engines: Arc<Engines>,
    socket: S,
    peer: Option<IpAddr>,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let pace = Arc::new(Pace::default());
    let mut socket = Paced::new(socket, pace.clone(), PATIENCE);
    let preface = tokio::select! {
        biased;
        preface = preface::read(&mut socket) => preface,
        () = stop.cancelled() => return,
    };
    // Boxed, so that the task is as small as what it becomes.
    match preface {
        // The client vanished.
        Err(_) => {}
        Ok(Preface::Two(start)) => {
            socket.unread(start);
            pace.frames();
            Box::pin(two(shore, engines, (socket, pace), peer, stop)).await;
        }
        Ok(Preface::One(start)) => {
            socket.unread(start);
            let engine = Box::pin(one(shore, engines, (socket, pace), peer, stop));
            if let Some((socket, response)) = engine.await {
                let _ = standing::write(socket, response).await;
            }
        }
    }
}

/// Serves HTTP/2.
async fn two<S>(
    shore: Arc<Shore>,
    engines: Arc<Engines>,
    (socket, pace): (Paced<S>, Arc<Pace>),
    peer: Option<IpAddr>,
    stop: CancellationToken,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let (shore, serving) = (shore.clone(), pace.head_done(request.version()));
        async move {
            let response = stack::serve(shore, peer, request).await;
            Ok::<_, Infallible>(response.map(|body| Served::new(body, serving)))
        }
    });
    let mut connection = pin!(engines.two.serve_connection(TokioIo::new(socket), service));
    // An error is the client's, and its requests were counted.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Serves HTTP/1 until the connection ends, or a stream is to go on without the engine.
async fn one<S>(
    shore: Arc<Shore>,
    engines: Arc<Engines>,
    (socket, pace): (Paced<S>, Arc<Pace>),
    peer: Option<IpAddr>,
    stop: CancellationToken,
) -> Option<(Paced<S>, Left)>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let left = Arc::new(Mutex::new(None));
    let leaving = left.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (shore, serving, left) = (shore.clone(), pace.head_done(request.version()), leaving.clone());
        let last = may_be_last(&request) && !pace.is_blocked();
        async move {
            let response = stack::serve(shore, peer, request).await.map(|body| Served::new(body, serving));
            if last && response.body().is_stream() {
                *left.lock().unwrap_or_else(PoisonError::into_inner) = Some(response);
                return pending().await;
            }
            Ok::<_, Infallible>(response)
        }
    });
    let mut connection = engines.one.serve_connection(TokioIo::new(socket), service);
    let done = tokio::select! {
        biased;
        done = engine(&mut connection, &left) => done,
        () = stop.cancelled() => {
            Pin::new(&mut connection).graceful_shutdown();
            engine(&mut connection, &left).await
        }
    };
    done.map(|response| (connection.into_parts().io.into_inner(), response))
}

/// Drives the engine until its end, or until a response has left it. Safe to cancel.
async fn engine<S, H>(
    connection: &mut http1::Connection<TokioIo<Paced<S>>, H>,
    left: &Mutex<Option<Left>>,
) -> Option<Left>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    H: Service<Request<Incoming>, Response = Left, Error = Infallible>,
{
    poll_fn(|cx| {
        if Pin::new(&mut *connection).poll(cx).is_ready() {
            return Poll::Ready(None);
        }
        // What was written before it has been flushed by the engine, or the socket would be blocked.
        match left.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(response) => Poll::Ready(Some(response)),
            None => Poll::Pending,
        }
    })
    .await
}

/// Whether the response to a request may be the last of its connection, if it is a stream: the client of a GET listens
/// for as long as there is a session, and sends nothing meanwhile.
fn may_be_last(request: &Request<Incoming>) -> bool {
    request.method() == Method::GET && request.version() == Version::HTTP_11 && request.body().is_end_stream()
}
