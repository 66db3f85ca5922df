//! Streamable HTTP as clients see it: heads, streams, media types, statuses (F-001..F-012, HTTP-01..HTTP-33).

use rustix::process::Signal;
use serde_json::json;

use crate::kit::{self, *};

/// F-002 HTTP-24: no read limit of ours ends a quiet stream.
#[tokio::test]
async fn f_002_a_quiet_get_stream_outlives_every_read_limit() {
    let alpha = http_server().tool("echo").start();
    let short = json!({"timeouts": {"read": "300ms", "list": "300ms", "callIdle": "300ms"}});
    let gateway = gateway().upstream("alpha", &alpha).with(short).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let (stream, took) = timed(client.listen()).await;
    assert!(took < secs(2), "the head took {took:?}");
    alpha.wait_for_streams(1).await;
    pass(ms(1200)).await;
    assert!(!stream.ended());
    alpha.add_tool("late");
    assert!(
        alpha.push("notifications/tools/list_changed", json!({})) >= 1,
        "the upstream's stream was given up"
    );
    stream.wait_for("notifications/tools/list_changed", 1).await;
}

/// F-003 HTTP-10: what comes first is delivered first, while the call still runs.
#[tokio::test]
async fn f_003_an_event_is_delivered_before_the_next_exists() {
    let alpha = http_server()
        .call("work", async |ask: Exchange| {
            ask.progress(1, 2).await;
            ask.released().await;
            Reply::text("done")
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let params = kit::text::tree(&progressing("alpha__work", &json!({}), "7"));
    let mut answer = client.begin("1", "tools/call", params).await;
    let first = answer.message().await.unwrap();
    assert!(first.contains("notifications/progress"), "{first}");
    alpha.release();
    let outcome = Outcome::read(answer, "1").await;
    assert_eq!(outcome.said(), "done");
}

/// F-004 F-094 HTTP-24: streams speak at once, keep speaking, and forbid buffering.
#[tokio::test]
async fn f_004_streams_speak_at_once_and_keep_speaking() {
    let alpha = http_server().call("wait", async |ask: Exchange| {
        ask.released().await;
        Reply::text("done")
    });
    let alpha = alpha.start();
    let often = json!({"http": {"keepAlive": "200ms"}});
    let gateway = gateway().upstream("alpha", &alpha).with(often).start().await;
    let client = gateway.client().await.header("accept-encoding", "gzip, br, deflate");
    client.tools().await;

    let mut standing = client.get().send().await;
    assert_eq!(standing.status, 200);
    unbuffered(&standing);
    let (_, took) = timed(standing.piece()).await;
    assert!(took < secs(2), "the first bytes took {took:?}");
    let mut comments = 0;
    while comments < 3 {
        comments += usize::from(standing.event().await.unwrap().message().is_none());
    }

    let mut call = client.begin("1", "tools/call", json!({"name": "alpha__wait"})).await;
    unbuffered(&call);
    assert!(call.event().await.unwrap().message().is_none(), "a long call is kept alive by comments");
    alpha.release();
    assert_eq!(Outcome::read(call, "1").await.said(), "done");
}

fn unbuffered(answer: &Answer) {
    assert!(answer.is_stream(), "{:?}", answer.headers);
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    let cache = answer.header("cache-control").unwrap_or_default();
    assert!(cache.contains("no-cache") && cache.contains("no-transform"), "{cache}");
    assert_eq!(answer.header("content-encoding"), None);
}

/// HTTP-13: an event with empty data would be parsed as JSON by clients below 2025-11-25.
#[tokio::test]
async fn http_13_older_clients_never_see_an_event_with_empty_data() {
    for revision in &REVISIONS[1..] {
        let alpha = http_server().call("wait", async |ask: Exchange| {
            ask.released().await;
            Reply::text("done")
        });
        let alpha = alpha.start();
        let often = json!({"http": {"keepAlive": "100ms"}});
        let gateway = gateway().upstream("alpha", &alpha).with(often).start().await;
        let client = gateway.visitor().asking_for(revision).connect().await;
        client.tools().await;
        let mut streams = [
            client.get().send().await,
            client.begin("1", "tools/call", json!({"name": "alpha__wait"})).await,
        ];
        for stream in &mut streams {
            for _ in 0..2 {
                assert_eq!(stream.event().await.unwrap().data, None, "{revision}");
            }
        }
        alpha.release();
    }
}

/// F-007 HTTP-18, HTTP-19: several GET streams, each message on exactly one, calls undisturbed.
#[tokio::test]
async fn f_007_a_second_get_stream_harms_nothing_and_doubles_nothing() {
    let alpha = http_server().call("wait", async |ask: Exchange| {
        ask.released().await;
        Reply::text("done")
    });
    let alpha = alpha.start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let first = client.listen().await;
    alpha.wait_for_streams(1).await;
    let running = client.call("alpha__wait", json!({}));
    let meanwhile = async {
        alpha.wait_for("tools/call", 1).await;
        let second = client.listen().await;
        alpha.add_tool("late");
        alpha.push("notifications/tools/list_changed", json!({}));
        second.wait_for("notifications/tools/list_changed", 1).await;
        alpha.release();
        second
    };
    let (outcome, second) = tokio::join!(running, meanwhile);
    assert_eq!(outcome.said(), "done");
    let count = |stream: &kit::listener::Listener| stream.heard("notifications/tools/list_changed").len();
    assert_eq!(count(&first) + count(&second), 1);
    assert_eq!(client.tool_names().await.len(), 2);
}

/// F-010 HTTP-08 RPC-09: 202, nothing else, for notifications and for responses.
#[tokio::test]
async fn f_010_notifications_and_responses_are_answered_202_with_nothing() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    for body in [
        kit::text::notification("notifications/roots/list_changed", "{}"),
        kit::text::notification("notifications/never/heard/of", "{}"),
        kit::text::response(r#""nobody asked""#, "{}"),
        kit::text::failure("99", r#"{"code":-32601,"message":"nobody asked"}"#),
    ] {
        let mut answer = client.post(&body).send().await;
        assert_eq!(answer.status, 202, "{body}");
        assert_eq!(answer.header("content-type"), None, "{body}");
        assert_eq!(answer.bytes().await, b"", "{body}");
    }
}

/// F-011 HTTP-06: media ranges are read as such, not as text.
#[tokio::test]
async fn f_011_accept_and_content_type_in_all_legal_spellings() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let list = || client.post(&kit::text::request("1", "tools/list", "{}"));
    let accepted = [
        list().header("accept", "*/*"),
        list().header("accept", "application/*, text/*"),
        list().header("accept", "text/event-stream;q=0.9, APPLICATION/JSON"),
        list().header("accept", "application/json").and_header("accept", "text/event-stream"),
        list().header("content-type", "application/json;charset=UTF-8"),
        list().header("content-type", "Application/JSON"),
    ];
    for (which, letter) in accepted.into_iter().enumerate() {
        let outcome = client.ask(letter, "1").await;
        assert!(outcome.status == 200 && outcome.is_result(), "form {which}: {outcome:?}");
    }
    assert_eq!(list().header("accept", "text/html").send().await.status, 406);
    assert_eq!(client.get().header("accept", "application/json").send().await.status, 406);
    for wrong in ["text/plain", "application/x-www-form-urlencoded"] {
        assert_eq!(list().header("content-type", wrong).send().await.status, 415, "{wrong}");
    }
    assert_eq!(list().header("content-encoding", "gzip").send().await.status, 415, "R-31");

    client.call("alpha__echo", json!({})).await.result();
    for seen in alpha.verbs("POST") {
        assert_eq!(seen.header("accept").unwrap(), "application/json, text/event-stream");
        assert_eq!(seen.header("content-type").unwrap(), "application/json");
    }
}

/// HTTP-09 R-17: a quick answer is JSON; one that something precedes, or that takes its time, streams.
#[tokio::test]
async fn r_17_an_answer_is_json_until_there_is_a_reason_to_stream() {
    let alpha = http_server()
        .tool("echo")
        .call("chatty", async |ask: Exchange| {
            ask.progress(1, 1).await;
            Reply::text("done")
        })
        .call("slow", async |_: Exchange| {
            pass(ms(600)).await;
            Reply::text("done")
        })
        .call("big", async |_: Exchange| Reply::text("x".repeat(2 << 20)))
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    client.call("alpha__echo", json!({})).await;
    assert!(!client.request("ping", json!({})).await.streamed);
    assert!(!client.request("tools/list", json!({})).await.streamed);
    assert!(comes_as_json(&client, "alpha__echo").await);
    assert!(comes_as_json(&client, "alpha__big").await);
    assert!(client.call_with_token("alpha__chatty", json!({}), "1").await.streamed);
    assert!(client.call("alpha__slow", json!({})).await.streamed);
}

/// On a busy machine even a quick answer may pass the 100 ms, so one of several tries will do.
async fn comes_as_json(client: &Client, tool: &str) -> bool {
    for _ in 0..5 {
        if !client.call(tool, json!({})).await.streamed {
            return true;
        }
    }
    false
}

/// HTTP-01: what the endpoint does not offer is refused in the words of HTTP.
#[tokio::test]
async fn http_01_other_methods_and_other_paths_are_refused() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    for verb in ["PUT", "PATCH", "HEAD"] {
        let answer = client.letter(verb).send().await;
        assert_eq!(answer.status, 405, "{verb}");
        let allow = answer.header("allow").unwrap_or_default().to_owned();
        assert!(["POST", "GET", "DELETE"].iter().all(|verb| allow.contains(verb)), "{verb}: {allow}");
    }
    let greeting = client.greeting();
    for path in ["/", "/mcpx", "/mcp/nobody", "/metrics", "/livez"] {
        let answer = gateway.visitor().post(&greeting).path(path).send().await;
        assert_eq!(answer.status, 404, "{path}");
    }
}

/// F-069: a redirect would lose method, body or credential.
#[tokio::test]
async fn f_069_a_trailing_slash_is_served_and_never_redirected() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    let ping = kit::text::request("1", "ping", "{}");
    assert_eq!(client.post(&ping).path("/mcp/").send().await.status, 200);
    assert_eq!(client.get().path("/mcp/").send().await.status, 200);
    let greeting = gateway.visitor().greeting();
    assert_eq!(gateway.visitor().post(&greeting).path("/mcp/alpha/").send().await.status, 200);
    assert_eq!(client.delete().path("/mcp/").send().await.status, 204);
}

