//! The view of one endpoint: the current one, and those that cursors may still page through.
//!
//! *Limits.* `KEPT` older views; a cursor of one that is gone is invalid (PAGE-05).

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;

use crate::mcp::methods::ItemKind;
use crate::relay::catalog::view::View;

/// How many older views stay readable by cursors.
const KEPT: usize = 8;

/// The current view of an endpoint.
#[derive(Default)]
pub struct Board {
    current: ArcSwap<View>,
    older: Mutex<VecDeque<Arc<View>>>,
}

impl Board {
    /// What clients see now.
    #[must_use]
    pub fn current(&self) -> Arc<View> {
        self.current.load_full()
    }

    /// The view with this epoch, if it is still kept.
    #[must_use]
    pub fn at(&self, epoch: u64) -> Option<Arc<View>> {
        let current = self.current();
        if current.epoch == epoch {
            return Some(current);
        }
        let older = self.older.lock().unwrap_or_else(PoisonError::into_inner);
        older.iter().find(|view| view.epoch == epoch).cloned()
    }

    /// Shows a new view, and says which lists clients see differently.
    pub fn show(&self, view: View) -> Vec<ItemKind> {
        let view = Arc::new(view);
        let before = self.current.swap(view.clone());
        let changed = ItemKind::ALL.into_iter();
        let changed = changed.filter(|kind| before.lists[kind.index()] != view.lists[kind.index()]).collect();
        let mut older = self.older.lock().unwrap_or_else(PoisonError::into_inner);
        older.push_back(before);
        if older.len() > KEPT {
            older.pop_front();
        }
        changed
    }
}
