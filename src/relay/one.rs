//! A call to one upstream: found by its exposed name or URI, sent under the upstream's own, and back.

use std::borrow::Cow;
use std::sync::Arc;

use tower::ServiceExt;

use crate::base::caps;
use crate::call::{Call, Fault, Handshake, OutCall, Params, Purpose, Reply, UpstreamId};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, Object, text};
use crate::mcp::methods::{Class, ItemKind, Slot, UNSUBSCRIBE};
use crate::mcp::project;
use crate::mcp::revision::Revision;
use crate::mcp::uris;
use crate::relay::back::Back;
use crate::relay::catalog::view::View;
use crate::relay::completion;
use crate::relay::route::Relay;

/// Where a call goes, and what it says there.
struct Way {
    upstream: UpstreamId,
    /// Where the exposed name stands, and what stands there for the upstream.
    edit: Option<(Span, String)>,
    /// The upstream's own name of the tool.
    tool: Option<Arc<str>>,
}

/// Carries a call to its upstream.
///
/// # Errors
/// `Unknown` or `ResourceNotFound` for what nobody has, `InvalidParams`, and whatever the upstream's way reports.
pub async fn call(relay: &Arc<Relay>, call: Call, slot: Slot) -> Result<Reply, Fault> {
    let view = relay.catalog.board_of(&call.session).current();
    let way = match find(&view, &call, slot) {
        Err(fault) if view.incomplete => {
            // The name may be that of an upstream whose first answer is still awaited (F-083).
            relay.catalog.settled(relay.config.catalog.start_budget).await;
            let view = relay.catalog.board_of(&call.session).current();
            find(&view, &call, slot).map_err(|_| fault)?
        }
        found => found?,
    };
    let upstream = way.upstream;
    call.course.goes_to(upstream);
    let session = Arc::clone(&call.session);
    let back = Back { relay, session: &session, upstream, method: call.method };
    if slot == Slot::Reference {
        let handshake = relay.catalog.members()[upstream.index()].handshake();
        if handshake.as_deref().is_some_and(|known| !offers_completions(known)) {
            return Ok(Reply::Done(completion::none()));
        }
        let without = project::unknown_members(call.method, handshake.map(|known| known.revision));
        let sent = relay.out.clone().oneshot(out_call(call, way, without));
        let answer =
            completion::answer(&relay.catalog.members()[upstream.index()].upstream.name, sent).await?;
        return Ok(Reply::Done(back.answer(answer)));
    }
    if call.method.class == Class::Subscribe && !may_offer_updates(relay, upstream) {
        return unsubscribable(&call);
    }
    let without = project::unknown_members(call.method, None);
    let reply = relay.out.clone().oneshot(out_call(call, way, without)).await?;
    Ok(match reply {
        Reply::Done(answer) => Reply::Done(back.answer(answer)),
        Reply::Items(items) => Reply::Items(Box::pin(back.items(items))),
    })
}

/// RES-10: whether it declared subscriptions, or is not known yet.
fn may_offer_updates(relay: &Relay, upstream: UpstreamId) -> bool {
    let handshake = relay.catalog.members()[upstream.index()].handshake();
    handshake.is_none_or(|known| known.capabilities.subscribe)
}

/// RES-10: what cannot be subscribed to is not subscribed to, so unsubscribing has nothing to do.
fn unsubscribable(call: &Call) -> Result<Reply, Fault> {
    if call.method.name == UNSUBSCRIBE.name {
        return Ok(Reply::empty());
    }
    Err(Fault::SubscribeUnsupported { uri: call.param("uri").unwrap_or_default().into_owned() })
}

/// COMP-01, COMP-05: an upstream that declared none is not asked; before they were declared, all are.
fn offers_completions(handshake: &Handshake) -> bool {
    handshake.capabilities.completions || handshake.revision < Revision::V2025_03_26
}

/// The call as it goes out, less the parameters `without` and a progress token that is none (PROG-01).
fn out_call(call: Call, way: Way, without: &[&str]) -> OutCall {
    let mut edits = Edits::new();
    let text = call.message.text();
    if let Some((span, with)) = way.edit {
        edits.replace(span, with);
    }
    edits.remove(text, &call.params, without);
    if call.progress.is_none()
        && let Ok(Some(meta)) = object_at(text, call.params.find(text, "_meta"))
    {
        edits.remove(text, &meta, &["progressToken"]);
    }
    OutCall {
        upstream: way.upstream,
        purpose: Purpose::Session(call.session),
        method: call.method,
        params: Params::Edited(call.message, edits),
        progress: call.progress,
        tool: way.tool,
        course: call.course,
    }
}

