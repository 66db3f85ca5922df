//! The guardian: a small process that outlives the gateway for a moment, to end what the gateway leaves behind.
//!
//! The gateway starts itself anew with [`ARGUMENT`] and tells the new process over a pipe which groups it is responsible
//! for. When the gateway dies, by whatever signal, the kernel closes the pipe; the guardian then ends these groups, their
//! descendants, and every process that bears the gateway's [mark](super::tree::Mark): politely, then for good.
//!
//! *Invariants:* the guardian holds no descriptor of the gateway but that pipe, and no child of the gateway holds the
//! pipe's other end. A group is told before its first message and forgotten before its id is free again. A guardian that
//! ends is replaced. It is in a session of its own, so what is sent to the gateway's group or terminal misses it.
//!
//! *On drop:* the pipe is closed, and the guardian's end awaited.
//!
//! *Limits:* if gateway and guardian are killed in the same moment, servers get a signal (Linux) and end of input, and
//! nobody ends those that ignore both. Without `/proc` (macOS) only groups are ended.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::environment::ChildEnvironment;
use super::fact::{Fact, Sink};
use super::launch::{Launch, Role, launch};
use super::reaper::{self, Starting};
use super::tree::{self, MARK_NAME};
use crate::base::clock;

/// The hidden first argument with which the program becomes a guardian: `main` calls [`run`] before anything else.
pub const ARGUMENT: &str = "__guardian";

/// How this program is started anew.
#[derive(Debug, Clone)]
pub struct Reexec {
    /// The program.
    pub program: PathBuf,
    /// Arguments that make it call [`run`].
    pub arguments: Vec<OsString>,
}

impl Reexec {
    /// This very program, even if its file was replaced or removed since.
    ///
    /// # Errors
    /// Where the system does not tell (not on Linux).
    pub fn own() -> io::Result<Self> {
        let program = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            std::env::current_exe()?
        };
        Ok(Self { program, arguments: vec![ARGUMENT.into()] })
    }
}

// === The gateway's side ===

/// A guardian that ends so early and so often cannot run here.
const QUICK_END: Duration = Duration::from_secs(10);
const QUICK_ENDS: u32 = 3;

/// The gateway's end of the pipe.
pub(super) struct Guardian {
    gateway: String,
    reexec: Reexec,
    sink: Arc<dyn Sink>,
    post: Mutex<Post>,
}

#[derive(Default)]
struct Post {
    groups: BTreeSet<i32>,
    running: Option<Running>,
    quick_ends: u32,
}

struct Running {
    pid: i32,
    since: Instant,
    /// None once a write failed.
    input: Option<ChildStdin>,
}

impl Guardian {
    /// Starts a guardian for the gateway of this mark. If that fails, the sink is told, and children depend on signals
    /// alone. To be called on the lasting thread.
    pub(super) fn start(reexec: Reexec, gateway: String, sink: Arc<dyn Sink>) -> Self {
        let guardian = Self { gateway, reexec, sink, post: Mutex::default() };
        if guardian.begin().is_err() {
            guardian.sink.tell(Fact::GuardianLost { replaced: false });
        }
        guardian
    }

    /// Makes the guardian responsible for a group.
    pub(super) fn add(&self, group: i32) {
        let mut post = self.post();
        post.groups.insert(group);
        post.write(&format!("+{group}\n"));
    }

    /// Releases it from a group, whose id will be free soon.
    pub(super) fn remove(&self, group: i32) {
        let mut post = self.post();
        post.groups.remove(&group);
        post.write(&format!("-{group}\n"));
    }

    /// Whether a guardian is there as far as we know.
    pub(super) fn is_up(&self) -> bool {
        self.post().running.as_ref().is_some_and(|running| running.input.is_some())
    }

    /// Replaces a guardian that has ended or does not read. To be called on the lasting thread.
    pub(super) fn check(&self) {
        let lost = {
            let mut post = self.post();
            let is_lost = |running: &Running| running.input.is_none() || reaper::peek(running.pid).is_some();
            if !post.running.as_ref().is_some_and(is_lost) {
                return;
            }
            post.running.take()
        };
        let Some(lost) = lost else { return };
        send(lost.pid, Signal::KILL);
        bury(&lost);
        let quick = clock::now().saturating_duration_since(lost.since) < QUICK_END;
        let quick_ends = {
            let mut post = self.post();
            post.quick_ends = if quick { post.quick_ends + 1 } else { 0 };
            post.quick_ends
        };
        let replaced = quick_ends < QUICK_ENDS && self.begin().is_ok();
        self.sink.tell(Fact::GuardianLost { replaced });
    }

    fn begin(&self) -> io::Result<()> {
        let mut environment = ChildEnvironment::default();
        // Without a mark, a gateway above this one, which adopts the guardian of one that died, would take it for a stray.
        environment.set(OsStr::new(MARK_NAME), OsStr::new(&format!("{}.guardian", self.gateway)));
        let starting = Starting::begin();
        let mut process = launch(&Launch {
            program: &self.reexec.program,
            name: OsStr::new("guardian"),
            arguments: &self.reexec.arguments,
            environment: &environment,
            folder: Some(Path::new("/")),
            role: Role::Guardian,
        })?;
        let pid = process.id().cast_signed();
        starting.list(pid);
        let input = process.stdin.take();
        if let Some(input) = &input {
            // So that a guardian that is stopped does not stop us; a pipe knows how to do this.
            let _ = rustix::io::ioctl_fionbio(input, true);
        }
        let mut post = self.post();
        post.running = Some(Running { pid, since: clock::now(), input });
        let mut told = format!("={}\n", self.gateway);
        for group in &post.groups {
            told.push_str(&format!("+{group}\n"));
        }
        post.write(&told);
        Ok(())
    }

