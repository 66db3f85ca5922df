//! A connection to an upstream, of whichever transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::base::clock;
use crate::call::{Answer, Fault, Handshake, LogLevel, Session};
use crate::config::snapshot::RemoteKind;
use crate::jsonrpc::message::compose;
use crate::jsonrpc::text;
use crate::mcp::revision::Revision;
use crate::telemetry::meters::Held;
use crate::upstream::flight::Failure;
use crate::upstream::http::session::HttpConnection;
use crate::upstream::http::sse::{self, Posts};
use crate::upstream::http::unmet::Unmet;
use crate::upstream::http::way::Way;
use crate::upstream::leg::Leg;
use crate::upstream::line::{Loss, Met};
use crate::upstream::patron::{Patron, Voice};
use crate::upstream::replay;
use crate::upstream::stdio::child::Grace;
use crate::upstream::stdio::connection::StdioConnection;

/// How long a child gets for each step of its end (STDIO-04).
const GRACE: Duration = Duration::from_secs(5);
/// An event stream of HTTP+SSE that lived so long was a good one.
const STEADY: Duration = Duration::from_secs(10);

/// How long the last answers to an upstream's questions may take to leave.
const SETTLE: Duration = Duration::from_millis(500);

/// An open connection and who uses it.
pub struct Connection {
    transport: Transport,
    running: AtomicUsize,
    used: Mutex<Instant>,
    /// It did more than answer lists, so that it cannot become a session's (R-11).
    spent: AtomicBool,
    _counted: Held,
}

/// How a connection speaks.
pub enum Transport {
    /// To a server on the network, by Streamable HTTP.
    Http(Arc<HttpConnection>),
    /// To a server on the network, by HTTP+SSE.
    Sse(Met<Posts>),
    /// To a child.
    Stdio(Arc<StdioConnection>),
}

impl Transport {
    /// Meets a server on the network by the transport that its entry states, or else by the one that it turns out to
    /// speak: what refuses `initialize` as servers of HTTP+SSE do is tried as one (HTTP-38). What was found holds for
    /// this connection; a server that learns Streamable HTTP is found to speak it by the next.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn on_the_network(
        way: &Arc<Way>,
        offered: Revision,
        patron: Arc<Patron>,
        serves_catalog: bool,
    ) -> Result<Self, Failure> {
        let older = |patron| Box::pin(sse::open(Arc::clone(way), offered, patron, serves_catalog));
        let blame = &way.blame;
        if way.kind == RemoteKind::Sse {
            return older(patron).await.map(Self::Sse).map_err(|unmet| unmet.into_failure(blame));
        }
        let refusal = match HttpConnection::open(Arc::clone(way), offered, Arc::clone(&patron)).await {
            Ok(connection) => return Ok(Self::Http(connection)),
            Err(Unmet::Failed(failure)) => return Err(failure),
            Err(Unmet::Absent(refusal)) => refusal,
        };
        match older(patron).await {
            Ok(met) => Ok(Self::Sse(met)),
            Err(Unmet::Failed(failure)) => Err(failure),
            Err(Unmet::Absent(other)) => Err(Failure::plain(blame.unsent(format!(
                "it speaks neither Streamable HTTP ({refusal}) nor the older HTTP+SSE ({other})"
            )))),
        }
    }
}

impl Connection {
    /// A connection that was just opened.
    #[must_use]
    pub fn new(transport: Transport, counted: Held) -> Self {
        Self {
            transport,
            running: AtomicUsize::new(0),
            used: Mutex::new(clock::now()),
            spent: AtomicBool::new(false),
            _counted: counted,
        }
    }

    /// Makes a call.
    ///
    /// *On drop* before its end: the call is cancelled upstream.
    ///
    /// # Errors
    /// What failed.
    pub async fn call(&self, leg: Leg<'_>) -> Result<Answer, Fault> {
        let _running = Running::new(self);
        match &self.transport {
            Transport::Http(connection) => connection.call(leg).await,
            Transport::Sse(met) => met.call(leg).await,
            Transport::Stdio(connection) => connection.met.call(leg).await,
        }
    }

    /// What the upstream said when it was met.
    #[must_use]
    pub fn handshake(&self) -> Arc<Handshake> {
        match &self.transport {
            Transport::Http(connection) => connection.handshake(),
            Transport::Sse(met) => met.handshake(),
            Transport::Stdio(connection) => connection.met.handshake(),
        }
    }

