//! The push channel: a stream that the upstream may send on when no call is under way (HTTP-16, HTTP-17).
//!
//! *Invariants.* An upstream without one is asked once and never again (F-001). The stream has no read
//! limit (F-002). After a gap the relay is told, since a change may have gone unseen (F-024).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method};
use tokio_util::future::FutureExt;

use crate::base::backoff::{Backoff, stretched};
use crate::base::clock;
use crate::upstream::http::aside;
use crate::upstream::http::content::Content;
use crate::upstream::http::events::{EventError, Events};
use crate::upstream::http::round::{Form, kind};
use crate::upstream::http::session::HttpConnection;
use crate::upstream::inbound;
use crate::upstream::patron::Bound;
use crate::upstream::report::Dropped;
use crate::upstream::unbound::Channel;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// Pauses between attempts to open the stream again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// A stream that lived so long was a good one.
const STEADY: Duration = Duration::from_secs(30);

/// What an attempt has brought.
enum Opened {
    Stream(Box<Content>),
    /// The session is gone.
    Gone,
    /// The stream cannot be resumed: it has to begin anew (HTTP-23).
    Forgotten,
    /// Try again later.
    NotNow,
    /// There is no such stream.
    Absent,
}

/// Keeps the push channel of a connection open until the connection is closed.
pub(super) async fn listen(connection: Arc<HttpConnection>) {
    let closed = connection.closed.clone();
    // Safe to cancel: what is dropped is the stream itself.
    Listener::new(connection).run().with_cancellation_token_owned(closed).await;
}

struct Listener {
    connection: Arc<HttpConnection>,
    backoff: Backoff,
    last_id: Option<Bytes>,
    retry: Option<Duration>,
    opened: bool,
    lost: bool,
    /// The session was begun anew for the stream's sake, and has not brought one yet.
    renewed: bool,
}

impl Listener {
    fn new(connection: Arc<HttpConnection>) -> Self {
        let backoff = Backoff::new(PAUSES.0, PAUSES.1);
        Self { connection, backoff, last_id: None, retry: None, opened: false, lost: false, renewed: false }
    }

    async fn run(mut self) {
        loop {
            let seen = self.connection.live().number;
            // In a box, like all that is over long before the stream is.
            match Box::pin(self.open()).await {
                Opened::Stream(content) => {
                    let channel = self.began();
                    let since = clock::now();
                    let renewed = self.read(*content, seen).await;
                    drop(channel);
                    if clock::now().saturating_duration_since(since) >= STEADY {
                        self.backoff.reset();
                    }
                    if renewed {
                        // Ids of the old session mean nothing to the new one.
                        self.last_id = None;
                        continue;
                    }
                }
                Opened::Gone => {
                    self.last_id = None;
                    if Box::pin(self.connection.renew(seen)).await.is_ok() {
                        self.renewed = true;
                        continue;
                    }
                    self.missed();
                }
                Opened::Forgotten => {
                    self.last_id = None;
                    continue;
                }
                Opened::NotNow => {
                    // Whoever cannot say it now may have forgotten the session by the time it can.
                    self.renewed = false;
                    self.missed();
                }
                Opened::Absent => {
                    self.missed();
                    self.connection.way.unbound.report.push_absent();
                    return;
                }
            }
            let pause = self.backoff.next().unwrap_or(PAUSES.1);
            clock::sleep(self.retry.map_or(pause, |asked| pause.max(stretched(asked)))).await;
        }
    }

    async fn open(&self) -> Opened {
        let live = self.connection.live();
        let mut headers = live.get.clone();
        if let Some(id) = &self.last_id
            && let Ok(value) = HeaderValue::from_maybe_shared(id.clone())
        {
            headers.insert(LAST_EVENT_ID, value);
        }
        let sent = AtomicBool::new(false);
        match self.connection.way.endpoint.send(Method::GET, &headers, Bytes::new(), &sent).await {
            Ok(received) if received.status.is_success() => match kind(&received.headers) {
                Some(Form::Events) => Opened::Stream(Box::new(received.content)),
                _ => Opened::Absent,
            },
            Ok(received) => {
                let status = received.status.as_u16();
                received.content.finish();
                match status {
                    // A point to resume from that it no longer knows.
                    400 if self.last_id.is_some() => Opened::Forgotten,
                    // F-015. A new session without a stream is no reason for yet another one.
                    400 | 404 if self.opened && live.session.is_some() && !self.renewed => Opened::Gone,
                    501 => Opened::Absent,
                    408 | 429 | 500.. => Opened::NotNow,
                    _ => Opened::Absent,
                }
            }
            Err(_) => Opened::NotNow,
        }
    }

    #[must_use]
    fn began(&mut self) -> Channel {
        let unbound = &self.connection.way.unbound;
        unbound.report.push_opened();
        // Open before the relay is told, which asks.
        let channel = unbound.channel();
        if std::mem::replace(&mut self.opened, true) {
            unbound.reconnected();
        }
        (self.lost, self.renewed) = (false, false);
        channel
    }

    /// An attempt to open the stream again has failed.
    fn missed(&mut self) {
        if self.opened && !std::mem::replace(&mut self.lost, true) {
            self.connection.way.unbound.connection_lost();
        }
    }

    /// Reads until the stream ends; says whether the session was renewed since `seen`.
    async fn read(&mut self, content: Content, seen: u64) -> bool {
        let connection = Arc::clone(&self.connection);
        let mut events = Events::new(content, connection.way.max_message);
        let renewed = connection.renewed.notified();
        tokio::pin!(renewed);
        // A renewal while the stream was being opened has been told already.
        let renewed = connection.live().number != seen
            || loop {
                // Both branches are safe to cancel.
                let event = tokio::select! {
                    () = &mut renewed => break true,
                    event = events.next() => event,
                };
                match event {
                    Some(Ok(data)) => self.take(data),
                    Some(Err(EventError::Oversized(_))) => {
                        connection.way.unbound.report.dropped(Dropped::Oversized)
                    }
                    Some(Err(EventError::Inflate(_))) | None => break false,
                }
            };
        self.last_id = events.last_id().or(self.last_id.take());
        self.retry = events.retry().or(self.retry);
        renewed
    }

    fn take(&self, data: Bytes) {
        let (messages, bad) = inbound::messages(data);
        if bad > 0 {
            self.connection.way.unbound.report.dropped(Dropped::Malformed);
        }
        for message in messages {
            aside::take(&self.connection, message, Bound::Unknown(Vec::new()));
        }
    }
}
