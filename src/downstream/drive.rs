//! What writes an answer's stream: a call, or a batch, step by step onto a [`Track`].
//!
//! *Invariants.* What a call brings is written in its order, its answer last (RPC-28); with that the stream ends.
//! *On drop*: see [`Exchange`].

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream::{BoxStream, SelectAll};
use futures_util::{FutureExt, StreamExt};

use crate::call::{Answer, Body, Fault, Question};
use crate::downstream::answer::{Rewriting, plan, told, whole, whole_text};
use crate::downstream::exchange::{Exchange, Step};
use crate::downstream::legacy::in_flight::Ticket;
use crate::downstream::legacy::outbox::Outbox;
use crate::downstream::legacy::track::Track;
use crate::jsonrpc::Id;

/// One thing that a member of a batch brings.
pub enum Member {
    /// A message, whole.
    Message(Bytes),
    /// The upstream asks the client.
    Ask(Question),
    /// Nothing for the client.
    Nothing,
}

/// What all members of a batch bring, as it comes.
pub type Members = SelectAll<BoxStream<'static, Member>>;

/// What the stream waits for.
enum Work {
    /// Notices, questions and the answer.
    Call(Exchange),
    /// The first part of a large answer, until which it can still be an error (RPC-13).
    Begin(Box<Rewriting>, Id),
    /// The rest of it.
    Rest(Box<Rewriting>),
    /// The answers of a batch.
    Batch(Members),
    /// Nothing.
    Over,
}

/// Who writes a stream.
pub struct Driver {
    work: Work,
    track: Arc<Track>,
    outbox: Arc<Outbox>,
}

/// Notices of a burst that are taken at once.
const BURST: usize = 64;

impl Driver {
    /// Writes a call's answer, and what precedes it.
    #[must_use]
    pub fn call(exchange: Exchange, track: Arc<Track>) -> Self {
        let outbox = exchange.outbox().clone();
        Self { work: Work::Call(exchange), track, outbox }
    }

    /// Writes the answers of a batch.
    #[must_use]
    pub fn batch(members: Members, track: Arc<Track>, outbox: Arc<Outbox>) -> Self {
        Self { work: Work::Batch(members), track, outbox }
    }

    /// Whether all is written.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.work, Work::Over)
    }

    /// Waits for what comes next, and writes it. Safe to cancel.
    pub async fn step(&mut self) {
        match &mut self.work {
            Work::Call(exchange) => {
                let step = exchange.next().await;
                self.take(step);
                self.take_more();
            }
            Work::Begin(answer, _) => {
                let begun = answer.begin().await;
                self.begin(begun);
            }
            Work::Rest(answer) => {
                let part = answer.next().await;
                self.rest(part);
            }
            Work::Batch(members) => {
                let member = members.next().await;
                self.member(member);
            }
            Work::Over => std::future::pending().await,
        }
        self.outbox.relieve();
    }

    /// Goes on without a client, so that it can come back for the rest (HTTP-11).
    pub async fn run(mut self) {
        while !self.is_over() {
            self.track.room().await;
            self.step().await;
            // The rest of an answer that nobody will see is not worth reading.
            if matches!(self.work, Work::Begin(..) | Work::Rest(_)) && self.track.is_lost() {
                return;
            }
        }
    }

    /// Writes one step.
    pub fn take(&mut self, step: Option<Step>) {
        match step {
            Some(Step::Notice(notice)) => drop(self.track.append(&notice, 0)),
            Some(Step::Ask(question)) => self.outbox.ask(question, Some(&self.track)),
            Some(Step::Pause(retry)) => {
                // HTTP-14: in older revisions a stream should not end before its answer.
                if self.outbox.primes() {
                    self.track.send_away(retry);
                }
            }
            last => self.finish(last),
        }
    }

    /// Takes what has come meanwhile, without waiting.
    fn take_more(&mut self) {
        for _ in 0..BURST {
            let Work::Call(exchange) = &mut self.work else { return };
            let Some(step) = exchange.next().now_or_never() else { return };
            self.take(step);
        }
    }

    fn finish(&mut self, last: Option<Step>) {
        let Work::Call(exchange) = std::mem::replace(&mut self.work, Work::Over) else { return };
        match last {
            Some(Step::Done(answer)) => self.start_answer(answer, exchange.into_ticket()),
            Some(Step::Failed(fault)) => {
                self.outbox.withdraw_from(&self.track);
                self.end_with(&fault, &exchange.id());
            }
            // HTTP-12: the stream ends without an answer, and there is none to come back for.
            _ => {
                self.outbox.withdraw_from(&self.track);
                self.track.end();
                self.track.abandon();
            }
        }
    }

    fn start_answer(&mut self, mut answer: Answer, ticket: Ticket) {
        let id = ticket.id().clone();
        let plan = plan(&mut answer, &id);
        let watch = answer.watch.take();
        match answer.body {
            Body::Stream(chunks) => {
                self.work = Work::Begin(Box::new(Rewriting::new(chunks, plan, watch, ticket)), id);
            }
            body => match told(watch, whole(body, plan)) {
                Ok(parts) => {
                    self.track.begin();
                    self.track.more(parts);
                    self.track.complete();
                    self.track.end();
                }
                Err(fault) => self.end_with(&fault, &id),
            },
        }
    }

    /// The first part of a large answer is ready, or it never will be.
    fn begin(&mut self, begun: Result<(), Fault>) {
        let Work::Begin(answer, id) = std::mem::replace(&mut self.work, Work::Over) else { return };
        match begun {
            Ok(()) => {
                self.track.begin();
                self.work = Work::Rest(answer);
            }
            Err(fault) => self.end_with(&fault, &id),
        }
    }

    fn rest(&mut self, part: Option<Result<Bytes, Fault>>) {
        match part {
            Some(Ok(part)) => return self.track.more([part]),
            // The track breaks off within the event.
            Some(Err(_)) => {}
            None => self.track.complete(),
        }
        self.work = Work::Over;
        self.track.end();
    }

    fn member(&mut self, member: Option<Member>) {
        match member {
            Some(Member::Message(message)) => drop(self.track.append(&message, 0)),
            Some(Member::Ask(question)) => self.outbox.ask(question, Some(&self.track)),
            Some(Member::Nothing) => {}
            None => {
                self.work = Work::Over;
                self.track.end();
            }
        }
    }

    fn end_with(&mut self, fault: &Fault, id: &Id) {
        self.track.append(&fault.to_error().answer(Some(id)), 0);
        self.track.end();
    }
}

