//! A session's standing streams (GET): what changed is told on the newest one, once (HTTP-16 to HTTP-19).
//!
//! *Invariants.* Repeated changes of one list are one notice, also when they happened while no stream
//! was open (F-024, F-053). A notice goes to exactly one stream.
//! *On drop* of a stream: what was not told yet is told on the next newest.
//! *Limits.* [`caps::STREAMS_PER_SESSION`]; the oldest gives way to a new one.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::Stream;
use tokio::sync::Notify;

use crate::base::{caps, clock};
use crate::downstream::body::Broken;
use crate::framing::sse;
use crate::jsonrpc::message::compose;
use crate::mcp::methods::ItemKind;

/// The standing streams of one session.
#[derive(Debug, Default)]
pub struct Standing {
    /// Bits of [`bit`]: lists that have changed and were not told of yet.
    changed: AtomicU8,
    /// Newest last.
    streams: Mutex<Vec<Arc<Slot>>>,
    /// Whether the client may be told anything (LIFE-08).
    ready: AtomicBool,
}

#[derive(Debug, Default)]
struct Slot {
    ended: AtomicBool,
    wake: Notify,
}

const KINDS: [ItemKind; 3] = [ItemKind::Tool, ItemKind::Prompt, ItemKind::Resource];

/// Templates have no notice of their own, they share that of resources (RES-11).
fn bit(kind: ItemKind) -> u8 {
    match kind {
        ItemKind::Tool => 1,
        ItemKind::Prompt => 2,
        ItemKind::Resource | ItemKind::Template => 4,
    }
}

impl Standing {
    /// Notes that a list has changed, and wakes the newest stream.
    pub fn list_changed(&self, kind: ItemKind) {
        self.changed.fetch_or(bit(kind), Ordering::AcqRel);
        self.wake_newest();
    }

