//! A connection to an upstream as MCP sees it: handshake, session id, renewal, end.
//!
//! *Invariants.* `notifications/initialized` has been accepted before any other request is sent (LIFE-07).
//! A client never learns of the upstream's session id, nor of a renewal (F-014, F-018).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderMap};
use http::{HeaderName, HeaderValue, Method};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::base::{clock, tasks};
use crate::call::{Fault, Handshake};
use crate::mcp::revision::Revision;
use crate::upstream::deadline::Deadline;
use crate::upstream::exchange::Notices;
use crate::upstream::flight::{Failure, Flight};
use crate::upstream::handshake::{self, HandshakeError};
use crate::upstream::http::round::{Got, Round};
use crate::upstream::http::unmet::{Unmet, status_told};
use crate::upstream::http::way::Way;
use crate::upstream::patron::{Patron, Voice};
use crate::upstream::progress::Progress;
use crate::upstream::replay;
use crate::upstream::report::Dropped;

/// The session id's header.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");

/// How long the end of a session may take.
const FAREWELL: Duration = Duration::from_secs(2);
/// Messages of our own that one connection may have under way beside calls: answers and cancellations.
const CONTROL: usize = 64;

/// An open connection: in truth a session, or with upstreams that issue no id only the idea of one (HTTP-41).
pub struct HttpConnection {
    pub(super) way: Arc<Way>,
    live: ArcSwap<Live>,
    offered: Revision,
    /// For whom, and what comes unasked.
    pub patron: Arc<Patron>,
    ids: AtomicU64,
    /// Calls whose progress may come on another stream than their own.
    pub(super) sides: Mutex<HashMap<u64, Side>>,
    renewing: Flight<Arc<Live>>,
    /// Told after a renewal.
    pub(super) renewed: Notify,
    control: Arc<Semaphore>,
    /// Cancelled when it is to be used no more.
    pub(super) closed: CancellationToken,
}

/// Where progress of a call goes.
pub(super) struct Side {
    pub progress: Arc<Progress>,
    pub notices: Arc<Notices>,
}

/// What the last handshake has brought.
pub(super) struct Live {
    /// Counts the handshakes of a connection.
    pub number: u64,
    pub handshake: Arc<Handshake>,
    pub session: Option<HeaderValue>,
    /// The headers of each POST, whole.
    pub post: HeaderMap,
    /// The headers of each GET.
    pub get: HeaderMap,
}