/// The members of a batch as one stream; `answers` are there already.
pub fn members(answers: Vec<Bytes>, exchanges: Vec<Exchange>) -> Members {
    let mut members = Members::new();
    members.push(futures_util::stream::iter(answers).map(Member::Message).boxed());
    for exchange in exchanges {
        members.push(futures_util::stream::unfold(Some(exchange), member).boxed());
    }
    members
}

/// The next thing of a member.
async fn member(exchange: Option<Exchange>) -> Option<(Member, Option<Exchange>)> {
    let mut exchange = exchange?;
    let answer = match exchange.next().await? {
        Step::Notice(notice) => return Some((Member::Message(notice), Some(exchange))),
        Step::Ask(question) => return Some((Member::Ask(question), Some(exchange))),
        Step::Pause(_) => return Some((Member::Nothing, Some(exchange))),
        Step::Done(answer) => whole_text(answer, &exchange.id()).await,
        Step::Failed(fault) => Err(fault),
    };
    let text = answer.unwrap_or_else(|fault| fault.to_error().answer(Some(&exchange.id())));
    Some((Member::Message(text), None))
}

/// Carries a call to its end on the newest standing stream, for transports on which that is the only one (see
/// [`Outbox::attach`]). Without a stream, what it brings is dropped.
pub async fn carry(mut exchange: Exchange) {
    let outbox = exchange.outbox().clone();
    while let Some(step) = exchange.next().await {
        match step {
            Step::Notice(notice) => outbox.write(&notice).await,
            Step::Ask(question) => outbox.ask(question, outbox.newest().as_ref()),
            Step::Pause(_) => {}
            Step::Done(answer) => return carry_answer(&outbox, answer, exchange.into_ticket()).await,
            Step::Failed(fault) => {
                return outbox.write(&fault.to_error().answer(Some(&exchange.id()))).await;
            }
        }
    }
}

/// The answer of a call, whole: nothing else may come between its parts. The call is in flight until it is written.
async fn carry_answer(outbox: &Outbox, answer: Answer, ticket: Ticket) {
    // One that is large is not read before there is room for it, and few of them at a time: many would be as large as
    // memory allows while the client reads slowly.
    let _turn = match &answer.body {
        Body::Stream(_) => outbox.turn().await,
        _ => None,
    };
    let read = whole_text(answer, ticket.id());
    let text = tokio::select! {
        biased;
        // Neither is needed again once the other is done.
        text = read => text,
        () = ticket.cancel().cancelled() => match ticket.cancel().is_stopping() {
            true => Err(Fault::Stopping),
            false => return,
        },
    };
    let text = text.unwrap_or_else(|fault| fault.to_error().answer(Some(ticket.id())));
    outbox.write(&text).await;
}

#[cfg(test)]
mod tests;
