//! The signals that end the process.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears the signals that end the process.
///
/// *Invariants.* None is lost between two waits: one listener hears them all.
pub(super) struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    /// Waits for one and names it. Safe to cancel.
    pub(super) async fn next(&mut self) -> &'static str {
        tokio::select! {
            // Both are safe to cancel.
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}
