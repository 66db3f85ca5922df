//! An answer into a response: JSON when it comes alone and soon, an event stream when something
//! precedes it, when it takes long, or when the client would rather have events (R-17, HTTP-09, HTTP-10).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::base::{clock, ticks};
use crate::call::{Answer, Body, Chunks, Fault, Outcome, Watch, gather};
use crate::downstream::body::{Broken, OutBody};
use crate::downstream::events;
use crate::downstream::exchange::{Exchange, Step};
use crate::downstream::legacy::in_flight::Ticket;
use crate::downstream::media::Accepts;
use crate::downstream::rescue;
use crate::jsonrpc::Id;
use crate::jsonrpc::rewrite::{Findings, Plan, RewriteError, Rewriter};

/// How long an answer may take, and a tick more, before the head of a stream is sent instead (R-17).
const PATIENCE: Duration = Duration::from_millis(100);

/// Answers a call.
///
/// *On drop*: see [`Exchange`].
pub async fn respond(mut exchange: Exchange, accepts: Accepts, keep_alive: Duration) -> Response<OutBody> {
    if accepts.events_first {
        return events::answer(exchange, None, keep_alive);
    }
    let first = if accepts.events {
        tokio::select! {
            biased;
            // Both are safe to cancel.
            step = exchange.next() => step,
            () = ticks::until(clock::now() + PATIENCE) => return events::answer(exchange, None, keep_alive),
        }
    } else {
        exchange.settle().await.map(|settled| settled.map_or_else(Step::Failed, Step::Done))
    };
    match first {
        // HTTP-12: a cancelled call has no answer, yet the exchange must end.
        None => cancelled(accepts),
        Some(step @ (Step::Notice(_) | Step::Ask(_) | Step::Pause(_))) => {
            events::answer(exchange, Some(step), keep_alive)
        }
        Some(Step::Done(answer)) => json(answer, exchange.into_ticket()).await,
        Some(Step::Failed(fault)) => rescue::failed_call(&fault, &exchange.id()),
    }
}

fn cancelled(accepts: Accepts) -> Response<OutBody> {
    if accepts.events { event_stream(OutBody::empty()) } else { rescue::bare(StatusCode::ACCEPTED) }
}

/// The head of an event stream, with the headers that keep proxies from holding it back (HTTP-24, F-004).
#[must_use]
pub fn event_stream(body: OutBody) -> Response<OutBody> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    response
}

/// An answer as a JSON body.
async fn json(mut answer: Answer, ticket: Ticket) -> Response<OutBody> {
    let id = ticket.id();
    let plan = plan(&mut answer, id);
    let watch = answer.watch.take();
    match answer.body {
        Body::Stream(chunks) => {
            let id = id.clone();
            let mut rewriting = Rewriting::new(chunks, plan, watch, ticket);
            // Until the first part is there, the answer can still be an error.
            if let Err(fault) = rewriting.begin().await {
                return rescue::failed_call(&fault, &id);
            }
            let parts = rewriting.parts();
            let mut response = rescue::json(StatusCode::OK, Bytes::new());
            *response.body_mut() = OutBody::stream(parts);
            response
        }
        body => match told(watch, whole(body, plan)) {
            Ok(parts) => {
                let mut response = rescue::json(StatusCode::OK, Bytes::new());
                *response.body_mut() = OutBody::Parts(parts);
                response
            }
            Err(fault) => rescue::failed_call(&fault, id),
        },
    }
}

/// What is to be replaced in an answer on its way to this client.
pub(super) fn plan(answer: &mut Answer, id: &Id) -> Plan {
    Plan { root: answer.rewrites, id: id.text().clone(), uris: answer.uris.take() }
}

