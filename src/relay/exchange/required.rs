//! The error that sends a user to a page first: `-32042`, on its way to a client (ELIC-10).

use std::collections::BTreeSet;

use bytes::Bytes;
use url::Url;

use crate::call::Fault;
use crate::jsonrpc::error::POLICY_DENIED;
use crate::jsonrpc::scan::{self, Span};
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, ErrorObject, Message, Object, text};
use crate::relay::exchange::question::Marks;
use crate::relay::pair::Pair;

/// What the client gets in place of an error `-32042`, whose `error` is given. Its pages are known from here on, since a
/// notice that they are done with may follow. None when it names no page and passes as it is.
#[must_use]
pub fn shown(pair: Pair<'_>, message: &Message, error: &Object) -> Option<Message> {
    let text = message.text();
    let data = object_at(text, error.find(text, "data")).ok().flatten()?;
    let list = data.find(text, "elicitations").filter(|span| text[span.start] == b'[')?;
    let mut places = Vec::new();
    scan::elements(text, list.start, |place| {
        places.push(place);
        Ok(())
    })
    .ok()?;
    if places.is_empty() {
        return None;
    }
    let replaced = match takes_pages(pair) {
        Ok(()) => match marked(pair, text, &places) {
            Ok(text) => return Message::parse(text).ok(),
            Err(why) => broken(pair, why),
        },
        Err(reason) => refused(pair, reason, &hosts(text, &places)),
    };
    Message::parse(replaced.answer(message.id().as_ref())).ok()
}

/// Whether the session's user can be sent to a page; if not, the reason as `data` has it.
fn takes_pages(pair: Pair<'_>) -> Result<(), &'static str> {
    // Below 2025-11-25 nothing of the kind can have been declared.
    if !pair.session.capabilities.url {
        return Err("url_elicitation_unsupported");
    }
    // An upstream that cannot know whom it has before it would send one person to another's page (ELIC-15).
    let is_bound = pair.relay.upstreams.is_bound(pair.upstream, pair.session);
    if is_bound { Ok(()) } else { Err("url_elicitation_untrusted") }
}

/// The whole text with our own ids in it.
fn marked(pair: Pair<'_>, text: &Bytes, places: &[Span]) -> Result<Bytes, &'static str> {
    let exchange = pair.exchange().ok_or("its session has ended")?;
    let marks = Marks { exchange: &exchange, upstream: pair.upstream, origin: pair.origin() };
    let mut edits = Edits::new();
    for place in places {
        let page =
            object_at(text, Some(place.clone())).ok().flatten().ok_or("an elicitation is no object")?;
        marks.page(text, &page, &mut edits)?;
    }
    Ok(edits.apply(text))
}

fn broken(pair: Pair<'_>, why: &'static str) -> ErrorObject {
    Fault::Protocol { upstream: pair.entry().name.clone(), why: why.into() }.to_error()
}

/// The error for a client that cannot send its user there: it learns the hosts and nothing else of the addresses.
fn refused(pair: Pair<'_>, reason: &'static str, hosts: &[String]) -> ErrorObject {
    let name = &pair.entry().name;
    let quoted: Vec<_> = hosts.iter().map(|host| text::quote(host)).collect();
    ErrorObject {
        code: POLICY_DENIED,
        message: format!(
            "Upstream `{name}` wants the user to open a page at {}, to which this client cannot send them",
            if hosts.is_empty() { "an unknown host".to_owned() } else { hosts.join(", ") },
        ),
        data: Some(format!(
            r#"{{"origin":"gateway","reason":"{reason}","upstream":{},"hosts":[{}]}}"#,
            text::quote(name),
            quoted.join(","),
        )),
    }
}

/// The hosts of the pages, each once.
fn hosts(text: &[u8], places: &[Span]) -> Vec<String> {
    let host = |place: &Span| {
        let page = object_at(text, Some(place.clone())).ok()??;
        Url::parse(&page.string(text, "url")?).ok()?.host_str().map(str::to_owned)
    };
    places.iter().filter_map(host).collect::<BTreeSet<_>>().into_iter().collect()
}

#[cfg(test)]
mod tests;
