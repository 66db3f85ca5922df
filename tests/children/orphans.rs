//! Nothing survives a gateway, however it dies.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use portcullis::upstream::stdio::tree::{self, Process};
use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{play, role, runs, until};

/// A gateway in a process of its own.
struct Gateway {
    process: Child,
    output: BufReader<ChildStdout>,
    family: Vec<i32>,
}

impl Gateway {
    fn start() -> Self {
        let role = role("roles::gateway");
        let mut process = Command::new(role.program)
            .args(role.arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        while !line.starts_with("PIDS ") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the gateway did not start");
        }
        let family: Vec<i32> = serde_json::from_str(&line["PIDS ".len()..]).unwrap();
        assert!(family.iter().all(|pid| runs(*pid)));
        Self { process, output, family }
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.process.id()).unwrap()
    }

    fn guardian(&self) -> Option<Process> {
        let own = |process: &Process| process.parent == self.pid() && !process.zombie;
        let is_guardian = |process: &Process| {
            std::fs::read(format!("/proc/{}/cmdline", process.pid))
                .is_ok_and(|line| line.starts_with(b"guardian\0"))
        };
        tree::snapshot().into_iter().filter(own).find(is_guardian)
    }

    fn send(pid: i32, signal: Signal) {
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Kills the gateway alone, and waits until all others are gone.
    async fn kill(mut self) {
        let guardian = self.guardian();
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let mut rest = Vec::new();
        while self.output.read_until(b'\n', &mut rest).unwrap() > 0 {}
        // Who adopts what is left here is not ours to say, so a zombie counts as gone.
        until("the family gone", || !self.family.iter().any(|pid| runs(*pid))).await;
        if let Some(guardian) = guardian {
            until("the guardian gone", || !runs(guardian.pid)).await;
        }
    }
}

/// A test that fails must not leave a gateway, which has children.
impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// kill -9 of the gateway leaves no process, stubborn and escaped ones included.
#[tokio::test]
async fn r_13_nothing_survives_kill_nine_of_the_gateway() {
    Gateway::start().kill().await;
}

/// the guardian holds nothing of the gateway's, leads its own session, and does not heed polite signals.
#[tokio::test]
async fn r_13_the_guardian_holds_one_pipe_and_stays() {
    let gateway = Gateway::start();
    let guardian = gateway.guardian().unwrap();
    assert_eq!(guardian.session, guardian.pid);
    match std::fs::read_dir(format!("/proc/{}/fd", guardian.pid)) {
        Ok(held) => {
            assert_eq!(held.count(), 3);
            let target = |fd: &str| std::fs::read_link(format!("/proc/{}/fd/{fd}", guardian.pid)).unwrap();
            assert!(target("0").to_str().unwrap().starts_with("pipe:"));
            assert_eq!((target("1").to_str(), target("2").to_str()), (Some("/dev/null"), Some("/dev/null")));
        }
        // It is concealed from all but root.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
    }
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        Gateway::send(guardian.pid, signal);
    }
    assert!(runs(guardian.pid));
    gateway.kill().await;
    assert!(!runs(guardian.pid));
}

/// a guardian that was killed is replaced, and the new one knows all groups.
#[tokio::test]
async fn r_13_a_guardian_that_ends_is_replaced() {
    let gateway = Gateway::start();
    let first = gateway.guardian().unwrap();
    Gateway::send(first.pid, Signal::KILL);
    until("a new guardian", || gateway.guardian().is_some_and(|guardian| guardian.pid != first.pid)).await;
    gateway.kill().await;
}

/// what cleared its environment and broke the chain of parents belongs to no child, but ends with the spawner. In a
/// process of its own, since such a stray is ended by whichever spawner closes first.
#[test]
fn r_13_what_belongs_to_nobody_ends_with_the_spawner() {
    let done = play("roles::stranger");
    assert!(done.contains("1 passed"), "{done}");
}
