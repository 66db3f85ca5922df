//! A process we are responsible for until it is reaped, whatever happens to the task that keeps it.
//!
//! *Invariants:* a group is signalled only while its leader is not reaped, so never under an id that others were given. The
//! guardian forgets a group before that.
//!
//! *On drop* of a [`Charge`] that was not reaped (its task was cancelled, or the run time went down): the group is killed,
//! and the spawner's thread sees to the rest.

use std::collections::BTreeSet;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::exit::Ending;
use super::guardian::Guardian;
use super::reaper;
use super::slots::Slot;
use super::thread::Job;
use super::tree::{self, Mark, Process};

/// What charges share: who guards them, and where they go when nobody keeps them.
pub(super) struct House {
    pub guardian: Guardian,
    /// Charges that nobody keeps any more.
    pub yard: Mutex<Vec<Charge>>,
}

impl House {
    /// Ends and reaps what lies in the yard, as far as that has come; whether something is left.
    pub(super) fn clear_yard(&self) -> bool {
        let charges = std::mem::take(&mut *self.yard.lock().unwrap_or_else(PoisonError::into_inner));
        let mut left = Vec::new();
        for mut charge in charges {
            if !(charge.kin.sweep(Signal::KILL) && charge.release().is_some()) {
                left.push(charge);
            }
        }
        let mut yard = self.yard.lock().unwrap_or_else(PoisonError::into_inner);
        yard.append(&mut left);
        !yard.is_empty()
    }
}

/// The way to signal a group for as long as it is safe.
#[derive(Debug)]
pub(super) struct Reins {
    pid: i32,
    reaped: Mutex<bool>,
}

impl Reins {
    /// The id of the leader and its group.
    pub(super) fn pid(&self) -> i32 {
        self.pid
    }

    /// Signals the group.
    pub(super) fn signal(&self, signal: Signal) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped && let Some(group) = Pid::from_raw(self.pid) {
            // A group of zombies cannot be signalled; that is fine.
            let _ = kill_process_group(group, signal);
        }
    }

    fn reap(&self) -> Option<Ending> {
        let mut reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        let ending = reaper::reap(self.pid)?;
        *reaped = true;
        Some(ending)
    }
}

/// A process, the right to it, and the duty to reap it.
pub(super) struct Charge {
    pub kin: Kin,
    house: Arc<House>,
    jobs: SyncSender<Job>,
    slot: Option<Slot>,
    reaped: bool,
}

impl Charge {
    /// Takes charge of a process that was just started and listed.
    pub(super) fn new(pid: i32, mark: Mark, house: Arc<House>, jobs: SyncSender<Job>, slot: Slot) -> Self {
        house.guardian.add(pid);
        let reins = Arc::new(Reins { pid, reaped: Mutex::new(false) });
        Self {
            kin: Kin { reins, mark, strays: Arc::default() },
            house,
            jobs,
            slot: Some(slot),
            reaped: false,
        }
    }

    /// Reaps the process if it has ended, and frees its slot. Its family has to be gone before.
    pub(super) fn release(&mut self) -> Option<Ending> {
        reaper::peek(self.kin.reins.pid)?;
        self.house.guardian.remove(self.kin.reins.pid);
        let ending = self.kin.reins.reap()?;
        self.reaped = true;
        self.slot = None;
        self.look();
        Some(ending)
    }

    fn look(&self) {
        // If the thread has that much to do, it will look anyway.
        let _ = self.jobs.try_send(Job::Look);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.kin.reins.signal(Signal::KILL);
        let left = Self {
            kin: self.kin.clone(),
            house: Arc::clone(&self.house),
            jobs: self.jobs.clone(),
            slot: self.slot.take(),
            reaped: false,
        };
        self.house.yard.lock().unwrap_or_else(PoisonError::into_inner).push(left);
        self.look();
    }
}

/// A process and whoever descends from it.
#[derive(Debug, Clone)]
pub(super) struct Kin {
    pub reins: Arc<Reins>,
    mark: Mark,
    /// Who was found outside of the group.
    strays: Arc<Mutex<BTreeSet<i32>>>,
}

impl Kin {
    /// Whether the leader has ended and nobody else is left. Blocks for a look at all processes.
    pub(super) fn is_gone(&self) -> bool {
        reaper::peek(self.reins.pid).is_some() && self.others().is_empty()
    }

    /// Signals the group, then each member that has left it; whether nobody was left. Blocks for a look at all processes.
    /// To be repeated until the family is gone, as the dying may have forked.
    pub(super) fn sweep(&self, signal: Signal) -> bool {
        self.reins.signal(signal);
        let leader_ended = reaper::peek(self.reins.pid).is_some();
        let others = self.others();
        for stray in others.iter().filter(|process| process.group != self.reins.pid) {
            self.known().insert(stray.pid);
            if let Some(pid) = Pid::from_raw(stray.pid) {
                // It may have ended meanwhile.
                let _ = kill_process(pid, signal);
            }
        }
        leader_ended && others.is_empty()
    }

    /// How many had left the group and were found.
    pub(super) fn strays(&self) -> usize {
        self.known().len()
    }

    /// The living members of the family but for its leader. Reads all of `/proc`.
    fn others(&self) -> Vec<Process> {
        let processes = tree::snapshot();
        let mark = self.mark.to_string();
        let strays: BTreeSet<i32> = reaper::unlisted(&processes)
            .into_iter()
            .filter(|pid| match settled_mark_of(*pid) {
                Some(other) => other == mark,
                // One that is ending has no environment any more.
                None => self.known().contains(pid),
            })
            .collect();
        let leaders = BTreeSet::from([self.reins.pid]);
        let members = tree::family(&processes, &leaders, |process| strays.contains(&process.pid));
        let others = processes.into_iter().filter(|process| members.contains(&process.pid));
        others.filter(|process| process.pid != self.reins.pid).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.strays.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The mark of a process; one that is just becoming another program has none for a moment.
fn settled_mark_of(pid: i32) -> Option<String> {
    const LOOKS: u32 = 3;
    (0..LOOKS).find_map(|nth| {
        if nth > 0 {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        tree::mark_of(pid)
    })
}
