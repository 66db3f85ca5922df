//! What clients of one endpoint see: the lists of its upstreams merged, named, ordered, ready to send (D8, D9).
//!
//! *Invariants.* Each exposed name leads to one item of one upstream; a name that two upstreams claim
//! leads nowhere (R-19). The order is that of the configuration, then the upstream's own (PAGE-05), so
//! equal snapshots give equal lists whatever came first.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use crate::call::UpstreamId;
use crate::jsonrpc::rewrite::UriMap;
use crate::mcp::capabilities::ServerCapabilities;
use crate::mcp::methods::ItemKind;
use crate::mcp::{names, uris};
use crate::relay::catalog::render;
use crate::relay::catalog::snapshot::Snapshot;
use crate::telemetry::words::DropReason;

/// An upstream as it takes part in a view.
#[derive(Clone)]
pub struct Source {
    /// Which one.
    pub id: UpstreamId,
    /// Its prefix; none for its own names.
    pub namespace: Option<Arc<str>>,
    /// Its lists; none until they were read once.
    pub snapshot: Option<Arc<Snapshot>>,
    /// Exposed names that it claimed when another upstream held them already (R-19).
    pub barred: Arc<HashSet<(ItemKind, String)>>,
}

/// Where an exposed name leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// To whom.
    pub upstream: UpstreamId,
    /// What it is called there.
    pub original: Arc<str>,
}

/// A list that is ready to send.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct List {
    /// The items in order.
    pub items: Vec<Bytes>,
    /// The whole `result`.
    pub whole: Bytes,
}

/// An item that is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withheld {
    /// Whose.
    pub upstream: UpstreamId,
    /// Of what kind.
    pub kind: ItemKind,
    /// Its own name.
    pub item: String,
    /// Why.
    pub reason: DropReason,
}

/// The merged lists of one endpoint. Immutable.
#[derive(Default)]
pub struct View {
    /// Counts the views of an endpoint; cursors name it (PAGE-05).
    pub epoch: u64,
    /// By [`ItemKind::index`].
    pub lists: [List; 4],
    /// What is not shown, and why.
    pub withheld: Vec<Withheld>,
    /// What its upstreams declared, united (LIFE-13).
    pub capabilities: ServerCapabilities,
    /// Whether an upstream has not been read yet.
    pub incomplete: bool,
    routes: [HashMap<Box<str>, Route>; 2],
    slugs: HashMap<Box<str>, UpstreamId>,
    /// Exact URIs that carry no namespace: `https:` ones, and all of upstreams without one.
    bare: HashMap<Box<str>, UpstreamId>,
    /// Templates that carry no namespace, in order.
    bare_templates: Vec<(Arc<str>, UpstreamId)>,
    /// The only upstream without a namespace, if there is exactly one.
    only_bare: Option<UpstreamId>,
}

/// Merges `sources`, which stand in the order of the configuration.
#[must_use]
pub fn merge(sources: &[Source], budget: usize, epoch: u64) -> View {
    let mut view = View { epoch, ..View::default() };
    let mut bare = sources.iter().filter(|source| source.namespace.is_none());
    view.only_bare = bare.next().filter(|_| bare.next().is_none()).map(|source| source.id);
    view.incomplete = sources.iter().any(|source| source.snapshot.is_none());
    for source in sources {
        if let Some(namespace) = &source.namespace {
            view.slugs.insert(uris::scheme_slug(namespace).into(), source.id);
        }
        if let Some(snapshot) = &source.snapshot {
            view.capabilities = view.capabilities.union(snapshot.handshake.capabilities);
        }
    }
    for kind in [ItemKind::Tool, ItemKind::Prompt] {
        view.merge_named(sources, kind, budget);
    }
    for kind in [ItemKind::Resource, ItemKind::Template] {
        view.merge_located(sources, kind);
    }
    view
}

impl View {
    /// Where a tool's or a prompt's exposed name leads.
    #[must_use]
    pub fn route(&self, kind: ItemKind, name: &str) -> Option<&Route> {
        self.routes.get(kind.index())?.get(name)
    }

