//! A call's answer as an event stream: notices as they come, comments while it is silent, the answer last.

use std::collections::VecDeque;
use std::future::ready;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use futures_util::stream::{iter, once, select_all, unfold};
use http::Response;

use crate::base::clock;
use crate::call::{Answer, Body, Fault};
use crate::downstream::answer::{Rewriting, event_stream, plan, told, whole, whole_text};
use crate::downstream::body::{Broken, OutBody};
use crate::downstream::exchange::{Exchange, Step};
use crate::downstream::legacy::in_flight::Ticket;
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
    let stream = Events { work: Work::Call(exchange), ready, keep_alive, _open: open };
    let parts = unfold(stream, async |mut events| {
        let part = events.next().await?;
        Some((part, events))
    });
    event_stream(OutBody::stream(parts))
}

/// The response that carries a batch's answers as events, each with the notices that precede it (RPC-16);
/// `answers` are there already.
pub fn batch(answers: Vec<Bytes>, exchanges: Vec<Exchange>, keep_alive: Duration) -> Response<OutBody> {
    let open = StreamOpened { kind: StreamKind::Answer }.emit();
    let members = exchanges.into_iter().map(|exchange| Box::pin(unfold(Some(exchange), member)));
    // As above: a byte follows the head at once (F-004).
    let ready =
        once(ready(Bytes::from_static(sse::COMMENT))).chain(iter(answers).map(|answer| event(&answer)));
    let parts = Box::pin(ready.chain(select_all(members)));
    let kept_alive = unfold((parts, open), move |(mut parts, open)| async move {
        let part = patient(keep_alive, parts.next()).await;
        let part = part.unwrap_or(Some(Bytes::from_static(sse::COMMENT)))?;
        Some((Ok(part), (parts, open)))
    });
    event_stream(OutBody::stream(kept_alive))
}

/// The next event of a member of a batch.
async fn member(exchange: Option<Exchange>) -> Option<(Bytes, Option<Exchange>)> {
    let mut exchange = exchange?;
    let answer = match exchange.next().await? {
        Step::Notice(notice) => return Some((event(&notice), Some(exchange))),
        Step::Done(answer) => whole_text(answer, &exchange.id()).await,
        Step::Failed(fault) => Err(fault),
        Step::Ask(_) | Step::Pause(_) => return Some((Bytes::new(), Some(exchange))),
    };
    Some((event(&answer.unwrap_or_else(|fault| fault.to_error().answer(Some(&exchange.id())))), None))
}

/// Waits for what comes next, though not longer than the stream may be silent (HTTP-24).
async fn patient<F: Future>(keep_alive: Duration, next: F) -> Result<F::Output, clock::Elapsed> {
    if keep_alive.is_zero() { Ok(next.await) } else { clock::within(keep_alive, next).await }
}

/// One message as an event.
pub(super) fn event(message: &[u8]) -> Bytes {
    let mut out = BytesMut::new();
    sse::encode(&mut out, "message", None, message);
    out.freeze()
}

/// What the stream waits for.
enum Work {
    /// Notices and the answer.
    Call(Exchange),
    /// The first part of a large answer, until which it can still be an error (RPC-13).
    Begin(Box<Rewriting>, Id),
    /// The rest of it.
    Rest(Box<Rewriting>),
    /// Nothing.
    Over,
}

struct Events {
    work: Work,
    ready: VecDeque<Bytes>,
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
            match &mut self.work {
                Work::Call(exchange) => match patient(self.keep_alive, exchange.next()).await {
                    Ok(step) => self.take_step(step),
                    Err(clock::Elapsed) => return Some(Ok(Bytes::from_static(sse::COMMENT))),
                },
                Work::Begin(answer, _) => match patient(self.keep_alive, answer.begin()).await {
                    Ok(begun) => self.begin(begun),
                    Err(clock::Elapsed) => return Some(Ok(Bytes::from_static(sse::COMMENT))),
                },
                Work::Rest(answer) => {
                    let part = answer.next().await;
                    if !matches!(part, Some(Ok(_))) {
                        self.work = Work::Over;
                    }
                    let part = part.map(|part| part.map(sse::flatten).map_err(|_| Broken));
                    return part.or(Some(Ok(Bytes::from_static(sse::TAIL))));
                }
                Work::Over => return None,
            }
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
        if let Some(Step::Notice(notice)) = step {
            self.ready.push_back(event(&notice));
            self.take_more();
            return;
        }
        let Work::Call(exchange) = std::mem::replace(&mut self.work, Work::Over) else { return };
        match step {
            Some(Step::Done(answer)) => self.start_answer(answer, exchange.into_ticket()),
            Some(Step::Failed(fault)) => self.push_fault(&fault, &exchange.id()),
            // HTTP-12: the stream ends without an answer.
            Some(Step::Notice(_) | Step::Ask(_) | Step::Pause(_)) | None => {}
        }
    }

    /// Takes what has come meanwhile, without waiting.
    fn take_more(&mut self) {
        while self.ready.len() < 64
            && let Work::Call(exchange) = &mut self.work
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

    fn start_answer(&mut self, mut answer: Answer, ticket: Ticket) {
        let id = ticket.id().clone();
        let plan = plan(&mut answer, &id);
        let watch = answer.watch.take();
        match answer.body {
            Body::Stream(chunks) => {
                self.work = Work::Begin(Box::new(Rewriting::new(chunks, plan, watch, ticket)), id);
            }
            body => match told(watch, whole(body, plan)) {
                Ok(parts) => {
                    self.push_head();
                    self.ready.extend(parts.into_iter().map(sse::flatten));
                    self.ready.push_back(Bytes::from_static(sse::TAIL));
                }
                Err(fault) => self.push_fault(&fault, &id),
            },
        }
    }

    /// The first part of a large answer is ready, or it never will be.
    fn begin(&mut self, begun: Result<(), Fault>) {
        let Work::Begin(answer, id) = std::mem::replace(&mut self.work, Work::Over) else { return };
        match begun {
            Ok(()) => {
                self.push_head();
                self.work = Work::Rest(answer);
            }
            Err(fault) => self.push_fault(&fault, &id),
        }
    }

    fn push_head(&mut self) {
        let mut head = BytesMut::with_capacity(32);
        sse::head(&mut head, "message", None);
        self.ready.push_back(head.freeze());
    }

    fn push_fault(&mut self, fault: &Fault, id: &Id) {
        self.ready.push_back(event(&fault.to_error().answer(Some(id))));
    }
}
