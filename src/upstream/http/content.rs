//! The body of an answer, decoded and bounded.

use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::HeaderMap;

use crate::base::{caps, clock, tasks};
use crate::upstream::http::compression::{Inflate, InflateError};
use crate::upstream::http::link::Body;
use crate::upstream::report::Report;

/// For how long the rest of a body is read after its answer has come (F-012).
const DRAIN: Duration = Duration::from_secs(1);

/// Why a body ends too early.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// The connection broke.
    #[error(transparent)]
    Lost(#[from] hyper::Error),
    /// It cannot be decoded.
    #[error(transparent)]
    Inflate(#[from] InflateError),
}

/// The body of an answer.
///
/// *On drop* before its end: the connection is closed.
pub struct Content {
    body: Body,
    inflate: Option<Box<Inflate>>,
    report: Report,
}

impl Content {
    /// The body that came with `headers`.
    ///
    /// # Errors
    /// `Unknown` when it is encoded in a way that we do not read.
    pub fn new(body: Body, headers: &HeaderMap, report: Report) -> Result<Self, InflateError> {
        Ok(Self { body, inflate: Inflate::for_answer(headers)?.map(Box::new), report })
    }

    /// The next part; `None` at the end. Safe to cancel.
    ///
    /// # Errors
    /// See [`ContentError`].
    pub async fn next(&mut self) -> Option<Result<Bytes, ContentError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// As [`next`](Self::next).
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, ContentError>>> {
        loop {
            let chunk = match std::task::ready!(self.body.poll_chunk(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
                Some(Ok(chunk)) => chunk,
            };
            self.report.received(chunk.len());
            let Some(inflate) = &mut self.inflate else { return Poll::Ready(Some(Ok(chunk))) };
            match inflate.push(&chunk) {
                Ok(out) if out.is_empty() => {}
                Ok(out) => return Poll::Ready(Some(Ok(out))),
                Err(error) => return Poll::Ready(Some(Err(error.into()))),
            }
        }
    }

    /// How long it will be, where that is known.
    #[must_use]
    pub fn declared(&self) -> Option<u64> {
        self.body.declared().filter(|_| self.inflate.is_none())
    }

    /// At most `cap` bytes of it, waiting no longer than the peer keeps sending within the drain time.
    pub async fn head(mut self, cap: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let read = async {
            while let Some(Ok(chunk)) = self.next().await {
                out.extend_from_slice(&chunk[..chunk.len().min(cap - out.len())]);
                if out.len() == cap {
                    break;
                }
            }
        };
        // What came until then is enough to say why it failed.
        let _ = clock::within(DRAIN, read).await;
        out
    }

    /// Lets go of it: what little is left is read, so that the connection can be used again.
    pub fn finish(mut self) {
        let mut read = 0;
        loop {
            match self.next().now_or_never() {
                Some(Some(Ok(chunk))) if read <= caps::DRAIN_BYTES => read += chunk.len(),
                Some(_) => return,
                None => break,
            }
        }
        tasks::spawn("upstream drain", async move {
            let rest = async {
                while let Some(Ok(chunk)) = self.next().await {
                    read += chunk.len();
                    if read > caps::DRAIN_BYTES {
                        break;
                    }
                }
            };
            // Too long or too much: dropping the body closes the connection.
            let _ = clock::within(DRAIN, rest).await;
        })
        .detach();
    }
}