    /// Whose resource a URI is, and what it is called there (RES-03 to RES-06).
    #[must_use]
    pub fn locate<'u>(&self, uri: &'u str) -> Option<(UpstreamId, Cow<'u, str>)> {
        if let Some(owner) = self.bare.get(uri) {
            return Some((*owner, Cow::Borrowed(uri)));
        }
        if let Some((slug, original)) = uris::split(uri)
            && let Some(upstream) = self.slugs.get(slug)
        {
            return Some((*upstream, original));
        }
        let matching = self.bare_templates.iter().filter(|(template, _)| matches_template(template, uri));
        let mut owners = matching.map(|(_, owner)| *owner);
        let owner = match owners.next() {
            Some(owner) => Some(owner).filter(|owner| owners.all(|other| other == *owner)),
            None => self.only_bare,
        };
        Some((owner?, Cow::Borrowed(uri)))
    }

    fn merge_named(&mut self, sources: &[Source], kind: ItemKind, budget: usize) {
        let exposed: Vec<_> = sources.iter().map(|source| named(source, kind, budget)).collect();
        let mut claims: HashMap<&str, usize> = HashMap::new();
        for (source, exposed) in sources.iter().zip(&exposed) {
            for exposed in exposed.iter().filter(|exposed| !is_barred(source, kind, &exposed.name)) {
                *claims.entry(&exposed.name).or_default() += 1;
            }
        }
        let mut items = Vec::new();
        for (source, exposed) in sources.iter().zip(&exposed) {
            let Some(snapshot) = &source.snapshot else { continue };
            let slug = source.namespace.as_deref().map(uris::scheme_slug);
            for (item, exposed) in snapshot.of(kind).iter().zip(exposed) {
                if is_barred(source, kind, &exposed.name)
                    || claims.get(&*exposed.name).is_some_and(|n| *n > 1)
                {
                    self.withhold(source.id, kind, &item.key, DropReason::Clash);
                    continue;
                }
                let route = Route { upstream: source.id, original: Arc::from(&*item.key) };
                self.routes[kind.index()].insert(exposed.name.as_str().into(), route);
                items.push(render::named(item, exposed, slug.as_deref()));
            }
        }
        self.lists[kind.index()] = list(kind, items);
    }

    fn merge_located(&mut self, sources: &[Source], kind: ItemKind) {
        let (mut items, mut owners) = (Vec::new(), HashMap::new());
        for source in sources {
            let Some(snapshot) = &source.snapshot else { continue };
            let slug = source.namespace.as_deref().map(uris::scheme_slug);
            for item in snapshot.of(kind) {
                let shown =
                    uris::check(&item.key).and_then(|()| render::located(kind, item, slug.as_deref()));
                let Ok((text, exposed)) = shown else {
                    self.withhold(source.id, kind, &item.key, DropReason::Malformed);
                    continue;
                };
                // R-20, RES-05: what two have is the first one's, and the other's is not shown.
                if *owners.entry(exposed.clone()).or_insert(source.id) != source.id {
                    self.withhold(source.id, kind, &item.key, DropReason::Clash);
                    continue;
                }
                // Without a namespace it is the catalog that knows the owner.
                if exposed == *item.key {
                    if kind == ItemKind::Template {
                        self.bare_templates.push((Arc::from(&*exposed), source.id));
                    }
                    self.bare.entry(exposed.into()).or_insert(source.id);
                }
                items.push(text);
            }
        }
        self.lists[kind.index()] = list(kind, items);
    }

    fn withhold(&mut self, upstream: UpstreamId, kind: ItemKind, item: &str, reason: DropReason) {
        self.withheld.push(Withheld { upstream, kind, item: item.to_owned(), reason });
    }
}

/// The exposed names of one upstream's items, in their order.
#[must_use]
pub fn named(source: &Source, kind: ItemKind, budget: usize) -> Vec<names::Exposed> {
    let Some(snapshot) = &source.snapshot else { return Vec::new() };
    names::expose_all(source.namespace.as_deref(), snapshot.of(kind).iter().map(|item| &*item.key), budget)
}

fn is_barred(source: &Source, kind: ItemKind, name: &str) -> bool {
    !source.barred.is_empty() && source.barred.contains(&(kind, name.to_owned()))
}

fn list(kind: ItemKind, items: Vec<Bytes>) -> List {
    let member = kind.member();
    let room = items.iter().map(|item| item.len() + 1).sum::<usize>() + member.len() + 8;
    let mut whole = Vec::with_capacity(room);
    whole.extend_from_slice(format!(r#"{{"{member}":["#).as_bytes());
    for (n, item) in items.iter().enumerate() {
        if n > 0 {
            whole.push(b',');
        }
        whole.extend_from_slice(item);
    }
    whole.extend_from_slice(b"]}");
    List { items, whole: Bytes::from(whole) }
}

/// How an upstream's URIs become those that clients of the merged endpoint see.
#[must_use]
pub fn uri_map(namespace: &str) -> UriMap {
    let slug = uris::scheme_slug(namespace).into_owned();
    Arc::new(move |uri| match uris::expose(&slug, uri) {
        Ok(Cow::Owned(mapped)) => Some(mapped),
        Ok(Cow::Borrowed(_)) | Err(_) => None,
    })
}

/// Whether a URI can be an expansion of a template: its literal parts occur in order, at the right ends.
fn matches_template(template: &str, uri: &str) -> bool {
    let mut literals = template.split('{');
    let Some(mut rest) = literals.next().and_then(|head| uri.strip_prefix(head)) else { return false };
    let tails: Vec<_> = literals.map(|part| part.split_once('}').map_or("", |(_, tail)| tail)).collect();
    let Some((last, middle)) = tails.split_last() else { return rest.is_empty() };
    for literal in middle {
        let Some(at) = rest.find(literal) else { return false };
        rest = &rest[at + literal.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests;
