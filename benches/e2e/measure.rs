//! What a tree of processes has used, read from `/proc`: processor time, memory, descriptors.
//!
//! *Limits*: Linux only. Processor time comes in ticks of 10 ms, so a window below a second says little.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

/// Ticks a second in `/proc`; part of the kernel's interface on every platform that Rust runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// The use of one tree at one moment.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Usage {
    /// User and system time so far, in seconds, of the living and of the children they waited for.
    pub cpu_seconds: f64,
    /// Resident memory in KiB.
    pub resident_kib: u64,
    /// The most that was resident since the start or since [`forget_peak`], in KiB.
    pub peak_kib: u64,
    /// Open descriptors.
    pub descriptors: u64,
}

/// A process and its descendants, less those that run `apart` (our own fixtures under a gateway).
#[derive(Clone, Debug)]
pub struct Tree {
    root: u32,
    apart: Option<PathBuf>,
}

impl Tree {
    /// Everything under `root`.
    pub fn whole(root: u32) -> Self {
        Self { root, apart: None }
    }

    /// Everything under `root`, without the descendants that run this very program.
    pub fn without_fixtures(root: u32) -> Self {
        Self { root, apart: std::env::current_exe().ok() }
    }

    /// What the tree has used by now; processes that vanish meanwhile count as nothing.
    pub fn usage(&self) -> Usage {
        let mut sum = Usage::default();
        for pid in self.members() {
            let home = PathBuf::from(format!("/proc/{pid}"));
            let status = fs::read_to_string(home.join("status")).unwrap_or_default();
            sum.cpu_seconds += cpu_seconds(&home).unwrap_or_default();
            sum.resident_kib += kib(&status, "VmRSS:");
            sum.peak_kib += kib(&status, "VmHWM:");
            sum.descriptors += fs::read_dir(home.join("fd")).map_or(0, |entries| entries.count() as u64);
        }
        sum
    }

    /// Lets the peak of every member begin anew at what is resident now.
    pub fn forget_peak(&self) -> io::Result<()> {
        self.members().into_iter().try_for_each(|pid| fs::write(format!("/proc/{pid}/clear_refs"), "5"))
    }

    fn members(&self) -> Vec<u32> {
        let mut found = vec![self.root];
        let mut next = 0;
        while let Some(&pid) = found.get(next) {
            found.extend(children(pid).into_iter().filter(|child| !self.stands_apart(*child)));
            next += 1;
        }
        found
    }

    fn stands_apart(&self, pid: u32) -> bool {
        let Some(apart) = &self.apart else { return false };
        fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == *apart)
    }
}

/// Seconds that all processors together have been busy, what the host took from us included.
pub fn machine_busy_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let Some(line) = stat.lines().next() else { return 0.0 };
    let ticks: Vec<f64> =
        line.split_ascii_whitespace().skip(1).filter_map(|word| word.parse().ok()).collect();
    // user, nice, system, idle, iowait, irq, softirq, steal; guests are already in user
    let busy: f64 = ticks.iter().take(8).sum::<f64>() - ticks.iter().skip(3).take(2).sum::<f64>();
    busy / TICKS_PER_SECOND
}

fn children(pid: u32) -> Vec<u32> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok())
        .flat_map(|line| {
            line.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect::<Vec<u32>>()
        })
        .collect()
}

fn cpu_seconds(home: &Path) -> Option<f64> {
    let stat = fs::read_to_string(home.join("stat")).ok()?;
    // The command's name may hold spaces and brackets; what follows its last bracket does not.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    // Counted from the state: utime 11, stime 12, and those of children that were waited for.
    let ticks: f64 = fields.get(11..15)?.iter().filter_map(|word| word.parse::<f64>().ok()).sum();
    Some(ticks / TICKS_PER_SECOND)
}

fn kib(status: &str, key: &str) -> u64 {
    status
        .lines()
        .find_map(|line| line.strip_prefix(key))
        .and_then(|rest| rest.split_ascii_whitespace().next())
        .and_then(|word| word.parse().ok())
        .unwrap_or_default()
}
