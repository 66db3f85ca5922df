//! The bodies of event streams: what the stream's [`Reader`] is given, and comments while it is silent (HTTP-24).
//!
//! *On drop* of an answer's stream before its end: where the client can come back for the rest, a task goes on with it
//! (HTTP-11, HTTP-22); else see [`Exchange`].

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::unfold;
use http::Response;

use crate::base::{clock, tasks};
use crate::downstream::answer::event_stream;
use crate::downstream::body::{Broken, OutBody};
use crate::downstream::drive::{Driver, members};
use crate::downstream::exchange::{Exchange, Step};
use crate::downstream::legacy::outbox::{Outbox, RETRY, Reader};
use crate::downstream::legacy::track::Taken;
use crate::framing::sse;
use crate::telemetry::events::downstream::StreamOpened;
use crate::telemetry::meters::Held;
use crate::telemetry::words::StreamKind;

/// The response that carries a call as events; `first` was taken from it already.
pub fn answer(exchange: Exchange, first: Option<Step>, keep_alive: Duration) -> Response<OutBody> {
    let outbox = exchange.outbox().clone();
    let reader = outbox.open_answer(exchange.course());
    let mut driver = Driver::call(exchange, reader.track().clone());
    // The head alone would be held back by some proxies until a byte follows (F-004).
    let greeting = greet(&outbox, &reader).filter(|_| first.is_none());
    if first.is_some() {
        driver.take(first);
    }
    let open = StreamOpened { kind: StreamKind::Answer }.emit();
    body(Events { reader, driver: Some(driver), greeting, keep_alive, _open: open })
}

/// The response that carries a batch's answers as events, each with the notices that precede it (RPC-16);
/// `answers` are there already.
pub fn batch(
    outbox: &Arc<Outbox>,
    answers: Vec<Bytes>,
    exchanges: Vec<Exchange>,
    keep_alive: Duration,
) -> Response<OutBody> {
    let reader = outbox.open_answer(None);
    let driver = Driver::batch(members(answers, exchanges), reader.track().clone(), outbox.clone());
    let open = StreamOpened { kind: StreamKind::Answer }.emit();
    let greeting = Some(Bytes::from_static(sse::COMMENT));
    body(Events { reader, driver: Some(driver), greeting, keep_alive, _open: open })
}

/// The response that carries a standing stream, or the rest of any stream that is gone on with.
pub fn read(outbox: &Outbox, reader: Reader, kind: StreamKind, keep_alive: Duration) -> Response<OutBody> {
    let greeting = match kind {
        StreamKind::Standalone => greet(outbox, &reader),
        // An id was given before, or none ever is.
        StreamKind::Answer | StreamKind::Session | StreamKind::Resumed => {
            Some(Bytes::from_static(sse::COMMENT))
        }
    };
    let open = StreamOpened { kind }.emit();
    body(Events { reader, driver: None, greeting, keep_alive, _open: open })
}

/// What a new stream begins with: an id for the client to come back with, or a comment (HTTP-13).
fn greet(outbox: &Outbox, reader: &Reader) -> Option<Bytes> {
    if outbox.primes() {
        reader.track().prime(RETRY);
        return None;
    }
    Some(Bytes::from_static(sse::COMMENT))
}

fn body(events: Events) -> Response<OutBody> {
    let parts = unfold(events, async |mut events| {
        let part = events.next().await?;
        Some((part, events))
    });
    event_stream(OutBody::stream(parts))
}

/// A stream that is read.
struct Events {
    reader: Reader,
    /// Who writes it, if that is done here.
    driver: Option<Driver>,
    /// What comes first.
    greeting: Option<Bytes>,
    keep_alive: Duration,
    /// Counts the stream for as long as it is open.
    _open: Held,
}

impl Events {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        let Self { reader, driver, greeting, keep_alive, .. } = self;
        if let Some(greeting) = greeting.take() {
            return Some(Ok(greeting));
        }
        loop {
            // Before the look, so that no change is missed.
            let changed = reader.changed();
            match reader.take() {
                Taken::Part(part) => return Some(Ok(part)),
                Taken::Over => return None,
                Taken::Broken => return Some(Err(Broken)),
                Taken::Nothing => {}
            }
            let more = async {
                match driver {
                    Some(driver) => tokio::select! {
                        biased;
                        // Both are safe to cancel.
                        () = changed => {}
                        () = driver.step() => {}
                    },
                    None => changed.await,
                }
            };
            if patient(*keep_alive, more).await.is_err() {
                return Some(Ok(Bytes::from_static(sse::COMMENT)));
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let Some(driver) = self.driver.take().filter(|driver| !driver.is_over()) else { return };
        self.reader.leave();
        if !self.reader.track().is_lost() {
            tasks::spawn("answer without a client", driver.run()).detach();
        }
    }
}

/// Waits for what comes next, though not longer than the stream may be silent (HTTP-24).
pub(super) async fn patient<F: Future>(keep_alive: Duration, next: F) -> Result<F::Output, clock::Elapsed> {
    if keep_alive.is_zero() { Ok(next.await) } else { clock::within(keep_alive, next).await }
}