    /// Whether the upstream tells callers apart by a session, which a line always is.
    #[must_use]
    pub fn has_session(&self) -> bool {
        match &self.transport {
            Transport::Http(connection) => connection.has_session(),
            Transport::Sse(_) | Transport::Stdio(_) => true,
        }
    }

    /// Whether it is to be used no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &self.transport {
            Transport::Http(connection) => connection.is_closed(),
            Transport::Sse(met) => met.is_closed(),
            Transport::Stdio(connection) => connection.met.is_closed(),
        }
    }

    /// Whom it works for.
    #[must_use]
    pub fn patron(&self) -> &Arc<Patron> {
        match &self.transport {
            Transport::Http(connection) => &connection.patron,
            Transport::Sse(met) => met.patron(),
            Transport::Stdio(connection) => connection.met.patron(),
        }
    }

    /// Asks for log messages from `level` on, if the upstream has any (LOG-02).
    pub async fn set_log_level(&self, level: LogLevel) {
        if let Some(request) = replay::set_level(&self.handshake(), level, || self.next_id()) {
            self.say(request).await;
        }
    }

    /// Gives up a subscription that nobody has any more (RES-09).
    pub async fn unsubscribe(&self, uri: &str) {
        let params = format!(r#"{{"uri":{}}}"#, text::quote(uri));
        self.say(compose(Some(self.next_id()), "resources/unsubscribe", &params)).await;
    }

    /// Tells that the client's roots have changed, if the upstream was told that it would hear of that (ROOT-03).
    pub async fn roots_changed(&self) {
        if self.patron().shown.roots_changed {
            self.say(compose(None, "notifications/roots/list_changed", "")).await;
        }
    }

    /// Sends a message that is no call.
    async fn say(&self, text: Bytes) {
        match &self.transport {
            Transport::Http(connection) => Arc::clone(connection).say(text).await,
            Transport::Sse(met) => met.say(text).await,
            Transport::Stdio(connection) => connection.met.say(text).await,
        }
    }

    fn next_id(&self) -> u64 {
        match &self.transport {
            Transport::Http(connection) => connection.next_id(),
            Transport::Sse(met) => met.next_id(),
            Transport::Stdio(connection) => connection.met.next_id(),
        }
    }

    /// Ends it in good order within `limit`.
    pub async fn close(&self, limit: Duration) {
        self.patron().settle(SETTLE.min(limit)).await;
        match &self.transport {
            // Ending late is as good as not being told.
            Transport::Http(connection) => drop(clock::within(limit, connection.close()).await),
            Transport::Sse(met) => met.close(),
            Transport::Stdio(connection) => {
                let step = GRACE.min(limit.mul_f64(0.4));
                connection.close(Grace { after_input: step, after_term: step }).await;
            }
        }
    }

    /// How it was lost, if it was, and that is for its upstream's restarts to count.
    #[must_use]
    pub fn loss(&self) -> Option<&Loss> {
        match &self.transport {
            Transport::Http(_) => None,
            // Idle streams are cut as a matter of course: one that lived for a while is opened again at once.
            Transport::Sse(met) => met.loss().filter(|loss| loss.lived < STEADY),
            Transport::Stdio(connection) => connection.met.loss(),
        }
    }

    /// Marks it as used for more than lists; says whether it was not before.
    pub fn spend(&self) -> bool {
        !self.spent.swap(true, Ordering::Relaxed)
    }

    /// Makes it that of a session, unless it has done what only another may see (R-11).
    pub fn adopt(&self, session: &Arc<Session>) -> bool {
        let free = self.spend();
        if free {
            self.patron().belong_to(session);
        }
        free
    }

    /// Brings it to where its session stands (LIFE-26).
    pub async fn replay(&self) {
        for request in replay::requests(self.patron(), &self.handshake(), || self.next_id()) {
            self.say(request).await;
        }
    }

    /// For how long nobody has used it.
    #[must_use]
    pub fn idle(&self, now: Instant) -> Duration {
        if self.running.load(Ordering::Relaxed) > 0 {
            return Duration::ZERO;
        }
        now.saturating_duration_since(*self.used.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A child ends with its connection; whoever reads a stream has to be told.
        match &self.transport {
            Transport::Http(connection) => connection.abandon(),
            Transport::Sse(met) => met.close(),
            Transport::Stdio(_) => {}
        }
    }
}

/// Counts a call as running.
struct Running<'a>(&'a Connection);

impl<'a> Running<'a> {
    fn new(connection: &'a Connection) -> Self {
        connection.running.fetch_add(1, Ordering::Relaxed);
        Self(connection)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) = clock::now();
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
