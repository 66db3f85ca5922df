//! A client's socket that neither a trickling head (F-096) nor an unread answer holds for ever.
//!
//! *Invariants.* An idle connection may rest as long as it likes; a head of HTTP/1 that has begun has to be whole
//! within its limit. Whoever serves the connection says with [`Pace::head_done`] that a head was read. HTTP/2 keeps its
//! own pace once a request was read: its frames come while nothing is asked (F-002), and its pings find the dead.
//! *Limits.* A write of which nothing is accepted for too long ends the connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::Version;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::base::clock;
use crate::downstream::body::{Broken, OutBody};

/// How a connection goes on.
#[derive(Debug, Default)]
pub struct Pace {
    /// What the bytes that come next are.
    next: AtomicU8,
    /// A write waits for the client to read.
    blocked: AtomicBool,
}

/// Nothing has come since the last request was served.
const RESTING: u8 = 0;
/// A head has begun and is not whole.
const HEAD: u8 = 1;
/// A request is being served: its body, or the next request.
const SERVING: u8 = 2;
/// Frames of HTTP/2.
const FRAMES: u8 = 3;

impl Pace {
    /// A head is whole; its request is being served until the guard is dropped.
    #[must_use]
    pub fn head_done(self: &Arc<Self>, version: Version) -> Serving {
        self.next.store(if version == Version::HTTP_2 { FRAMES } else { SERVING }, Ordering::Relaxed);
        Serving(self.clone())
    }

    /// Frames of HTTP/2 come from now on, also while nothing is asked.
    pub fn frames(&self) {
        self.next.store(FRAMES, Ordering::Relaxed);
    }

    /// Whether something was written that the client has not taken yet.
    #[must_use]
    pub fn is_blocked(&self) -> bool {
        self.blocked.load(Ordering::Relaxed)
    }

    fn pass(&self, from: u8, to: u8) {
        // Where it is in another state, nothing is to be done.
        let _ = self.next.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A request is being served.
pub struct Serving(Arc<Pace>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.pass(SERVING, RESTING);
    }
}

/// A response's body, during which its request is still being served.
pub struct Served {
    body: OutBody,
    _serving: Serving,
}

impl Served {
    /// Whether its parts come one by one.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        self.body.is_stream()
    }

    /// Keeps the guard for as long as the body.
    #[must_use]
    pub fn new(body: OutBody, serving: Serving) -> Self {
        Self { body, _serving: serving }
    }
}

impl Body for Served {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// How long a connection may make no progress, and with what.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For a head, from its first byte.
    pub head: Duration,
    /// For a write, until a byte of it is accepted.
    pub write: Duration,
}

/// The socket.
pub struct Paced<S> {
    socket: S,
    /// Was read from it and is to be read again.
    unread: Bytes,
    pace: Arc<Pace>,
    patience: Patience,
    /// Runs while a head is incomplete; most are never seen incomplete.
    head: Option<Timer>,
    /// Runs while a write waits; most never do.
    write: Option<Timer>,
}

type Timer = BoxFuture<'static, ()>;

/// Waits on, for `limit` since the timer was first asked.
fn wait<T>(timer: &mut Option<Timer>, limit: Duration, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
    ready!(timer.get_or_insert_with(|| Box::pin(clock::sleep(limit))).as_mut().poll(cx));
    Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
}

impl<S> Paced<S> {
    /// A socket of which so much patience is had.
    pub fn new(socket: S, pace: Arc<Pace>, patience: Patience) -> Self {
        Self { socket, unread: Bytes::new(), pace, patience, head: None, write: None }
    }

    /// Gives back what was read last, to be read again.
    pub fn unread(&mut self, bytes: Bytes) {
        self.unread = bytes;
    }

    fn written(&mut self, written: Poll<io::Result<usize>>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            if self.write.take().is_some() {
                self.pace.blocked.store(false, Ordering::Relaxed);
            }
            return written;
        }
        self.pace.blocked.store(true, Ordering::Relaxed);
        wait(&mut self.write, self.patience.write, cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.unread.is_empty() {
            let most = this.unread.len().min(buf.remaining());
            buf.put_slice(&this.unread.split_to(most));
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(read) = Pin::new(&mut this.socket).poll_read(cx, buf) {
            this.pace.pass(RESTING, HEAD);
            return Poll::Ready(read);
        }
        if this.pace.next.load(Ordering::Relaxed) != HEAD {
            this.head = None;
            return Poll::Pending;
        }
        wait(&mut this.head, this.patience.head, cx)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.written(written, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        self.written(written, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    const PATIENCE: Patience = Patience { head: Duration::from_secs(20), write: Duration::from_secs(60) };

    fn pair() -> (Paced<DuplexStream>, Arc<Pace>, DuplexStream) {
        let (near, far) = duplex(64);
        let pace = Arc::new(Pace::default());
        (Paced::new(near, pace.clone(), PATIENCE), pace, far)
    }

    async fn take(socket: &mut Paced<DuplexStream>, bytes: usize) {
        socket.read_exact(&mut vec![0; bytes]).await.unwrap();
    }

    /// Whether the connection is still open after a long silence.
    async fn rests(socket: &mut Paced<DuplexStream>) -> bool {
        clock::within(Duration::from_hours(1), socket.read_u8()).await.is_err()
    }

    /// F-096
    #[tokio::test(start_paused = true)]
    async fn f_096_a_head_may_not_trickle_and_an_idle_connection_may_rest() {
        let (mut socket, pace, mut far) = pair();
        assert!(rests(&mut socket).await);
        far.write_all(b"GET /").await.unwrap();
        take(&mut socket, 5).await;
        let serving = pace.head_done(Version::HTTP_11);
        far.write_all(b"body").await.unwrap();
        take(&mut socket, 4).await;
        assert!(rests(&mut socket).await, "a body is not a head");
        drop(serving);
        assert!(rests(&mut socket).await, "an idle connection may rest");
        far.write_all(b"GET /").await.unwrap();
        take(&mut socket, 5).await;
        let began = clock::now();
        assert_eq!(socket.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(clock::now().duration_since(began), PATIENCE.head);
    }

    /// F-002, F-004: what an HTTP/2 client sends while it only listens, as acknowledgements of pings, is no head.
    #[tokio::test(start_paused = true)]
    async fn f_002_frames_between_requests_do_not_end_a_connection_of_http2() {
        let (mut socket, pace, mut far) = pair();
        far.write_all(b"PRI *").await.unwrap();
        take(&mut socket, 5).await;
        drop(pace.head_done(Version::HTTP_2));
        for _ in 0..3 {
            far.write_all(b"frame").await.unwrap();
            take(&mut socket, 5).await;
            assert!(rests(&mut socket).await);
        }
    }

    /// R-16, HTTP-24: only a client that takes nothing at all is given up.
    #[tokio::test(start_paused = true)]
    async fn r_16_a_client_that_stops_reading_is_given_up() {
        let (mut socket, _pace, mut far) = pair();
        socket.write_all(&[0; 64]).await.unwrap();
        for _ in 0..10 {
            let mut write = Box::pin(socket.write_all(b"more"));
            assert!((&mut write).now_or_never().is_none());
            clock::sleep(PATIENCE.write - Duration::from_secs(1)).await;
            far.read_exact(&mut [0; 4]).await.unwrap();
            write.await.unwrap();
        }
        let began = clock::now();
        assert_eq!(socket.write_all(b"more").await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(clock::now().duration_since(began), PATIENCE.write);
    }
}
