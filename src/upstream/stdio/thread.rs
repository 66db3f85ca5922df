//! The one lasting thread: starts processes, and sees to what nobody keeps any more.
//!
//! *Invariants:* forks happen here and nowhere else, one after the other. A process is on the roster and under the guardian
//! before anyone learns of it.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::oneshot;

use super::charge::{Charge, House};
use super::guardian::Guardian;
use super::launch::{Launch, Role, launch};
use super::reaper::{self, Starting};
use super::resolve;
use super::slots::Slot;
use super::spawn::{Command, SpawnError};
use super::streams::Pipes;
use super::tree::{self, MARK_NAME, Mark};

/// What the thread is asked to do.
pub(super) enum Job {
    /// Start a process.
    Start(Box<Start>),
    /// See whether something of ours has ended.
    Look,
}

/// A process to be started.
pub(super) struct Start {
    pub command: Arc<Command>,
    pub mark: Mark,
    pub slot: Slot,
    pub reply: oneshot::Sender<Result<Launched, SpawnError>>,
    pub jobs: SyncSender<Job>,
}

/// A process that was just started.
pub(super) struct Launched {
    pub charge: Charge,
    /// The file that is run.
    pub program: PathBuf,
    pub pipes: Pipes,
}

/// Between two looks at what nobody keeps any more: often at first, then rarely, since the kernel holds it.
const YARD_LOOK: Duration = Duration::from_millis(20);
const YARD_REST: Duration = Duration::from_secs(2);
const YARD_LOOKS: u32 = 250;

/// Works until nobody can ask any more, and everything that was started is reaped.
pub(super) fn serve(queue: &Receiver<Job>, guardian: Guardian, gateway: &str) {
    let house = Arc::new(House { guardian, yard: Mutex::default() });
    let (mut left, mut looks) = (false, 0);
    loop {
        let job = if left {
            let pause = if looks < YARD_LOOKS { YARD_LOOK } else { YARD_REST };
            queue.recv_timeout(pause)
        } else {
            queue.recv().map_err(|_| RecvTimeoutError::Disconnected)
        };
        match job {
            Ok(Job::Start(start)) => start.serve(&house),
            Ok(Job::Look) | Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        reaper::bury();
        house.guardian.check();
        left = house.clear_yard();
        looks = if left { looks + 1 } else { 0 };
    }
    end_strays(gateway);
}

/// Ends what the children of this gateway left behind and nobody could tell whose it was. A process without a mark has to
/// be seen twice: one that is just becoming another program seems to have none.
fn end_strays(gateway: &str) {
    const ROUNDS: u32 = 100;
    let mut unmarked = BTreeSet::new();
    for _ in 0..ROUNDS {
        let seen = std::mem::take(&mut unmarked);
        let mut doomed = Vec::new();
        for process in reaper::adopted(&tree::snapshot()) {
            match tree::mark_of(process.pid) {
                Some(mark) if Mark::is_of_gateway(&mark, gateway) => doomed.push(process.pid),
                Some(_) => {}
                None if seen.contains(&process.pid) => doomed.push(process.pid),
                None => {
                    unmarked.insert(process.pid);
                }
            }
        }
        if doomed.is_empty() && unmarked.is_empty() {
            return;
        }
        for pid in doomed.into_iter().filter_map(Pid::from_raw) {
            // It may have ended meanwhile.
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::park_timeout(YARD_LOOK);
        reaper::bury();
    }
}

impl Start {
    fn serve(self, house: &Arc<House>) {
        if self.reply.is_closed() {
            return;
        }
        let Self { command, mark, slot, reply, jobs } = self;
        let launched = Self::launch(&command, mark, slot, house, jobs);
        // Who asked may have gone meanwhile; then the process ends with what is dropped here.
        let _ = reply.send(launched);
    }

    fn launch(
        command: &Command,
        mark: Mark,
        slot: Slot,
        house: &Arc<House>,
        jobs: SyncSender<Job>,
    ) -> Result<Launched, SpawnError> {
        let mut environment = command.environment.clone();
        let given = environment.value("PATH").filter(|path| !path.is_empty());
        let path = given.unwrap_or(OsStr::new(resolve::DEFAULT_PATH)).to_owned();
        environment.set(OsStr::new("PATH"), &path);
        environment.set(OsStr::new(MARK_NAME), &OsString::from(&mark));
        let folder = existing_folder(command)?;
        let program = resolve::resolve(&command.program, &path, &folder, resolve::probe)?;
        // Without a guardian, what is left is a signal that cannot be ignored.
        let at_death = if house.guardian.is_up() { Signal::TERM } else { Signal::KILL };
        let starting = Starting::begin();
        let mut process = launch(&Launch {
            program: &program,
            name: &command.program,
            arguments: &command.arguments,
            environment: &environment,
            folder: Some(&folder),
            role: Role::Server { at_death },
        })
        .map_err(|source| explain(&program, source))?;
        let pid = process.id().cast_signed();
        starting.list(pid);
        let charge = Charge::new(pid, mark, Arc::clone(house), jobs, slot);
        let pipes = Pipes::take(&mut process).ok_or(SpawnError::Gone)?;
        Ok(Launched { charge, program, pipes })
    }
}

fn existing_folder(command: &Command) -> Result<PathBuf, SpawnError> {
    match &command.folder {
        Some(folder) if !folder.is_dir() => Err(SpawnError::Folder(folder.clone())),
        Some(folder) => Ok(folder.clone()),
        None => std::env::current_dir().map_err(|_| SpawnError::Folder(".".into())),
    }
}

fn explain(program: &Path, source: io::Error) -> SpawnError {
    let program = program.to_owned();
    match source.raw_os_error() {
        Some(libc::ENOENT) => SpawnError::Interpreter(program),
        Some(libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM) => SpawnError::Exhausted(source),
        _ => SpawnError::Refused { program, source },
    }
}
