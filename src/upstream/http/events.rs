//! The event stream of an answer, event by event.

use std::time::Duration;

use bytes::Bytes;

use crate::framing::oversized::Oversized;
use crate::framing::sse::{Decoder, Event};
use crate::upstream::http::compression::InflateError;
use crate::upstream::http::content::{Content, ContentError};

/// The longest pause that an upstream may ask for before we come back.
const LONGEST_RETRY: Duration = Duration::from_mins(5);

/// Events as they come.
pub struct Events {
    content: Content,
    decoder: Decoder,
    ended: bool,
    lost: bool,
    retry: Option<Duration>,
}

/// Why an event is none.
#[derive(Debug, thiserror::Error)]
pub enum EventError {
    /// It was too large and has been skipped.
    #[error(transparent)]
    Oversized(#[from] Oversized),
    /// The stream cannot be decoded.
    #[error(transparent)]
    Inflate(#[from] InflateError),
}

impl Events {
    /// The events in `content`, each of at most `max` bytes.
    #[must_use]
    pub fn new(content: Content, max: usize) -> Self {
        Self { content, decoder: Decoder::new(max), ended: false, lost: false, retry: None }
    }

    /// The data of the next message; `None` when the stream has ended, cleanly or not. Safe to cancel.
    ///
    /// # Errors
    /// See [`EventError`]; after `Oversized` the stream goes on.
    pub async fn next(&mut self) -> Option<Result<Bytes, EventError>> {
        loop {
            match self.event().await? {
                Ok(event) if is_message(&event) => return Some(Ok(event.data)),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// As [`next`](Self::next), but events of every name, and empty ones.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub async fn event(&mut self) -> Option<Result<Event, EventError>> {
        loop {
            let event = if self.ended { self.decoder.finish() } else { self.decoder.next() };
            match event {
                Some(Ok(event)) => {
                    if let Some(retry) = event.retry {
                        self.retry = Some(Duration::from_millis(retry).min(LONGEST_RETRY));
                    }
                    return Some(Ok(event));
                }
                Some(Err(oversized)) => return Some(Err(oversized.into())),
                None if self.ended => return None,
                None => match self.content.next().await {
                    Some(Ok(chunk)) => self.decoder.push(chunk),
                    Some(Err(ContentError::Inflate(error))) => {
                        self.ended = true;
                        return Some(Err(error.into()));
                    }
                    Some(Err(ContentError::Lost(_))) => (self.ended, self.lost) = (true, true),
                    None => self.ended = true,
                },
            }
        }
    }

    /// The id to resume after, if there was one.
    #[must_use]
    pub fn last_id(&self) -> Option<Bytes> {
        self.decoder.last_id().filter(|id| !id.is_empty()).cloned()
    }

    /// The pause that was asked for before a reconnection.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Whether the upstream closed the stream of itself, for its client to come back (HTTP-14).
    #[must_use]
    pub fn ended_well(&self) -> bool {
        self.ended && !self.lost
    }

    /// Lets go of the stream (F-012).
    pub fn finish(self) {
        if !self.ended {
            self.content.finish();
        }
    }
}

/// Events of other names are not ours, and an empty one only carries an id (HTTP-13, HTTP-34).
#[must_use]
pub fn is_message(event: &Event) -> bool {
    let ours = event.name.as_deref().is_none_or(|name| name.is_empty() || name == b"message");
    ours && !event.data.is_empty()
}
