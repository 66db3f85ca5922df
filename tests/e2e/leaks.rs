//! Nothing is left behind: processes, descriptors, sessions and memory come back to where they were (F-017, F-023,
//! F-085, F-086, R-13, LIFE-27).
//!
//! The short form runs with all other tests; `E2E_LEAKS=long` makes it 1,000 sessions and 200 kills.
#![cfg(target_os = "linux")]

use serde_json::json;

use crate::kit::{self, *};

/// How much of something: a little, or with `E2E_LEAKS=long` the whole.
fn amount(short: usize, long: usize) -> usize {
    if std::env::var("E2E_LEAKS").is_ok_and(|form| form == "long") { long } else { short }
}

/// What may stay open for good reason: pooled connections, a catalog's stream, a log.
const SLACK: usize = 12;

/// What a process holds.
#[derive(Debug, Clone, Copy)]
struct Holdings {
    descriptors: Option<usize>,
    processes: usize,
    zombies: usize,
    memory: u64,
}

fn holdings(gateway: &Gateway) -> Holdings {
    let family = kit::process::descendants(gateway.pid());
    Holdings {
        descriptors: kit::process::descriptors(gateway.pid()),
        processes: family.len(),
        zombies: family.iter().filter(|member| member.state == 'Z').count(),
        memory: kit::process::resident(gateway.pid()),
    }
}

/// Waits until the gateway holds no more than before.
async fn comes_back(gateway: &Gateway, before: Holdings, what: &str) {
    let mut now = before;
    let settled = tokio::time::timeout(secs(30), async {
        loop {
            now = holdings(gateway);
            let descriptors = before.descriptors.map(|count| count + SLACK);
            if now.descriptors <= descriptors && now.processes <= before.processes && now.zombies == 0 {
                return;
            }
            pass(ms(100)).await;
        }
    });
    assert!(settled.await.is_ok(), "{what}: {before:?} became {now:?}");
    let grown = holdings(gateway).memory.saturating_sub(before.memory);
    assert!(grown < 24 << 20, "{what}: the gateway grew by {grown} bytes");
}

/// One session of each way to leave: in order, by silence, by reset, with a stream open, in a call.
async fn visit(gateway: &Gateway, way: usize) {
    let client = gateway.client().await;
    client
        .call(if way.is_multiple_of(2) { "alpha__echo" } else { "child__echo" }, json!({"n": way}))
        .await
        .result();
    match way % 4 {
        0 => assert_eq!(client.delete().send().await.status, 204),
        1 => client.get().send().await.reset(),
        2 => {
            let mut answer = client.begin("9", "tools/call", json!({"name": "alpha__slow"})).await;
            if answer.is_stream() {
                answer.event().await;
            }
            answer.reset();
        }
        _ => {}
    }
}

/// F-017 F-085 F-086: sessions opened and dropped in every way leave nothing, here or upstream.
#[tokio::test]
async fn f_086_sessions_leave_nothing_behind() {
    let alpha = http_server().tool("echo").call("slow", async |_: Exchange| {
        pass(ms(300)).await;
        Reply::text("done")
    });
    let (alpha, child) = (alpha.start(), stdio_server().tool("echo").start());
    let plan = gateway().upstream("alpha", &alpha).upstream("child", &child);
    let gateway = plan.with(json!({"sessions": {"idle": "1s"}})).start().await;
    // The first ones fill pools and caches.
    for way in 0..4 {
        visit(&gateway, way).await;
    }
    gateway.metrics_until("no session", |metrics| metrics.sum("portcullis_sessions", &[]) == 0.0).await;
    child.until("the catalog's child alone", || (child.running().len() <= 1).then_some(())).await;
    let before = holdings(&gateway);

    let count = amount(100, 1000);
    for batch in 0..count / 10 {
        futures_util::future::join_all((0..10).map(|n| visit(&gateway, batch * 10 + n))).await;
    }
    gateway.metrics_until("no session", |metrics| metrics.sum("portcullis_sessions", &[]) == 0.0).await;
    child.until("the catalog's child alone", || (child.running().len() <= 1).then_some(())).await;
    alpha.until("the catalog's session alone", || (alpha.sessions().len() <= 1).then_some(())).await;
    comes_back(&gateway, before, "after the sessions").await;
}

