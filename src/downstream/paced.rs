//! A client's socket on which a request's head must not trickle (F-096).
//!
//! *Invariants.* An idle connection may rest as long as it likes; a head that has begun has to be whole within its
//! limit. Whoever serves the connection says with [`Pace::head_done`] that a head was read.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::base::clock;

/// Whether a head is being read.
#[derive(Debug, Default)]
pub struct Pace {
    /// Bytes have come since the last head was whole.
    begun: AtomicBool,
    /// A request is being served: what comes now is its body.
    serving: AtomicBool,
}

impl Pace {
    /// A head is whole; its request is being served until the guard is dropped.
    #[must_use]
    pub fn head_done(self: &Arc<Self>) -> Serving {
        self.begun.store(false, Ordering::Relaxed);
        self.serving.store(true, Ordering::Relaxed);
        Serving(self.clone())
    }
}

/// A request is being served.
pub struct Serving(Arc<Pace>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.serving.store(false, Ordering::Relaxed);
    }
}

/// The socket.
pub struct Paced<S> {
    socket: S,
    pace: Arc<Pace>,
    limit: Duration,
    /// Runs while a head is incomplete; most are never seen incomplete.
    timer: Option<BoxFuture<'static, ()>>,
}

impl<S> Paced<S> {
    /// A socket whose heads have `limit` to arrive.
    pub fn new(socket: S, pace: Arc<Pace>, limit: Duration) -> Self {
        Self { socket, pace, limit, timer: None }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(read) = Pin::new(&mut this.socket).poll_read(cx, buf) {
            if !this.pace.serving.load(Ordering::Relaxed) {
                this.pace.begun.store(true, Ordering::Relaxed);
            }
            return Poll::Ready(read);
        }
        if !this.pace.begun.load(Ordering::Relaxed) {
            this.timer = None;
            return Poll::Pending;
        }
        let limit = this.limit;
        let timer = this.timer.get_or_insert_with(|| Box::pin(clock::sleep(limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write_vectored(cx, parts)
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
