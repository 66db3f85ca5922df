//! Merging what is known of the upstreams into what clients of each endpoint see.
//!
//! *Invariants.* Where nothing has changed the view stays, and with it the cursors of who pages through it (PAGE-05).

use std::collections::HashSet;
use std::sync::{Arc, PoisonError};

use super::Catalog;
use crate::call::Endpoint;
use crate::mcp::methods::ItemKind;
use crate::relay::catalog::member::Member;
use crate::relay::catalog::view::{self, Source, View};
use crate::telemetry::events::relay::ItemDropped;
use crate::telemetry::words::DropReason;

impl Catalog {
    /// Merges what is known into the views, and tells who sees it differently.
    pub(super) fn merge(&self) {
        let limits = &self.config.catalog;
        let all = self.sources();
        let before = {
            let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *shown, all.clone())
        };
        let same = |n: usize| before.get(n).is_some_and(|before| shows_same(before, &all[n]));
        let mut news = Vec::new();
        let current = self.merged.current();
        if current.epoch == 0 || !(0..all.len()).all(same) {
            let merged = view::merge(&all, limits.name_budget, current.epoch + 1);
            self.report_withheld(&current, &merged);
            news.push((Endpoint::Merged, self.merged.show(merged)));
        }
        for (n, (member, board)) in self.members.iter().zip(&self.single).enumerate() {
            if same(n) {
                continue;
            }
            let current = board.current();
            let alone = Source { namespace: None, barred: Arc::default(), ..all[n].clone() };
            let view = view::merge(&[alone], limits.upstream_name_budget, current.epoch + 1);
            if view.incomplete != current.incomplete || view.lists != current.lists || current.epoch == 0 {
                news.push((Endpoint::Upstream(member.id), board.show(view)));
            }
        }
        if !(0..all.len()).all(same) {
            self.merge_own();
        }
        if let Some(audience) = self.audience.get() {
            for (endpoint, changed) in news {
                changed.into_iter().for_each(|kind| audience.list_changed(endpoint, kind));
            }
        }
    }

    /// The upstreams as they take part in the merged view. A name that its holder has given up is free for who was
    /// barred from it.
    fn sources(&self) -> Vec<Source> {
        let source = |member: &Arc<Member>| {
            let state = member.state();
            let namespace = member.upstream.namespace.clone();
            Source { id: member.id, namespace, snapshot: state.snapshot, barred: state.barred }
        };
        let mut all: Vec<_> = self.members.iter().map(source).collect();
        for n in 0..all.len() {
            let holds = |other: &Source, (kind, name): &(ItemKind, String)| {
                other.id != all[n].id
                    && !other.barred.contains(&(*kind, name.clone()))
                    && view::named(other, *kind, self.config.catalog.name_budget)
                        .iter()
                        .any(|exposed| exposed.name == *name)
            };
            let free = |claim: &&(ItemKind, String)| !all.iter().any(|other| holds(other, claim));
            let free: HashSet<_> = all[n].barred.iter().filter(free).cloned().collect();
            if !free.is_empty() {
                Arc::make_mut(&mut all[n].barred).retain(|claim| !free.contains(claim));
                self.members[n]
                    .update(|state| Arc::make_mut(&mut state.barred).retain(|claim| !free.contains(claim)));
            }
        }
        all
    }

    /// Reports what was shown before, or was not there, and is not shown now.
    fn report_withheld(&self, before: &View, now: &View) {
        let known: HashSet<_> = before
            .withheld
            .iter()
            .map(|withheld| (withheld.upstream, withheld.kind, &withheld.item))
            .collect();
        for withheld in &now.withheld {
            if known.contains(&(withheld.upstream, withheld.kind, &withheld.item)) {
                continue;
            }
            let upstream = &*self.members[withheld.upstream.index()].upstream.name;
            let detail = match withheld.reason {
                DropReason::Clash => "another upstream has the same name; give one of them a namespace",
                _ => "it cannot be shown",
            };
            let (kind, item, reason) = (withheld.kind, &*withheld.item, withheld.reason);
            ItemDropped { upstream, kind, item, reason, detail: &detail }.emit();
        }
    }
}

/// Whether clients see the same of two states of an upstream.
fn shows_same(one: &Source, other: &Source) -> bool {
    let lists = match (&one.snapshot, &other.snapshot) {
        (Some(one), Some(other)) => {
            one.items == other.items && one.handshake.capabilities == other.handshake.capabilities
        }
        (None, None) => true,
        _ => false,
    };
    lists && one.barred == other.barred
}
