//! What the tests of children share: a spawner, scripts, and looks at the process list.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use portcullis::base::clock;
use portcullis::upstream::stdio::child::Child;
use portcullis::upstream::stdio::environment::ChildEnvironment;
use portcullis::upstream::stdio::fact::{Fact, Sink};
use portcullis::upstream::stdio::guardian::Reexec;
use portcullis::upstream::stdio::pipe::Frame;
use portcullis::upstream::stdio::slots::Caps;
use portcullis::upstream::stdio::spawn::{Command, SpawnError, Spawner};
use portcullis::upstream::stdio::tree;

/// Longer than anything here takes, on any machine.
pub const LONG: Duration = Duration::from_secs(30);

/// Tells a copy of this test program that it is to play a role.
const ROLE: &str = "--skip=as-a-role-of-the-tests-of-children";

/// Whether this process was started to play a role; a role's test does nothing in a normal run.
pub fn is_role() -> bool {
    std::env::args().any(|argument| argument == ROLE)
}

/// How this test program is started to play a role, which is the name of a test.
pub fn role(name: &str) -> Reexec {
    let arguments = ["--exact", name, "--nocapture", "--test-threads=1", ROLE];
    Reexec { program: PathBuf::from("/proc/self/exe"), arguments: arguments.map(OsString::from).into() }
}

/// What a role says on its standard output until its end.
pub fn play(name: &str) -> String {
    let role = role(name);
    let done = std::process::Command::new(role.program).args(role.arguments).output().unwrap();
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Facts as they were told.
#[derive(Clone, Default)]
pub struct Told(Arc<Mutex<Vec<String>>>);

impl Sink for Told {
    fn tell(&self, fact: Fact<'_>) {
        self.0.lock().unwrap().push(format!("{fact:?}"));
    }
}

impl Told {
    pub fn count(&self, part: &str) -> usize {
        self.0.lock().unwrap().iter().filter(|fact| fact.contains(part)).count()
    }
}

/// A spawner with the guardian of this test program.
pub fn spawner() -> (Spawner, Told) {
    spawner_with(Caps::default())
}

pub fn spawner_with(caps: Caps) -> (Spawner, Told) {
    let told = Told::default();
    let spawner = Spawner::start(Arc::new(told.clone()), caps, role("roles::guardian")).unwrap();
    (spawner, told)
}

pub fn command(program: &str, arguments: &[&str]) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let captured = [(OsStr::new("PATH"), path.as_os_str())];
    Command {
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: ChildEnvironment::compile(captured, [], []),
        ..Command::new("alpha".into(), program)
    }
}

pub async fn try_start(spawner: &Spawner, command: Command) -> Result<Child, SpawnError> {
    soon(spawner.spawn(&Arc::new(command), &"tenant".into())).await
}

pub async fn start(spawner: &Spawner, program: &str, arguments: &[&str]) -> Child {
    try_start(spawner, command(program, arguments)).await.unwrap()
}

pub async fn shell(spawner: &Spawner, script: &str) -> Child {
    start(spawner, "sh", &["-c", script]).await
}

/// A child in Python; `say` writes an object as a line, `lines` yields what comes on stdin.
pub async fn python(spawner: &Spawner, script: &str) -> Child {
    const PRELUDE: &str = r#"
import json, os, signal, sys, time
def say(x): os.write(1, json.dumps(x, ensure_ascii=False).encode() + b"\n")
def pids(*all): say({"pids": all})
lines = iter(sys.stdin.buffer.readline, b"")
def fork(work):
    "The process id of a child that does some work and then sleeps."
    pid = os.fork()
    if pid == 0:
        work()
        time.sleep(600)
        os._exit(0)
    return pid
def daemon(work=lambda: None):
    "The process id of an orphan in a session of its own."
    read, write = os.pipe()
    def parent():
        def child():
            os.setsid()
            work()
            os.write(write, str(os.getpid()).encode())
            os.close(write)
        fork(child)
        os._exit(0)
    pid = fork(parent)
    os.waitpid(pid, 0)
    os.close(write)
    with os.fdopen(read) as pipe: return int(pipe.read(20) or 0)
def stubborn(): signal.signal(signal.SIGTERM, signal.SIG_IGN)
"#;
    start(spawner, "python3", &["-c", &[PRELUDE, script].concat()]).await
}

/// The next message of a child, as JSON.
pub async fn next(child: &mut Child) -> serde_json::Value {
    match soon(child.frames.recv()).await {
        Some(Frame::Message(line)) => serde_json::from_slice(&line).unwrap(),
        other => panic!("expected a message, got {other:?}"),
    }
}

/// The process ids that a child names in its next message.
pub async fn pids(child: &mut Child) -> Vec<i32> {
    serde_json::from_value(next(child).await["pids"].clone()).unwrap()
}

pub async fn send(child: &Child, line: &'static str) {
    soon(child.input.send(Bytes::from_static(line.as_bytes()))).await.unwrap();
}

/// The outcome of something that must not take long.
pub async fn soon<F: Future>(work: F) -> F::Output {
    clock::within(LONG, work).await.expect("it takes far too long")
}

/// Waits until something in the process list is as it should be.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = clock::now() + LONG;
    while !is_so() {
        assert!(clock::now() < deadline, "in vain: {what}");
        clock::sleep(Duration::from_millis(5)).await;
    }
}

/// Whether a process exists, be it as a zombie.
pub fn exists(pid: i32) -> bool {
    tree::process(pid).is_some()
}

/// Whether a process exists and runs.
pub fn runs(pid: i32) -> bool {
    tree::process(pid).is_some_and(|process| !process.zombie)
}

/// Waits until none of the processes exists, not even as a zombie.
pub async fn all_gone(pids: &[i32]) {
    until(&format!("{pids:?} gone"), || !pids.iter().any(|pid| exists(*pid))).await;
}