fn find(view: &View, call: &Call, slot: Slot) -> Result<Way, Fault> {
    match slot {
        Slot::Tool => by_name(view, call, ItemKind::Tool, "tool"),
        Slot::Prompt => by_name(view, call, ItemKind::Prompt, "prompt"),
        Slot::Resource => by_uri(view, call.message.text(), &call.params),
        Slot::Reference => by_reference(view, call),
    }
}

fn by_name(view: &View, call: &Call, kind: ItemKind, what: &'static str) -> Result<Way, Fault> {
    let name = call.param("name").ok_or(Fault::InvalidParams("`name` is missing or not a string".into()))?;
    let route = view.route(kind, &name).ok_or_else(|| unknown(what, &name))?;
    let span = call.params.find(call.message.text(), "name").filter(|_| *route.original != *name);
    Ok(Way {
        upstream: route.upstream,
        edit: span.map(|span| (span, text::quote(&route.original))),
        tool: (kind == ItemKind::Tool).then(|| route.original.clone()),
    })
}

fn unknown(what: &'static str, name: &str) -> Fault {
    Fault::Unknown { what, name: name.chars().take(128).collect() }
}

fn by_uri(view: &View, text: &[u8], object: &Object) -> Result<Way, Fault> {
    let missing = || Fault::InvalidParams("`uri` is missing or not a string".into());
    let span = object.find(text, "uri").ok_or_else(missing)?;
    let uri = text::unquote(&text[span.clone()]).ok_or_else(missing)?;
    // RES-08: what no upstream could have listed concerns none, and is not repeated at any length.
    let valid = uris::check(&uri).is_ok();
    let found = valid.then(|| view.locate(&uri)).flatten();
    let (upstream, original) =
        found.ok_or_else(|| Fault::ResourceNotFound { uri: uri.chars().take(caps::URI_BYTES).collect() })?;
    let edit = (original != uri).then(|| (span, text::quote(&original)));
    Ok(Way { upstream, edit, tool: None })
}

/// COMP-02: a prompt's name or a resource's URI or template.
fn by_reference(view: &View, call: &Call) -> Result<Way, Fault> {
    let text = call.message.text();
    let wrong = |what: &'static str| Fault::InvalidParams(Cow::Borrowed(what));
    let reference =
        object_at(text, call.params.find(text, "ref")).map_err(|_| wrong("`ref` repeats a member"))?;
    let reference = reference.ok_or_else(|| wrong("`ref` is missing or not an object"))?;
    match reference.string(text, "type").as_deref() {
        Some("ref/prompt") => {
            let name = reference
                .string(text, "name")
                .ok_or_else(|| wrong("`ref.name` is missing or not a string"))?;
            let route = view.route(ItemKind::Prompt, &name).ok_or_else(|| unknown("prompt", &name))?;
            let span = reference.find(text, "name").filter(|_| *route.original != *name);
            Ok(Way {
                upstream: route.upstream,
                edit: span.map(|span| (span, text::quote(&route.original))),
                tool: None,
            })
        }
        Some("ref/resource") => by_uri(view, text, &reference),
        _ => Err(wrong("`ref.type` is neither `ref/prompt` nor `ref/resource`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::catalog::view::{Source, merge};

    fn text(uri: &str) -> (Vec<u8>, Object) {
        let text = format!(r#"{{"uri":{}}}"#, text::quote(uri)).into_bytes();
        let object = Object::scan(&text, 0).unwrap();
        (text, object)
    }

    /// RES-08: not even the upstream without a namespace, which gets all others, is sent such a URI.
    #[test]
    fn uris_that_nobody_can_have_go_nowhere() {
        let bare = Source { id: UpstreamId(0), namespace: None, snapshot: None, barred: Arc::default() };
        let view = merge(&[bare], 64, 1);
        let found = |uri: &str| {
            let (text, object) = text(uri);
            by_uri(&view, &text, &object)
        };
        assert!(found("x://1").is_ok());
        assert!(found("x://1\n2").is_err());
        let long = format!("x://{}", "1".repeat(1 << 20));
        let Err(Fault::ResourceNotFound { uri }) = found(&long) else { panic!("it went somewhere") };
        assert_eq!(uri.len(), caps::URI_BYTES);
    }
}