/// The text of an answer that is all there.
///
/// # Errors
/// `Protocol` when an upstream's text is no answer.
pub(super) fn whole(body: Body, plan: Plan) -> Result<(VecDeque<Bytes>, Outcome), Fault> {
    match body {
        Body::Result(result) => {
            let mut head = BytesMut::with_capacity(40 + plan.id.len());
            head.put_slice(br#"{"jsonrpc":"2.0","id":"#);
            head.put_slice(&plan.id);
            head.put_slice(br#","result":"#);
            Ok((VecDeque::from([head.freeze(), result, Bytes::from_static(b"}")]), Outcome::Ok))
        }
        Body::Message(message) => {
            rewritten(plan, message.text()).map(|(text, outcome)| (VecDeque::from([text]), outcome))
        }
        Body::Stream(_) => Err(Fault::Internal),
    }
}

/// The whole text of an answer, for who cannot pass it on in parts.
///
/// # Errors
/// `Protocol` as above, and whatever the rest of it could not be had for.
pub(super) async fn whole_text(mut answer: Answer, id: &Id) -> Result<Bytes, Fault> {
    let plan = plan(&mut answer, id);
    let watch = answer.watch.take();
    let written = match answer.body {
        Body::Stream(chunks) => gather(chunks).await.and_then(|text| rewritten(plan, &text)),
        body => whole(body, plan).map(|(parts, outcome)| (Vec::from(parts).concat().into(), outcome)),
    };
    told(watch, written)
}

/// The text, once it is told how its call ended.
pub(super) fn told<T>(
    watch: Option<Box<dyn Watch>>,
    written: Result<(T, Outcome), Fault>,
) -> Result<T, Fault> {
    if let Some(watch) = watch {
        watch.ended(written.as_ref().map_or_else(Fault::outcome, |(_, outcome)| *outcome));
    }
    written.map(|(text, _)| text)
}

fn rewritten(plan: Plan, text: &Bytes) -> Result<(Bytes, Outcome), Fault> {
    let (text, findings) = Rewriter::whole(plan, text).map_err(|error| broken(&error))?;
    Ok((text, outcome(findings)))
}

/// How an answer with these findings counts (F-102).
fn outcome(findings: Findings) -> Outcome {
    match findings {
        Findings { error: true, .. } => Outcome::RpcError,
        Findings { is_error: true, .. } => Outcome::ToolError,
        _ => Outcome::Ok,
    }
}

/// What an upstream did whose text is no answer.
fn broken(error: &RewriteError) -> Fault {
    Fault::Protocol { upstream: "upstream".into(), why: error.to_string().into() }
}

/// A large answer on its way: rewritten chunk by chunk.
///
/// *Invariants.* Its call is in flight until the last part was taken, so that a drain waits for it and its session
/// does not count as idle (F-098, LIFE-27).
pub(super) struct Rewriting {
    chunks: Chunks,
    rewriter: Rewriter,
    watch: Option<Box<dyn Watch>>,
    ready: VecDeque<Bytes>,
    /// Taken at the end.
    ticket: Option<Ticket>,
}

impl Rewriting {
    pub(super) fn new(chunks: Chunks, plan: Plan, watch: Option<Box<dyn Watch>>, ticket: Ticket) -> Self {
        Self { chunks, rewriter: Rewriter::new(plan), watch, ready: VecDeque::new(), ticket: Some(ticket) }
    }

    /// The parts of the text; an error when the rest cannot be had.
    pub(super) fn parts(self) -> impl futures_util::Stream<Item = Result<Bytes, Broken>> + Send + 'static {
        futures_util::stream::unfold(self, async |mut this| {
            let part = this.next().await?.map_err(|_| Broken);
            Some((part, this))
        })
    }

    /// Waits until the first part is ready. Safe to cancel.
    ///
    /// # Errors
    /// Why there is none: until now the answer can be an error instead (RPC-13).
    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        match self.next().await {
            Some(Ok(part)) => {
                self.ready.push_front(part);
                Ok(())
            }
            Some(Err(fault)) => Err(fault),
            None => Err(broken(&RewriteError::Malformed)),
        }
    }

    /// The next part; an error is the last one. Safe to cancel.
    pub(super) async fn next(&mut self) -> Option<Result<Bytes, Fault>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Some(Ok(part));
            }
            self.ticket.as_ref()?;
            let outcome = match self.step().await {
                Ok(None) => continue,
                Ok(Some(findings)) => outcome(findings),
                Err(fault) => {
                    self.end(fault.outcome());
                    self.ready.clear();
                    return Some(Err(fault));
                }
            };
            self.end(outcome);
        }
    }

    /// Takes the next chunk; says what was found once there is none.
    async fn step(&mut self) -> Result<Option<Findings>, Fault> {
        if let Some(chunk) = self.chunks.next().await {
            let mut out = Vec::with_capacity(3);
            self.rewriter.push(&chunk?, &mut out).map_err(|error| broken(&error))?;
            self.ready.extend(out);
            return Ok(None);
        }
        self.rewriter.finish().map(Some).map_err(|error| broken(&error))
    }

    fn end(&mut self, outcome: Outcome) {
        self.ticket = None;
        if let Some(watch) = self.watch.take() {
            watch.ended(outcome);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use futures_util::{FutureExt, stream};
    use http_body_util::BodyExt;

    use super::*;
    use crate::call::Reply;
    use crate::downstream::legacy::in_flight::InFlight;
    use crate::downstream::legacy::outbox::tests::outbox;
    use crate::mcp::revision::Revision;

    const JSON: Accepts = Accepts { json: true, events: false, events_first: false };
    const EVENTS: Accepts = Accepts { json: false, events: true, events_first: true };

    fn calls() -> Arc<InFlight> {
        InFlight::new(outbox(Revision::V2024_11_05))
    }

    fn exchange(calls: &Arc<InFlight>, answer: Answer) -> Exchange {
        let ticket = calls.begin(Id::parse(Bytes::from("7")).unwrap()).unwrap();
        Exchange::new(std::future::ready(Ok(Reply::Done(answer))).boxed(), ticket)
    }

    struct Told(Arc<Mutex<Option<Outcome>>>);

    impl Watch for Told {
        fn ended(self: Box<Self>, outcome: Outcome) {
            *self.0.lock().unwrap() = Some(outcome);
        }
    }

    async fn text(response: Response<OutBody>) -> String {
        let mut body = response.into_body();
        let mut text = String::new();
        while let Some(frame) = body.frame().await {
            text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
        }
        text
    }

    /// RPC-13, F-021, F-102
    #[tokio::test]
    async fn rpc_13_a_large_answer_that_fails_before_its_first_part_is_that_fault() {
        for accepts in [JSON, EVENTS] {
            let (calls, told) = (calls(), Arc::default());
            let after = Duration::from_secs(1);
            let fault = Fault::Timeout { upstream: "alpha".into(), limit: "callIdle", after };
            let mut answer = Answer::of(Body::Stream(stream::iter([Err(fault)]).boxed()));
            answer.watch = Some(Box::new(Told(Arc::clone(&told))));
            let response = respond(exchange(&calls, answer), accepts, Duration::ZERO).await;
            assert_eq!(response.status(), 200);
            let text = text(response).await;
            assert!(text.contains("upstream_timeout") && text.contains("alpha"), "{text}");
            assert_eq!(*told.lock().unwrap(), Some(Outcome::Timeout));
            assert!(calls.is_empty());
        }
    }

    /// F-098, LIFE-27
    #[tokio::test]
    async fn f_098_a_large_answer_is_in_flight_until_its_last_part() {
        for accepts in [JSON, EVENTS] {
            let calls = calls();
            let parts = [r#"{"jsonrpc":"2.0","id":1,"result":{"content":["#, "]}}"];
            let chunks = stream::iter(parts.map(|part| Ok(Bytes::from_static(part.as_bytes()))));
            let answer = Answer::of(Body::Stream(chunks.boxed()));
            let response = respond(exchange(&calls, answer), accepts, Duration::ZERO).await;
            let mut body = response.into_body();
            let mut seen = String::new();
            while !seen.contains("content") {
                let part = body.frame().await.unwrap().unwrap().into_data().unwrap();
                seen.push_str(std::str::from_utf8(&part).unwrap());
            }
            assert_eq!(calls.len(), 1, "while it is sent");
            let rest = text(Response::new(body)).await;
            assert!(rest.starts_with("]}}"), "{rest}");
            assert!(calls.is_empty(), "when it is sent");
        }
    }

    /// RPC-13: whoever asks, an upstream's text that is no answer is the upstream's fault.
    #[tokio::test]
    async fn rpc_13_a_malformed_answer_is_one_fault_on_every_path() {
        let broken = || Answer::of(Body::Stream(stream::iter([Ok(Bytes::from_static(b"[1]"))]).boxed()));
        let id = Id::parse(Bytes::from("7")).unwrap();
        let fault = whole_text(broken(), &id).await.unwrap_err();
        assert!(matches!(fault, Fault::Protocol { .. }), "{fault:?}");
        let calls = calls();
        let text = text(respond(exchange(&calls, broken()), JSON, Duration::ZERO).await).await;
        assert!(text.contains("upstream_protocol_error"), "{text}");
    }

    /// F-004, HTTP-24: a batch's stream speaks at once and keeps speaking.
    #[tokio::test(start_paused = true)]
    async fn f_004_a_batch_speaks_at_once_and_keeps_speaking() {
        let calls = calls();
        let ticket = calls.begin(Id::parse(Bytes::from("8")).unwrap()).unwrap();
        let slow = async {
            clock::sleep(Duration::from_secs(40)).await;
            Ok(Reply::empty())
        };
        let exchanges = vec![exchange(&calls, Answer::result("{}")), Exchange::new(slow.boxed(), ticket)];
        let response = events::batch(
            &outbox(Revision::V2024_11_05),
            vec![Bytes::from_static(b"{}")],
            exchanges,
            Duration::from_secs(15),
        );
        let text = text(response).await;
        assert!(text.starts_with(':'), "{text}");
        assert_eq!(text.matches("data: ").count(), 3, "{text}");
        assert_eq!(text.lines().filter(|line| line.starts_with(':')).count(), 3, "{text}");
        assert!(calls.is_empty());
    }
}
