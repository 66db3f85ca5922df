//! Children: pipelining, their end, their restarts, what they may send.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use portcullis::base::{clock, tasks};
use portcullis::call::{Fault, Purpose, Reply, Session, Upstreams};
use portcullis::mcp::methods::ItemKind;
use portcullis::mcp::revision::Revision;

use crate::rig::*;

/// The entry of a child with these arguments, and what the test adds.
fn entry(arguments: &str, more: &str) -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upstream/child.py");
    format!(r#""command": "python3", "args": ["{script}"{arguments}]{more}"#)
}

fn rig() -> Rig {
    Rig::new(&entry("", ""))
}

async fn tool(rig: &Rig, session: &Arc<Session>, name: &str, arguments: &str) -> Result<Reply, Fault> {
    rig.call(session, &format!(r#"{{"name":"{name}","arguments":{arguments}}}"#)).await
}

/// The process that serves a session.
async fn pid(rig: &Rig, session: &Arc<Session>) -> u32 {
    let text = done(tool(rig, session, "echo", "{}").await).await;
    let digits = text.split(r#""pid": "#).nth(1).unwrap().split(',').next().unwrap().to_owned();
    digits.parse().unwrap()
}

async fn gone(pid: u32) {
    let looking = async {
        while Path::new(&format!("/proc/{pid}")).exists() {
            clock::sleep(Duration::from_millis(10)).await;
        }
    };
    clock::within(PATIENCE, looking).await.expect("the process has ended");
}

/// STDIO-01, STDIO-04, LIFE-07, LIFE-16, R-11: the catalog's child serves the first session, and ends with it.
#[tokio::test]
async fn children_belong_to_sessions() {
    let rig = rig();
    assert_eq!(rig.connect().await.unwrap().revision, Revision::LATEST);
    done(rig.list().await).await;
    let (one, two) = (session(1), session(2));
    let (first, second) = (pid(&rig, &one).await, pid(&rig, &two).await);
    assert_ne!(first, second);
    assert_eq!(pid(&rig, &one).await, first);
    let heard = done(tool(&rig, &one, "heard", "{}").await).await;
    assert!(
        heard.contains(
            r#"["initialize", {"jsonrpc": "2.0", "method": "notifications/initialized"}, "tools/list""#
        ),
        "{heard}"
    );
    one.ended.cancel();
    rig.shore.release(&one);
    gone(first).await;
    assert_eq!(pid(&rig, &two).await, second);
    rig.shore.shutdown(Duration::from_secs(5)).await;
    gone(second).await;
}

/// F-029
#[tokio::test]
async fn f_029_a_slow_call_holds_up_nobody() {
    let rig = rig();
    let session = session(1);
    let slow = tool(&rig, &session, "slow", r#"{"seconds": 3}"#);
    let quick = async {
        for _ in 0..20 {
            done(tool(&rig, &session, "echo", "{}").await).await;
        }
        clock::now()
    };
    let (slow, quick) = tokio::join!(async { (slow.await, clock::now()) }, quick);
    assert!(quick < slow.1);
    assert!(done(slow.0).await.contains("slow"));
}

/// F-026, STDIO-08: the end of a child fails what is pending at once, and the next call finds a new one.
#[tokio::test]
async fn f_026_the_end_of_a_child_is_told_at_once() {
    let mut rig = rig();
    rig.connect().await.unwrap();
    let session = session(1);
    for (name, status) in [("exit", "exit code 9"), ("kill", "signal 9")] {
        pid(&rig, &session).await;
        let (pending, ending) = tokio::join!(tool(&rig, &session, "hang", "{}"), async {
            clock::sleep(Duration::from_millis(50)).await;
            let began = clock::now();
            (tool(&rig, &session, name, "{}").await, clock::now() - began)
        });
        for fault in [pending.unwrap_err(), ending.0.unwrap_err()] {
            let text = fault.to_string();
            assert!(text.contains("alpha") && text.contains(status), "{text}");
        }
        assert!(ending.1 < Duration::from_secs(2), "{:?}", ending.1);
    }
    assert_eq!(rig.news().await, News::Lost);
    pid(&rig, &session).await;
    assert_eq!(rig.shore.status()[0].restarts, 2);
}

/// F-026, F-027: failed starts are shared, and told without a wait.
#[tokio::test]
async fn f_027_a_child_that_cannot_start_is_not_started_over_and_over() {
    let rig = Rig::new(&entry(r#", "broken""#, ""));
    let fault = rig.connect().await.unwrap_err();
    assert!(fault.to_string().contains("exit code 3"), "{fault}");
    let began = clock::now();
    let sessions: Vec<_> = (0..50).map(session).collect();
    let calls = sessions.iter().map(|session| tool(&rig, session, "echo", "{}"));
    for reply in futures_util::future::join_all(calls).await {
        let fault = reply.unwrap_err();
        assert!(fault.to_string().contains("exit code 3"), "{fault}");
    }
    assert!(clock::now() - began < Duration::from_secs(10));
    let status = rig.shore.status().swap_remove(0);
    assert!(status.reason.contains("exit code 3"), "{status:?}");
    let rig = Rig::new(r#""command": "/nonexistent/server""#);
    assert!(rig.connect().await.unwrap_err().to_string().contains("command is not found"));
}

/// F-028: who asks does not wait longer than it wants, and the start goes on.
#[tokio::test]
async fn f_028_a_slow_start_goes_on_in_the_background() {
    let rig = Rig::new(&entry(r#", "late", "1""#, r#", "portcullis": {"timeouts": {"list": "100ms"}}"#));
    let fault = rig.list().await.unwrap_err();
    assert!(matches!(fault, Fault::Timeout { limit: "list", .. }), "{fault:?}");
    rig.connect().await.unwrap();
    done(rig.list().await).await;
}

/// F-034, F-035, F-039, F-040, F-052
#[tokio::test]
async fn f_034_odd_output_is_survived() {
    let file = format!(
        r#"{{"portcullis": {{"maxMessage": "1MiB"}}, "mcpServers": {{"alpha": {{{}}}}}}}"#,
        entry("", "")
    );
    let mut rig = Rig::of(&file, &portcullis::config::environment::Environment::capture());
    let session = session(1);
    let first = pid(&rig, &session).await;
    done(tool(&rig, &session, "noise", "{}").await).await;
    assert!(done(tool(&rig, &session, "string id", "{}").await).await.contains("odd"));
    let fault = tool(&rig, &session, "both", "{}").await.unwrap_err();
    assert!(matches!(fault, Fault::Protocol { .. }), "{fault:?}");
    let fault = tool(&rig, &session, "large", r#"{"size": 3000000}"#).await.unwrap_err();
    assert!(fault.to_string().contains("maxMessage"), "{fault}");
    let large = done(tool(&rig, &session, "large", r#"{"size": 900000}"#).await).await;
    assert!(large.len() > 900_000);
    done(tool(&rig, &session, "changed", "{}").await).await;
    assert_eq!(rig.news().await, News::Reconnected, "R-11: the catalog had no child, and uses this one");
    assert_eq!(rig.news().await, News::Changed(ItemKind::Tool));
    // SAMP-10: its question is answered although its call is over.
    done(tool(&rig, &session, "ask", "{}").await).await;
    let answered = async {
        while !done(tool(&rig, &session, "heard", "{}").await).await.contains("client_unavailable") {}
    };
    clock::within(Duration::from_secs(20), answered).await.expect("an answer");
    assert_eq!(pid(&rig, &session).await, first, "the child is the same all along");
}

/// F-059, PROG-04
#[tokio::test]
async fn f_059_progress_of_a_child_has_the_clients_token() {
    let rig = rig();
    let reply = rig.call(&session(1), r#"{"name":"progress","_meta":{"progressToken":"t-1"}}"#).await;
    let seen = all(reply).await;
    assert_eq!(seen.len(), 3, "{seen:?}");
    assert!(seen[0].contains(r#""progressToken": "t-1", "progress": 1"#), "{seen:?}");
}

/// CANC-01, CANC-03, F-060, F-062
#[tokio::test]
async fn f_062_late_answers_are_dropped() {
    let rig = Rig::new(&entry("", r#", "portcullis": {"timeouts": {"callIdle": "1500ms"}}"#));
    let session = session(1);
    pid(&rig, &session).await;
    let fault = tool(&rig, &session, "slow", r#"{"seconds": 2.5}"#).await.unwrap_err();
    assert!(matches!(fault, Fault::Timeout { limit: "callIdle", .. }), "{fault:?}");
    let out = rig.out.clone();
    let call = out_call(Purpose::Session(Arc::clone(&session)), "tools/call", r#"{"name":"hang"}"#);
    let dropped = tasks::spawn("call", async move { drop(tower::ServiceExt::oneshot(out, call).await) });
    clock::sleep(Duration::from_millis(50)).await;
    drop(dropped);
    let heard = clock::within(PATIENCE, async {
        loop {
            let heard = done(tool(&rig, &session, "heard", "{}").await).await;
            if heard.contains("client cancelled") {
                return heard;
            }
        }
    });
    let heard = heard.await.unwrap();
    assert!(heard.contains(r#""reason": "timeout""#), "{heard}");
}

/// F-031, F-038, F-087: a burst through one child, all answers where they belong.
#[tokio::test]
async fn f_087_a_burst_loses_nothing() {
    let rig = Rig::new(&entry("", r#", "portcullis": {"isolation": "shared"}"#));
    let sessions: Vec<_> = (0..5).map(session).collect();
    let calls = (0..500).map(|n| {
        let (rig, session) = (&rig, &sessions[n % 5]);
        async move { (n, tool(rig, session, "echo", &format!(r#"{{"who":{n}}}"#)).await) }
    });
    for (n, reply) in futures_util::future::join_all(calls).await {
        assert!(done(reply).await.contains(&format!(r#""who": {n}}}"#)));
    }
}

/// R-11, F-085: idle children stop, and start again when they are needed.
#[tokio::test]
async fn idle_children_are_stopped() {
    let file = format!(
        r#"{{"portcullis": {{"children": {{"idle": "1s"}}}}, "mcpServers": {{"alpha": {{{}}}}}}}"#,
        entry("", "")
    );
    let rig = Rig::of(&file, &portcullis::config::environment::Environment::capture());
    rig.connect().await.unwrap();
    let session = session(1);
    let first = pid(&rig, &session).await;
    gone(first).await;
    assert_ne!(pid(&rig, &session).await, first);
}
