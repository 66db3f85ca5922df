//! A call's answer as an event stream: notices as they come, comments while it is silent, the answer last.

use std::collections::VecDeque;
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::{Stream, StreamExt};
use http::Response;

use crate::base::clock;
use crate::call::{Answer, Body, Fault};
use crate::downstream::answer::{Rewriting, event_stream, plan, whole};
use crate::downstream::body::{Broken, OutBody};
use crate::downstream::exchange::{Exchange, Step};
use crate::framing::sse;
use crate::jsonrpc::Id;
use crate::telemetry::events::downstream::StreamOpened;
use crate::telemetry::meters::Held;
use crate::telemetry::words::StreamKind;

/// The response that carries an exchange as events; `first` was taken from it already.
pub fn response(exchange: Exchange, first: Option<Bytes>, keep_alive: Duration) -> Response<OutBody> {
    let mut ready = VecDeque::new();
    match first {
        Some(notice) => ready.push_back(event(&notice)),
        // The head alone would be held back by some proxies until a byte follows (F-004).
        None => ready.push_back(Bytes::from_static(sse::COMMENT)),
    }
    let open = StreamOpened { kind: StreamKind::Answer }.emit();
    let stream = Events { exchange: Some(exchange), ready, tail: None, keep_alive, _open: open };
    let parts = futures_util::stream::unfold(stream, async |mut events| {
        let part = events.next().await?;
        Some((part, events))
    });
    event_stream(OutBody::stream(parts))
}

/// One message as an event.
pub(super) fn event(message: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    sse::encode(&mut out, "message", None, message);
    out.freeze()
}

type Tail = Pin<Box<dyn Stream<Item = Result<Bytes, Broken>> + Send>>;

struct Events {
    exchange: Option<Exchange>,
    ready: VecDeque<Bytes>,
    /// The rest of a large answer.
    tail: Option<Tail>,
    keep_alive: Duration,
    /// Counts the stream for as long as it is open.
    _open: Held,
}

impl Events {
    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            if let Some(part) = self.take_ready() {
                return Some(Ok(part));
            }
            if let Some(tail) = &mut self.tail {
                match tail.next().await {
                    Some(Ok(part)) => return Some(Ok(sse::flatten(part))),
                    Some(Err(broken)) => return Some(Err(broken)),
                    None => {
                        self.tail = None;
                        return Some(Ok(Bytes::from_static(sse::TAIL)));
                    }
                }
            }
            let exchange = self.exchange.as_mut()?;
            let step = if self.keep_alive.is_zero() {
                exchange.next().await
            } else {
                match clock::within(self.keep_alive, exchange.next()).await {
                    Ok(step) => step,
                    Err(clock::Elapsed) => return Some(Ok(Bytes::from_static(sse::COMMENT))),
                }
            };
            self.take_step(step);
        }
    }

    /// What is ready as one part, so that a burst of notices is one write.
    fn take_ready(&mut self) -> Option<Bytes> {
        if self.ready.len() <= 1 {
            return self.ready.pop_front();
        }
        Some(Vec::from(std::mem::take(&mut self.ready)).concat().into())
    }

    fn take_step(&mut self, step: Option<Step>) {
        match step {
            Some(Step::Notice(notice)) => {
                self.ready.push_back(event(&notice));
                self.take_more();
            }
            Some(Step::Done(answer)) => {
                let id = self.end();
                self.start_answer(answer, id);
            }
            Some(Step::Failed(fault)) => {
                let id = self.end();
                self.push_fault(&fault, id.as_ref());
            }
            // HTTP-12: the stream ends without an answer.
            None => self.exchange = None,
        }
    }

    /// Takes what has come meanwhile, without waiting.
    fn take_more(&mut self) {
        while self.ready.len() < 64
            && let Some(exchange) = &mut self.exchange
            && let Some(step) = futures_util::FutureExt::now_or_never(exchange.next())
        {
            match step {
                Some(Step::Notice(notice)) => self.ready.push_back(event(&notice)),
                other => {
                    self.take_step(other);
                    return;
                }
            }
        }
    }

    fn end(&mut self) -> Option<Id> {
        self.exchange.take().map(|exchange| exchange.id())
    }

    fn start_answer(&mut self, mut answer: Answer, id: Option<Id>) {
        let Some(id) = id else { return };
        let plan = plan(&mut answer, &id);
        let watch = answer.watch.take();
        let mut head = BytesMut::with_capacity(32);
        sse::head(&mut head, "message", None);
        match answer.body {
            Body::Stream(chunks) => {
                self.ready.push_back(head.freeze());
                self.tail = Some(Box::pin(Rewriting::new(chunks, plan, watch).parts()));
            }
            body => match whole(body, plan) {
                Ok((parts, outcome)) => {
                    if let Some(watch) = watch {
                        watch.ended(outcome);
                    }
                    self.ready.push_back(head.freeze());
                    self.ready.extend(parts.into_iter().map(sse::flatten));
                    self.ready.push_back(Bytes::from_static(sse::TAIL));
                }
                Err(fault) => self.push_fault(&fault, Some(&id)),
            },
        }
    }

    fn push_fault(&mut self, fault: &Fault, id: Option<&Id>) {
        self.ready.push_back(event(&fault.to_error().answer(id)));
    }
}
