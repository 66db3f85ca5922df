//! A call under way at the client shore, from the gate's future to the last byte of its answer.
//!
//! *On drop* before the answer is there: the client has vanished, and in the session revisions that
//! is no cancellation (HTTP-11, R-16). The call moves to a task of its own and runs on until it is
//! done, cancelled, or its session has ended; its answer is dropped. What it asks meanwhile is asked elsewhere.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use futures_util::future::BoxFuture;

use crate::base::tasks;
use crate::call::{Answer, Course, Fault, Item, Items, Question, Reply};
use crate::downstream::legacy::in_flight::Ticket;
use crate::downstream::legacy::outbox::Outbox;
use crate::jsonrpc::Id;

/// The future of the gate.
pub type Pending = BoxFuture<'static, Result<Reply, Fault>>;

/// What comes next.
pub enum Step {
    /// A notification to pass on.
    Notice(bytes::Bytes),
    /// The upstream asks the client.
    Ask(Question),
    /// The upstream has closed its stream for so long; ours may be closed as well (HTTP-14).
    Pause(Option<Duration>),
    /// The answer; nothing follows.
    Done(Answer),
    /// The call failed; nothing follows.
    Failed(Fault),
}

enum Work {
    Pending(Pending),
    Items(Items),
    Over,
}

/// A call under way.
pub struct Exchange {
    work: Work,
    ticket: Option<Ticket>,
    /// It has moved to a task of its own already; dropped there, the run time is ending.
    moved: bool,
}

impl Exchange {
    /// A call whose future was not polled yet.
    #[must_use]
    pub fn new(pending: Pending, ticket: Ticket) -> Self {
        Self { work: Work::Pending(pending), ticket: Some(ticket), moved: false }
    }

    /// The client's id of it.
    ///
    /// # Panics
    /// Never: the ticket is taken at the end only.
    #[must_use]
    pub fn id(&self) -> Id {
        self.ticket().id().clone()
    }

    fn ticket(&self) -> &Ticket {
        self.ticket.as_ref().expect("the ticket is taken at the end only")
    }

    /// The way to the client, for what precedes the answer.
    #[must_use]
    pub fn outbox(&self) -> &Arc<Outbox> {
        self.ticket().outbox()
    }

    /// What becomes known of the call.
    #[must_use]
    pub fn course(&self) -> Option<Arc<Course>> {
        self.ticket().cancel().course().cloned()
    }

    /// What keeps the call in flight, for who holds it until the answer is written (F-098).
    ///
    /// # Panics
    /// Never: the ticket is taken at the end only.
    #[must_use]
    pub fn into_ticket(mut self) -> Ticket {
        self.work = Work::Over;
        self.ticket.take().expect("the ticket is taken at the end only")
    }

    /// The next step, or `None` when the client cancelled the call. Safe to cancel.
    pub async fn next(&mut self) -> Option<Step> {
        let cancel = self.ticket().cancel().clone();
        let step = tokio::select! {
            biased;
            // Both are safe to cancel: they lose nothing when they are dropped.
            step = poll_fn(|cx| self.poll_step(cx)) => Some(step),
            () = cancel.cancelled() => None,
        };
        if step.is_none() {
            // Dropping what is left cancels it upstream.
            self.work = Work::Over;
            return cancel.is_stopping().then_some(Step::Failed(Fault::Stopping));
        }
        step
    }

    /// The answer alone; what precedes it goes on another stream of the session, if there is one (HTTP-19). `None` when
    /// the call was cancelled.
    pub async fn settle(&mut self) -> Option<Result<Answer, Fault>> {
        loop {
            match self.next().await? {
                Step::Notice(notice) => self.outbox().tell(notice),
                Step::Ask(question) => self.outbox().ask(question, None),
                Step::Pause(_) => {}
                Step::Done(answer) => return Some(Ok(answer)),
                Step::Failed(fault) => return Some(Err(fault)),
            }
        }
    }

    fn poll_step(&mut self, cx: &mut Context<'_>) -> Poll<Step> {
        loop {
            let step = match &mut self.work {
                Work::Pending(pending) => match std::task::ready!(pending.as_mut().poll(cx)) {
                    Ok(Reply::Items(items)) => {
                        self.work = Work::Items(items);
                        continue;
                    }
                    Ok(Reply::Done(answer)) => Step::Done(answer),
                    Err(fault) => Step::Failed(fault),
                },
                Work::Items(items) => match std::task::ready!(Pin::new(items).poll_next(cx)) {
                    Some(Item::Notice(notice)) => return Poll::Ready(Step::Notice(notice)),
                    Some(Item::Ask(question)) => return Poll::Ready(Step::Ask(question)),
                    Some(Item::Pause(retry)) => return Poll::Ready(Step::Pause(retry)),
                    // The relay has made a notice of what was for the client.
                    Some(Item::Raw(_)) => continue,
                    Some(Item::Done(answer)) => Step::Done(answer),
                    Some(Item::Failed(fault)) => Step::Failed(fault),
                    None => Step::Failed(Fault::Internal),
                },
                Work::Over => Step::Failed(Fault::Cancelled),
            };
            self.work = Work::Over;
            return Poll::Ready(step);
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.work, Work::Over)
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        if self.is_over() || self.moved {
            return;
        }
        let work = std::mem::replace(&mut self.work, Work::Over);
        let left = Self { work, ticket: self.ticket.take(), moved: true };
        tasks::spawn("call without a client", async move {
            let mut left = left;
            // Ends when the call does or when it is cancelled; the relay's deadlines bound it.
            let _ = left.settle().await;
            left.work = Work::Over;
        })
        .detach();
    }
}
