//! The processes that descend from a child, also those that left its group or its session.
//!
//! *Invariants:* the decision is a pure function over a list of processes; only [`snapshot`] and [`mark_of`] read
//! `/proc`. A child leads its own session, so whatever is in that session or group is of its family, and so is every
//! descendant of a member. What forked twice into a session of its own has lost that thread; it is known by the
//! [mark](Mark) in the environment it was born with.
//!
//! *Limits:* a process that clears its environment and breaks the chain of parents belongs to no family any more; it is
//! ended with the gateway, not with its child. Without `/proc` (macOS) families are empty, and only groups are ended.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;

/// The name of the variable that marks a child's family. Its value is no secret.
pub const MARK_NAME: &str = "PORTCULLIS_CHILD";

/// A process as the system lists it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: i32,
    /// Its parent's id; for an orphan that of whoever adopted it.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// Its session.
    pub session: i32,
    /// It has ended and waits to be reaped.
    pub zombie: bool,
}

/// What tells the family of one child of one gateway from all others on the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    gateway: String,
    child: u64,
}

impl Mark {
    /// The mark of the nth child of a gateway; `gateway` is a random word.
    #[must_use]
    pub fn new(gateway: &str, child: u64) -> Self {
        Self { gateway: gateway.to_owned(), child }
    }

    /// Whether this text is a mark of the given gateway.
    #[must_use]
    pub fn is_of_gateway(text: &str, gateway: &str) -> bool {
        text.rsplit_once('.').is_some_and(|(word, _)| word == gateway)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}.{}", self.gateway, self.child)
    }
}

impl From<&Mark> for OsString {
    fn from(mark: &Mark) -> Self {
        mark.to_string().into()
    }
}

/// The living members of the families of `leaders`, the leaders included: who is in their session or group, whom `stray`
/// recognises, and all descendants of those. A leader counts by its session, so that a stranger who was given the id of
/// one long gone is left alone.
#[must_use]
pub fn family(
    processes: &[Process],
    leaders: &BTreeSet<i32>,
    stray: impl Fn(&Process) -> bool,
) -> BTreeSet<i32> {
    let mut members: BTreeSet<i32> = processes
        .iter()
        .filter(|process| {
            leaders.contains(&process.session) || leaders.contains(&process.group) || stray(process)
        })
        .map(|process| process.pid)
        .collect();
    loop {
        let before = members.len();
        for process in processes {
            if members.contains(&process.parent) {
                members.insert(process.pid);
            }
        }
        if members.len() == before {
            break;
        }
    }
    let living = processes.iter().filter(|process| !process.zombie);
    living.map(|process| process.pid).filter(|pid| members.contains(pid)).collect()
}

/// All processes that the system shows us.
#[cfg(target_os = "linux")]
#[must_use]
pub fn snapshot() -> Vec<Process> {
    let Ok(folder) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    folder.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).filter_map(process).collect()
}

/// All processes that the system shows us: none, there is no `/proc`.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn snapshot() -> Vec<Process> {
    Vec::new()
}

/// One process, if it is still there.
#[must_use]
pub fn process(pid: i32) -> Option<Process> {
    parse_stat(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The mark that a process was born with. `None` also for one whose environment we may not read.
#[must_use]
pub fn mark_of(pid: i32) -> Option<String> {
    let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let value = variable.strip_prefix(MARK_NAME.as_bytes())?.strip_prefix(b"=")?;
        String::from_utf8(value.to_owned()).ok()
    })
}

/// Reads `pid (name) state parent group session …`; the name may hold anything, so what counts is its last bracket.
fn parse_stat(text: &[u8]) -> Option<Process> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let close = text.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(&text[..open]).ok()?.trim().parse().ok()?;
    let mut fields = std::str::from_utf8(&text[close + 1..]).ok()?.split_ascii_whitespace();
    let zombie = matches!(fields.next()?, "Z" | "X");
    let mut number = || fields.next()?.parse().ok();
    Some(Process { pid, parent: number()?, group: number()?, session: number()?, zombie })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alive(pid: i32, parent: i32, group: i32, session: i32) -> Process {
        Process { pid, parent, group, session, zombie: false }
    }

    fn pids(processes: &[Process], leader: i32, strays: &[i32]) -> Vec<i32> {
        family(processes, &BTreeSet::from([leader]), |process| strays.contains(&process.pid))
            .into_iter()
            .collect()
    }

    /// own group, own session, chain of parents, mark.
    #[test]
    fn r_13_a_family_is_found_by_each_of_its_threads() {
        let processes = [
            alive(1, 0, 1, 1),
            alive(10, 1, 10, 10),  // the gateway
            alive(20, 10, 20, 20), // the child
            alive(21, 20, 20, 20), // in its group
            alive(22, 21, 22, 20), // left the group, not the session
            alive(23, 22, 23, 23), // left the session, has its parents
            alive(24, 10, 24, 24), // forked twice into its own session
            alive(25, 24, 24, 24), // and had a child
            alive(30, 10, 30, 30), // another child
            alive(31, 10, 31, 31), // a stray of that one
        ];
        assert_eq!(pids(&processes, 20, &[]), [20, 21, 22, 23]);
        assert_eq!(pids(&processes, 20, &[24]), [20, 21, 22, 23, 24, 25]);
        assert_eq!(pids(&processes, 30, &[31]), [30, 31]);
    }

    #[test]
    fn the_dead_link_families_but_are_no_members() {
        let mut leader = alive(20, 10, 20, 20);
        leader.zombie = true;
        let processes = [leader, alive(21, 20, 21, 21), alive(22, 10, 20, 20)];
        assert_eq!(pids(&processes, 20, &[]), [21, 22]);
        assert!(pids(&[leader], 20, &[]).is_empty());
        assert!(pids(&[alive(20, 1, 7, 7)], 20, &[]).is_empty(), "a stranger with that id");
    }

    #[test]
    fn names_with_brackets_do_not_confuse() {
        let stat = b"42 (a) Z 7 (b)) S 7 8 9 0 -1 4194304";
        assert_eq!(parse_stat(stat), Some(alive(42, 7, 8, 9)));
        let zombie = parse_stat(b"42 (sh) Z 1 42 42 0").unwrap();
        assert!(zombie.zombie);
        for bad in [&b""[..], b"42", b"42 (sh", b"42 (sh) S", b"x (sh) S 1 2 3", b"42 (sh) S 1 2"] {
            assert_eq!(parse_stat(bad), None);
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_snapshot_shows_ourselves() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(snapshot().iter().any(|process| process.pid == own && !process.zombie));
    }

    #[test]
    fn marks_tell_gateways_apart() {
        let mark = Mark::new("c0ffee", 7).to_string();
        assert!(Mark::is_of_gateway(&mark, "c0ffee"));
        assert!(!Mark::is_of_gateway(&mark, "c0ffe"));
        assert!(Mark::is_of_gateway("c0ffee.guardian", "c0ffee"));
        assert!(!Mark::is_of_gateway("", "c0ffee"));
    }
}
