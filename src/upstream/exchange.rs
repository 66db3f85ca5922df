//! One call under way: what drives it, what it has to say and to ask on the way, and the reply that all become.
//!
//! *On drop* of the reply: the driver is dropped, which cancels the call upstream.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::task::AtomicWaker;
use tokio_util::sync::CancellationToken;

use crate::base::caps;
use crate::call::{Answer, Fault, Item, Question, Reply, Session};
use crate::jsonrpc::Message;
use crate::upstream::signs::Signs;

/// Does the work of a call and ends with its answer.
pub type Driver = Pin<Box<dyn Future<Output = Result<Answer, Fault>> + Send>>;

/// How many notices of a call may wait for a client that does not read, or does not read yet: a burst of an upstream
/// comes at once, and as many log messages as one may have are not to be lost (LOG-05).
///
/// Beyond it, or beyond [`caps::WAITING_BYTES`], progress is thinned out, keeping the latest (PROG-05), and other notices
/// are lost.
const WAITING: usize = 256;

/// What comes of one call before its answer, on its way to the client.
#[derive(Debug, Default)]
pub struct Notices {
    /// Whose call it is; none for the gateway's own.
    pub session: Option<Arc<Session>>,
    /// Signs of life that do not come on the call's own stream, and the standing still of its clock.
    pub signs: Arc<Signs>,
    /// Made by the first question.
    over: OnceLock<CancellationToken>,
    inner: Mutex<Inner>,
    waker: AtomicWaker,
}

#[derive(Debug, Default)]
struct Inner {
    queue: VecDeque<Item>,
    /// Of the notices in the queue.
    bytes: usize,
    any: bool,
    ended: bool,
}

impl Inner {
    fn has_room(&self) -> bool {
        self.queue.len() < WAITING && self.bytes < caps::WAITING_BYTES
    }

    fn push(&mut self, item: Item) {
        self.bytes += size(&item);
        self.queue.push_back(item);
    }

    fn taken(&mut self, item: Option<Item>) -> Option<Item> {
        self.bytes -= item.as_ref().map_or(0, size);
        item
    }
}

fn size(item: &Item) -> usize {
    match item {
        Item::Notice(text) => text.len(),
        Item::Raw(message) => message.text().len(),
        // Others are few, and bounded elsewhere.
        _ => 0,
    }
}

impl Notices {
    /// Those of a call of this session.
    #[must_use]
    pub fn of(session: Option<Arc<Session>>) -> Self {
        Self { session, ..Self::default() }
    }

    /// Adds progress that is ready for the client.
    pub fn add(&self, notice: Bytes) {
        self.signs.alive();
        self.put(|inner| {
            if !inner.has_room()
                && let Some(at) = inner.queue.iter().rposition(|item| matches!(item, Item::Notice(_)))
            {
                let older = inner.queue.remove(at);
                inner.taken(older);
            }
            inner.push(Item::Notice(notice));
        });
    }

    /// Adds a notification of another kind, as the upstream wrote it; says whether there was room.
    pub fn raw(&self, notification: Message) -> bool {
        self.signs.alive();
        let mut room = true;
        self.put(|inner| {
            room = inner.has_room();
            if room {
                inner.push(Item::Raw(notification));
            }
        });
        room
    }

    /// Adds a question; what comes back is cancelled when the call is over. There are few of them: whoever asks bounds
    /// their number.
    pub fn ask(&self, question: Question) -> CancellationToken {
        let over = self.over.get_or_init(CancellationToken::new).clone();
        self.put(|inner| inner.push(Item::Ask(question)));
        // It may have ended before there was anything to cancel.
        if self.lock().ended {
            over.cancel();
        }
        over
    }

    /// Notes that the call is over: what it has asked needs no answer any more (CANC-06).
    pub(super) fn end(&self) {
        self.lock().ended = true;
        if let Some(over) = self.over.get() {
            over.cancel();
        }
    }

    /// Adds that the upstream has closed its stream for so long.
    pub fn pause(&self, retry: Option<Duration>) {
        self.put(|inner| inner.push(Item::Pause(retry)));
    }

    fn put(&self, change: impl FnOnce(&mut Inner)) {
        {
            let mut inner = self.lock();
            change(&mut inner);
            inner.any = true;
        }
        self.waker.wake();
    }

    /// Whether the client may have seen something already, so that the call cannot begin anew.
    #[must_use]
    pub fn any(&self) -> bool {
        self.lock().any
    }

