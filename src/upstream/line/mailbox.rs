//! A call that waits for its answer, and where the reader leaves what it has for it.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::task::AtomicWaker;

use crate::call::Fault;
use crate::jsonrpc::Message;
use crate::upstream::exchange::Notices;
use crate::upstream::progress::Progress;

/// A call that waits for its answer.
#[derive(Default)]
pub(super) struct Waiting {
    pub mailbox: Arc<Mailbox>,
    pub progress: Option<Progress>,
    /// Where goes what comes before the answer; none for the handshake.
    pub notices: Option<Arc<Notices>>,
}

/// Where the reader leaves what it has for one call.
#[derive(Default)]
pub(super) struct Mailbox {
    inner: Mutex<Inner>,
    waker: AtomicWaker,
}

#[derive(Default)]
struct Inner {
    lively: bool,
    last: Option<Sign>,
}

/// What is heard of a call.
pub(super) enum Sign {
    /// It is still at work.
    Alive,
    /// It is done.
    Answer(Result<Message, Fault>),
    /// The line has ended without its answer.
    Ended,
}

impl Mailbox {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn alive(&self) {
        self.lock().lively = true;
        self.waker.wake();
    }

    pub fn answer(&self, answer: Result<Message, Fault>) {
        self.put(Sign::Answer(answer));
    }

    pub fn end(&self) {
        self.put(Sign::Ended);
    }

    fn put(&self, last: Sign) {
        self.lock().last = Some(last);
        self.waker.wake();
    }

    /// The next sign of life. Safe to cancel.
    pub async fn next(&self) -> Sign {
        poll_fn(|cx| self.poll(cx)).await
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Sign> {
        self.waker.register(cx.waker());
        let mut inner = self.lock();
        if let Some(last) = inner.last.take() {
            return Poll::Ready(last);
        }
        if std::mem::take(&mut inner.lively) { Poll::Ready(Sign::Alive) } else { Poll::Pending }
    }
}
