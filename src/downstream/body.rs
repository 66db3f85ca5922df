//! The bodies of our responses.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use http_body::{Body, Frame, SizeHint};

/// A response body.
pub enum OutBody {
    /// Parts that are all there; sent with a `Content-Length`.
    Parts(VecDeque<Bytes>),
    /// Parts as they come. An error breaks the connection off, so that a client never takes half an
    /// answer for a whole one.
    Stream(Parts),
}

/// A stream of parts.
pub type Parts = Pin<Box<dyn Stream<Item = Result<Bytes, Broken>> + Send>>;

/// The rest of a body cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer broke off")]
pub struct Broken;

impl From<Infallible> for Broken {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl OutBody {
    /// No body.
    #[must_use]
    pub fn empty() -> Self {
        Self::Parts(VecDeque::new())
    }

    /// One part.
    #[must_use]
    pub fn full(text: Bytes) -> Self {
        Self::Parts(VecDeque::from([text]))
    }

    /// The same body, each part of it told to `count`.
    #[must_use]
    pub fn counted(self, count: impl Fn(usize) + Send + 'static) -> Self {
        match self {
            Self::Parts(parts) => {
                count(parts.iter().map(Bytes::len).sum());
                Self::Parts(parts)
            }
            Self::Stream(parts) => {
                Self::stream(parts.inspect(move |part| count(part.as_ref().map_or(0, Bytes::len))))
            }
        }
    }

    /// Whether its parts come one by one.
    #[must_use]
    pub fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    /// A stream of parts.
    pub fn stream(parts: impl Stream<Item = Result<Bytes, Broken>> + Send + 'static) -> Self {
        Self::Stream(Box::pin(parts))
    }
}

impl Body for OutBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Parts(parts) => Poll::Ready(parts.pop_front().map(|part| Ok(Frame::data(part)))),
            Self::Stream(parts) => {
                parts.as_mut().poll_next(cx).map(|part| part.map(|part| part.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Parts(parts) if parts.is_empty())
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Parts(parts) => SizeHint::with_exact(parts.iter().map(|part| part.len() as u64).sum()),
            Self::Stream(_) => SizeHint::default(),
        }
    }
}