    fn post(&self) -> MutexGuard<'_, Post> {
        self.post.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Post {
    /// A write that fails, or that finds the pipe full, means that the guardian is lost; the next check replaces it.
    fn write(&mut self, text: &str) {
        if let Some(running) = &mut self.running
            && let Some(input) = &mut running.input
            && input.write_all(text.as_bytes()).is_err()
        {
            running.input = None;
        }
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        if let Some(mut running) = self.post().running.take() {
            running.input = None;
            bury(&running);
        }
    }
}

/// Waits for the end of a guardian that has lost its pipe, and reaps it.
fn bury(guardian: &Running) {
    if let Some(pid) = Pid::from_raw(guardian.pid) {
        // An error means that it is gone already.
        let _ = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    }
    reaper::reap(guardian.pid);
}

// === The guardian's side ===

/// Longest line that the gateway sends, in bytes.
const LINE_BYTES: u64 = 256;

/// Between two looks at what is still alive.
const LOOK: Duration = Duration::from_millis(20);

/// How long processes may take to end by themselves after SIGTERM.
const POLITE: Duration = Duration::from_secs(2);

/// How long they may take after SIGKILL. What is still there then is held by the kernel.
const FINAL: Duration = Duration::from_secs(5);

/// Is the guardian: reads the pipe on standard input to its end, then ends what is left, and returns. For `main`.
pub fn run() {
    reaper::conceal();
    #[cfg(target_os = "linux")]
    {
        // So that whoever kills processes by the gateway's name does not meet this one.
        let _ = rustix::thread::set_name(c"guardian");
    }
    let mut charges = Charges::default();
    let mut input = BufReader::new(io::stdin().lock());
    let mut line = String::new();
    loop {
        line.clear();
        match input.by_ref().take(LINE_BYTES).read_line(&mut line) {
            Ok(1..) => charges.take(line.trim_end()),
            Ok(0) | Err(_) => break,
        }
    }
    charges.end();
}

/// What the guardian is responsible for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Charges {
    gateway: Option<String>,
    groups: BTreeSet<i32>,
}

impl Charges {
    fn take(&mut self, line: &str) {
        // Ids of 0, 1 and below would mean ourselves, or everyone.
        let group = |text: &str| text.parse::<i32>().ok().filter(|group| *group > 1);
        match line.split_at_checked(1) {
            Some(("=", word)) if !word.is_empty() => self.gateway = Some(word.to_owned()),
            Some(("+", text)) => self.groups.extend(group(text)),
            Some(("-", text)) => {
                group(text).map(|group| self.groups.remove(&group));
            }
            _ => {}
        }
    }

    fn end(&self) {
        let begun = clock::now();
        self.signal(Signal::TERM);
        while !self.living().is_empty() {
            let passed = clock::now().saturating_duration_since(begun);
            if passed >= POLITE + FINAL {
                return;
            }
            if passed >= POLITE {
                self.signal(Signal::KILL);
            }
            pause();
        }
    }

    /// Whoever is alive of the families of the groups, and whoever bears the gateway's mark.
    #[cfg(target_os = "linux")]
    fn living(&self) -> BTreeSet<i32> {
        let own = rustix::process::getpid().as_raw_pid();
        let marked = |pid| {
            let mark = self.gateway.as_ref().zip(tree::mark_of(pid));
            mark.is_some_and(|(gateway, mark)| tree::Mark::is_of_gateway(&mark, gateway))
        };
        let mut family = tree::family(&tree::snapshot(), &self.groups, |process| marked(process.pid));
        family.remove(&own);
        family
    }

    #[cfg(target_os = "linux")]
    fn signal(&self, signal: Signal) {
        for pid in self.living() {
            send(pid, signal);
        }
    }

    /// The groups in which someone is alive.
    #[cfg(not(target_os = "linux"))]
    fn living(&self) -> BTreeSet<i32> {
        let exists = |group: &i32| {
            Pid::from_raw(*group).is_some_and(|pid| rustix::process::test_kill_process_group(pid).is_ok())
        };
        self.groups.iter().copied().filter(exists).collect()
    }

    #[cfg(not(target_os = "linux"))]
    fn signal(&self, signal: Signal) {
        for group in self.living() {
            if let Some(group) = Pid::from_raw(group) {
                // It may have ended meanwhile.
                let _ = rustix::process::kill_process_group(group, signal);
            }
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a process without a run time has no other way to wait")]
fn pause() {
    std::thread::sleep(LOOK);
}

fn send(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guardian_understands_the_gateway_and_nothing_else() {
        let mut charges = Charges::default();
        for line in ["=c0ffee", "+20", "+30", "-20", "+", "+x", "+-1", "+0", "+1", "", "?", "=", "é20", "+40"]
        {
            charges.take(line);
        }
        assert_eq!(charges, Charges { gateway: Some("c0ffee".into()), groups: [30, 40].into() });
    }
}
