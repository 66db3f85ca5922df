//! What belongs to no call: where an upstream's notifications go.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use crate::call::{News, Observer, Question, Session, UpstreamId};
use crate::jsonrpc::Message;
use crate::mcp::methods::ItemKind;
use crate::upstream::report::Report;

/// Who is told, once there is somebody.
pub type Observers = Arc<OnceLock<Arc<dyn Observer>>>;

/// Tells the relay about one upstream.
#[derive(Clone)]
pub struct Unbound {
    upstream: UpstreamId,
    observers: Observers,
    channels: Arc<AtomicUsize>,
    /// Tells the operator.
    pub report: Report,
}

impl Unbound {
    /// News of `upstream`.
    #[must_use]
    pub fn new(upstream: UpstreamId, observers: Observers, report: Report) -> Self {
        Self { upstream, observers, channels: Arc::default(), report }
    }

    /// Counts a push channel as open until the guard is dropped.
    pub fn channel(&self) -> Channel {
        self.channels.fetch_add(1, Ordering::Relaxed);
        Channel(Arc::clone(&self.channels))
    }

    /// Whether any push channel is open.
    #[must_use]
    pub fn has_channel(&self) -> bool {
        self.channels.load(Ordering::Relaxed) > 0
    }

    /// Whose news these are.
    #[must_use]
    pub fn upstream(&self) -> UpstreamId {
        self.upstream
    }

    /// A notification for a session that belongs to none of its calls.
    pub fn told(&self, session: &Arc<Session>, notification: Message) {
        if let Some(observer) = self.observers.get() {
            observer.told(self.upstream, session, notification);
        }
    }

    /// A question to a session's client that belongs to none of its calls.
    pub fn asked(&self, session: &Arc<Session>, question: Question) {
        // Without an observer the question is dropped, and with it its asker: nobody answers.
        if let Some(observer) = self.observers.get() {
            observer.asked(session, question);
        }
    }

    /// A list has changed.
    pub fn list_changed(&self, kind: ItemKind, news: News<'_>) {
        if let Some(observer) = self.observers.get() {
            observer.list_changed(self.upstream, kind, news);
        }
    }

    /// What is known may be old.
    pub fn connection_lost(&self) {
        if let Some(observer) = self.observers.get() {
            observer.connection_lost(self.upstream);
        }
    }

    /// What is known may be old, and can be read again.
    pub fn reconnected(&self) {
        if let Some(observer) = self.observers.get() {
            observer.reconnected(self.upstream);
        }
    }
}

/// An open push channel.
#[derive(Debug)]
pub struct Channel(Arc<AtomicUsize>);

impl Drop for Channel {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
