//! The body of a stream of HTTP+SSE: its first event, silence until there is a session, then what that has to say.
//!
//! *On drop*: the session ends, and its calls are cancelled (LSSE-04).

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::Response;
use tokio::sync::oneshot;

use crate::base::clock;
use crate::downstream::answer::event_stream;
use crate::downstream::body::{Broken, OutBody};
use crate::downstream::events::patient;
use crate::downstream::legacy::outbox::Reader;
use crate::downstream::old_sse::table::Outcome;
use crate::downstream::shore::Shore;
use crate::framing::sse;
use crate::telemetry::events::downstream::StreamOpened;
use crate::telemetry::meters::Held;
use crate::telemetry::words::{SessionEnd, StreamKind};

/// The response that carries the stream; `greeting` comes first.
pub(super) fn response(
    shore: Arc<Shore>,
    handle: Box<str>,
    told: oneshot::Receiver<Outcome>,
    greeting: Bytes,
) -> Response<OutBody> {
    let until = clock::now() + shore.config.sessions.handshake;
    let open = StreamOpened { kind: StreamKind::Session }.emit();
    let stream = Stream { shore, handle, phase: Phase::Greeting { greeting, told, until }, _open: open };
    let parts = unfold(stream, async |mut stream| {
        let part = stream.next().await?;
        Some((part, stream))
    });
    event_stream(OutBody::stream(parts))
}

struct Stream {
    shore: Arc<Shore>,
    handle: Box<str>,
    phase: Phase,
    /// Counts the stream for as long as it is open.
    _open: Held,
}

enum Phase {
    /// Nothing was written yet.
    Greeting { greeting: Bytes, told: oneshot::Receiver<Outcome>, until: Instant },
    /// The client is to initialize its session.
    Handshake { told: oneshot::Receiver<Outcome>, until: Instant },
    /// It has one.
    Session(Reader),
    /// Nothing follows.
    Over,
}

impl Stream {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        let keep_alive = self.shore.config.http.keep_alive;
        let comment = || Some(Ok(Bytes::from_static(sse::COMMENT)));
        loop {
            match std::mem::replace(&mut self.phase, Phase::Over) {
                Phase::Greeting { greeting, told, until } => {
                    self.phase = Phase::Handshake { told, until };
                    return Some(Ok(greeting));
                }
                Phase::Handshake { mut told, until } => {
                    let rest = until.saturating_duration_since(clock::now());
                    // A stream that is no session in time ends here.
                    match patient(keep_alive, clock::within(rest, &mut told)).await {
                        Ok(Ok(Ok(Outcome::Session(reader)))) => self.phase = Phase::Session(reader),
                        Ok(Ok(Ok(Outcome::Failure(words)))) => return Some(Ok(words)),
                        Ok(_) => return None,
                        Err(clock::Elapsed) => {
                            self.phase = Phase::Handshake { told, until };
                            return comment();
                        }
                    }
                }
                Phase::Session(reader) => {
                    let next = patient(keep_alive, reader.next()).await;
                    self.phase = Phase::Session(reader);
                    return next.unwrap_or_else(|clock::Elapsed| comment());
                }
                Phase::Over => return None,
            }
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let Some(session) = self.shore.streams.close(&self.handle) else { return };
        let end = if self.shore.is_draining() { SessionEnd::Drained } else { SessionEnd::Left };
        self.shore.sessions.close(&session, end);
    }
}
