//! Parts that copies of this test program play. In a normal run these tests do nothing.

use std::io::{Read as _, Write as _};
use std::time::Duration;

use portcullis::upstream::stdio::child::Grace;
use portcullis::upstream::stdio::exit::Cause;
use portcullis::upstream::stdio::spawn::Spawner;
use portcullis::upstream::stdio::{guardian, tree};
use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{all_gone, is_role, next, pids, python, runs, send, shell, soon, spawner, until};

/// The guardian process.
#[test]
fn guardian() {
    if is_role() {
        guardian::run();
    }
}

/// A gateway with two stubborn families. Names their processes and waits to be killed.
#[tokio::test]
async fn gateway() {
    if !is_role() {
        return;
    }
    let (spawner, _) = spawner();
    let mut children = Vec::new();
    let mut family = Vec::new();
    for _ in 0..2 {
        let script = "
stubborn()
pids(os.getpid(), fork(lambda: None), fork(os.setsid), daemon(stubborn), daemon())
time.sleep(600)
";
        let mut child = python(&spawner, script).await;
        family.extend(pids(&mut child).await);
        children.push(child);
    }
    println!("\nPIDS {}", serde_json::to_string(&family).unwrap());
    std::io::stdout().flush().unwrap();
    // Ends with the test, should that end before it kills this process.
    let wait = || std::io::stdin().read_to_end(&mut Vec::new());
    tokio::task::spawn_blocking(wait).await.unwrap().unwrap();
}

/// A gateway that starts and loses many children, and compares what is open before and after.
#[tokio::test]
async fn cycles() {
    if !is_role() {
        return;
    }
    let (spawner, _) = spawner();
    // Once before counting, for what is opened once and for all.
    cycle(&spawner, 0).await;
    let open = descriptors();
    for nth in 0..200 {
        cycle(&spawner, nth).await;
    }
    until("descriptors closed", || descriptors() <= open).await;
    let own = i32::try_from(std::process::id()).unwrap();
    let children = || tree::snapshot().into_iter().filter(|process| process.parent == own).count();
    until("only the guardian left", || children() == 1).await;
    assert_eq!(spawner.slots().running(), 0);
    soon(spawner.close()).await;
    assert_eq!(children(), 0);
}

/// A gateway whose child leaves a process of which nobody can tell whose it is.
#[tokio::test]
async fn stranger() {
    if !is_role() {
        return;
    }
    let (spawner, _) = spawner();
    let script = r#"
read, write = os.pipe()
os.set_inheritable(write, True)
program = 'import os, sys, time; os.write(int(sys.argv[1]), str(os.getpid()).encode()); time.sleep(600)'
def stranger():
    os.setsid()
    os.execve(sys.executable, [sys.executable, "-c", program, str(write)], {})
def parent():
    fork(stranger)
    os._exit(0)
os.waitpid(fork(parent), 0)
pids(int(os.read(read, 20)))
for line in lines: pass
"#;
    let mut child = python(&spawner, script).await;
    let family = pids(&mut child).await;
    let exit = soon(child.life.stop(Default::default())).await;
    assert_eq!(exit.to_string(), "stopped: exit code 0");
    assert!(runs(family[0]));
    drop(child);
    soon(spawner.close()).await;
    all_gone(&family).await;
}

/// One child with a grandchild, ended in one of three ways.
async fn cycle(spawner: &Spawner, nth: u32) {
    let mut child = shell(spawner, "sleep 600 & echo '{\"ok\":1}'; exec cat").await;
    next(&mut child).await;
    send(&child, "{\"n\":1}").await;
    next(&mut child).await;
    let pid = i32::try_from(child.life.pid()).unwrap();
    match nth % 3 {
        0 => {
            let grace = Grace { after_input: Duration::from_millis(20), ..Grace::default() };
            assert_eq!(soon(child.life.stop(grace)).await.cause, Cause::Stopped);
        }
        1 => drop(child),
        _ => {
            kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
            assert_eq!(soon(child.life.exit()).await.cause, Cause::Itself);
        }
    }
    all_gone(&[pid]).await;
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}
