//! Counts each call once, at its end, with its outcome (F-102).
//!
//! *On drop* of the future, or of a reply before its answer was written: the outcome is "cancelled".

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, Stream};
use tower::{Layer, Service};

use crate::call::{Answer, Call, Course, Fault, Item, Items, Outcome, Reply, UpstreamId, Watch};
use crate::telemetry::events::gate::CallStarted;
use crate::telemetry::meters::{CallGuard, CallMeter, UpstreamMeter};

/// The meters of the gateway itself and of its upstreams, by [`UpstreamId`].
pub struct Meters {
    /// For what the gateway answers.
    pub gateway: Arc<CallMeter>,
    /// For what upstreams answer.
    pub upstreams: Vec<Arc<UpstreamMeter>>,
}

impl Meters {
    fn of(&self, upstream: Option<UpstreamId>) -> &Arc<CallMeter> {
        let meter = upstream.and_then(|id| self.upstreams.get(id.index()));
        meter.map_or(&self.gateway, |meter| meter.calls())
    }
}

/// Counts calls.
#[derive(Clone)]
pub struct MeasureLayer {
    meters: Arc<Meters>,
}

/// See [`MeasureLayer`].
#[derive(Clone)]
pub struct Measure<S> {
    inner: S,
    meters: Arc<Meters>,
}

impl MeasureLayer {
    /// With these meters.
    #[must_use]
    pub fn new(meters: Arc<Meters>) -> Self {
        Self { meters }
    }
}

impl<S> Layer<S> for MeasureLayer {
    type Service = Measure<S>;

    fn layer(&self, inner: S) -> Self::Service {
        Measure { inner, meters: self.meters.clone() }
    }
}

impl<S> Service<Call> for Measure<S>
where
    S: Service<Call, Response = Reply, Error = Fault>,
    S::Future: Send + 'static,
{
    type Response = Reply;
    type Error = Fault;
    type Future = BoxFuture<'static, Result<Reply, Fault>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, call: Call) -> Self::Future {
        let method = call.method.class;
        let guard = CallStarted { method, meter: &self.meters.gateway }.emit();
        let counted =
            Counted { guard: Some(guard), meters: self.meters.clone(), course: call.course.clone() };
        self.inner.call(call).map(|reply| counted.reply(reply)).boxed()
    }
}

/// A call that is being counted.
struct Counted {
    guard: Option<CallGuard>,
    meters: Arc<Meters>,
    course: Arc<Course>,
}

impl Counted {
    fn reply(self, reply: Result<Reply, Fault>) -> Result<Reply, Fault> {
        match reply {
            Ok(Reply::Done(answer)) => Ok(Reply::Done(self.answer(answer))),
            Ok(Reply::Items(items)) => {
                Ok(Reply::Items(Box::pin(CountedItems { items, counted: Some(self) })))
            }
            Err(fault) => {
                self.failed(&fault);
                Err(fault)
            }
        }
    }

    fn answer(self, mut answer: Answer) -> Answer {
        answer.watch = Some(Box::new(self));
        answer
    }

    fn failed(mut self, fault: &Fault) {
        self.end(fault.outcome());
    }

    fn end(&mut self, outcome: Outcome) {
        if let Some(mut guard) = self.guard.take() {
            guard.route(self.meters.of(self.course.upstream()));
            guard.finish(outcome);
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.end(Outcome::Cancelled);
    }
}

impl Watch for Counted {
    fn ended(mut self: Box<Self>, outcome: Outcome) {
        self.end(outcome);
    }
}

struct CountedItems {
    items: Items,
    counted: Option<Counted>,
}

impl Stream for CountedItems {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        let item = std::task::ready!(self.items.as_mut().poll_next(cx));
        Poll::Ready(match (item, self.counted.take()) {
            (Some(Item::Done(answer)), Some(counted)) => Some(Item::Done(counted.answer(answer))),
            (Some(Item::Failed(fault)), Some(counted)) => {
                counted.failed(&fault);
                Some(Item::Failed(fault))
            }
            (item, counted) => {
                self.counted = counted;
                item
            }
        })
    }
}
