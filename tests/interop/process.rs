//! Programs that a test runs: their output kept, their end certain.
//!
//! *On drop*: a running program is ended with all of its process group.

use std::{
    ffi::OsString,
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    process::{Child, ChildStdin, Command},
    sync::watch,
    time::timeout,
};

/// How long a program may take to say what is awaited; machines that run other tests are slow.
const START: Duration = Duration::from_secs(60);

/// A program and how it is to be run.
pub struct Program {
    command: Command,
    name: String,
}

impl Program {
    pub fn new(program: impl Into<OsString>) -> Self {
        let program = program.into();
        let mut command = Command::new(&program);
        command
            .process_group(0)
            .kill_on_drop(true)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let name = program.to_string_lossy().into_owned();
        Self { command, name }
    }

    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.command.args(args.into_iter().map(Into::into));
        self
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.command.env(name, value.into());
        self
    }

    /// Starts it and keeps what it says on stderr.
    pub fn spawn(mut self) -> Running {
        self.command.stdout(Stdio::null());
        let mut child = self.start();
        let lines = Lines::default();
        let stderr = child.stderr.take().expect("stderr is piped");
        tokio::spawn(lines.clone().fill(stderr));
        Running { group: group(&child), stdin: child.stdin.take(), name: self.name, child, lines }
    }

    /// Runs it to its end, with `input` on stdin.
    pub async fn output(mut self, input: &str, limit: Duration) -> Output {
        let mut child = self.start();
        let guard = Group(group(&child));
        let mut stdin = child.stdin.take().expect("stdin is piped");
        let work = async {
            // A program that ends without reading is judged by what it says.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
            child.wait_with_output().await.expect("a child can be awaited")
        };
        let Ok(done) = timeout(limit, work).await else { panic!("{} took longer than {limit:?}", self.name) };
        drop(guard);
        Output {
            status: done.status,
            stdout: String::from_utf8_lossy(&done.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&done.stderr).into_owned(),
        }
    }

    fn start(&mut self) -> Child {
        self.command.spawn().unwrap_or_else(|error| {
            panic!(
                "{} does not start: {error}; `bash tests/setup.sh` installs what the tests need",
                self.name
            )
        })
    }
}

/// What a program left when it ended.
#[derive(Debug)]
pub struct Output {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

/// A process group, ended on drop.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.map(|group| kill_process_group(group, Signal::KILL));
    }
}

fn group(child: &Child) -> Option<Pid> {
    child.id().and_then(|id| Pid::from_raw(id.cast_signed()))
}

/// A program that runs beside the test.
pub struct Running {
    group: Option<Pid>,
    // Held open: fixtures end when it closes, also when the test process is killed.
    stdin: Option<ChildStdin>,
    name: String,
    child: Child,
    lines: Lines,
}

impl Running {
    /// Waits for the first line on stderr of which `read` makes something.
    pub async fn line<T>(&self, what: &str, read: impl Fn(&str) -> Option<T>) -> T {
        match timeout(START, self.lines.find(read)).await {
            Ok(Some(found)) => found,
            Ok(None) => panic!("{} ended before {what} was seen:\n{}", self.name, self.said()),
            Err(_) => panic!("{} did not show {what} in {START:?}:\n{}", self.name, self.said()),
        }
    }

    /// The last it said, for people.
    pub fn said(&self) -> String {
        let lines = self.lines.kept.lock().expect("no holder panics");
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Asks it to end and waits for that; `None` when it did not in time.
    pub async fn terminate(&mut self, limit: Duration) -> Option<ExitStatus> {
        self.signal(Signal::TERM);
        timeout(limit, self.child.wait()).await.ok()?.ok()
    }

    /// Asks it to end and waits as [`Running::terminate`] does, where there is no runtime to wait on.
    pub fn terminate_now(&mut self, limit: Duration) {
        const LOOK: Duration = Duration::from_millis(20);
        self.signal(Signal::TERM);
        for _ in 0..limit.as_millis() / LOOK.as_millis() {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    fn signal(&self, signal: Signal) {
        // Not by its remembered number: that of an ended child may be another's by now.
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            let _ = kill_process(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stdin.take();
        if self.child.id().is_some() {
            drop(Group(self.group));
        }
    }
}

/// The lines of a stream, kept while they come.
#[derive(Clone)]
struct Lines {
    kept: Arc<Mutex<Vec<String>>>,
    count: Arc<watch::Sender<(usize, bool)>>,
}

impl Default for Lines {
    fn default() -> Self {
        Self { kept: Arc::default(), count: Arc::new(watch::Sender::new((0, false))) }
    }
}

impl Lines {
    async fn fill(self, stream: impl tokio::io::AsyncRead + Unpin) {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            self.kept.lock().expect("no holder panics").push(line);
            self.count.send_modify(|(count, _)| *count += 1);
        }
        self.count.send_modify(|(_, ended)| *ended = true);
    }

    async fn find<T>(&self, read: impl Fn(&str) -> Option<T>) -> Option<T> {
        let mut count = self.count.subscribe();
        let mut looked = 0;
        loop {
            let (now, ended) = *count.borrow_and_update();
            for at in looked..now {
                let line = self.kept.lock().expect("no holder panics")[at].clone();
                if let Some(found) = read(&line) {
                    return Some(found);
                }
            }
            looked = now;
            if ended {
                return None;
            }
            count.changed().await.ok()?;
        }
    }
}
