//! A connection to an upstream, of whichever transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::call::{Answer, Fault, Handshake, LogLevel, Session};
use crate::telemetry::meters::Held;
use crate::upstream::http::session::HttpConnection;
use crate::upstream::leg::Leg;
use crate::upstream::stdio::child::Grace;
use crate::upstream::stdio::connection::{Loss, StdioConnection};

/// How long a child gets for each step of its end (STDIO-04).
const GRACE: Duration = Duration::from_secs(5);

/// An open connection and who uses it.
pub struct Connection {
    transport: Transport,
    running: AtomicUsize,
    used: Mutex<Instant>,
    /// It did more than answer lists, so that it cannot become a session's.
    spent: AtomicBool,
    _counted: Held,
}

/// How a connection speaks.
pub enum Transport {
    /// To a server on the network.
    Http(Arc<HttpConnection>),
    /// To a child.
    Stdio(Arc<StdioConnection>),
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
            Transport::Stdio(connection) => connection.call(leg).await,
        }
    }

    /// What the upstream said when it was met.
    #[must_use]
    pub fn handshake(&self) -> Arc<Handshake> {
        match &self.transport {
            Transport::Http(connection) => connection.handshake(),
            Transport::Stdio(connection) => connection.handshake(),
        }
    }

    /// Whether the upstream tells callers apart by a session; a child always does.
    #[must_use]
    pub fn has_session(&self) -> bool {
        match &self.transport {
            Transport::Http(connection) => connection.has_session(),
            Transport::Stdio(_) => true,
        }
    }

    /// Whether it is to be used no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &self.transport {
            Transport::Http(connection) => connection.is_closed(),
            Transport::Stdio(connection) => connection.is_closed(),
        }
    }

    /// Asks for log messages from `level` on, if the upstream has any (LOG-02).
    pub fn set_log_level(&self, level: LogLevel) {
        match &self.transport {
            Transport::Http(connection) => connection.set_log_level(level),
            Transport::Stdio(connection) => connection.set_log_level(level),
        }
    }

    /// Ends it in good order within `limit`.
    pub async fn close(&self, limit: Duration) {
        match &self.transport {
            // Ending late is as good as not being told.
            Transport::Http(connection) => drop(clock::within(limit, connection.close()).await),
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
            Transport::Stdio(connection) => connection.loss(),
        }
    }

    /// Marks it as used for more than lists; says whether it was not before.
    pub fn spend(&self) -> bool {
        !self.spent.swap(true, Ordering::Relaxed)
    }

    /// Makes it that of a session, unless it has done what only another may see.
    #[must_use]
    pub fn adopt(&self, session: &Arc<Session>) -> bool {
        let free = self.spend();
        if free {
            match &self.transport {
                Transport::Http(connection) => connection.belong_to(session),
                Transport::Stdio(connection) => {
                    if let Some(level) = session.log_level() {
                        connection.set_log_level(level);
                    }
                }
            }
        }
        free
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
        // A child ends with its connection; a push channel has to be told.
        if let Transport::Http(connection) = &self.transport {
            connection.abandon();
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