    /// Notes `notifications/initialized`; what has changed until then is told now (LIFE-07, LIFE-08).
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
        self.wake_newest();
    }

    /// Whether the client has said that it is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Whether a stream is open.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Ends all streams cleanly.
    pub fn end(&self) {
        for slot in self.lock().iter() {
            slot.ended.store(true, Ordering::Release);
            slot.wake.notify_one();
        }
    }

    /// Opens a stream with a comment at least every `keep_alive` (zero: never).
    pub fn open(self: &Arc<Self>, keep_alive: Duration) -> impl Stream<Item = Result<Bytes, Broken>> + use<> {
        let slot = Arc::new(Slot::default());
        let mut streams = self.lock();
        if streams.len() >= caps::STREAMS_PER_SESSION {
            let oldest = streams.remove(0);
            oldest.ended.store(true, Ordering::Release);
            oldest.wake.notify_one();
        }
        streams.push(slot.clone());
        drop(streams);
        let open = Open { standing: self.clone(), slot };
        // The comment goes out at once: some proxies hold the head back until a byte follows (F-004).
        let first = futures_util::stream::iter([Ok(Bytes::from_static(sse::COMMENT))]);
        futures_util::StreamExt::chain(
            first,
            futures_util::stream::unfold(open, move |open| open.next(keep_alive)),
        )
    }

    fn take(&self) -> Option<Bytes> {
        if !self.is_ready() {
            return None;
        }
        let changed = self.changed.swap(0, Ordering::AcqRel);
        let mut out = BytesMut::new();
        for kind in KINDS.into_iter().filter(|kind| changed & bit(*kind) != 0) {
            sse::encode(&mut out, "message", None, &compose(None, kind.changed(), ""));
        }
        (!out.is_empty()).then(|| out.freeze())
    }

    fn wake_newest(&self) {
        if let Some(newest) = self.lock().last() {
            newest.wake.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Slot>>> {
        // A panic while the lock was held cannot have left the list half changed.
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that is open.
struct Open {
    standing: Arc<Standing>,
    slot: Arc<Slot>,
}

impl Open {
    async fn next(self, keep_alive: Duration) -> Option<(Result<Bytes, Broken>, Self)> {
        loop {
            if self.slot.ended.load(Ordering::Acquire) {
                return None;
            }
            let newest = self.standing.lock().last().is_some_and(|slot| Arc::ptr_eq(slot, &self.slot));
            if newest && let Some(notices) = self.standing.take() {
                return Some((Ok(notices), self));
            }
            let woken = self.slot.wake.notified();
            if keep_alive.is_zero() {
                woken.await;
            } else if clock::within(keep_alive, woken).await.is_err() {
                return Some((Ok(Bytes::from_static(sse::COMMENT)), self));
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.standing.lock().retain(|slot| !Arc::ptr_eq(slot, &self.slot));
        if self.standing.changed.load(Ordering::Acquire) != 0 {
            self.standing.wake_newest();
        }
    }
}

/// A stream that counts as open until it is dropped.
pub struct Counted<S, G> {
    /// The stream.
    pub stream: Pin<Box<S>>,
    /// What is held as long.
    pub guard: G,
}

impl<S: Stream, G: Unpin> Stream for Counted<S, G> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        self.stream.as_mut().poll_next(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt, StreamExt};

    use super::*;

    fn text(part: Option<Result<Bytes, Broken>>) -> String {
        String::from_utf8(part.unwrap().unwrap().to_vec()).unwrap()
    }

    /// F-004, F-024, F-053, HTTP-18
    #[tokio::test]
    async fn changes_are_told_once_on_the_newest_stream() {
        let standing = Arc::new(Standing::default());
        standing.set_ready();
        standing.list_changed(ItemKind::Tool);
        standing.list_changed(ItemKind::Tool);
        standing.list_changed(ItemKind::Template);
        let mut old = Box::pin(standing.open(Duration::ZERO));
        assert!(text(old.next().await).starts_with(':'));
        let told = text(old.next().await);
        assert_eq!(told.matches("tools/list_changed").count(), 1);
        assert_eq!(told.matches("resources/list_changed").count(), 1);

        let mut new = Box::pin(standing.open(Duration::ZERO));
        new.next().await;
        standing.list_changed(ItemKind::Prompt);
        assert!(old.next().now_or_never().is_none());
        assert!(text(new.next().await).contains("prompts/list_changed"));

        // What the newest did not tell before it went is told by the other.
        standing.list_changed(ItemKind::Tool);
        drop(new);
        assert!(text(old.next().await).contains("tools/list_changed"));
        standing.end();
        assert!(old.next().await.is_none());
        assert!(
            !standing.is_open() || {
                drop(old);
                !standing.is_open()
            }
        );
    }

    /// LIFE-08
    #[tokio::test]
    async fn nothing_is_told_before_the_client_is_ready() {
        let standing = Arc::new(Standing::default());
        standing.list_changed(ItemKind::Tool);
        let mut stream = Box::pin(standing.open(Duration::ZERO));
        stream.next().await;
        assert!(stream.next().now_or_never().is_none());
        standing.set_ready();
        assert!(text(stream.next().await).contains("tools/list_changed"));
    }

    /// F-007
    #[tokio::test]
    async fn the_oldest_gives_way() {
        let standing = Arc::new(Standing::default());
        let mut first = Box::pin(standing.open(Duration::ZERO));
        first.next().await;
        let _more: Vec<_> =
            (0..caps::STREAMS_PER_SESSION).map(|_| Box::pin(standing.open(Duration::ZERO))).collect();
        assert!(first.next().await.is_none());
    }

    /// HTTP-24
    #[tokio::test(start_paused = true)]
    async fn silence_is_filled_with_comments() {
        let standing = Arc::new(Standing::default());
        let mut stream = Box::pin(standing.open(Duration::from_secs(15)));
        stream.next().await;
        assert!(text(stream.next().await).starts_with(':'));
    }
}
