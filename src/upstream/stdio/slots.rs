//! Caps on processes: so many per upstream, so many in all, and a fair queue before them (R-11, STDIO-10, F-085).
//!
//! *Invariants:* a slot is held until its process is reaped. Free slots go round by tenant, and within a tenant to who has
//! waited longest; a waiter whose upstream is full does not hold up the others. Nobody waits while their slot is free.
//!
//! *On drop:* a [`Slot`] goes to the next waiter. A wait that is dropped leaves the queue, or hands back what it was just
//! given.
//!
//! *Limits:* at most [`WAITERS`] wait, each no longer than the configured time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use crate::base::{caps, clock};

/// How many may wait in all. More would only wait to be refused.
pub const WAITERS: usize = 1024;

/// How many processes, and how long to queue for one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Caps {
    /// Processes of one upstream (`portcullis.children.perUpstream`).
    pub per_upstream: usize,
    /// Processes of all (`portcullis.children.total`).
    pub total: usize,
    /// How long to wait for a slot (`portcullis.children.queue`).
    pub queue: Duration,
}

impl Default for Caps {
    fn default() -> Self {
        Self {
            per_upstream: caps::CHILDREN_PER_UPSTREAM,
            total: caps::CHILDREN,
            queue: caps::CHILD_SLOT_WAIT,
        }
    }
}

/// No slot came free in time. Names what to change.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{running} processes run, which is all that {key} allows; stop some, raise {key}, or let sessions share a process (isolation)"
)]
pub struct Full {
    /// The key of the configuration that sets the cap.
    pub key: &'static str,
    /// How many processes count against it.
    pub running: usize,
}

/// The slots of a gateway.
#[derive(Debug, Clone)]
pub struct Slots {
    desk: Arc<Mutex<Desk>>,
}

impl Slots {
    /// Slots by these caps, all free.
    #[must_use]
    pub fn new(caps: Caps) -> Self {
        Self {
            desk: Arc::new(Mutex::new(Desk {
                caps,
                running: 0,
                per_upstream: BTreeMap::new(),
                round: VecDeque::new(),
                waiting: 0,
                next_ticket: 0,
            })),
        }
    }

    /// Takes a slot for a process of `upstream` on behalf of `tenant`, waiting if need be. Safe to cancel.
    ///
    /// # Errors
    /// [`Full`] if none came free in time, or too many wait already.
    pub async fn acquire(&self, upstream: &Arc<str>, tenant: &Arc<str>) -> Result<Slot, Full> {
        let (mut wait, limit) = {
            let mut desk = lock(&self.desk);
            if desk.has_room(upstream) {
                desk.take(upstream);
                return Ok(self.slot(upstream));
            }
            if desk.waiting >= WAITERS {
                return Err(desk.full(upstream));
            }
            let (ticket, granted) = desk.queue(upstream, tenant);
            let wait = Wait { slots: self, upstream, ticket, granted: Some(granted) };
            (wait, desk.caps.queue)
        };
        let granted = wait.granted.as_mut().expect("taken below and in drop only");
        if clock::within(limit, granted).await.is_ok_and(|granted| granted.is_ok()) {
            wait.granted = None;
            return Ok(self.slot(upstream));
        }
        let full = lock(&self.desk).full(upstream);
        Err(full)
    }

    /// Changes the caps. Processes above a lower cap run on.
    pub fn set_caps(&self, caps: Caps) {
        let mut desk = lock(&self.desk);
        desk.caps = caps;
        desk.grant();
    }

    /// Processes that hold a slot.
    #[must_use]
    pub fn running(&self) -> usize {
        lock(&self.desk).running
    }

    fn slot(&self, upstream: &Arc<str>) -> Slot {
        Slot { slots: self.clone(), upstream: Arc::clone(upstream) }
    }
}

/// The right to one process.
#[derive(Debug)]
#[must_use = "a slot goes back when it is dropped"]
pub struct Slot {
    slots: Slots,
    upstream: Arc<str>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        lock(&self.slots.desk).give_back(&self.upstream);
    }
}

