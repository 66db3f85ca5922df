//! Notifications of an upstream that are its own until here: made ready for a client, or dropped.

use bytes::Bytes;
use smallvec::{SmallVec, smallvec};

use crate::base::clock;
use crate::jsonrpc::{Edits, Message, Object, text};
use crate::relay::logs;
use crate::relay::pair::Pair;
use crate::telemetry::words::NoticeLoss;

/// What a client gets for one notification: usually that one.
pub type Notices = SmallVec<[Bytes; 2]>;

/// What the session's client gets for a notification of the upstream. Changes of lists are no matter of this: clients
/// are told of them when what they see has changed.
#[must_use]
pub fn ready(pair: Pair<'_>, notification: &Message) -> Notices {
    let text = notification.text();
    let params = notification.params().and_then(|span| Object::scan(text, span.start).ok());
    let made = match (&*notification.method(), params) {
        (logs::METHOD, Some(params)) => return logs::ready(pair, notification, &params),
        (UPDATED, Some(params)) => updated(pair, notification, &params),
        (COMPLETE, Some(params)) => complete(pair, notification, &params),
        (logs::METHOD | UPDATED | COMPLETE, None) => Err(NoticeLoss::Malformed),
        _ => Err(NoticeLoss::Unknown),
    };
    match made {
        Ok(notice) => smallvec![notice],
        Err(reason) => {
            pair.dropped(reason);
            Notices::new()
        }
    }
}

const UPDATED: &str = "notifications/resources/updated";
const COMPLETE: &str = "notifications/elicitation/complete";

/// A resource has changed; it has the name that the client knows (RES-06).
fn updated(pair: Pair<'_>, notification: &Message, params: &Object) -> Result<Bytes, NoticeLoss> {
    let text = notification.text();
    let span = params.find(text, "uri").ok_or(NoticeLoss::Malformed)?;
    let uri = text::unquote(&text[span.clone()]).ok_or(NoticeLoss::Malformed)?;
    let mut edits = Edits::new();
    if let Some(exposed) = pair.uris().and_then(|map| map(&uri)) {
        edits.replace(span, text::quote(&exposed));
    }
    Ok(notification.readdress(None, UPDATED, &edits))
}

/// A page is done with: told to exactly who was sent there, by the id that it was given (ELIC-09).
fn complete(pair: Pair<'_>, notification: &Message, params: &Object) -> Result<Bytes, NoticeLoss> {
    let text = notification.text();
    let span = params.find(text, "elicitationId").ok_or(NoticeLoss::Malformed)?;
    let original = text::unquote(&text[span.clone()]).ok_or(NoticeLoss::Malformed)?;
    let exchange = pair.relay.exchanges.known(pair.session).ok_or(NoticeLoss::Unowned)?;
    let ours =
        exchange.pages().complete(pair.upstream, &original, clock::now()).ok_or(NoticeLoss::Unowned)?;
    let mut edits = Edits::new();
    edits.replace(span, text::quote(&ours));
    Ok(notification.readdress(None, COMPLETE, &edits))
}

#[cfg(test)]
mod tests;
