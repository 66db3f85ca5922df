//! Looking at processes from outside: who lives, who descends from whom, how much they hold.
//!
//! *Limits.* Linux only beyond [`alive`] and [`kill`]: it reads `/proc`.

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

fn pid_of(pid: u32) -> Pid {
    Pid::from_raw(i32::try_from(pid).unwrap()).unwrap()
}

/// True while the process runs; a zombie does not.
pub fn alive(pid: u32) -> bool {
    match stat(pid) {
        Some(stat) => !matches!(stat.state, 'Z' | 'X'),
        None => !cfg!(target_os = "linux") && test_kill_process(pid_of(pid)).is_ok(),
    }
}

/// Kills a process of this test if it still runs.
pub fn kill(pid: u32) {
    signal(pid, Signal::KILL);
}

pub fn signal(pid: u32, signal: Signal) {
    // It may have ended by itself.
    let _ended = kill_process(pid_of(pid), signal);
}

/// A process as `/proc` shows it.
#[derive(Clone, Debug)]
pub struct Stat {
    pub pid: u32,
    pub parent: u32,
    pub state: char,
    pub group: u32,
}

pub fn stat(pid: u32) -> Option<Stat> {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the fields follow its last parenthesis.
    let mut fields = line.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    let group = fields.next()?.parse().ok()?;
    Some(Stat { pid, parent, state, group })
}

/// Every descendant of a process, zombies included.
pub fn descendants(of: u32) -> Vec<Stat> {
    let all: Vec<Stat> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(stat)
        .collect();
    let mut found: Vec<Stat> = Vec::new();
    let mut parents = vec![of];
    while let Some(parent) = parents.pop() {
        for child in all.iter().filter(|child| child.parent == parent) {
            parents.push(child.pid);
            found.push(child.clone());
        }
    }
    found
}

/// How many descriptors a process has open; `None` where this user may not see them.
pub fn descriptors(pid: u32) -> Option<usize> {
    std::fs::read_dir(format!("/proc/{pid}/fd")).ok().map(Iterator::count)
}

/// Resident memory in bytes.
pub fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    let kilobytes: u64 = line.trim().trim_end_matches("kB").trim().parse().unwrap_or(0);
    kilobytes * 1024
}
