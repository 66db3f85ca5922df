//! Whose children the processes below us are: those we started, those a child left behind, and those of others.
//!
//! *Invariants:* what was started by `launch` is on the roster until it is reaped, and is reaped by its
//! own keeper alone. The gateway adopts orphans of its children (subreaper, R-13) and reaps them; whatever else in this
//! process starts children keeps their exit statuses. An adopted process is told from such a child by its session: ours
//! are all led into sessions of their own, and there is no way back into the gateway's. As PID 1 the gateway reaps
//! everything that is unknown.
//!
//! The roster is one per process, as children belong to a process and not to a value in it.

#![allow(unsafe_code, reason = "only raw `waitid` looks at a child without reaping it")]

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};

use super::exit::Ending;
use super::tree::{self, Process};

#[derive(Debug)]
struct Roster {
    started: BTreeSet<i32>,
    /// Forks under way. A process may exist that is not listed yet, so nothing is taken for adopted meanwhile.
    starting: usize,
}

static ROSTER: Mutex<Roster> = Mutex::new(Roster { started: BTreeSet::new(), starting: 0 });

fn roster() -> MutexGuard<'static, Roster> {
    ROSTER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the gateway the parent of its children's orphans, and keeps its memory and environment from processes of the
/// same user. Fails silently on systems that do not know such a thing.
pub fn become_parent() {
    #[cfg(target_os = "linux")]
    {
        // Both are precautions: an old kernel that lacks one still ends groups.
        let _ = rustix::process::set_child_subreaper(Some(getpid()));
    }
    conceal();
}

/// Makes this process non-dumpable: no core file, and no reading of its memory by processes of the same user.
pub fn conceal() {
    #[cfg(target_os = "linux")]
    {
        // A precaution; the kernel refuses it to nobody.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
}

/// A fork under way.
#[derive(Debug)]
pub(super) struct Starting(());

impl Starting {
    /// To be called before the fork.
    pub(super) fn begin() -> Self {
        roster().starting += 1;
        Self(())
    }

    /// Lists what the fork brought.
    pub(super) fn list(self, pid: i32) {
        roster().started.insert(pid);
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        roster().starting -= 1;
    }
}

/// How a listed process ended, if it has. It stays a zombie, so its id and its group's are not given to others.
pub(super) fn peek(pid: i32) -> Option<Ending> {
    wait(pid, WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT)
}

/// Reaps a listed process if it has ended, and strikes it off. From then on its id may be given to others.
pub(super) fn reap(pid: i32) -> Option<Ending> {
    let mut roster = roster();
    let ending = wait(pid, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
    roster.started.remove(&pid);
    Some(ending)
}

fn wait(pid: i32, options: WaitIdOptions) -> Option<Ending> {
    let Some(pid) = Pid::from_raw(pid) else {
        return Some(Ending::Unknown);
    };
    loop {
        match waitid(WaitId::Pid(pid), options) {
            Ok(None) => return None,
            Ok(Some(status)) => {
                let code = status.exit_status().map(Ending::Code);
                let signal = status.terminating_signal().map(Ending::Signal);
                return Some(code.or(signal).unwrap_or(Ending::Unknown));
            }
            Err(rustix::io::Errno::INTR) => {}
            // Someone took it before us, against the rules of this module; it has ended for certain.
            Err(_) => return Some(Ending::Unknown),
        }
    }
}

/// Reaps adopted processes that have ended. Called whenever a child of this process ended.
#[cfg(target_os = "linux")]
pub(super) fn bury() {
    let roster = roster();
    if roster.starting > 0 {
        return;
    }
    while let Some(pid) = first_ended() {
        if roster.started.contains(&pid) {
            // Its keeper reaps it and then calls here again.
            return;
        }
        if !tree::process(pid).is_some_and(|process| is_ours_to_reap(&roster, &process)) {
            break;
        }
        wait(pid, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
    // A zombie that is none of our business stands before the others: look behind it.
    let ended = tree::snapshot().into_iter().filter(|process| process.zombie);
    for process in ended.filter(|process| is_ours_to_reap(&roster, process)) {
        wait(process.pid, WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
    }
}

/// Nothing is adopted here.
#[cfg(not(target_os = "linux"))]
pub(super) fn bury() {}

/// Children of this process that nobody here started, so far as is known.
pub(super) fn unlisted(processes: &[Process]) -> BTreeSet<i32> {
    let roster = roster();
    processes.iter().filter(|process| is_unlisted(&roster, process)).map(|process| process.pid).collect()
}

/// The living adopted among `processes`. Empty while a fork is under way.
pub(super) fn adopted(processes: &[Process]) -> Vec<Process> {
    let roster = roster();
    if roster.starting > 0 {
        return Vec::new();
    }
    let living = processes.iter().filter(|process| !process.zombie);
    living.filter(|process| is_adopted(&roster, process)).copied().collect()
}

fn is_adopted(roster: &Roster, process: &Process) -> bool {
    // SAFETY: a system call with a plain number. Zero in a container whose session was begun outside of it.
    let own_session = unsafe { libc::getsid(0) };
    is_unlisted(roster, process) && process.session != own_session
}

fn is_unlisted(roster: &Roster, process: &Process) -> bool {
    process.parent == getpid().as_raw_pid() && !roster.started.contains(&process.pid)
}

/// Whether nobody but us reaps a process that has ended. As PID 1, all that is unknown is ours.
fn is_ours_to_reap(roster: &Roster, process: &Process) -> bool {
    is_adopted(roster, process) || (getpid().is_init() && is_unlisted(roster, process))
}

/// Some child of this process that has ended and is not reaped.
#[cfg(target_os = "linux")]
fn first_ended() -> Option<i32> {
    // SAFETY: all zeroes is a valid value of this plain structure.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    let options = libc::WEXITED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: `info` is valid for writing during the call.
    let answer = unsafe { libc::waitid(libc::P_ALL, 0, &raw mut info, options) };
    // SAFETY: after success the kernel has set the fields of a child, or left the zeroes.
    let pid = unsafe { info.si_pid() };
    (answer == 0 && pid != 0).then_some(pid)
}
