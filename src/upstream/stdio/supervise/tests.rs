//! The machine of restarts, without waiting; then the shared turnstile.

use super::*;

const DRAW: u32 = u32::MAX;

fn silent() -> Arc<dyn Sink> {
    Arc::new(|_: Fact<'_>| {})
}

fn begin(supervision: &mut Supervision, now: Instant) -> Duration {
    match supervision.ask(now) {
        Answer::Start { patience } => patience,
        other => panic!("expected a start, got {other:?}"),
    }
}

/// F-027: a child that fails right after each start, and someone who asks every 50 ms for a minute.
#[test]
fn f_027_a_crash_loop_gets_few_starts() {
    for draw in [0, DRAW / 2, DRAW] {
        let mut supervision = Supervision::new(Policy::default());
        let begun = clock::now();
        let (mut starts, mut broken) = (0, false);
        for step in 0..1200 {
            let now = begun + Duration::from_millis(50) * step;
            if let Answer::Start { .. } = supervision.ask(now) {
                starts += 1;
                broken = supervision.failed(now + Duration::from_millis(100), draw).broken;
            }
        }
        assert!((3..=6).contains(&starts), "{starts} starts in 60 s");
        assert_eq!(broken, starts >= 5);
    }
}

/// F-027: given up, but not for good.
#[test]
fn f_027_the_breaker_lets_a_rare_attempt_through() {
    let policy = Policy::default();
    let mut supervision = Supervision::new(policy);
    let mut now = clock::now();
    for nth in 1..=policy.failures {
        begin(&mut supervision, now);
        let pause = supervision.failed(now, DRAW);
        assert_eq!(pause.broken, nth == policy.failures);
        now += pause.length;
    }
    let rested = supervision.held(now - Duration::from_secs(1)).unwrap();
    assert!(rested.broken && rested.failures == policy.failures);
    begin(&mut supervision, now);
    assert!(supervision.failed(now, 0).length >= policy.rest);
}

/// F-027: until a start has been good, there is one at a time.
#[test]
fn f_027_doubtful_starts_are_single() {
    let mut supervision = Supervision::new(Policy::default());
    let now = clock::now();
    begin(&mut supervision, now);
    assert_eq!(supervision.ask(now), Answer::Busy);
    supervision.started(now);
    begin(&mut supervision, now);
    begin(&mut supervision, now);
    let pause = supervision.failed(now, DRAW);
    assert_eq!(supervision.failed(now, DRAW), pause, "starts that fail together count once");
    assert_eq!(supervision.failures(), 1);
    let later = now + pause.length;
    begin(&mut supervision, later);
    assert_eq!(supervision.ask(later), Answer::Busy);
    supervision.abandoned();
    begin(&mut supervision, later);
}

/// F-027: a reset needs a life, not only a good start.
#[test]
fn f_027_failures_are_forgotten_after_sustained_uptime_only() {
    let policy = Policy::default();
    let mut supervision = Supervision::new(policy);
    let mut now = clock::now();
    for nth in 1..=3 {
        begin(&mut supervision, now);
        supervision.started(now);
        now += supervision.failed(now + Duration::from_secs(1), DRAW).length + Duration::from_secs(1);
        assert_eq!(supervision.failures(), nth);
    }
    begin(&mut supervision, now);
    supervision.started(now);
    supervision.failed(now + policy.steady, DRAW);
    assert_eq!(supervision.failures(), 1);
}

/// F-028, R-15: long patience for the first start, until one has been good.
#[test]
fn f_028_the_first_start_may_be_slow() {
    let policy = Policy::default();
    let mut supervision = Supervision::new(policy);
    let now = clock::now();
    assert_eq!(begin(&mut supervision, now), policy.first_start);
    let pause = supervision.failed(now, 0).length;
    assert_eq!(begin(&mut supervision, now + pause), policy.first_start);
    supervision.started(now + pause);
    assert_eq!(begin(&mut supervision, now + pause), policy.start);
}

/// F-027, F-028: 50 callers wait for the one start, then all may go.
#[tokio::test]
async fn f_028_callers_wait_for_the_start_under_way() {
    let starts = Starts::new("alpha".into(), Policy::default(), silent());
    let first = starts.enter().await.unwrap();
    let others: Vec<_> = (0..50)
        .map(|_| {
            let starts = starts.clone();
            crate::base::tasks::spawn("other", async move { starts.enter().await.map(Start::succeeded) })
        })
        .collect();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(others.iter().all(|other| !other.is_finished()));
    first.succeeded();
    for other in others {
        assert_eq!(other.await.unwrap(), Ok(()));
    }
}

/// a failed start is shared: those who wait learn of it and do not try.
#[tokio::test]
async fn r_14_a_failed_start_is_shared() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let told = Arc::clone(&told);
        move |fact: Fact<'_>| told.lock().unwrap().push(format!("{fact:?}"))
    };
    let policy = Policy {
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(5),
        ..Policy::default()
    };
    let starts = Starts::new("alpha".into(), policy, Arc::new(sink));
    let first = starts.enter().await.unwrap();
    let other = {
        let starts = starts.clone();
        crate::base::tasks::spawn("other", async move { starts.enter().await.map(drop) })
    };
    tokio::task::yield_now().await;
    first.failed("exit code 3");
    let held = other.await.unwrap().unwrap_err();
    assert_eq!((held.failures, held.broken), (1, false));
    clock::sleep_until(held.until).await;
    drop(starts.enter().await.unwrap());
    drop(starts.enter().await.unwrap());
    assert_eq!(starts.failures(), 1);
    assert!(told.lock().unwrap()[0].contains("exit code 3"));
}
