//! A large JSON answer on its way through, part by part.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;

use crate::call::{Body, Fault};
use crate::upstream::deadline::Deadline;
use crate::upstream::http::content::Content;
use crate::upstream::http::round::{Round, too_large};
use crate::upstream::http::session::HttpConnection;

/// A large JSON answer on its way through.
///
/// *On drop* before its end: the connection is closed.
pub(super) struct Large {
    parts: std::vec::IntoIter<Bytes>,
    content: Option<Box<Content>>,
    room: usize,
    safe: bool,
    deadline: Deadline,
    connection: Arc<HttpConnection>,
}

impl Large {
    pub(super) fn new(
        parts: Vec<Bytes>,
        content: Box<Content>,
        connection: &Arc<HttpConnection>,
        round: &Round<'_>,
    ) -> Self {
        let room = connection.way.max_message.saturating_sub(parts.iter().map(Bytes::len).sum());
        Self {
            parts: parts.into_iter(),
            content: Some(content),
            room,
            safe: round.safe,
            deadline: round.deadline.clone(),
            connection: Arc::clone(connection),
        }
    }

    pub(super) fn into_body(self) -> Body {
        Body::Stream(Box::pin(stream::unfold(self, |mut large| async move {
            let part = large.next().await?;
            Some((part, large))
        })))
    }

    async fn next(&mut self) -> Option<Result<Bytes, Fault>> {
        if let Some(part) = self.parts.next() {
            return Some(Ok(part));
        }
        let content = self.content.as_mut()?;
        let fault = match self.deadline.next(content.next()).await {
            Ok(None) => {
                self.content = None;
                return None;
            }
            Ok(Some(Ok(chunk))) if chunk.len() <= self.room => {
                self.room -= chunk.len();
                return Some(Ok(chunk));
            }
            Ok(Some(Ok(_))) => too_large(&self.connection.way.blame, self.connection.way.max_message),
            Ok(Some(Err(error))) => self.connection.cut(&error, self.safe),
            Err(late) => late,
        };
        self.content = None;
        Some(Err(fault))
    }
}
