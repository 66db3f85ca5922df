//! Reading an upstream's lists to their end (PAGE-01 to PAGE-04, F-049, F-050).

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use tower::ServiceExt;

use crate::base::clock;
use crate::call::{Body, Fault, Handshake, OutCall, OutService, Params, Purpose, Reply};
use crate::config::snapshot::Catalog as Limits;
use crate::jsonrpc::error::METHOD_NOT_FOUND;
use crate::jsonrpc::id;
use crate::jsonrpc::view::{elements_at, object_at};
use crate::jsonrpc::{Kind, Message};
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::item::{self, Item, Unfit};
use crate::relay::catalog::member::Member;
use crate::relay::catalog::snapshot::{Collector, Snapshot};

/// One reading of an upstream.
pub struct Reading {
    /// What it lists now.
    pub snapshot: Snapshot,
    /// What was left out.
    pub unfit: Vec<(ItemKind, Unfit)>,
    /// Lists that broke off and should be read again, and why the first of them did.
    pub broken: Option<(Fault, Vec<ItemKind>)>,
}

/// Of whom lists are read, and over which connection.
pub struct From<'a> {
    /// The upstream.
    pub member: &'a Member,
    /// The way to it.
    pub out: &'a OutService,
    /// Whose connection.
    pub purpose: Purpose,
}

/// Reads the lists of `kinds`; the others are taken from `before`.
///
/// # Errors
/// When no list could be read at all.
pub async fn read(
    from: &From<'_>,
    handshake: Arc<Handshake>,
    before: Option<Arc<Snapshot>>,
    limits: &Limits,
    kinds: &[ItemKind],
) -> Result<Reading, Fault> {
    let mut reading = Reading {
        snapshot: Snapshot {
            handshake: handshake.clone(),
            items: Default::default(),
            read_at: clock::now(),
            stale: false,
        },
        unfit: Vec::new(),
        broken: None,
    };
    for kind in ItemKind::ALL {
        let known = before.as_ref().map(|before| before.items[kind.index()].clone());
        let items = match known {
            Some(known) if !kinds.contains(&kind) => known,
            _ if !declares(&handshake, kind) => Arc::default(),
            known => {
                let mut collector = Collector::new(kind, limits, &from.member.upstream.tools);
                let broken = pages(from, limits, &mut collector).await.err();
                reading.unfit.extend(collector.unfit.into_iter().map(|unfit| (kind, unfit)));
                let (items, nothing) = (collector.items, known.is_none());
                match broken {
                    // Equal lists are kept once.
                    None => known.filter(|known| **known == items).unwrap_or_else(|| Arc::new(items)),
                    Some(fault) if items.is_empty() && nothing && kind == ItemKind::Tool => {
                        return Err(fault);
                    }
                    Some(fault) => {
                        // F-049: what was read is kept, what is missing is read again.
                        reading.broken.get_or_insert((fault, Vec::new())).1.push(kind);
                        reading.snapshot.stale = true;
                        known.filter(|known| known.len() > items.len()).unwrap_or_else(|| Arc::new(items))
                    }
                }
            }
        };
        reading.snapshot.items[kind.index()] = items;
    }
    if let (Some(_), Some(before)) = (&reading.broken, &before) {
        // A part that was read does not make the rest any newer.
        reading.snapshot.read_at = before.read_at;
    }
    Ok(reading)
}

fn declares(handshake: &Handshake, kind: ItemKind) -> bool {
    let capabilities = &handshake.capabilities;
    match kind {
        ItemKind::Tool => capabilities.tools,
        ItemKind::Prompt => capabilities.prompts,
        ItemKind::Resource | ItemKind::Template => capabilities.resources,
    }
}