/// F-096: HTTP/2 with prior knowledge works like HTTP/1.1.
#[tokio::test]
async fn f_096_http2_without_tls_is_spoken_too() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let call = kit::text::request("1", "tools/call", r#"{"name":"alpha__echo","arguments":{"a":1}}"#);
    let outcome = client.ask(client.post(&call).over_http2(), "1").await;
    assert_eq!(outcome.result()["structuredContent"], json!({"a": 1}));
    let mut standing = client.get().over_http2().send().await;
    assert_eq!(standing.status, 200);
    assert!(standing.event().await.is_some());
}

/// HTTP-23: an event id that names nothing is 400, never 404 and never a fresh stream.
#[tokio::test]
async fn http_23_an_unknown_event_id_is_refused_and_costs_no_session() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    for id in ["nope", "0", "1", "a:1"] {
        let mut answer = client.get().header("last-event-id", id).send().await;
        assert_eq!(answer.status, 400, "{id}");
        assert!(answer.tree().await["error"]["code"].is_i64(), "{id}");
    }
    assert!(client.request("ping", json!({})).await.is_result());
}

/// HTTP-12: a cancelled call gets no response, yet its exchange ends.
#[tokio::test]
async fn http_12_a_cancelled_call_ends_its_stream_without_a_response() {
    let alpha = http_server()
        .call("wait", async |ask: Exchange| {
            ask.progress(0, 1).await;
            ask.cancelled().await;
            ask.peer.note("cancelled");
            Reply::text("too late")
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let params = kit::text::tree(&progressing("alpha__wait", &json!({}), "1"));
    let mut answer = client.begin("5", "tools/call", params).await;
    assert!(answer.message().await.unwrap().contains("progress"));
    assert_eq!(client.notify("notifications/cancelled", json!({"requestId": 5})).await, 202);
    assert_eq!(answer.message().await, None, "nothing after a cancellation but the end");
    alpha.wait_for_note("cancelled").await;
}

/// HTTP-33 F-097: pages of allowed origins may call and read what they are told, others may not.
#[tokio::test]
async fn f_097_pages_of_allowed_origins_may_call() {
    let origin = "https://app.example";
    let config = json!({
        "http": {"allowedOrigins": [origin]},
        "auth": {"keys": [{"name": "laptop", "sha256": "00".repeat(32)}]},
    });
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).with(config).start().await;
    let visitor = gateway.visitor();
    let ask = || {
        let letter = visitor.letter("OPTIONS").header("access-control-request-method", "POST");
        letter.header("access-control-request-headers", "authorization,content-type,mcp-session-id")
    };
    let mut answer = ask().header("origin", origin).send().await;
    assert_eq!(answer.status, 204, "a preflight shows no credentials");
    assert_eq!(answer.bytes().await, b"");
    let said = |answer: &Answer, name: &str| answer.header(name).unwrap_or_default().to_owned();
    assert_eq!(said(&answer, "access-control-allow-origin"), origin);
    assert_eq!(said(&answer, "vary"), "origin");
    for method in ["GET", "POST", "DELETE"] {
        assert!(said(&answer, "access-control-allow-methods").contains(method), "{method}");
    }
    for header in ["authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "last-event-id"]
    {
        assert!(said(&answer, "access-control-allow-headers").contains(header), "{header}");
    }
    let answer = visitor.post(&visitor.greeting()).header("origin", origin).send().await;
    assert_eq!(answer.status, 401);
    assert_eq!(said(&answer, "access-control-allow-origin"), origin, "also on errors");
    let told = said(&answer, "access-control-expose-headers");
    assert!(told.contains("mcp-session-id") && told.contains("www-authenticate"), "{told}");

    let answer = ask().header("origin", "https://evil.example").send().await;
    assert_eq!(answer.status, 403);
    assert_eq!(answer.header("access-control-allow-origin"), None);
    assert_eq!(visitor.letter("OPTIONS").header("origin", origin).send().await.status, 401, "no preflight");
}

/// F-098 OPS-11: a large answer that is on its way is in flight; a drain lets it come to its end.
#[tokio::test]
async fn f_098_a_drain_waits_for_an_answer_on_its_way() {
    const SIZE: usize = 48 << 20;
    let alpha = http_server().call("big", async |_: Exchange| Reply::text("x".repeat(SIZE))).start();
    let config = json!({"drain": {"grace": "30s"}, "maxMessage": "64MiB"});
    let mut gateway = gateway().upstream("alpha", &alpha).with(config).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let mut answer = client.begin("1", "tools/call", json!({"name": "alpha__big"})).await;
    let mut got = answer.piece().await.unwrap().unwrap().len();
    gateway.signal(Signal::TERM);
    // Longer than connections get once the listeners are closed.
    pass(secs(3)).await;
    while let Some(piece) = answer.piece().await.expect("the answer is whole") {
        got += piece.len();
    }
    assert!(got > SIZE, "{got}");
    assert_eq!(gateway.exit(secs(10)).await.code(), Some(0));
}
