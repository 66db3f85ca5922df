//! Ending: in good order, step by step, and whom else that concerns.

use std::time::Duration;

use portcullis::base::clock;
use portcullis::upstream::stdio::child::Grace;
use portcullis::upstream::stdio::exit::{Cause, Ending};
use rustix::process::{Pid, Signal, kill_process};

use crate::kit::{LONG, all_gone, exists, next, pids, python, runs, send, shell, soon, spawner, until};

/// So short that the next step is what counts.
const BRIEF: Duration = Duration::from_millis(50);

/// STDIO-04: what is sent is read, then the end of input is enough.
#[tokio::test]
async fn stdio_04_end_of_input_comes_first() {
    let (spawner, _) = spawner();
    let script = "trap 'exit 1' TERM; while read line; do echo \"$line\"; done; exit 4";
    let mut child = shell(&spawner, script).await;
    for n in 0..10 {
        soon(child.input.send(format!("{{\"n\":{n}}}").into())).await.unwrap();
    }
    let exit = soon(child.life.stop(Grace { after_input: LONG, after_term: LONG })).await;
    assert_eq!((exit.ending, exit.cause), (Ending::Code(4), Cause::Stopped));
    for n in 0..10 {
        assert_eq!(next(&mut child).await["n"], n);
    }
}

/// STDIO-04: then SIGTERM, to the whole group.
#[tokio::test]
async fn stdio_04_sigterm_comes_second() {
    let (spawner, _) = spawner();
    let script = "
def leave(*_): os._exit(7)
signal.signal(signal.SIGTERM, leave)
pids(fork(lambda: signal.signal(signal.SIGTERM, leave)))
time.sleep(600)
";
    let mut child = python(&spawner, script).await;
    let family = pids(&mut child).await;
    let exit = soon(child.life.stop(Grace { after_input: BRIEF, after_term: LONG })).await;
    assert_eq!((exit.ending, exit.cause), (Ending::Code(7), Cause::Stopped));
    assert!(!runs(family[0]), "the exit is told when all are gone");
}

/// STDIO-04: then SIGKILL, which is no sign of a lack of memory.
#[tokio::test]
async fn stdio_04_sigkill_comes_last() {
    let (spawner, told) = spawner();
    let mut child = python(&spawner, "stubborn()\npids(fork(lambda: None))\ntime.sleep(600)").await;
    let family = pids(&mut child).await;
    let exit = soon(child.life.stop(Grace { after_input: BRIEF, after_term: BRIEF })).await;
    assert_eq!((exit.ending, exit.cause), (Ending::Signal(9), Cause::Stopped));
    assert!(!exit.is_likely_out_of_memory());
    assert!(!runs(family[0]));
    assert_eq!(told.count("StraysEnded"), 0, "all were in the group");
}

/// STDIO-04: who cleans up behind a leader that went first gets the time for it.
#[tokio::test]
async fn stdio_04_grandchildren_have_their_grace() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cleaned");
    let (spawner, _) = spawner();
    let script = format!(
        "
def tidy():
    def leave(*_):
        time.sleep(0.2)
        open({:?}, 'w').close()
        os._exit(0)
    signal.signal(signal.SIGTERM, leave)
fork(tidy)
time.sleep(0.1)
say({{}})
time.sleep(600)
",
        file.to_str().unwrap()
    );
    let mut child = python(&spawner, &script).await;
    next(&mut child).await;
    let exit = soon(child.life.stop(Grace { after_input: BRIEF, after_term: LONG })).await;
    assert_eq!(exit.ending, Ending::Signal(15));
    assert!(file.exists());
}

/// who left the group or the session, even twice removed, is found; the family of another child is left alone.
#[tokio::test]
async fn r_13_descendants_that_left_the_group_are_found() {
    let (spawner, told) = spawner();
    let script = "
def both():
    os.setsid()
    stubborn()
pids(fork(lambda: os.setpgid(0, 0)), fork(both), daemon(stubborn), daemon())
for line in lines: pass
";
    let mut child = python(&spawner, script).await;
    let mut other = python(&spawner, script).await;
    let family = pids(&mut child).await;
    let others = pids(&mut other).await;
    assert!(family.iter().all(|pid| runs(*pid)));
    let exit = soon(child.life.stop(Grace { after_input: BRIEF, after_term: BRIEF })).await;
    assert_eq!(exit.cause, Cause::Stopped);
    assert!(!family.iter().any(|pid| runs(*pid)), "gone before the exit is told");
    assert_eq!(told.count("StraysEnded"), 1);
    assert!(others.iter().all(|pid| runs(*pid)), "the other family lives");
    drop(other);
    all_gone(&family).await;
    all_gone(&others).await;
}