/// Reads page after page into `collector`.
async fn pages(from: &From<'_>, limits: &Limits, collector: &mut Collector<'_>) -> Result<(), Fault> {
    let kind = collector.kind();
    let (mut cursor, mut seen) = (None::<Bytes>, HashSet::new());
    for _ in 0..limits.max_pages {
        let page = page(from, kind, cursor.as_ref()).await?;
        let Some(page) = page else { return Ok(()) };
        let any_new = collector.page(&page.elements);
        // A page without anything may still be followed by one with something; one that repeats may not.
        let stuck = !any_new && !page.elements.is_empty();
        match page.next {
            Some(next) if !stuck && seen.insert(next.clone()) => cursor = Some(next),
            _ => return Ok(()),
        }
    }
    Ok(())
}

struct Page {
    elements: Vec<Bytes>,
    /// The JSON text of the next cursor, which is nobody's to read (PAGE-02).
    next: Option<Bytes>,
}

/// One page; `None` when the upstream does not know the method (F-048).
async fn page(from: &From<'_>, kind: ItemKind, cursor: Option<&Bytes>) -> Result<Option<Page>, Fault> {
    let params = match cursor {
        Some(cursor) => Bytes::from([b"{\"cursor\":", cursor.as_ref(), b"}"].concat()),
        None => Bytes::new(),
    };
    let From { member, out, purpose } = from;
    let call = OutCall {
        upstream: member.id,
        purpose: purpose.clone(),
        method: kind.list_method(),
        params: Params::Own(params),
        progress: None,
        tool: None,
        course: Arc::default(),
    };
    let protocol =
        |why: &'static str| Fault::Protocol { upstream: member.upstream.name.clone(), why: why.into() };
    let message = settle((*out).clone().oneshot(call).await?, &member.upstream.name).await?;
    let text = message.text();
    let Some(body) = message.body() else { return Err(protocol("a list has no result")) };
    if message.kind() == Kind::Error {
        return match object_at(text, Some(body)) {
            Ok(Some(error)) if error.value(text, "code").is_some_and(is_not_found) => Ok(None),
            _ => Err(protocol("it answered a list with an error")),
        };
    }
    let result = object_at(text, Some(body))
        .ok()
        .flatten()
        .ok_or_else(|| protocol("a list's result is not an object"))?;
    let elements = elements_at(text, result.find(text, kind.member()));
    let elements = elements.map_err(|_| protocol("a list is not an array"))?;
    let next = result
        .find(text, "nextCursor")
        .map(|span| message.slice(span))
        .filter(|next| next.starts_with(b"\""));
    Ok(Some(Page { elements, next }))
}

fn is_not_found(code: &[u8]) -> bool {
    code.strip_prefix(b"-").and_then(id::number) == Some(METHOD_NOT_FOUND.unsigned_abs())
}

/// The whole answer of a reply as a message.
async fn settle(reply: Reply, upstream: &Arc<str>) -> Result<Message, Fault> {
    match reply.whole(upstream).await?.body {
        Body::Message(message) => Ok(message),
        Body::Result(_) | Body::Stream(_) => Err(Fault::Internal),
    }
}

/// Applies the operator's choice to findings: which items stay, and as what.
#[must_use]
pub fn judge(
    items: Vec<Item>,
    choice: crate::config::snapshot::OnFinding,
    kind: ItemKind,
) -> (Vec<Item>, Vec<Item>) {
    use crate::config::snapshot::OnFinding;
    use crate::telemetry::words::FindingKind;

    let harmless = |item: &Item| item.findings.iter().all(|finding| *finding == FindingKind::IconScheme);
    match choice {
        OnFinding::Report => (items, Vec::new()),
        OnFinding::Withhold => items.into_iter().partition(harmless),
        OnFinding::Strip => {
            let strip = |item: Item| {
                if harmless(&item) {
                    return item;
                }
                let text = item::stripped(&item.text);
                // Stripping may have shortened the key's place; a text that no longer reads stays as it was.
                let again = item::read(kind, &text, usize::MAX);
                again.map_or(item.clone(), |again| Item {
                    key: item.key.clone(),
                    findings: item.findings.clone(),
                    ..again
                })
            };
            (items.into_iter().map(strip).collect(), Vec::new())
        }
    }
}
