//! **The way of a call to an upstream, top to bottom**, `OutCall → Reply`.
//!
//! | | step | why at this height |
//! |---|---|---|
//! | 1 | exchange | notices go out while the rest is still at work |
//! | 2 | deadline | bounds all that follows, the waiting included |
//! | 3 | breaker | fails fast, before anything is held |
//! | 4 | permit | held until the last byte of the answer |
//! | 5 | retry | only what was not sent, or may be repeated |
//! | 6 | connection | whose it is decides which one; opened lazily |
//! | 7 | transport | HTTP or stdio |
//!
//! *On drop* at any step: the call is cancelled upstream, and its permit released.

use std::sync::Arc;

use bytes::BytesMut;
use futures_util::StreamExt;
use tokio::sync::OwnedSemaphorePermit;

use crate::base::clock;
use crate::call::{Answer, Body, Fault, OutCall, Params, Purpose, Reply, Session};
use crate::jsonrpc::{Kind, Object};
use crate::mcp::methods::Answer as Answers;
use crate::upstream::connection::Connection;
use crate::upstream::deadline::Deadline;
use crate::upstream::exchange::{self, Notices};
use crate::upstream::leg::Leg;
use crate::upstream::peer::Peer;
use crate::upstream::subscriptions::Due;

/// Carries a call to `peer`.
///
/// # Errors
/// What failed before anything came back.
pub async fn call(peer: Arc<Peer>, call: OutCall) -> Result<Reply, Fault> {
    let session = match &call.purpose {
        Purpose::Session(session) => Some(Arc::clone(session)),
        Purpose::Catalog => None,
    };
    let notices = Arc::new(Notices::of(session));
    let driver = Box::pin(drive(peer, call, Arc::clone(&notices)));
    exchange::reply(driver, notices).await
}

async fn drive(peer: Arc<Peer>, call: OutCall, notices: Arc<Notices>) -> Result<Answer, Fault> {
    let deadline = Deadline::of(&peer.config, call.method, call.tool.as_deref(), Arc::clone(&notices.signs));
    admit(&peer)?;
    let permit = deadline.before(Arc::clone(&peer.permits).acquire_owned()).await?;
    // The semaphore is never closed; were it, the gateway would be going down.
    let permit = permit.map_err(|_| Fault::Stopping)?;
    let leg = Leg { call: &call, deadline: &deadline, notices: &notices };
    let answer = match attempt(&peer, leg).await {
        Err(fault) if may_repeat(&call, &fault) && !notices.any() => {
            peer.report.retried(&fault);
            admit(&peer)?;
            attempt(&peer, leg).await
        }
        done => done,
    };
    answer.map(|answer| hold(answer, permit))
}

fn admit(peer: &Peer) -> Result<(), Fault> {
    let admitted = peer.breaker.admit(clock::now());
    admitted.map_err(|rest| {
        peer.blame.resting("it has failed several times and is left alone for a moment", rest)
    })
}

async fn attempt(peer: &Arc<Peer>, leg: Leg<'_>) -> Result<Answer, Fault> {
    let connection = leg.deadline.before(peer.connection(&leg.call.purpose)).await?;
    let connection = connection.map_err(|failure| failure.fault)?;
    if matches!(leg.call.purpose, Purpose::Catalog) && !matches!(leg.call.method.answer, Answers::List(_)) {
        connection.spend();
    }
    match Change::of(leg.call) {
        None => connection.call(leg).await,
        Some(change) => subscribed(&connection, leg, change).await,
    }
}

/// Carries a subscription or its end, unless the upstream has been asked already for other sessions (RES-09, RES-10).
async fn subscribed(connection: &Connection, leg: Leg<'_>, change: Change<'_>) -> Result<Answer, Fault> {
    let subscriptions = &connection.patron().subscriptions;
    let due = match change.end {
        false => subscriptions.wanted(&change.uri, change.session),
        true => subscriptions.remove(&change.uri, change.session),
    };
    match due {
        Due::Nothing => Ok(Answer::result("{}")),
        Due::Full => Err(Fault::Exhausted { what: "the number of subscriptions", key: "unsubscribe some" }),
        Due::Ask => {
            let answer = connection.call(leg).await?;
            let agreed = matches!(&answer.body, Body::Message(message) if message.kind() == Kind::Result);
            if agreed && !change.end {
                subscriptions.add(change.uri, change.session);
            }
            Ok(answer)
        }
    }
}

/// A change of a session's subscriptions.
struct Change<'a> {
    session: &'a Arc<Session>,
    /// The upstream's own URI.
    uri: String,
    end: bool,
}

impl<'a> Change<'a> {
    fn of(call: &'a OutCall) -> Option<Self> {
        let end = match call.method.name {
            "resources/subscribe" => false,
            "resources/unsubscribe" => true,
            _ => return None,
        };
        let (Purpose::Session(session), Params::Edited(message, edits)) = (&call.purpose, &call.params)
        else {
            return None;
        };
        let mut params = BytesMut::new();
        edits.write(message.text(), message.params()?, &mut params);
        let uri = Object::scan(&params, 0).ok()?.string(&params, "uri")?.into_owned();
        Some(Self { session, uri, end })
    }
}

/// Whether a call may be made once more: it was surely not executed, or executing it twice does no harm and
/// the connection was to blame (F-021).
fn may_repeat(call: &OutCall, fault: &Fault) -> bool {
    match fault {
        // Whoever names a time to wait is not to be asked at once.
        Fault::Unavailable { retry_after: None, unsent, .. } => *unsent || call.method.safe,
        _ => false,
    }
}

/// Keeps the permit for as long as the answer flows.
fn hold(mut answer: Answer, permit: OwnedSemaphorePermit) -> Answer {
    if let Body::Stream(chunks) = answer.body {
        answer.body = Body::Stream(Box::pin(chunks.inspect(move |_| {
            let _ = &permit;
        })));
    }
    answer
}
