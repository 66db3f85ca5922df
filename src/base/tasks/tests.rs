//! Tasks: results, ends, panics, groups.

use std::future::pending;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::oneshot;

use super::*;

const LONG: Duration = Duration::from_secs(20);

/// A future that never ends and tells when it is dropped.
fn endless() -> (impl Future<Output = ()> + Send + 'static, oneshot::Receiver<()>) {
    let (alive, dropped) = oneshot::channel::<()>();
    let work = async move {
        let _alive = alive;
        pending::<()>().await;
    };
    (work, dropped)
}

async fn ends(dropped: oneshot::Receiver<()>) -> bool {
    clock::within(LONG, dropped).await.is_ok()
}

#[tokio::test]
async fn a_task_gives_its_result() {
    let task = spawn("sum", async { 1 + 1 });
    assert_eq!(task.name(), "sum");
    assert_eq!(task.await, Ok(2));
}

#[tokio::test]
async fn a_dropped_task_ends() {
    let (work, dropped) = endless();
    let task = spawn("endless", work);
    tokio::task::yield_now().await;
    assert!(!task.is_finished());
    drop(task);
    assert!(ends(dropped).await);
}

#[tokio::test]
async fn a_detached_task_runs_on() {
    let (go, wait) = oneshot::channel::<()>();
    let (done, result) = oneshot::channel();
    spawn("detached", async move {
        let _ = wait.await;
        let _ = done.send(7);
    })
    .detach();
    tokio::task::yield_now().await;
    go.send(()).expect("the task waits");
    assert_eq!(clock::within(LONG, result).await, Ok(Ok(7)));
}

#[tokio::test]
async fn a_panic_is_a_value_and_is_reported() {
    static SEEN: Mutex<Vec<&str>> = Mutex::new(Vec::new());
    on_panic(|panicked| SEEN.lock().expect("no panic under the lock").push(panicked.task));
    let failed = spawn("fails", async { panic!("a secret") }).await;
    assert_eq!(failed, Err::<(), _>(Ended::Panicked(Panicked { task: "fails" })));
    assert_eq!(Panicked { task: "fails" }.to_string(), "task fails panicked");

    let group = Group::new();
    group.spawn("fails-alone", async { panic!("a secret") }).detach();
    assert_eq!(group.drain(LONG).await, Ok(()));
    let seen = SEEN.lock().expect("no panic under the lock").clone();
    assert!(seen.contains(&"fails") && seen.contains(&"fails-alone"));
}

#[tokio::test]
async fn a_group_waits_for_all_and_stops_the_rest() {
    let group = Group::new();
    assert_eq!(group.drain(Duration::ZERO).await, Ok(()));

    let (work, dropped) = endless();
    group.spawn("endless", work).detach();
    let short = group.spawn("short", async { 1 });
    assert_eq!(group.drain(Duration::from_millis(5)).await, Err(Elapsed));
    assert_eq!((short.await, group.len()), (Ok(1), 1));

    group.stop();
    assert_eq!(group.drain(LONG).await, Ok(()));
    assert!(ends(dropped).await && group.is_empty());
    let late = group.spawn("late", pending::<()>()).await;
    assert_eq!(late, Err(Ended::Stopped { task: "late" }));
}

#[tokio::test]
async fn blocking_work_gives_its_result() {
    assert_eq!(blocking("sum", || 1 + 1).await, Ok(2));
}
