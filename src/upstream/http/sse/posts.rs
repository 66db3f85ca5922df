//! Our messages on their way to an upstream of HTTP+SSE: each is a POST, answered as soon as it was taken.
//!
//! *Limits.* [`ASIDE`] POSTs that no call waits for, each for the limit of the handshake at most.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use url::Url;

use crate::base::{caps, clock, tasks};
use crate::call::Fault;
use crate::upstream::blame::Blame;
use crate::upstream::deadline::Limit;
use crate::upstream::flight::Failure;
use crate::upstream::http::post::{Endpoint, Received};
use crate::upstream::http::refusal::{Refusal, Refused};
use crate::upstream::http::way::Way;
use crate::upstream::line::{Outlet, Request, Unsent};

/// POSTs that may be under way at once without a call that waits for them.
const ASIDE: usize = 64;
/// How long a POST may still take whose call is over: its connection can be used again then.
const REST: Duration = Duration::from_secs(2);

/// Takes the messages of one connection to where its `endpoint` event said.
pub struct Posts(Arc<Office>);

struct Office {
    way: Arc<Way>,
    endpoint: Endpoint,
    headers: HeaderMap,
    aside: Arc<Semaphore>,
}

/// What a POST carries, as far as its refusal is judged by that.
#[derive(Clone, Copy)]
struct Carried {
    id: u64,
    safe: bool,
}

impl Posts {
    /// Messages go to `place`.
    ///
    /// # Errors
    /// When that cannot stand in a request.
    pub(super) fn new(way: &Arc<Way>, place: Url) -> Result<Self, Failure> {
        let endpoint = way.endpoint.beside(place).map_err(|error| {
            Failure::detailed(way.blame.protocol("its `endpoint` event holds no usable address"), error)
        })?;
        let (headers, aside) = (way.headers(), Arc::new(Semaphore::new(ASIDE)));
        Ok(Self(Arc::new(Office { way: Arc::clone(way), endpoint, headers, aside })))
    }
}

impl Outlet for Posts {
    async fn send(&self, text: Bytes, request: Request<'_>) -> Result<(), Unsent> {
        let Request { id, safe, sent } = request;
        let mark = Arc::new(AtomicBool::new(false));
        let (office, own) = (Arc::clone(&self.0), Arc::clone(&mark));
        let work = Box::pin(async move { office.post(text, Carried { id, safe }, &own).await });
        Leaving { work: Some(work), mark, sent, aside: &self.0.aside }.await
    }

    async fn say(&self, text: Bytes) -> Result<(), Unsent> {
        let Limit { key, after } = self.0.way.handshake;
        // No request of ours has this id.
        let carried = Carried { id: 0, safe: true };
        let sent = AtomicBool::new(false);
        let posted = clock::within(after, self.0.post(text, carried, &sent)).await;
        posted.unwrap_or_else(|_| Err(Unsent::Failed(Failure::plain(self.0.way.blame.timeout(key, after)))))
    }

    fn offer(&self, text: Bytes) -> bool {
        // Where there is no run time left, the process is about to end.
        if Handle::try_current().is_err() {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.0.aside).try_acquire_owned() else { return false };
        let this = Self(Arc::clone(&self.0));
        tasks::spawn("upstream aside", async move {
            // It may be lost.
            let _ = this.say(text).await;
            drop(permit);
        })
        .detach();
        true
    }

    fn lost(blame: &Blame, why: String, safe: bool) -> Fault {
        if safe { blame.broken(why) } else { blame.outcome_unknown() }
    }
}

impl Office {
    /// Posts a message; done when it was taken or refused.
    async fn post(&self, text: Bytes, carried: Carried, mark: &AtomicBool) -> Result<(), Unsent> {
        let Carried { id, safe } = carried;
        let received = self.endpoint.send(Method::POST, &self.headers, text, mark).await;
        let received = received.map_err(|error| Unsent::Failed(self.way.failure(error, safe)))?;
        if received.status.is_success() {
            // The answer comes on the stream; here there is at most a word that it was taken.
            received.content.finish();
            return Ok(());
        }
        let Received { status, headers, content } = received;
        self.way.unbound.report.refused(status.as_u16());
        let body = content.head(caps::ERROR_BODY_BYTES).await;
        let refused = Refused { status, headers: &headers, body: &body, id, safe, session: true };
        Err(match refused.meaning(&self.way.blame) {
            Refusal::Error(message) => Unsent::Answered(Box::new(message)),
            Refusal::SessionGone => Unsent::Over("it knows nothing of the connection any more"),
            Refusal::Fault(fault) => Unsent::Failed(Failure::plain(fault)),
        })
    }
}

/// A POST of a call.
///
/// *On drop* before its end: if it may have left, it is brought to its end in the background.
struct Leaving<'a> {
    work: Option<BoxFuture<'static, Result<(), Unsent>>>,
    mark: Arc<AtomicBool>,
    sent: &'a AtomicBool,
    aside: &'a Arc<Semaphore>,
}

impl Future for Leaving<'_> {
    type Output = Result<(), Unsent>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(work) = &mut this.work else { return Poll::Pending };
        let done = work.as_mut().poll(cx);
        this.sent.store(this.mark.load(Ordering::Relaxed), Ordering::Relaxed);
        if done.is_ready() {
            this.work = None;
        }
        done
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let Some(work) = self.work.take() else { return };
        let left = self.mark.load(Ordering::Relaxed);
        if left
            && Handle::try_current().is_ok()
            && let Ok(permit) = Arc::clone(self.aside).try_acquire_owned()
        {
            tasks::spawn("upstream post", async move {
                // Whatever comes of it, its call is over.
                let _ = clock::within(REST, work).await;
                drop(permit);
            })
            .detach();
        }
    }
}
