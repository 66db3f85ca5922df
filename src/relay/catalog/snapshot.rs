//! What one upstream lists, as of one reading (D8).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use crate::call::Handshake;
use crate::config::snapshot::{Catalog as Limits, ToolFilter};
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::item::{self, Item, Unfit};
use crate::telemetry::words::DropReason;

/// The lists of one upstream. Immutable.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// What the upstream said when it was met.
    pub handshake: Arc<Handshake>,
    /// The items by [`ItemKind::index`], in the upstream's order.
    pub items: [Arc<Vec<Item>>; 4],
    /// Until when all of it was known to be so.
    pub read_at: Instant,
    /// Whether it is of an earlier run or only in part of this one.
    pub stale: bool,
}

impl Snapshot {
    /// The items of one kind.
    #[must_use]
    pub fn of(&self, kind: ItemKind) -> &[Item] {
        &self.items[kind.index()]
    }

    /// Whether the upstream said the same in another reading.
    #[must_use]
    pub fn says_same(&self, other: &Self) -> bool {
        let (one, other_one) = (&*self.handshake, &*other.handshake);
        self.items == other.items
            && one.revision == other_one.revision
            && one.capabilities == other_one.capabilities
            && one.server_info == other_one.server_info
            && one.instructions == other_one.instructions
    }
}

/// Collects the pages of one list.
///
/// *Limits.* R-21; what exceeds them is left out and reported.
pub struct Collector<'a> {
    kind: ItemKind,
    limits: &'a Limits,
    filter: &'a ToolFilter,
    seen: HashSet<Box<str>>,
    bytes: usize,
    /// The items so far.
    pub items: Vec<Item>,
    /// What was left out.
    pub unfit: Vec<Unfit>,
}

impl<'a> Collector<'a> {
    /// An empty collector.
    #[must_use]
    pub fn new(kind: ItemKind, limits: &'a Limits, filter: &'a ToolFilter) -> Self {
        Self { kind, limits, filter, seen: HashSet::new(), bytes: 0, items: Vec::new(), unfit: Vec::new() }
    }

    /// The kind of list.
    #[must_use]
    pub fn kind(&self) -> ItemKind {
        self.kind
    }

    /// Takes the elements of a page; says whether any of them was new (F-050).
    pub fn page(&mut self, elements: &[Bytes]) -> bool {
        let mut any_new = false;
        for element in elements {
            match item::read(self.kind, element, self.limits.max_item_size) {
                Ok(item) => any_new |= self.take(item),
                Err(unfit) => {
                    any_new |= self.seen.insert(unfit.item.as_str().into());
                    self.unfit.push(unfit);
                }
            }
        }
        any_new
    }

    fn take(&mut self, item: Item) -> bool {
        let drop = |reason, detail| Unfit { item: item.key.to_string(), reason, detail };
        if !self.seen.insert(item.key.clone()) {
            self.unfit.push(drop(DropReason::Duplicate, "it occurs twice in the list"));
            return false;
        }
        if self.kind == ItemKind::Tool && !self.filter.allows(&item.key) {
            return true;
        }
        if self.items.len() >= self.limits.max_items || self.bytes + item.text.len() > self.limits.max_size {
            self.unfit.push(drop(DropReason::TooMany, "the list exceeds `maxItems` or `maxSize`"));
            return true;
        }
        self.bytes += item.text.len();
        // Its own memory: a slice would keep the whole page alive.
        self.items.push(Item { text: Bytes::copy_from_slice(&item.text), ..item });
        true
    }
}