impl HttpConnection {
    /// Meets the upstream and offers it `offered`.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn open(way: Arc<Way>, offered: Revision, patron: Arc<Patron>) -> Result<Arc<Self>, Unmet> {
        let nothing = Live {
            number: 0,
            handshake: Arc::new(Handshake {
                revision: offered,
                capabilities: Default::default(),
                server_info: Bytes::new(),
                instructions: None,
            }),
            session: None,
            post: way.headers(),
            get: HeaderMap::new(),
        };
        let connection = Arc::new(Self {
            way,
            live: ArcSwap::from_pointee(nothing),
            offered,
            patron,
            ids: AtomicU64::new(1),
            sides: Mutex::default(),
            renewing: Flight::default(),
            renewed: Notify::new(),
            control: Arc::new(Semaphore::new(CONTROL)),
            closed: CancellationToken::new(),
        });
        let live = connection.shake().await?;
        connection.live.store(Arc::new(live));
        connection.replay().await;
        tasks::spawn("upstream push channel", super::stream::listen(Arc::clone(&connection))).detach();
        Ok(connection)
    }

    /// What the upstream said when it was met.
    #[must_use]
    pub fn handshake(&self) -> Arc<Handshake> {
        Arc::clone(&self.live.load().handshake)
    }

    /// Whether the upstream has issued a session id.
    #[must_use]
    pub fn has_session(&self) -> bool {
        self.live.load().session.is_some()
    }

    pub(super) fn live(&self) -> Arc<Live> {
        self.live.load_full()
    }

    /// The number of its next request.
    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn sides(&self) -> MutexGuard<'_, HashMap<u64, Side>> {
        self.sides.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins the session anew, unless that has happened since `seen` (HTTP-28, F-014).
    ///
    /// # Errors
    /// Why it could not; all who wait share it.
    pub(super) async fn renew(self: &Arc<Self>, seen: u64) -> Result<Arc<Live>, Failure> {
        let live = self.live();
        if live.number != seen {
            return Ok(live);
        }
        // Its session was ended by us; a new one here would belong to nobody.
        if self.is_closed() {
            return Err(Failure::plain(self.way.blame.unsent("its connection is closed")));
        }
        let this = Arc::clone(self);
        let attempt = self.renewing.join("upstream renewal", move || async move {
            let live = this.live();
            if live.number != seen {
                return Ok(live);
            }
            this.way.endpoint.go_home();
            let shaken = this.shake().await;
            let live = Arc::new(shaken.map_err(|unmet| unmet.into_failure(&this.way.blame))?);
            this.live.store(Arc::clone(&live));
            this.way.unbound.report.renewed();
            // It may be another server by now (LIFE-26).
            this.way.unbound.reconnected();
            this.replay().await;
            this.renewed.notify_waiters();
            Ok(live)
        });
        attempt.await
    }

    /// The handshake, tried once more with another revision if the upstream asks for that (LIFE-05).
    async fn shake(self: &Arc<Self>) -> Result<Live, Unmet> {
        let started = clock::now();
        let deadline = Deadline::once(self.way.handshake, self.way.blame.clone());
        let number = self.live().number + 1;
        let live = match self.greet(&deadline, self.offered, number).await? {
            Ok(live) => live,
            Err(HandshakeError::Refused { common: Some(common), .. }) => {
                self.greet(&deadline, common, number).await?.map_err(|error| self.refused(&error))?
            }
            Err(error) => return Err(self.refused(&error).into()),
        };
        self.confirm(&deadline, &live).await?;
        let took = clock::now().saturating_duration_since(started);
        self.way.unbound.report.handshake_done(&live.handshake, took);
        Ok(live)
    }

    fn refused(&self, error: &HandshakeError) -> Failure {
        Failure::plain(self.way.blame.unsent(error.to_string()))
    }

    /// One `initialize` and its answer.
    async fn greet(
        self: &Arc<Self>,
        deadline: &Deadline,
        asked: Revision,
        number: u64,
    ) -> Result<Result<Live, HandshakeError>, Unmet> {
        /// An answer to `initialize` that is larger is none.
        const LARGEST: usize = 1 << 20;
        let id = self.next_id();
        let round = Round {
            id,
            safe: true,
            deadline,
            progress: None,
            notices: None,
            collect: LARGEST,
            session: false,
            sent: &AtomicBool::new(false),
        };
        let headers = self.way.headers();
        let (got, issued) =
            self.round(&headers, handshake::request(id, asked, self.patron.shown), &round).await?;
        let message = match got {
            Got::Message(message) => message,
            Got::Large(..) => {
                return Err(Failure::plain(self.way.blame.protocol("its handshake is too large")).into());
            }
            Got::SessionGone => {
                return Err(Failure::plain(self.way.blame.protocol("it wants a session")).into());
            }
            Got::Unspoken(status) => return Err(Unmet::Absent(status_told(status))),
        };
        let handshake = match handshake::read(&message, asked) {
            Ok(handshake) => handshake,
            Err(error) => return Ok(Err(error)),
        };
        Ok(Ok(self.live_of(number, handshake, issued)))
    }

    fn live_of(&self, number: u64, handshake: Handshake, issued: Option<HeaderValue>) -> Live {
        let session = issued.map(|mut id| {
            id.set_sensitive(true);
            id
        });
        let mut post = self.way.headers();
        post.insert(PROTOCOL_VERSION, HeaderValue::from_static(handshake.revision.name()));
        if let Some(id) = &session {
            post.insert(SESSION_ID, id.clone());
        }
        let mut get = post.clone();
        get.remove(CONTENT_TYPE);
        get.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        Live { number, handshake: Arc::new(handshake), session, post, get }
    }

    /// `notifications/initialized`. Servers answer it in all ways; what counts is that it has arrived (F-010).
    async fn confirm(&self, deadline: &Deadline, live: &Live) -> Result<(), Failure> {
        let sent = AtomicBool::new(false);
        let send = self.way.endpoint.send(Method::POST, &live.post, handshake::initialized(), &sent);
        match deadline.next(send).await.map_err(|fault| self.silent(deadline, fault))? {
            Ok(received) => {
                received.content.finish();
                Ok(())
            }
            Err(error) => Err(self.way.failure(error, true)),
        }
    }

    /// Brings a new session to where the old one was (LIFE-26).
    async fn replay(self: &Arc<Self>) {
        for request in replay::requests(&self.patron, &self.handshake(), || self.next_id()) {
            // Before the first call is sent, which may depend on it.
            Arc::clone(self).say(request).await;
        }
    }

    /// Sends a message that nobody waits for and that may be lost: a cancellation.
    pub(super) fn post_aside(self: &Arc<Self>, text: Bytes) {
        // Where there is no run time left, the process is about to end.
        if tokio::runtime::Handle::try_current().is_err() {
            return;
        }
        let Ok(permit) = Arc::clone(&self.control).try_acquire_owned() else {
            self.way.unbound.report.dropped(Dropped::Request);
            return;
        };
        let this = Arc::clone(self);
        tasks::spawn("upstream aside", async move {
            this.post(text).await;
            drop(permit);
        })
        .detach();
    }

    async fn post(&self, text: Bytes) {
        let live = self.live();
        let sent = AtomicBool::new(false);
        let send = self.way.endpoint.send(Method::POST, &live.post, text, &sent);
        // Whether it arrived or not, there is nobody to tell.
        if let Ok(Ok(received)) = clock::within(self.way.handshake.after, send).await {
            received.content.finish();
        }
    }

    /// Ends it: the streams close, and the upstream is told that its session is over (HTTP-29).
    pub async fn close(&self) {
        self.closed.cancel();
        let live = self.live();
        if live.session.is_none() {
            return;
        }
        let sent = AtomicBool::new(false);
        let farewell = self.way.endpoint.send(Method::DELETE, &live.get, Bytes::new(), &sent);
        // It may refuse (405), know nothing of it (404) or be gone: it is over all the same.
        if let Ok(Ok(received)) = clock::within(FAREWELL, farewell).await {
            received.content.finish();
        }
    }

    /// Closes its streams without a word to the upstream.
    pub fn abandon(&self) {
        self.closed.cancel();
    }

    /// Whether it is to be used no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.closed.is_cancelled()
    }

    /// The head of an answer did not come in time.
    pub(super) fn silent(&self, deadline: &Deadline, late: Fault) -> Failure {
        if deadline.is_of_the_way() {
            self.way.endpoint.silent();
        }
        Failure::plain(late)
    }
}

impl Voice for HttpConnection {
    fn say(self: Arc<Self>, text: Bytes) -> BoxFuture<'static, ()> {
        // Not among what may be lost: an upstream waits for it, or a call depends on it.
        Box::pin(async move { self.post(text).await })
    }

    fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    fn revision(&self) -> Revision {
        self.live.load().handshake.revision
    }
}
