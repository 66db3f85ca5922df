//! A batch of the revision 2025-03-26: split on entry, each member on its own way, answered together
//! (RPC-15, RPC-16).

use std::sync::Arc;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Response, StatusCode};

use crate::downstream::answer::whole_text;
use crate::downstream::body::OutBody;
use crate::downstream::endpoint::Caller;
use crate::downstream::exchange::Exchange;
use crate::downstream::legacy::in_flight::Ticket;
use crate::downstream::legacy::outbox::Outbox;
use crate::downstream::legacy::session::Entry;
use crate::downstream::media::Accepts;
use crate::downstream::one::Begun;
use crate::downstream::rescue::{self, Refusal};
use crate::downstream::shore::Shore;
use crate::downstream::{events, one};
use crate::jsonrpc::error::INVALID_REQUEST;
use crate::jsonrpc::{ErrorObject, Kind, Message, batch};

/// A batch whose members are on their way.
pub struct Batch {
    /// Answers that are there already.
    answers: Vec<Bytes>,
    /// Calls under way.
    running: Vec<Exchange>,
}

impl Batch {
    /// Whether nothing is to be answered.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.answers.is_empty() && self.running.is_empty()
    }

    /// Waits for all answers and joins them; what precedes them goes on a standing stream. Empty where every member was
    /// cancelled. The members are in flight as long as their tickets live.
    async fn settle(mut self) -> (Bytes, Vec<Ticket>) {
        let mut settled = self.running.into_iter().map(settle).collect::<FuturesUnordered<_>>();
        let mut tickets = Vec::new();
        while let Some(member) = settled.next().await {
            let Some((text, ticket)) = member else { continue };
            self.answers.push(text);
            tickets.push(ticket);
        }
        let whole = if self.answers.is_empty() { Bytes::new() } else { batch::join(&self.answers) };
        (whole, tickets)
    }
}

/// Takes a batch that was posted.
///
/// # Errors
/// As [`split`] and [`begin`], and whatever is wrong with the session.
pub async fn post(caller: &Caller<'_>, text: &Bytes, accepts: Accepts) -> Result<Response<OutBody>, Refusal> {
    let elements = split(caller.shore, text)?;
    let entry = caller.session(None)?;
    let batch = begin(caller.shore, &entry, elements)?;
    if batch.is_silent() {
        return Ok(rescue::bare(StatusCode::ACCEPTED));
    }
    if accepts.events {
        let Batch { answers, running } = batch;
        return Ok(events::batch(&entry.outbox, answers, running, caller.shore.config.http.keep_alive));
    }
    let (answers, _tickets) = batch.settle().await;
    let answers = if answers.is_empty() { batch::join(&[]) } else { answers };
    Ok(rescue::json(StatusCode::OK, answers))
}

/// Carries a batch to its end where there is one way back for everything: what precedes the answers goes there as it
/// comes, the answers together as one array.
pub async fn carry(outbox: Arc<Outbox>, batch: Batch) {
    // In flight until they are written.
    let (answers, _tickets) = batch.settle().await;
    if !answers.is_empty() {
        outbox.write(&answers).await;
    }
}

/// The elements of a batch.
///
/// # Errors
/// `Message` where it is no array, `Invalid` where it is empty or too long.
pub fn split(shore: &Shore, text: &Bytes) -> Result<Vec<Bytes>, Refusal> {
    let elements = batch::split(text).map_err(|error| Refusal::Message(error.into()))?;
    let refused = |what| Err(Refusal::Invalid { what, id: None });
    if elements.is_empty() {
        return refused("the batch is empty");
    }
    if elements.len() > shore.config.http.max_batch {
        return refused("the batch is longer than `portcullis.http.maxBatch` allows");
    }
    Ok(elements)
}

/// Begins what the elements of a batch ask for.
///
/// # Errors
/// `Invalid` in every other revision, and for a batch with `initialize` in it.
pub fn begin(shore: &Arc<Shore>, entry: &Entry, elements: Vec<Bytes>) -> Result<Batch, Refusal> {
    let refused = |what| Err(Refusal::Invalid { what, id: None });
    if !entry.shared.revision.has_batches() {
        return refused("batches belong to the revision 2025-03-26 only");
    }
    let parsed: Vec<_> = elements.into_iter().map(Message::parse).collect();
    let opens = |message: &Message| message.kind() == Kind::Request && message.method() == "initialize";
    if parsed.iter().flatten().any(opens) {
        return refused("`initialize` must not be in a batch");
    }
    let (mut answers, mut running) = (Vec::new(), Vec::new());
    for message in parsed {
        match message {
            Err(error) => {
                let refusal = ErrorObject::new(INVALID_REQUEST, error.to_string());
                answers.push(refusal.answer(error.id()));
            }
            Ok(message) if message.kind() == Kind::Request => match one::begin(shore, entry, message) {
                Ok(Begun::Call(exchange)) => running.push(exchange),
                Ok(Begun::Failed(fault, id)) => answers.push(fault.to_error().answer(Some(&id))),
                Err(refusal) => answers.push(refusal.answer()),
            },
            Ok(message) if message.kind() == Kind::Notification => one::notice(shore, entry, message),
            Ok(message) => entry.outbox.answered(message),
        }
    }
    Ok(Batch { answers, running })
}

/// The whole text of a member's answer; `None` when it was cancelled.
async fn settle(mut exchange: Exchange) -> Option<(Bytes, Ticket)> {
    let settled = match exchange.settle().await? {
        Ok(answer) => whole_text(answer, &exchange.id()).await,
        Err(fault) => Err(fault),
    };
    let text = settled.unwrap_or_else(|fault| fault.to_error().answer(Some(&exchange.id())));
    Some((text, exchange.into_ticket()))
}
