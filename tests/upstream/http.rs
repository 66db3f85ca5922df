//! Streamable HTTP: what is sent, what comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use portcullis::call::{Fault, LogLevel, Purpose, Reply, Upstreams};
use portcullis::config::environment::Environment;
use portcullis::mcp::methods::ItemKind;
use portcullis::mcp::revision::Revision;

use crate::rig::*;

pub fn entry(server: &Server) -> String {
    format!(r#""url": "{}""#, server.url())
}

/// HTTP-05, HTTP-06, HTTP-26, HTTP-31, LIFE-07, RPC-07, F-018, F-093
#[tokio::test]
async fn a_call_is_sent_as_the_transport_wants_it() {
    let server = Server::start(|seen| {
        greeting(seen, Some("s-1")).unwrap_or_else(|| json(result(&seen.id(), r#"{"content":[]}"#)))
    })
    .await;
    let rig = Rig::new(&format!(
        r#"{}, "headers": {{"Authorization": "Bearer t", "X-Team": "a"}}"#,
        entry(&server)
    ));
    assert_eq!(rig.connect().await.unwrap().revision, Revision::LATEST);
    let answer = done(rig.call(&session(1), r#"{"name":"echo","arguments":{"n":1.0}}"#).await).await;
    assert!(answer.ends_with(r#""result":{"content":[]}}"#), "{answer}");

    let seen = server.seen();
    let methods: Vec<_> = seen.iter().map(|seen| seen.method()).filter(|method| method != "GET").collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call"]);
    let call = seen.iter().find(|seen| seen.method() == "tools/call").unwrap();
    assert_eq!(call.header("accept"), "application/json, text/event-stream");
    assert_eq!(call.header("content-type"), "application/json");
    assert_eq!(call.header("mcp-session-id"), "s-1");
    assert_eq!(call.header("mcp-protocol-version"), "2025-11-25");
    assert_eq!(call.header("host"), server.address.to_string());
    assert_eq!(call.header("authorization"), "Bearer t");
    assert_eq!(call.header("x-team"), "a");
    assert!(!call.body.contains("client's"), "the client's id stays on its hop");
    assert!(call.body.ends_with(r#""method":"tools/call","params":{"name":"echo","arguments":{"n":1.0}}}"#));
}

/// HTTP-10, PROG-04, PROG-05, F-005, F-012, F-059
#[tokio::test]
async fn f_059_progress_comes_before_the_answer_with_the_clients_token() {
    let (keep, kept) = std::sync::mpsc::channel();
    let server = Server::start(move |seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| {
            let id = seen.id();
            assert!(seen.body.contains(&format!(r#""progressToken":{id}"#)), "{}", seen.body);
            let progress = |token: &str, value: u32| {
                event(format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{value}}}}}"#
                ))
            };
            let (send, act) = live_events();
            for part in [
                ": hello\r\n\r\nid: 1\ndata:\n\n".to_owned(),
                progress(&id, 1),
                progress("99999", 2),
                progress(&id, 1),
                event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#),
                progress(&id, 3),
                format!("data:{{\"jsonrpc\":\"2.0\",\"id\":{id},\r\ndata: \"result\":{{\"ok\":1}}}}\r\n\r\n"),
            ] {
                send.send(part).unwrap();
            }
            // The stream stays open after the answer.
            keep.send(send).unwrap();
            act
        })
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let seen = all(rig.call(&session(1), r#"{"name":"t","_meta":{"progressToken":"1"}}"#).await).await;
    assert_eq!(seen.len(), 4, "{seen:?}");
    assert!(seen[0].contains(r#""progressToken":"1","progress":1}"#), "{seen:?}");
    assert!(seen[1].contains("notifications/message"), "RPC-28: in the order in which it came");
    assert!(seen[2].contains(r#""progressToken":"1","progress":3}"#));
    assert!(seen[3].contains(r#""result":{"ok":1}"#));
    drop(kept);
}

/// F-059: a client without a token gets no progress, and the answer needs no stream.
#[tokio::test]
async fn f_059_no_token_no_progress() {
    let server = Server::start(|seen| {
        greeting(seen, None).unwrap_or_else(|| {
            let note = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#;
            events(&[event(note), event(result(&seen.id(), "{}"))])
        })
    })
    .await;
    let rig = Rig::new(&entry(&server));
    assert!(done(rig.call(&session(1), r#"{"name":"t"}"#).await).await.contains("result"));
}

/// F-001, F-110
#[tokio::test]
async fn f_001_no_push_channel_is_asked_for_once() {
    let mut server = Server::start(|seen| {
        greeting(seen, None).unwrap_or_else(|| json(result(&seen.id(), r#"{"tools":[]}"#)))
    })
    .await;
    let rig = Rig::new(&entry(&server));
    rig.connect().await.unwrap();
    server.wait_for(|seen| seen.verb == "GET").await;
    for number in 0..5 {
        done(rig.list().await).await;
        done(rig.call(&session(number), r#"{"name":"t"}"#).await).await;
    }
    // No session id: one logical connection for all (R-10, HTTP-41).
    assert_eq!((server.count("GET"), server.count("initialize")), (1, 1));
    assert_eq!(
        server.seen().iter().find(|seen| seen.verb == "GET").unwrap().header("accept"),
        "text/event-stream"
    );
}

/// F-014, HTTP-28
#[tokio::test]
async fn f_014_a_forgotten_session_is_renewed_once_for_all() {
    let sessions = Arc::new(AtomicUsize::new(0));
    let known = Arc::clone(&sessions);
    let server = Server::start(move |seen| {
        if seen.method() == "initialize" {
            known.fetch_add(1, Ordering::SeqCst);
        }
        let current = format!("s-{}", known.load(Ordering::SeqCst));
        greeting(seen, Some(&current)).unwrap_or_else(|| match seen.header("mcp-session-id") {
            // The first session is forgotten after the handshake.
            "s-1" => status(
                "404 Not Found",
                "Content-Type: application/json\r\n",
                r#"{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"}}"#,
            ),
            _ => json(result(&seen.id(), "{}")),
        })
    })
    .await;
    let rig = Rig::new(&entry(&server));
    rig.connect().await.unwrap();
    let session = session(1);
    let calls = (0..10).map(|_| rig.call(&session, r#"{"name":"t"}"#));
    for reply in futures_util::future::join_all(calls).await {
        assert!(done(reply).await.contains("result"));
    }
    assert_eq!(server.count("initialize"), 2);
    assert_eq!(sessions.load(Ordering::SeqCst), 2);
}

/// F-088
#[tokio::test]
async fn f_088_connections_are_used_again_and_stale_ones_replaced() {
    let server = Server::start(|seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| {
            let body = result(&seen.id(), "{}");
            // Each connection is closed after its answer, without a word about it.
            Act::Last(
                format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
                .into_bytes(),
            )
        })
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let session = session(1);
    for _ in 0..20 {
        done(rig.call(&session, r#"{"name":"t"}"#).await).await;
    }
    assert_eq!((server.count("initialize"), server.count("tools/call")), (1, 20));

    let server =
        Server::start(|seen| greeting(seen, Some("s")).unwrap_or_else(|| json(result(&seen.id(), "{}"))))
            .await;
    let rig = Rig::new(&entry(&server));
    for _ in 0..20 {
        done(rig.call(&session, r#"{"name":"t"}"#).await).await;
    }
    let last = server.seen().iter().map(|seen| seen.connection).max().unwrap();
    // One for calls, one for the push channel's attempt.
    assert!(last <= 1, "{last} connections more");
}

/// CANC-01, CANC-03, F-061
#[tokio::test]
async fn f_061_dropping_a_call_cancels_it_upstream() {
    let mut server = Server::start(|seen| greeting(seen, Some("s")).unwrap_or(Act::Hang)).await;
    let rig = Rig::new(&entry(&server));
    let (out, session) = (rig.out.clone(), session(1));
    let call = portcullis::base::tasks::spawn("call", async move {
        let call = out_call(Purpose::Session(session), "tools/call", r#"{"name":"slow"}"#);
        let _ = tower::ServiceExt::oneshot(out, call).await;
    });
    let id = server.wait_for(|seen| seen.method() == "tools/call").await.id();
    drop(call);
    let cancelled = server.wait_for(|seen| seen.method() == "notifications/cancelled").await;
    assert!(cancelled.body.contains(&format!(r#""requestId":{id},"#)), "{}", cancelled.body);
}

/// F-060, R-15, LIFE-22
#[tokio::test]
async fn f_060_limits_are_named_and_cancel_upstream() {
    let mut server = Server::start(|seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| {
            if seen.body.contains("fast") { json(result(&seen.id(), "{}")) } else { Act::Hang }
        })
    })
    .await;
    let rig = Rig::new(&format!(
        r#"{}, "portcullis": {{"timeouts": {{"callIdle": "500ms", "list": "300ms"}}}}"#,
        entry(&server)
    ));
    let session = session(1);
    let fault = rig.call(&session, r#"{"name":"slow"}"#).await.unwrap_err();
    assert_eq!(fault.to_string(), "upstream `alpha` did not answer within its `callIdle` limit of 0.5 s");
    let cancelled = server.wait_for(|seen| seen.method() == "notifications/cancelled").await;
    assert!(cancelled.body.contains(r#""reason":"timeout""#));
    // F-020: the others are not concerned.
    done(rig.call(&session, r#"{"name":"fast"}"#).await).await;
    let fault = rig.list().await.unwrap_err();
    assert!(matches!(fault, Fault::Timeout { limit: "list", .. }), "{fault:?}");
}

/// F-024, F-052, HTTP-14, HTTP-16
#[tokio::test]
async fn f_024_the_push_channel_is_opened_again_where_it_broke_off() {
    let streams = AtomicUsize::new(0);
    let (keep, kept) = std::sync::mpsc::channel();
    let mut server = Server::start(move |seen| match seen.method().as_str() {
        "GET" if streams.fetch_add(1, Ordering::Relaxed) == 0 => events(&["retry: 20\nid: e-7\n".to_owned()
            + &event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#)]),
        "GET" => {
            let (send, act) = live_events();
            send.send(event(r#"{"jsonrpc":"2.0","id":"q","method":"ping"}"#)).unwrap();
            send.send(event(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#)).unwrap();
            keep.send(send).unwrap();
            act
        }
        _ => greeting(seen, Some("s")).unwrap_or_else(|| status("202 Accepted", "", "")),
    })
    .await;
    let mut rig = Rig::new(&entry(&server));
    rig.connect().await.unwrap();
    assert_eq!(rig.news().await, News::Changed(ItemKind::Tool));
    assert_eq!(rig.news().await, News::Reconnected);
    let again = server.wait_for(|seen| seen.verb == "GET" && !seen.header("last-event-id").is_empty()).await;
    assert_eq!((again.header("last-event-id"), again.header("mcp-session-id")), ("e-7", "s"));
    // PING-01, LIFE-15: there is no client whose roots these could be.
    server.wait_for(|seen| seen.body == r#"{"jsonrpc":"2.0","id":"q","result":{}}"#).await;
    server.wait_for(|seen| seen.body == r#"{"jsonrpc":"2.0","id":"r","result":{"roots":[]}}"#).await;
    drop(kept);
}

/// HTTP-35
#[tokio::test]
async fn a_stream_that_breaks_before_its_answer_is_resumed() {
    let (ids, id) = std::sync::mpsc::channel::<String>();
    let id = std::sync::Mutex::new(id);
    let opened = AtomicUsize::new(0);
    let server = Server::start(move |seen| match (seen.method().as_str(), seen.header("last-event-id")) {
        ("tools/call", _) => {
            ids.send(seen.id()).unwrap();
            events(&["id: p-1\nretry: 1\ndata:\n\n".to_owned()])
        }
        ("GET", "p-1") if opened.fetch_add(1, Ordering::Relaxed) == 0 => status("503 Not Now", "", ""),
        ("GET", "p-1") => {
            let id = id.lock().unwrap().recv().unwrap();
            events(&[event(result(&id, r#"{"late":true}"#))])
        }
        _ => greeting(seen, Some("s")).unwrap(),
    })
    .await;
    let rig = Rig::new(&entry(&server));
    assert!(done(rig.call(&session(1), r#"{"name":"t"}"#).await).await.contains("late"));
    assert_eq!(server.count("tools/call"), 1);
}

/// HTTP-14, HTTP-35: a server that lets its client come back time and again is polled for as long as it gets on, and
/// each pause is told.
#[tokio::test]
async fn http_14_a_server_that_closes_its_streams_is_polled() {
    const PAUSES: usize = 12;
    let opened = AtomicUsize::new(0);
    let id = std::sync::Mutex::new(String::new());
    let server = Server::start(move |seen| match (seen.method().as_str(), seen.header("last-event-id")) {
        ("tools/call", _) => {
            *id.lock().unwrap() = seen.id();
            events(&["id: p-0\nretry: 1\ndata:\n\n".to_owned()])
        }
        ("GET", last) if last.starts_with("p-") => {
            let turn = opened.fetch_add(1, Ordering::Relaxed) + 1;
            assert_eq!(last, format!("p-{}", turn - 1));
            if turn < PAUSES {
                events(&[format!("id: p-{turn}\ndata:\n\n")])
            } else {
                events(&[event(result(&id.lock().unwrap(), r#"{"late":true}"#))])
            }
        }
        _ => greeting(seen, Some("s")).unwrap(),
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let seen = all(rig.call(&session(1), r#"{"name":"t"}"#).await).await;
    assert_eq!(seen[0], "pause Some(1ms)");
    assert_eq!(seen.len(), PAUSES + 1, "{seen:?}");
    assert!(seen[PAUSES].contains("late"));
    assert_eq!(server.count("tools/call"), 1);
}

/// F-035: large answers flow, too large ones fail alone.
#[tokio::test]
async fn f_035_large_answers_flow_through() {
    let server = Server::start(|seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| {
            let size = if seen.body.contains("huge") { 3 << 20 } else { 700 << 10 };
            let body = result(&seen.id(), &format!("\"{}\"", "x".repeat(size)));
            if seen.body.contains("event") { events(&[event(body)]) } else { json(body) }
        })
    })
    .await;
    let file = format!(
        r#"{{"portcullis": {{"maxMessage": "1MiB"}}, "mcpServers": {{"alpha": {{{}}}}}}}"#,
        entry(&server)
    );
    let rig = Rig::of(&file, &Environment::default());
    let session = session(1);
    for tool in ["json", "event"] {
        let text = done(rig.call(&session, &format!(r#"{{"name":"{tool}"}}"#)).await).await;
        assert_eq!(text.matches('x').count(), 700 << 10);
    }
    for tool in ["huge", "huge event"] {
        let fault = rig.call(&session, &format!(r#"{{"name":"{tool}"}}"#)).await.unwrap_err();
        assert!(fault.to_string().contains("maxMessage"), "{fault}");
    }
    done(rig.call(&session, r#"{"name":"json"}"#).await).await;
}

/// F-015, R-11, LIFE-16, LIFE-21, HTTP-29: each session its own, the first one that of the catalog.
#[tokio::test]
async fn f_015_sessions_have_connections_of_their_own_that_end_with_them() {
    let sessions = AtomicUsize::new(0);
    let mut server = Server::start(move |seen| {
        let number = sessions.fetch_add(usize::from(seen.method() == "initialize"), Ordering::SeqCst);
        greeting(seen, Some(&format!("s-{number}"))).unwrap_or_else(|| json(result(&seen.id(), "{}")))
    })
    .await;
    let rig = Rig::new(&entry(&server));
    rig.connect().await.unwrap();
    done(rig.list().await).await;
    let (one, two, old) = (session(1), session(2), session_of(3, Revision::V2025_03_26));
    for session in [&one, &two, &one, &old] {
        done(rig.call(session, r#"{"name":"t"}"#).await).await;
    }
    let used: Vec<_> = server
        .seen()
        .iter()
        .filter(|seen| seen.method() == "tools/call")
        .map(|seen| seen.header("mcp-session-id").to_owned())
        .collect();
    assert_eq!(used, ["s-0", "s-1", "s-0", "s-2"]);
    let offered: Vec<_> = server
        .seen()
        .iter()
        .filter(|seen| seen.method() == "initialize")
        .map(|seen| seen.body.contains("2025-03-26"))
        .collect();
    assert_eq!(offered, [false, false, true]);
    one.ended.cancel();
    rig.shore.release(&one);
    assert_eq!(server.wait_for(|seen| seen.verb == "DELETE").await.header("mcp-session-id"), "s-0");
    // The catalog opens one of its own when it needs one.
    done(rig.list().await).await;
    assert_eq!(server.count("initialize"), 4);
    rig.shore.shutdown(Duration::from_secs(2)).await;
    assert_eq!(server.count("DELETE"), 4);
}

/// LOG-02, LIFE-26
#[tokio::test]
async fn the_log_level_is_told_and_told_again() {
    let mut server =
        Server::start(|seen| greeting(seen, Some("s")).unwrap_or_else(|| json(result(&seen.id(), "{}"))))
            .await;
    let rig = Rig::new(&entry(&server));
    let session = session(1);
    session.set_log_level(LogLevel::Warning);
    done(rig.call(&session, r#"{"name":"t"}"#).await).await;
    server.wait_for(|seen| seen.method() == "logging/setLevel" && seen.body.contains("warning")).await;
    session.set_log_level(LogLevel::Debug);
    rig.shore.set_log_level(&session).await;
    server.wait_for(|seen| seen.method() == "logging/setLevel" && seen.body.contains("debug")).await;
}

/// LIFE-04, LIFE-05, F-006, F-010
#[tokio::test]
async fn handshakes_are_tolerant_and_firm() {
    let server = Server::start(|seen| match seen.method().as_str() {
        "initialize" if seen.body.contains("2025-11-25") => json(format!(
            r#"{{"jsonrpc":"2.0","id":{},"error":{{"code":-32602,"message":"no","data":{{"supported":["2025-06-18"]}}}}}}"#,
            seen.id()
        )),
        "initialize" => {
            let answer = result(&seen.id(), r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#);
            events(&[event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#), event(answer)])
        }
        "notifications/initialized" => json("null"),
        _ => greeting(seen, None).unwrap_or_else(|| json(result(&seen.id(), "{}"))),
    })
    .await;
    let rig = Rig::new(&entry(&server));
    assert_eq!(rig.connect().await.unwrap().revision, Revision::V2025_06_18);
    done(rig.list().await).await;

    let server = Server::start(|seen| {
        json(result(&seen.id(), r#"{"protocolVersion":"2031-01-01","capabilities":{}}"#))
    })
    .await;
    let fault = Rig::new(&entry(&server)).connect().await.unwrap_err();
    assert!(fault.to_string().contains("none of the protocol revisions"), "{fault}");
    assert_eq!(server.count("notifications/initialized"), 0);
}

/// F-089
#[tokio::test]
async fn f_089_fifty_callers_share_one_handshake() {
    let server =
        Server::start(|seen| greeting(seen, Some("s")).unwrap_or_else(|| json(result(&seen.id(), "{}"))))
            .await;
    let rig = Rig::new(&format!(r#"{}, "portcullis": {{"isolation": "shared"}}"#, entry(&server)));
    let sessions: Vec<_> = (0..50).map(session).collect();
    let calls = sessions.iter().map(|session| rig.call(session, r#"{"name":"t"}"#));
    for reply in futures_util::future::join_all(calls).await {
        done(reply).await;
    }
    assert_eq!((server.count("initialize"), server.count("tools/call")), (1, 50));
}

/// F-038: answers that come in any order find their callers.
#[tokio::test]
async fn f_038_parallel_calls_are_not_mixed_up() {
    let server = Server::start(|seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| {
            let who = seen.body.split(r#""who":"#).nth(1).unwrap().split('}').next().unwrap();
            json(result(&seen.id(), who))
        })
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let sessions: Vec<_> = (0..5).map(session).collect();
    let calls = (0..200).map(|n| {
        let (rig, session) = (&rig, &sessions[n % 5]);
        async move { (n, rig.call(session, &format!(r#"{{"name":"t","arguments":{{"who":{n}}}}}"#)).await) }
    });
    for (n, reply) in futures_util::future::join_all(calls).await {
        assert!(done(reply).await.ends_with(&format!(r#""result":{n}}}"#)));
    }
}

/// The reply of a call is dropped without harm.
#[tokio::test]
async fn a_reply_may_be_dropped_in_the_middle() {
    let server = Server::start(|seen| {
        greeting(seen, Some("s"))
            .unwrap_or_else(|| json(result(&seen.id(), &format!("\"{}\"", "x".repeat(1 << 20)))))
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let session = session(1);
    for _ in 0..3 {
        let reply = rig.call(&session, r#"{"name":"t"}"#).await.unwrap();
        assert!(matches!(reply, Reply::Done(_)));
        drop(reply);
    }
    done(rig.call(&session, r#"{"name":"t"}"#).await).await;
}
