//! A batch of the revision 2025-03-26: split on entry, each member on its own way, answered together
//! (RPC-15, RPC-16).

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use http::{Response, StatusCode};

use crate::downstream::answer::whole_text;
use crate::downstream::body::OutBody;
use crate::downstream::endpoint::Caller;
use crate::downstream::exchange::Exchange;
use crate::downstream::media::Accepts;
use crate::downstream::one::Begun;
use crate::downstream::rescue::{self, Refusal};
use crate::downstream::{events, one};
use crate::jsonrpc::error::INVALID_REQUEST;
use crate::jsonrpc::{ErrorObject, Kind, Message, batch};

/// Takes a batch.
///
/// # Errors
/// `Invalid` in every other revision, for an empty batch, and for one with `initialize` in it.
pub async fn post(caller: &Caller<'_>, text: &Bytes, accepts: Accepts) -> Result<Response<OutBody>, Refusal> {
    let elements = batch::split(text).map_err(|error| Refusal::Message(error.into()))?;
    let refused = |what| Err(Refusal::Invalid { what, id: None });
    if elements.is_empty() {
        return refused("the batch is empty");
    }
    if elements.len() > caller.shore.config.http.max_batch {
        return refused("the batch is longer than `portcullis.http.maxBatch` allows");
    }
    let entry = caller.session(None)?;
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
            Ok(message) if message.kind() == Kind::Request => match one::begin(caller.shore, &entry, message)
            {
                Ok(Begun::Call(exchange)) => running.push(exchange),
                Ok(Begun::Failed(fault, id)) => answers.push(fault.to_error().answer(Some(&id))),
                Err(refusal) => answers.push(refusal.answer()),
            },
            Ok(message) if message.kind() == Kind::Notification => {
                one::notice(caller.shore, &entry, message);
            }
            Ok(message) => entry.outbox.answered(message),
        }
    }
    if answers.is_empty() && running.is_empty() {
        return Ok(rescue::bare(StatusCode::ACCEPTED));
    }
    if accepts.events {
        return Ok(events::batch(&entry.outbox, answers, running, caller.shore.config.http.keep_alive));
    }
    let settled = running.into_iter().map(settle).collect::<FuturesUnordered<_>>();
    answers.extend(settled.filter_map(std::future::ready).collect::<Vec<_>>().await);
    Ok(rescue::json(StatusCode::OK, batch::join(&answers)))
}

/// The whole text of a member's answer; `None` when it was cancelled.
async fn settle(mut exchange: Exchange) -> Option<Bytes> {
    let settled = match exchange.settle().await? {
        Ok(answer) => whole_text(answer, &exchange.id()).await,
        Err(fault) => Err(fault),
    };
    Some(settled.unwrap_or_else(|fault| fault.to_error().answer(Some(&exchange.id()))))
}
