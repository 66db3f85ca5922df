//! Caps, fairness and cancellation.

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;

fn name(name: &str) -> Arc<str> {
    name.into()
}

fn caps(per_upstream: usize, total: usize) -> Slots {
    Slots::new(Caps { per_upstream, total, ..Caps::default() })
}

/// Caps of one, and a queue that nobody stands in for long.
fn hasty() -> Slots {
    Slots::new(Caps { per_upstream: 1, total: 2, queue: Duration::from_millis(5) })
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// a full cap queues for ten seconds, then the error names the key.
#[tokio::test]
async fn r_11_the_error_names_the_key_to_change() {
    assert_eq!(Caps::default().queue, Duration::from_secs(10));
    let slots = hasty();
    let (alpha, beta, gamma, tenant) = (name("alpha"), name("beta"), name("gamma"), name("t"));
    let _one = slots.acquire(&alpha, &tenant).await.unwrap();
    let begun = clock::now();
    let full = slots.acquire(&alpha, &tenant).await.unwrap_err();
    assert!(clock::now() - begun >= Duration::from_millis(5));
    assert_eq!((full.key, full.running), ("portcullis.children.perUpstream", 1));
    let _two = slots.acquire(&beta, &tenant).await.unwrap();
    let full = slots.acquire(&gamma, &tenant).await.unwrap_err();
    assert_eq!((full.key, full.running), ("portcullis.children.total", 2));
    assert!(full.to_string().contains("raise portcullis.children.total"), "{full}");
}

#[tokio::test]
async fn a_slot_that_comes_free_goes_to_who_waits() {
    let slots = caps(1, 1);
    let (alpha, tenant) = (name("alpha"), name("t"));
    let one = slots.acquire(&alpha, &tenant).await.unwrap();
    let mut wait = pin!(slots.acquire(&alpha, &tenant));
    assert!(poll(wait.as_mut()).is_pending());
    drop(one);
    let two = wait.await.unwrap();
    assert_eq!(slots.running(), 1);
    drop(two);
    assert_eq!(slots.running(), 0);
}

/// fairly by tenant: one with many waiters does not starve one with few.
#[tokio::test]
async fn r_11_slots_go_round_by_tenant() {
    let slots = caps(10, 1);
    let (alpha, greedy, modest) = (name("alpha"), name("greedy"), name("modest"));
    let held = slots.acquire(&alpha, &greedy).await.unwrap();
    let mut first = pin!(slots.acquire(&alpha, &greedy));
    let mut second = pin!(slots.acquire(&alpha, &greedy));
    let mut third = pin!(slots.acquire(&alpha, &greedy));
    let mut other = pin!(slots.acquire(&alpha, &modest));
    assert!(poll(first.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    assert!(poll(third.as_mut()).is_pending() && poll(other.as_mut()).is_pending());
    drop(held);
    drop(first.await.unwrap());
    assert!(poll(third.as_mut()).is_pending() && poll(second.as_mut()).is_pending());
    drop(other.await.unwrap());
    drop(second.await.unwrap());
    drop(third.await.unwrap());
}

/// F-085: an upstream at its cap holds up nobody else.
#[tokio::test]
async fn f_085_a_full_upstream_does_not_hold_up_the_others() {
    let slots = caps(1, 2);
    let (alpha, beta, tenant) = (name("alpha"), name("beta"), name("t"));
    let one = slots.acquire(&alpha, &tenant).await.unwrap();
    let mut wait = pin!(slots.acquire(&alpha, &tenant));
    assert!(poll(wait.as_mut()).is_pending());
    let _two = slots.acquire(&beta, &tenant).await.unwrap();
    let mut third = pin!(slots.acquire(&beta, &tenant));
    assert!(poll(third.as_mut()).is_pending());
    drop(one);
    let _alpha = wait.await.unwrap();
    assert!(poll(third.as_mut()).is_pending());
}

#[tokio::test]
async fn a_wait_that_is_dropped_leaves_nothing_behind() {
    let slots = caps(1, 1);
    let (alpha, tenant) = (name("alpha"), name("t"));
    let one = slots.acquire(&alpha, &tenant).await.unwrap();
    {
        let mut before = pin!(slots.acquire(&alpha, &tenant));
        assert!(poll(before.as_mut()).is_pending());
    }
    {
        let mut granted = Box::pin(slots.acquire(&alpha, &tenant));
        assert!(poll(granted.as_mut()).is_pending());
        drop(one);
        assert_eq!(slots.running(), 1, "handed to who waits");
    }
    assert_eq!(slots.running(), 0, "and back");
    assert_eq!(lock(&slots.desk).waiting, 0);
    drop(slots.acquire(&alpha, &tenant).await.unwrap());
}

#[tokio::test]
async fn caps_can_be_raised_while_someone_waits() {
    let slots = caps(1, 1);
    let (alpha, tenant) = (name("alpha"), name("t"));
    let _one = slots.acquire(&alpha, &tenant).await.unwrap();
    let mut wait = pin!(slots.acquire(&alpha, &tenant));
    assert!(poll(wait.as_mut()).is_pending());
    slots.set_caps(Caps { per_upstream: 2, total: 2, ..Caps::default() });
    let _two = wait.await.unwrap();
    assert_eq!(slots.running(), 2);
}

/// D11: the queue itself is bounded.
#[tokio::test]
async fn the_queue_is_bounded() {
    let slots = caps(1, 1);
    let (alpha, tenant) = (name("alpha"), name("t"));
    let _one = slots.acquire(&alpha, &tenant).await.unwrap();
    let mut waits: Vec<_> = (0..WAITERS).map(|_| Box::pin(slots.acquire(&alpha, &tenant))).collect();
    assert!(waits.iter_mut().all(|wait| poll(wait.as_mut()).is_pending()));
    let refused = poll(pin!(slots.acquire(&alpha, &tenant)));
    assert!(matches!(refused, Poll::Ready(Err(_))), "at once");
}
