//! Starting a process: the one place that forks.
//!
//! *Invariants:* by argument vector, never through a shell (STDIO-06). A new process leads its own session and group, has
//! no descriptor but its three streams, no privileges to gain, every signal at its default, and the limit of descriptors
//! that the gateway was started with. On Linux it is told when the thread that started it ends, so that thread has to last
//! as long as the gateway.

#![allow(unsafe_code, reason = "between fork and exec there are only raw system calls")]

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, setrlimit};

use super::environment::ChildEnvironment;
use crate::base::descriptors;

/// What is started.
pub(super) struct Launch<'a> {
    /// The file to run.
    pub program: &'a Path,
    /// The name it is told it was called by.
    pub name: &'a OsStr,
    /// Its arguments.
    pub arguments: &'a [OsString],
    /// All of its environment.
    pub environment: &'a ChildEnvironment,
    /// The folder it starts in; none for the gateway's.
    pub folder: Option<&'a Path>,
    /// What it is for.
    pub role: Role,
}

/// What a process is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A server. It gets this signal when the gateway dies.
    Server {
        /// The signal, where the system knows such a thing.
        at_death: Signal,
    },
    /// The guardian. It must outlive the gateway, and whoever stops the gateway politely must not stop it.
    Guardian,
}

/// First descriptor that is not one of the three streams.
const FIRST_OTHER: libc::c_uint = 3;

/// Set to their default, since what a parent ignores its children ignore, too.
const SIGNALS: [Signal; 12] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
    Signal::PIPE,
    Signal::ALARM,
    Signal::TERM,
    Signal::CHILD,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
];

/// What a service manager or a terminal sends to everyone; the guardian waits for the gateway instead.
const POLITE: [Signal; 6] =
    [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

/// Starts a process with pipes for its streams; a guardian has only its input. Blocks until the program is running or
/// could not be run.
#[allow(clippy::disallowed_methods, reason = "this is the one place that starts processes")]
pub(super) fn launch(launch: &Launch<'_>) -> io::Result<Child> {
    let mut command = Command::new(launch.program);
    command
        .arg0(launch.name)
        .args(launch.arguments)
        .env_clear()
        .envs(launch.environment.iter())
        .stdin(Stdio::piped());
    if let Some(folder) = launch.folder {
        command.current_dir(folder);
    }
    match launch.role {
        Role::Server { .. } => command.stdout(Stdio::piped()).stderr(Stdio::piped()),
        Role::Guardian => command.stdout(Stdio::null()).stderr(Stdio::null()),
    };
    let (role, gateway, descriptors) = (launch.role, getpid(), descriptors::limit_at_start());
    // SAFETY: between fork and exec only system calls are made; nothing allocates, locks or unwinds.
    unsafe {
        command.pre_exec(move || prepare(role, gateway, descriptors));
    }
    command.spawn()
}

fn prepare(role: Role, gateway: Pid, descriptors: Option<Rlimit>) -> io::Result<()> {
    rustix::process::setsid()?;
    if let Some(limit) = descriptors {
        setrlimit(Resource::Nofile, limit)?;
    }
    for signal in SIGNALS {
        let ignored = role == Role::Guardian && POLITE.contains(&signal);
        let action = if ignored { libc::SIG_IGN } else { libc::SIG_DFL };
        // SAFETY: a system call with plain numbers; no handler is installed.
        unsafe {
            libc::signal(signal.as_raw(), action);
        }
    }
    tie_to_gateway(role, gateway)?;
    close_others_at_exec();
    Ok(())
}

#[cfg(target_os = "linux")]
fn tie_to_gateway(role: Role, gateway: Pid) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    if let Role::Server { at_death } = role {
        rustix::process::set_parent_process_death_signal(Some(at_death))?;
        // If the gateway died before the line above, nothing will tell us.
        if rustix::process::getppid() != Some(gateway) {
            return Err(io::Error::from_raw_os_error(libc::ESRCH));
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn tie_to_gateway(_role: Role, _gateway: Pid) -> io::Result<()> {
    Ok(())
}

/// Marks all descriptors but the three streams to be closed by exec. They are not closed here: through one of them the
/// parent learns whether exec succeeded.
fn close_others_at_exec() {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: a system call with plain numbers.
        let marked = unsafe {
            libc::syscall(libc::SYS_close_range, FIRST_OTHER, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC)
        };
        if marked == 0 {
            return;
        }
    }
    // Older kernels and other systems: one by one. What this program opens itself is marked already, so this is about the
    // few that it was started with.
    const LAST_TRIED: libc::c_int = 4096;
    for descriptor in FIRST_OTHER as libc::c_int..LAST_TRIED {
        // SAFETY: a system call with plain numbers; fails harmlessly for what is not open.
        unsafe {
            libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC);
        }
    }
}
