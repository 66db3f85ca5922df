//! An answer into a response: JSON when it comes alone and soon, an event stream when something
//! precedes it or when it takes long (R-17, HTTP-09, HTTP-10).

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures_util::StreamExt;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Response, StatusCode};

use crate::base::{clock, ticks};
use crate::call::{Answer, Body, Fault, Outcome};
use crate::downstream::body::{Broken, OutBody};
use crate::downstream::events;
use crate::downstream::exchange::{Exchange, Step};
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
    if !accepts.json {
        return events::response(exchange, None, keep_alive);
    }
    let first = if accepts.events {
        tokio::select! {
            biased;
            // Both are safe to cancel.
            step = exchange.next() => step,
            () = ticks::until(clock::now() + PATIENCE) => return events::response(exchange, None, keep_alive),
        }
    } else {
        exchange.next().await
    };
    match first {
        // HTTP-12: a cancelled call has no answer, yet the exchange must end.
        None => cancelled(accepts),
        Some(Step::Notice(notice)) if accepts.events => events::response(exchange, Some(notice), keep_alive),
        Some(Step::Notice(_)) => {
            let id = exchange.id();
            match exchange.settle().await {
                None => cancelled(accepts),
                Some(Ok(answer)) => json(answer, &id).await,
                Some(Err(fault)) => rescue::failed_call(&fault, &id),
            }
        }
        Some(Step::Done(answer)) => json(answer, &exchange.id()).await,
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
async fn json(mut answer: Answer, id: &Id) -> Response<OutBody> {
    let plan = plan(&mut answer, id);
    let watch = answer.watch.take();
    match answer.body {
        Body::Stream(chunks) => {
            let mut rewriting = Rewriting::new(chunks, plan, watch);
            // Until the first part is there, the answer can still be an error.
            if let Err(fault) = rewriting.begin().await {
                return rescue::failed_call(&fault, id);
            }
            let parts = rewriting.parts();
            let mut response = rescue::json(StatusCode::OK, Bytes::new());
            *response.body_mut() = OutBody::stream(parts);
            response
        }
        body => match whole(body, plan) {
            Ok((parts, outcome)) => {
                if let Some(watch) = watch {
                    watch.ended(outcome);
                }
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
            let (text, findings) = Rewriter::whole(plan, message.text()).map_err(|error| broken(&error))?;
            Ok((VecDeque::from([text]), outcome(findings)))
        }
        Body::Stream(_) => Err(Fault::Internal),
    }
}

/// How an answer with these findings counts (F-102).
pub(super) fn outcome(findings: Findings) -> Outcome {
    match findings {
        Findings { error: true, .. } => Outcome::RpcError,
        Findings { is_error: true, .. } => Outcome::ToolError,
        _ => Outcome::Ok,
    }
}

fn broken(error: &RewriteError) -> Fault {
    Fault::Protocol { upstream: "upstream".into(), why: error.to_string().into() }
}

/// A large answer on its way: rewritten chunk by chunk.
pub(super) struct Rewriting {
    chunks: crate::call::Chunks,
    rewriter: Rewriter,
    watch: Option<Box<dyn crate::call::Watch>>,
    ready: VecDeque<Bytes>,
    over: bool,
}

impl Rewriting {
    pub(super) fn new(
        chunks: crate::call::Chunks,
        plan: Plan,
        watch: Option<Box<dyn crate::call::Watch>>,
    ) -> Self {
        Self { chunks, rewriter: Rewriter::new(plan), watch, ready: VecDeque::new(), over: false }
    }

    /// The parts of the text; an error when the rest cannot be had.
    pub(super) fn parts(self) -> impl futures_util::Stream<Item = Result<Bytes, Broken>> + Send + 'static {
        futures_util::stream::unfold(self, async |mut this| {
            let part = this.next().await?;
            Some((part, this))
        })
    }

    /// Waits for the first part.
    ///
    /// # Errors
    /// When there is none: the upstream's text is no answer.
    pub(super) async fn begin(&mut self) -> Result<(), Fault> {
        match self.next().await {
            Some(Ok(part)) => {
                self.ready.push_front(part);
                Ok(())
            }
            Some(Err(Broken)) | None => Err(broken(&RewriteError::Malformed)),
        }
    }

    async fn next(&mut self) -> Option<Result<Bytes, Broken>> {
        loop {
            if let Some(part) = self.ready.pop_front() {
                return Some(Ok(part));
            }
            if self.over {
                return None;
            }
            match self.chunks.next().await {
                Some(Ok(chunk)) => {
                    let mut out = Vec::with_capacity(3);
                    if self.rewriter.push(&chunk, &mut out).is_err() {
                        return self.fail();
                    }
                    self.ready.extend(out);
                }
                None if !self.rewriter.is_done() => return self.fail(),
                Some(Err(_)) => return self.fail(),
                None => match self.rewriter.finish() {
                    Ok(findings) => {
                        self.over = true;
                        if let Some(watch) = self.watch.take() {
                            watch.ended(outcome(findings));
                        }
                    }
                    Err(_) => return self.fail(),
                },
            }
        }
    }

    fn fail(&mut self) -> Option<Result<Bytes, Broken>> {
        self.over = true;
        self.ready.clear();
        if let Some(watch) = self.watch.take() {
            watch.ended(Outcome::UpstreamDown);
        }
        Some(Err(Broken))
    }
}
