//! A running child as its holder sees it: send lines, take frames, learn of its end, stop it.
//!
//! *Invariants:* every child ends in one way only, through its keeper, which reaps it.
//!
//! *On drop:* dropping a [`Life`] (or the [`Child`] that holds it) kills the child's group at once; the rest of its family
//! and the reaping follow in the background.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::{mpsc, watch};

use super::charge::Reins;
use super::exit::{Cause, Ending, Exit};
use super::pipe::{Frame, Input, Noise};

/// A running child.
pub struct Child {
    /// Takes lines for its stdin.
    pub input: Input,
    /// What it writes to its stdout. Ends when the pipe is closed; [`Life::exit`] tells why, soon after.
    pub frames: mpsc::Receiver<Frame>,
    /// Counts what it writes to its stdout and is no message.
    pub noise: Arc<Noise>,
    /// Its life.
    pub life: Life,
}

/// Holds a child alive.
pub struct Life {
    pub(super) reins: Arc<Reins>,
    pub(super) orders: watch::Sender<Order>,
    pub(super) exit: watch::Receiver<Option<Arc<Exit>>>,
}

/// How long a child may take to end, step by step (STDIO-04).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// After its stdin was closed; then comes SIGTERM.
    pub after_input: Duration,
    /// After SIGTERM; then comes SIGKILL.
    pub after_term: Duration,
}

impl Default for Grace {
    fn default() -> Self {
        Self { after_input: Duration::from_secs(5), after_term: Duration::from_secs(5) }
    }
}

/// What the keeper is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Let it live.
    Live,
    /// End it in good order.
    Stop(Grace),
    /// End it at once, nobody holds it any more.
    End,
}

impl Life {
    /// The child's process id, which is also that of its group and session.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.reins.pid().cast_unsigned()
    }

    /// The end of the child: ready once it has ended, its family is gone, and it is reaped. Does not hold the child
    /// alive. Safe to cancel.
    pub fn exit(&self) -> impl Future<Output = Arc<Exit>> + Send + use<> {
        let mut exit = self.exit.clone();
        async move {
            match exit.wait_for(Option::is_some).await.map(|exit| exit.clone()) {
                Ok(Some(exit)) => exit,
                // The keeper went down with its run time, and the child with it.
                Ok(None) | Err(_) => Arc::new(Exit {
                    ending: Ending::Unknown,
                    cause: Cause::Dropped,
                    uptime: Duration::ZERO,
                    stderr: Vec::new(),
                }),
            }
        }
    }

    /// Stops the child in good order (STDIO-04): what is queued is written and its stdin closed; after a while its family
    /// gets SIGTERM; after another, SIGKILL. Lasts as long as `grace` allows, and a moment. If the wait is cancelled, the
    /// stop goes on. A second call is not heard.
    pub async fn stop(&self, grace: Grace) -> Arc<Exit> {
        self.orders.send_if_modified(|order| {
            let first = *order == Order::Live;
            if first {
                *order = Order::Stop(grace);
            }
            first
        });
        self.exit().await
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Before the signal, or the keeper would take this for an accident.
        self.orders.send_replace(Order::End);
        self.reins.signal(Signal::KILL);
    }
}