    pub(super) fn take(&self) -> Option<Item> {
        let mut inner = self.lock();
        let item = inner.queue.pop_front();
        inner.taken(item)
    }

    fn is_empty(&self) -> bool {
        self.lock().queue.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for the first thing that comes back: the answer alone, or a stream that begins with a notice.
///
/// # Errors
/// What the driver ends with, when nothing came before it.
pub async fn reply(driver: Driver, notices: Arc<Notices>) -> Result<Reply, Fault> {
    let mut exchange = Exchange { driver: Some(driver), notices, end: None };
    poll_fn(|cx| exchange.poll_begin(cx)).await;
    if exchange.notices.is_empty()
        && let Some(end) = exchange.end.take()
    {
        return end.map(Reply::Done);
    }
    Ok(Reply::Items(Box::pin(exchange)))
}

struct Exchange {
    driver: Option<Driver>,
    notices: Arc<Notices>,
    end: Option<Result<Answer, Fault>>,
}

impl Exchange {
    /// Moves on until there is a notice or the end.
    fn poll_begin(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.notices.waker.register(cx.waker());
        if let Some(driver) = &mut self.driver
            && let Poll::Ready(end) = driver.as_mut().poll(cx)
        {
            self.driver = None;
            self.end = Some(end);
            self.notices.end();
        }
        if self.notices.is_empty() && self.end.is_none() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.notices.end();
    }
}

impl Stream for Exchange {
    type Item = Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Item>> {
        loop {
            // What came before the end goes before it (RPC-28).
            if let Some(item) = self.notices.take() {
                return Poll::Ready(Some(item));
            }
            match self.end.take() {
                Some(Ok(answer)) => return Poll::Ready(Some(Item::Done(answer))),
                Some(Err(fault)) => return Poll::Ready(Some(Item::Failed(fault))),
                None if self.driver.is_none() => return Poll::Ready(None),
                None => {}
            }
            if self.poll_begin(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;
    use crate::call::Answer;

    fn answer() -> Result<Answer, Fault> {
        Ok(Answer::result("{}"))
    }

    #[tokio::test]
    async fn nothing_before_the_answer_makes_no_stream() {
        let reply = reply(Box::pin(async { answer() }), Arc::default()).await.unwrap();
        assert!(matches!(reply, Reply::Done(_)));
    }

    /// RPC-28, PROG-05
    #[tokio::test]
    async fn notices_go_before_the_end_in_their_order() {
        let notices = Arc::new(Notices::default());
        let driver = {
            let notices = Arc::clone(&notices);
            async move {
                notices.add(Bytes::from("1"));
                tokio::task::yield_now().await;
                notices.add(Bytes::from("2"));
                Err(Fault::Internal)
            }
        };
        let Reply::Items(items) = reply(Box::pin(driver), notices).await.unwrap() else {
            panic!("a notice came first")
        };
        let seen: Vec<_> = items
            .map(|item| match item {
                Item::Notice(text) => String::from_utf8_lossy(&text).into_owned(),
                Item::Failed(_) => "end".into(),
                _ => "done".into(),
            })
            .collect()
            .await;
        assert_eq!(seen, ["1", "2", "end"]);
    }

    #[test]
    fn a_client_that_does_not_read_costs_little() {
        let notices = Notices::default();
        for n in 0..1000 {
            notices.add(Bytes::from(n.to_string()));
        }
        assert_eq!(notices.lock().queue.len(), WAITING);
        let raw = Message::parse(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"m"}"#)).unwrap();
        assert!(!notices.raw(raw), "nor do other notices");
        let last = notices.lock().queue.pop_back();
        assert!(matches!(last, Some(Item::Notice(text)) if text == "999"), "the latest is kept");
    }

    /// LOG-05
    #[test]
    fn large_notices_are_bounded_by_their_size() {
        let notices = Notices::default();
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"m","params":{{"data":"{}"}}}}"#, "x".repeat(300 << 10));
        let raw = Message::parse(Bytes::from(text)).unwrap();
        let taken = (0..10).filter(|_| notices.raw(raw.clone())).count();
        assert_eq!(taken, 4, "the last one goes beyond a mebibyte");
        assert!(notices.take().is_some());
        assert!(notices.raw(raw.clone()), "there is room again");
        while notices.take().is_some() {}
        assert_eq!(notices.lock().bytes, 0);
    }
}