/// One who waits.
struct Wait<'a> {
    slots: &'a Slots,
    upstream: &'a Arc<str>,
    ticket: u64,
    granted: Option<oneshot::Receiver<()>>,
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Some(mut granted) = self.granted.take() else {
            return;
        };
        let mut desk = lock(&self.slots.desk);
        if granted.try_recv().is_ok() {
            desk.give_back(self.upstream);
        } else {
            desk.leave(self.ticket);
        }
    }
}

#[derive(Debug)]
struct Desk {
    caps: Caps,
    running: usize,
    per_upstream: BTreeMap<Arc<str>, usize>,
    /// The queues of the tenants; the first is served next.
    round: VecDeque<(Arc<str>, VecDeque<Waiter>)>,
    waiting: usize,
    next_ticket: u64,
}

#[derive(Debug)]
struct Waiter {
    ticket: u64,
    upstream: Arc<str>,
    grant: oneshot::Sender<()>,
}

impl Desk {
    fn of(&self, upstream: &str) -> usize {
        self.per_upstream.get(upstream).copied().unwrap_or(0)
    }

    fn has_room(&self, upstream: &str) -> bool {
        self.running < self.caps.total && self.of(upstream) < self.caps.per_upstream
    }

    fn full(&self, upstream: &str) -> Full {
        let own = self.of(upstream);
        if own >= self.caps.per_upstream {
            Full { key: "portcullis.children.perUpstream", running: own }
        } else {
            Full { key: "portcullis.children.total", running: self.running }
        }
    }

    fn take(&mut self, upstream: &Arc<str>) {
        self.running += 1;
        *self.per_upstream.entry(Arc::clone(upstream)).or_default() += 1;
    }

    fn give_back(&mut self, upstream: &str) {
        self.untake(upstream);
        self.grant();
    }

    fn untake(&mut self, upstream: &str) {
        self.running = self.running.saturating_sub(1);
        if let Some(count) = self.per_upstream.get_mut(upstream) {
            *count -= 1;
            if *count == 0 {
                self.per_upstream.remove(upstream);
            }
        }
    }

    fn queue(&mut self, upstream: &Arc<str>, tenant: &Arc<str>) -> (u64, oneshot::Receiver<()>) {
        let (grant, granted) = oneshot::channel();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting += 1;
        let waiter = Waiter { ticket, upstream: Arc::clone(upstream), grant };
        match self.round.iter_mut().find(|(name, _)| name == tenant) {
            Some((_, queue)) => queue.push_back(waiter),
            None => self.round.push_back((Arc::clone(tenant), VecDeque::from([waiter]))),
        }
        (ticket, granted)
    }

    fn leave(&mut self, ticket: u64) {
        for (_, queue) in &mut self.round {
            if let Some(place) = queue.iter().position(|waiter| waiter.ticket == ticket) {
                queue.remove(place);
                self.waiting -= 1;
                break;
            }
        }
        self.round.retain(|(_, queue)| !queue.is_empty());
    }

    /// Hands out what is free.
    fn grant(&mut self) {
        while let Some(waiter) = self.next_waiter() {
            self.waiting -= 1;
            self.take(&waiter.upstream);
            if waiter.grant.send(()).is_err() {
                // It left in this very moment; its `Wait` finds nothing to give back.
                self.untake(&waiter.upstream);
            }
        }
    }

    fn next_waiter(&mut self) -> Option<Waiter> {
        for nth in 0..self.round.len() {
            let queue = &self.round[nth].1;
            let Some(place) = queue.iter().position(|waiter| self.has_room(&waiter.upstream)) else {
                continue;
            };
            let (tenant, mut queue) = self.round.remove(nth)?;
            let waiter = queue.remove(place);
            if !queue.is_empty() {
                self.round.push_back((tenant, queue));
            }
            return waiter;
        }
        None
    }
}

fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
