//! One connection that speaks HTTP, and the body of an answer on it.
//!
//! *Invariants.* A connection for one request at a time has no task of its own: whoever waits for its
//! answer drives it, which saves two task switches per call. It is closed by dropping it.
//!
//! *On drop* of a [`Body`] before its end: the connection is closed, or for HTTP/2 the stream is reset.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderMap};
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::{TrySendError, http1, http2};
use hyper_util::rt::TokioIo;

use crate::base::{caps, tasks};
use crate::egress::wire::Wire;
use crate::upstream::http::connect::ConnectError;
use crate::upstream::http::pool::{Pool, Taken};

/// A request whose body is there as a whole.
pub type Whole = Request<Full<Bytes>>;

type Connection = http1::Connection<TokioIo<Wire>, Full<Bytes>>;

/// What a connection reads at once, at most: a large answer passes in parts that stay in the processor's cache and do not
/// add up over many connections. Larger than [`caps::HEADER_BYTES`], since a head has to fit.
const BUFFER: usize = 64 * 1024;

/// Why a request got no answer.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "the large variant goes straight into the next attempt")]
pub enum SendError {
    /// Not a byte of it was sent; here it is again.
    Unsent(Whole),
    /// It was sent, in part or whole.
    Lost(hyper::Error),
}

impl From<TrySendError<Whole>> for SendError {
    fn from(mut error: TrySendError<Whole>) -> Self {
        match error.take_message() {
            Some(request) => Self::Unsent(request),
            None => Self::Lost(error.into_error()),
        }
    }
}

/// A connection for one request at a time (HTTP/1.1).
pub struct Single {
    sender: http1::SendRequest<Full<Bytes>>,
    driver: Option<Pin<Box<Connection>>>,
    keep: Option<Duration>,
}

/// A connection for many requests at once (HTTP/2), driven by a task of its own.
#[derive(Debug, Clone)]
pub struct Shared {
    sender: http2::SendRequest<Full<Bytes>>,
}

/// Begins HTTP on a new connection.
///
/// # Errors
/// `Http` when the other side does not speak it.
pub async fn open(wire: Wire) -> Result<Taken, ConnectError> {
    if wire.is_http2() {
        let (sender, connection) = http2::Builder::new(Spawner)
            .max_header_list_size(u32::try_from(caps::HEADER_BYTES).unwrap_or(u32::MAX))
            .handshake(TokioIo::new(wire))
            .await?;
        // Its requests see each failure of it; the task has nobody to tell.
        tasks::spawn("upstream http2", async move { drop(connection.await) }).detach();
        return Ok(Taken::Shared(Shared { sender }));
    }
    let (sender, connection) = http1::Builder::new()
        .max_headers(caps::HEADER_LINES)
        .max_buf_size(BUFFER)
        .handshake(TokioIo::new(wire))
        .await?;
    Ok(Taken::Single(Single { sender, driver: Some(Box::pin(connection)), keep: None }))
}

impl Taken {
    /// Sends a request and waits for the head of its answer.
    ///
    /// # Errors
    /// See [`SendError`].
    pub async fn send(self, request: Whole, pool: &Arc<Pool>) -> Result<Response<Body>, SendError> {
        let (answer, single) = match self {
            Self::Single(mut single) => {
                let answer = single.send(request).await?;
                single.keep = promised(answer.headers()).or(single.keep);
                (answer, Some(single))
            }
            Self::Shared(mut shared) => (shared.send(request).await?, None),
        };
        Ok(answer.map(|incoming| Body { incoming, single, pool: Arc::clone(pool) }))
    }
}

// === impl Single ===

impl Single {
    /// For how long the peer keeps it open when it is idle, if it said.
    #[must_use]
    pub fn keep(&self) -> Option<Duration> {
        self.keep
    }

    async fn send(&mut self, request: Whole) -> Result<Response<Incoming>, SendError> {
        // An idle connection that the peer has closed shows it here, before anything is sent (F-088).
        let ready = poll_fn(|cx| {
            self.drive(cx);
            self.sender.poll_ready(cx)
        });
        if ready.await.is_err() {
            return Err(SendError::Unsent(request));
        }
        let mut answer = pin!(self.sender.try_send_request(request));
        let answer = poll_fn(|cx| {
            drive(&mut self.driver, cx);
            answer.as_mut().poll(cx)
        });
        Ok(answer.await?)
    }

    fn drive(&mut self, cx: &mut Context<'_>) {
        drive(&mut self.driver, cx);
    }
}

fn drive(driver: &mut Option<Pin<Box<Connection>>>, cx: &mut Context<'_>) {
    if let Some(connection) = driver
        && connection.as_mut().poll(cx).is_ready()
    {
        *driver = None;
    }
}

impl std::fmt::Debug for Single {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Single").finish_non_exhaustive()
    }
}

/// The idle time in a `Keep-Alive` header, less a second for the way.
fn promised(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("keep-alive")?.to_str().ok()?;
    let seconds = value.split(',').find_map(|part| part.trim().strip_prefix("timeout="))?;
    Some(Duration::from_secs(seconds.trim().parse::<u64>().ok()?.saturating_sub(1)))
}

// === impl Shared ===

impl Shared {
    /// Whether the connection is there.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        !self.sender.is_closed()
    }

    async fn send(&mut self, mut request: Whole) -> Result<Response<Incoming>, SendError> {
        // The authority stands in the target here.
        request.headers_mut().remove(HOST);
        if self.sender.ready().await.is_err() {
            return Err(SendError::Unsent(request));
        }
        Ok(self.sender.try_send_request(request).await?)
    }
}

/// Runs the tasks of HTTP/2.
#[derive(Debug, Clone, Copy)]
struct Spawner;

impl<F> hyper::rt::Executor<F> for Spawner
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, work: F) {
        tasks::spawn("upstream http2 stream", work).detach();
    }
}

// === impl Body ===

/// The body of an answer. At its end the connection goes back to the pool.
#[derive(Debug)]
pub struct Body {
    incoming: Incoming,
    single: Option<Single>,
    pool: Arc<Pool>,
}

impl Body {
    /// The next part; `None` at the end. Safe to cancel.
    ///
    /// # Errors
    /// When the connection breaks before the end.
    pub async fn chunk(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        poll_fn(|cx| self.poll_chunk(cx)).await
    }

    /// As [`chunk`](Self::chunk).
    pub fn poll_chunk(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, hyper::Error>>> {
        let mut driven = false;
        loop {
            match Pin::new(&mut self.incoming).poll_frame(cx) {
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => return Poll::Ready(Some(Ok(data))),
                    // Trailers say nothing to us.
                    Err(_) => continue,
                },
                Poll::Ready(Some(Err(error))) => {
                    self.single = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Poll::Ready(None) => {
                    if let Some(single) = self.single.take() {
                        self.pool.put(single);
                    }
                    return Poll::Ready(None);
                }
                Poll::Pending if driven => return Poll::Pending,
                Poll::Pending => {
                    let Some(single) = &mut self.single else { return Poll::Pending };
                    single.drive(cx);
                    driven = true;
                }
            }
        }
    }

    /// The length that the peer declared.
    #[must_use]
    pub fn declared(&self) -> Option<u64> {
        self.incoming.size_hint().exact()
    }
}
