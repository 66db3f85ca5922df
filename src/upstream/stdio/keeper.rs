//! The task that keeps a child: waits for its end or brings it about, and sees to it that nothing is left (R-13, STDIO-04).
//!
//! *Invariants:* the order is always the same: the leader has ended, its family is gone, what it wrote last is read, it is
//! reaped, its slot is free, its exit is known. Until the family is gone the leader stays a zombie, so that the ids of its
//! group and session cannot be given to others.
//!
//! *On drop:* the [`Charge`] in it sees to the end of the child.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::signal::unix::Signal as Signals;
use tokio::sync::watch;

use super::charge::{Charge, Kin};
use super::child::{Grace, Order};
use super::exit::{Cause, Ending, Exit};
use super::fact::Fact;
use super::reaper;
use super::streams::{PipeEnd, Streams, Subject};
use crate::base::{clock, tasks};

/// After a pipe closed, its process is most likely about to end; so long it may take.
const PARTING: Duration = Duration::from_millis(500);

/// For a child that is of no use any more, since a pipe was closed.
const SHORT_GRACE: Grace = Grace { after_input: Duration::from_secs(2), after_term: Duration::from_secs(2) };

/// Between two rounds of killing, if no child's end is noticed.
const ROUND: Duration = Duration::from_millis(20);

/// After so long, what was killed is held by the kernel.
const KILLED_FOR_SURE: Duration = Duration::from_secs(10);

/// The last lines of stderr are waited for so long.
const LAST_WORDS: Duration = Duration::from_millis(1500);

/// Everything a keeper needs.
pub(super) struct Keeper {
    pub charge: Charge,
    pub subject: Subject,
    pub streams: Streams,
    pub started: Instant,
    /// Tells of the end of any child of this process.
    pub children: Signals,
    pub orders: watch::Receiver<Order>,
    pub exit: watch::Sender<Option<Arc<Exit>>>,
}

impl Keeper {
    /// Keeps the child to its end.
    pub(super) async fn keep(mut self) {
        let cause = self.live_and_part().await;
        let gone = self.kill(clock::now() + KILLED_FOR_SURE).await;
        self.tell_strays();
        self.streams.ended.set();
        // After that, the tail is what has been read so far.
        let _ = clock::within(LAST_WORDS, &mut self.streams.stderr).await;
        let ending = gone.then(|| self.charge.release()).flatten();
        let exit = Exit {
            ending: ending.unwrap_or(Ending::Stuck),
            cause,
            uptime: clock::now().saturating_duration_since(self.started),
            stderr: self.streams.tail.lines(),
        };
        let Subject { upstream, pid, sink } = &self.subject;
        sink.tell(Fact::Exited { upstream, pid: *pid, exit: &exit });
        self.exit.send_replace(Some(Arc::new(exit)));
        // A charge that is stuck goes to the yard from here, where it is looked at again.
    }

    /// Waits until the child ends, is to be stopped, or is of no use; in the last two cases gives it the time to end by
    /// itself.
    async fn live_and_part(&mut self) -> Cause {
        let (cause, grace) = tokio::select! {
            // All of them are safe to cancel.
            biased;
            order = ordered(&mut self.orders) => match order {
                Order::Stop(grace) => (Cause::Stopped, grace),
                Order::Live | Order::End => return Cause::Dropped,
            },
            () = ended(&self.charge.kin, &mut self.children) => return self.cause_of_sudden_end(),
            Some(end) = self.streams.ends.recv() => {
                let parting = ended(&self.charge.kin, &mut self.children);
                if clock::within(PARTING, parting).await.is_ok() {
                    return self.cause_of_sudden_end();
                }
                match end {
                    PipeEnd::Input => (Cause::InputClosed, SHORT_GRACE),
                    PipeEnd::Output => (Cause::OutputClosed, SHORT_GRACE),
                }
            }
        };
        self.streams.close_input.cancel();
        if self.is_gone_within(grace.after_input).await {
            return cause;
        }
        // Whatever is still unwritten stays so: this closes stdin also for a child that does not read it.
        self.streams.writer = None;
        self.sweep(Signal::TERM).await;
        self.is_gone_within(grace.after_term).await;
        cause
    }

    /// Nobody was seen to ask for it; but the order to end and the end itself come close together.
    fn cause_of_sudden_end(&self) -> Cause {
        match *self.orders.borrow() {
            Order::Live => Cause::Itself,
            Order::Stop(_) => Cause::Stopped,
            Order::End => Cause::Dropped,
        }
    }

    /// Waits until the family is gone. False if that takes too long, or the child was dropped meanwhile.
    async fn is_gone_within(&mut self, limit: Duration) -> bool {
        let (kin, children, orders) = (&self.charge.kin, &mut self.children, &mut self.orders);
        let gone = async {
            ended(kin, children).await;
            while !is_gone(kin).await {
                children.recv().await;
            }
        };
        let dropped = async {
            // An error says the same: nobody holds the child.
            let _ = orders.wait_for(|order| *order == Order::End).await;
        };
        tokio::select! {
            // Both are safe to cancel.
            biased;
            gone = clock::within(limit, gone) => gone.is_ok(),
            () = dropped => false,
        }
    }

    /// Kills the family until it is gone or the deadline has passed. Whether it is gone.
    async fn kill(&mut self, deadline: Instant) -> bool {
        loop {
            let gone = self.sweep(Signal::KILL).await;
            if gone || clock::now() >= deadline {
                return gone;
            }
            // Whichever comes first, another round follows.
            let _ = clock::within(ROUND, self.children.recv()).await;
        }
    }

    async fn sweep(&self, signal: Signal) -> bool {
        let kin = self.charge.kin.clone();
        blocking(move || kin.sweep(signal)).await
    }

    fn tell_strays(&self) {
        let count = self.charge.kin.strays();
        if count > 0 {
            let Subject { upstream, pid, sink } = &self.subject;
            sink.tell(Fact::StraysEnded { upstream, pid: *pid, count });
        }
    }
}

/// Waits for the end of the leader. Safe to cancel.
async fn ended(kin: &Kin, children: &mut Signals) {
    while reaper::peek(kin.reins.pid()).is_none() {
        children.recv().await;
    }
}

/// Waits for an order to end the child. Safe to cancel.
async fn ordered(orders: &mut watch::Receiver<Order>) -> Order {
    let order = orders.wait_for(|order| *order != Order::Live).await;
    order.map_or(Order::End, |order| *order)
}

async fn is_gone(kin: &Kin) -> bool {
    let kin = kin.clone();
    blocking(move || kin.is_gone()).await
}

/// Runs a look at all processes beside the run time's own threads. If the run time is going down, never returns: this
/// task ends with it.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tasks::blocking("look at processes", work).await {
        Ok(done) => done,
        Err(_) => std::future::pending().await,
    }
}
