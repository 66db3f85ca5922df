//! A connection to an upstream, of whichever transport.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::base::clock;
use crate::call::{Answer, Fault, Handshake, LogLevel};
use crate::telemetry::meters::Held;
use crate::upstream::http::session::HttpConnection;
use crate::upstream::leg::Leg;

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
        }
    }

    /// What the upstream said when it was met.
    #[must_use]
    pub fn handshake(&self) -> Arc<Handshake> {
        match &self.transport {
            Transport::Http(connection) => connection.handshake(),
        }
    }

    /// Whether the upstream tells callers apart by a session; a child always does.
    #[must_use]
    pub fn has_session(&self) -> bool {
        match &self.transport {
            Transport::Http(connection) => connection.has_session(),
        }
    }

    /// Whether it is to be used no more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        match &self.transport {
            Transport::Http(connection) => connection.is_closed(),
        }
    }

    /// Asks for log messages from `level` on, if the upstream has any (LOG-02).
    pub fn set_log_level(&self, level: LogLevel) {
        match &self.transport {
            Transport::Http(connection) => connection.set_log_level(level),
        }
    }

    /// Ends it in good order within `limit`.
    pub async fn close(&self, limit: Duration) {
        match &self.transport {
            // Ending late is as good as not being told.
            Transport::Http(connection) => drop(clock::within(limit, connection.close()).await),
        }
    }

    /// Takes it for one session, unless it has done what only its session may see.
    #[must_use]
    pub fn spend(&self) -> bool {
        !self.spent.swap(true, Ordering::Relaxed)
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