/// F-026, R-13: a child that crashes takes its family along, at once.
#[tokio::test]
async fn r_13_a_crash_leaves_no_family() {
    let (spawner, _) = spawner();
    let script = "
pids(fork(stubborn), fork(os.setsid), daemon())
next(lines)
os._exit(9)
";
    let mut child = python(&spawner, script).await;
    let family = pids(&mut child).await;
    send(&child, "{}").await;
    let exit = soon(child.life.exit()).await;
    assert_eq!((exit.ending, exit.cause), (Ending::Code(9), Cause::Itself));
    all_gone(&family).await;
}

/// F-085: signal 9 from elsewhere hints at a lack of memory.
#[tokio::test]
async fn f_085_killed_by_the_system() {
    let (spawner, _) = spawner();
    let child = shell(&spawner, "kill -9 $$").await;
    let exit = soon(child.life.exit()).await;
    assert!(exit.is_likely_out_of_memory(), "{exit}");
}

/// A child that is dropped is killed with its group at once, and reaped.
#[tokio::test]
async fn a_dropped_child_is_killed_and_reaped() {
    let (spawner, told) = spawner();
    let mut child =
        python(&spawner, "stubborn()\npids(os.getpid(), fork(lambda: None))\ntime.sleep(600)").await;
    let family = pids(&mut child).await;
    let exit = child.life.exit();
    drop(child);
    let exit = soon(exit).await;
    assert_eq!((exit.ending, exit.cause), (Ending::Signal(9), Cause::Dropped));
    all_gone(&family).await;
    assert_eq!((told.count("Exited"), spawner.slots().running()), (1, 0));
}

/// A stop that is under way ends at once when the child is dropped.
#[tokio::test]
async fn a_drop_cuts_a_stop_short() {
    let (spawner, _) = spawner();
    let child = shell(&spawner, "exec sleep 600").await;
    let exit = child.life.exit();
    let stop = child.life.stop(Grace { after_input: LONG, after_term: LONG });
    assert!(clock::within(BRIEF, stop).await.is_err());
    drop(child);
    assert_eq!(soon(exit).await.ending, Ending::Signal(9));
}

/// A run time that goes down takes its children with it.
#[test]
fn a_run_time_that_ends_leaves_no_child() {
    let run_time =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let first = run_time();
    let (spawner, child, family) = first.block_on(async {
        let (spawner, _) = spawner();
        let mut child =
            python(&spawner, "pids(os.getpid(), fork(os.setsid), daemon())\ntime.sleep(600)").await;
        let family = pids(&mut child).await;
        (spawner, child, family)
    });
    drop(first);
    run_time().block_on(async {
        all_gone(&family).await;
        assert_eq!(soon(child.life.exit()).await.ending, Ending::Unknown);
        drop(child);
        until("slot free", || spawner.slots().running() == 0).await;
        soon(spawner.close()).await;
    });
}

/// orphans that end are reaped, and exit statuses of processes that others started are left to them.
#[tokio::test]
async fn r_13_adopted_zombies_are_reaped_and_no_others() {
    if std::process::id() == 1 {
        // Then there are no others.
        return;
    }
    let (spawner, _) = spawner();
    let mut foreign = std::process::Command::new("sh").args(["-c", "exit 5"]).spawn().unwrap();
    let foreign_pid = i32::try_from(foreign.id()).unwrap();
    until("a zombie that is not ours", || exists(foreign_pid) && !runs(foreign_pid)).await;
    let script = "
pids(*(daemon() for _ in range(5)))
for line in lines: pass
";
    let mut child = python(&spawner, script).await;
    let orphans = pids(&mut child).await;
    for orphan in &orphans {
        kill_process(Pid::from_raw(*orphan).unwrap(), Signal::KILL).unwrap();
    }
    all_gone(&orphans).await;
    assert_eq!(foreign.wait().unwrap().code(), Some(5));
}
