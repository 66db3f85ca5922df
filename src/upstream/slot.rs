//! The place of one connection of an upstream: who opens it, and what outlives it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::call::Session;
use crate::upstream::connection::Connection;
use crate::upstream::flight::Flight;
use crate::upstream::starts::Crashes;
use crate::upstream::subscriptions::Subscriptions;

/// The place of one connection.
#[derive(Default)]
pub struct Slot {
    open: Mutex<Option<Arc<Connection>>>,
    /// One opens it for all who wait (F-089).
    pub opening: Flight<Arc<Connection>>,
    /// How often it was lost.
    pub crashes: Crashes,
    subscriptions: Mutex<Arc<Subscriptions>>,
}

impl Slot {
    /// What is in the place, open or not.
    pub fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if it is open.
    pub fn current(&self) -> Option<Arc<Connection>> {
        self.lock().clone().filter(|connection| !connection.is_closed())
    }

    /// The subscriptions over its connection, which the next one takes over (LIFE-26).
    pub fn subscriptions(&self) -> Arc<Subscriptions> {
        Arc::clone(&self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hands its connection's subscriptions to the place that has adopted the connection, and that may have some from a
    /// connection which it has lost.
    pub fn hand_over(&self, adopter: &Self) {
        let own = std::mem::take(&mut *self.subscriptions.lock().unwrap_or_else(PoisonError::into_inner));
        let mut kept = adopter.subscriptions.lock().unwrap_or_else(PoisonError::into_inner);
        own.take_over(&kept);
        *kept = own;
    }

    /// Who misses a connection that was lost, or that could not be opened again: somebody who listens to its resources.
    pub fn missed(&self) -> Option<Arc<Session>> {
        // Nobody listens before the first connection.
        let session = if self.current().is_none() { self.subscriptions().anyone() } else { None };
        session.filter(|session| !session.ended.is_cancelled())
    }
}