/// F-026 F-085 R-13: children that are killed are reaped and replaced.
#[tokio::test]
async fn f_085_killed_children_leave_nothing_behind() {
    let child = stdio_server().tool("echo").start();
    let gateway = gateway().upstream("child", &child).start().await;
    gateway.client().await.tools().await;
    let before = holdings(&gateway);
    for _ in 0..amount(20, 200) {
        let client = gateway.client().await;
        client.call("child__echo", json!({})).await.result();
        let pid = child.seen("tools/call").last().unwrap().session.clone().unwrap();
        let victim = child.children().into_iter().find(|one| one.pid().to_string() == pid).unwrap();
        kit::process::kill(victim.pid());
        // It meets the death or a successor; either way it is an answer.
        assert_eq!(client.call("child__echo", json!({})).await.status, 200);
        assert_eq!(client.delete().send().await.status, 204);
        soon("the dead child is gone", victim.gone()).await;
    }
    comes_back(&gateway, before, "after the kills").await;
}

/// R-13: however often the gateway is killed, its children go with it.
#[tokio::test]
async fn r_13_a_killed_gateway_leaves_no_process_behind() {
    for round in 0..amount(20, 200) {
        let polite = stdio_server().tool("echo").start();
        // Now and then one that does not go by itself: the polite ways are waited for first.
        let other = if round % 5 == 0 { stdio_server().stubborn() } else { stdio_server() };
        let other = other.tool("echo").start();
        let plan = gateway().upstream("polite", &polite).upstream("other", &other);
        let mut gateway = plan.start().await;
        let client = gateway.client().await;
        client.call("polite__echo", json!({})).await.result();
        client.call("other__echo", json!({})).await.result();
        let family = kit::process::descendants(gateway.pid());
        assert!(family.len() >= 2, "{family:?}");
        if round % 2 == 0 {
            gateway.kill().await;
        } else {
            // In the middle of a start: another session's children are on their way.
            let late = gateway.client().await;
            let starting = late.post(&kit::text::request("1", "tools/call", r#"{"name":"polite__echo"}"#));
            let (_, ()) = tokio::join!(starting.try_send(), gateway.kill());
        }
        polite.wait_until_empty().await;
        other.wait_until_empty().await;
        eventually(SOON, format!("all of {family:?} are gone"), || {
            family.iter().all(|member| !kit::process::alive(member.pid))
        })
        .await;
    }
}

/// F-023 F-084: an upstream that restarts again and again costs nothing.
#[tokio::test]
async fn f_023_reconnects_leave_nothing_behind() {
    let alpha = (0..100).fold(http_server().tool("echo"), |server, n| server.tool(&format!("t{n}"))).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let again = async || {
        soon("alpha works again", async {
            while !client.call("alpha__echo", json!({})).await.is_result() {
                pass(ms(20)).await;
            }
        })
        .await;
    };
    for _ in 0..5 {
        alpha.forget();
        again().await;
    }
    let before = holdings(&gateway);
    for _ in 0..amount(60, 1000) {
        alpha.forget();
        alpha.cut_connections();
        again().await;
    }
    comes_back(&gateway, before, "after the reconnects").await;
}

/// F-086: connections that say nothing sensible are gone when they are gone.
#[tokio::test]
async fn f_086_aborted_connections_leave_no_descriptor() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    gateway.client().await.tools().await;
    let before = holdings(&gateway);
    for _ in 0..amount(10, 100) {
        let mut open = Vec::new();
        for n in 0..30 {
            let mut socket = gateway.socket().await;
            let part =
                [&b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"[..], b"GET", b"\x16\x03\x01", b""][n % 4];
            tokio::io::AsyncWriteExt::write_all(&mut socket, part).await.unwrap();
            open.push(socket);
        }
    }
    comes_back(&gateway, before, "after the aborts").await;
}
