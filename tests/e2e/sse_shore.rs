//! HTTP+SSE of 2024-11-05 toward clients: one stream, POSTs beside it, and no session beyond it (HTTP-37, LSSE-01..LSSE-06,
//! F-009).

use aws_lc_rs::digest::{SHA256, digest};
use rustix::process::Signal;
use serde_json::{Value, json};
use url::Url;

use crate::kit::sse_client::greeting;
use crate::kit::text::{notification, request};
use crate::kit::{self, *};

const OLD: &str = "2024-11-05";

/// Gateways serve it only where they are told to.
fn on() -> Value {
    json!({"http": {"sse": true}})
}

/// A key and its entry for the configuration.
fn key(name: &str) -> (String, Value) {
    let key = format!("key-of-{name}");
    let hex: String =
        digest(&SHA256, key.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    (format!("Bearer {key}"), json!({"name": name, "sha256": hex}))
}

/// HTTP-37: not there unless the operator wants it.
#[tokio::test]
async fn http_37_the_older_transport_is_off_by_default() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    for path in ["/sse", "/sse/", "/sse/alpha", "/sse?sessionId=x"] {
        assert_eq!(SseClient::get(gateway.address(), path).send().await.status, 404, "{path}");
        let post = Letter::new(gateway.address(), "POST", path).header("content-type", "application/json");
        assert_eq!(post.body("{}").send().await.status, 404, "{path}");
    }
}

/// LSSE-01, LSSE-02, LSSE-06: every revision is negotiated as usual, and answers come on the stream as plain messages.
#[tokio::test]
async fn lsse_01_a_session_over_one_stream() {
    let alpha = http_server().tool("echo").start();
    let beta = stdio_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).with(on()).start().await;
    for revision in REVISIONS {
        let client = SseClient::connect(gateway.address(), "/sse", revision).await;
        assert_eq!(client.hello["protocolVersion"], revision);
        let tools = client.request("tools/list", json!({})).await;
        assert_eq!(names(tools["result"]["tools"].as_array().unwrap()), ["alpha__echo", "beta__echo"]);
        for tool in ["alpha__echo", "beta__echo"] {
            let answer = client.call(tool, json!({"r": revision})).await;
            assert_eq!(answer["result"]["structuredContent"], json!({"r": revision}));
        }
        let unknown = client.request("no/such", json!({})).await;
        assert_eq!(unknown["error"]["code"], -32601);
        let failed = client.call("nobody", json!({})).await;
        assert_eq!(failed["error"]["code"], -32602);
        client.call("alpha__echo", json!({})).await;
        let told = client.stream.messages().iter().filter(|message| message["id"] == failed["id"]).count();
        assert_eq!(told, 1, "one answer to a call that failed");
        assert_eq!(client.stream.headers["content-type"], "text/event-stream");
    }
    let unknown = SseClient::connect(gateway.address(), "/sse/", "1999-01-01").await;
    assert_eq!(unknown.hello["protocolVersion"], NEWEST);
    let single = SseClient::connect(gateway.address(), "/sse/beta", OLD).await;
    let tools = single.request("tools/list", json!({})).await;
    assert_eq!(names(tools["result"]["tools"].as_array().unwrap()), ["echo"]);
    assert_eq!(SseClient::get(gateway.address(), "/sse/nobody").send().await.status, 404);
}

/// F-009, LSSE-02: whatever prefix a proxy adds, clients find the way, and the address of the bind is never told.
#[tokio::test]
async fn f_009_the_endpoint_is_right_behind_a_prefix() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).with(on()).start().await;
    for path in ["/sse", "/sse/", "/sse/alpha", "/sse?hint=1"] {
        let client = SseClient::open(gateway.address(), path, &[]).await;
        let port = gateway.address().port().to_string();
        assert!(
            !client.endpoint.contains("127.0.0.1") && !client.endpoint.contains(&port),
            "{}",
            client.endpoint
        );
        let outside = Url::parse(&format!("https://mcp.example/tools/gw{path}")).unwrap();
        let target = outside.join(&client.endpoint).unwrap();
        assert_eq!(target.origin(), outside.origin());
        // What a proxy that takes the prefix away passes on.
        let inside = target.path().strip_prefix("/tools/gw").unwrap();
        assert_eq!(inside, client.target.path());
        assert_eq!(target.query(), client.target.query());
        client.initialized(OLD).await.call("alpha__echo", json!({})).await;
    }
    let public = json!({"http": {"sse": true, "publicUrl": "https://mcp.example/gw/"}});
    let gateway = kit::gateway().upstream("alpha", http_server().tool("echo")).with(public).start().await;
    let client = SseClient::open(gateway.address(), "/sse/alpha", &[]).await;
    assert!(client.endpoint.starts_with("/gw/sse/alpha?sessionId="), "{}", client.endpoint);
}

/// LSSE-02, LSSE-06: progress precedes its answer, questions are asked and answered, pushes arrive, all on one stream.
#[tokio::test]
async fn lsse_06_everything_comes_on_the_one_stream() {
    let alpha = http_server()
        .call("ask", async |ask: Exchange| {
            ask.progress(1, 2).await;
            ask.send(&request("\"q-1\"", "roots/list", "{}")).await;
            ask.progress(2, 2).await;
            ask.released().await;
            Reply::text("done")
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).with(on()).start().await;
    let client = SseClient::connect(gateway.address(), "/sse", OLD).await;
    let params = json!({"name": "alpha__ask", "arguments": {}, "_meta": {"progressToken": "mine"}});
    let id = client.begin("tools/call", params).await;
    let question = client.stream.wait_for("roots/list", 1).await.remove(0);
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{{"roots":[]}}}}"#, question["id"]);
    client.say(&answer).await;
    let is_answer =
        |seen: &kit::exchange::Seen| seen.id.as_deref() == Some("\"q-1\"") && seen.method.is_none();
    alpha.until("the answer to the question", || alpha.received().iter().any(is_answer).then_some(())).await;
    let progress = client.stream.wait_for("notifications/progress", 2).await;
    assert!(progress.iter().all(|notice| notice["params"]["progressToken"] == "mine"), "{progress:?}");
    alpha.release();
    assert_eq!(client.stream.wait_for_answer(&id).await["result"]["content"][0]["text"], "done");
    let order: Vec<_> = client.stream.messages().iter().rev().take(4).map(|m| m["method"].clone()).collect();
    assert_eq!(order[0], Value::Null, "the answer is the last");
    alpha.add_tool("more");
    alpha.push("notifications/tools/list_changed", json!({}));
    client.stream.wait_for("notifications/tools/list_changed", 1).await;
}

/// CANC-01: a cancelled call is cancelled upstream and has no answer.
#[tokio::test]
async fn canc_01_a_client_cancels_over_the_older_transport() {
    let alpha = http_server().call("wait", waits).tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).with(on()).start().await;
    let client = SseClient::connect(gateway.address(), "/sse", OLD).await;
    let id = client.begin("tools/call", json!({"name": "alpha__wait"})).await;
    alpha.wait_for("tools/call", 1).await;
    client.notify("notifications/cancelled", json!({"requestId": id, "reason": "enough"})).await;
    alpha.wait_for_note("cancelled").await;
    client.call("alpha__echo", json!({})).await;
    assert!(client.stream.messages().iter().all(|message| message["id"] != id), "HTTP-12");
}

async fn waits(ask: Exchange) -> Reply {
    tokio::select! {
        () = ask.cancelled() => {
            ask.peer.note("cancelled");
            Reply::Done
        }
        () = ask.gone() => {
            ask.peer.note("cancelled");
            Reply::Done
        }
        () = ask.released() => Reply::text("released"),
    }
}

/// F-059: two sessions with the same ids at once; no answer is lost, doubled, or on the other's stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f_059_sessions_with_the_same_ids_are_never_mixed() {
    const CALLS: usize = 200;
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).with(on()).start().await;
    let clients = [
        SseClient::connect(gateway.address(), "/sse", OLD).await,
        SseClient::connect(gateway.address(), "/sse", NEWEST).await,
    ];
    let calls = clients.iter().enumerate().map(|(of, client)| async move {
        // As many at once as a session may have, and no more connections than a test should open.
        for batch in 0..CALLS / 20 {
            let twenty = (0..20).map(|n| client.call("alpha__echo", json!({"of": of, "n": batch * 20 + n})));
            for (n, answer) in futures_util::future::join_all(twenty).await.into_iter().enumerate() {
                assert_eq!(answer["result"]["structuredContent"], json!({"of": of, "n": batch * 20 + n}));
            }
        }
    });
    futures_util::future::join_all(calls).await;
    for client in &clients {
        let answers =
            client.stream.messages().iter().filter(|message| message.get("result").is_some()).count();
        assert_eq!(answers, CALLS + 1, "one answer each, and that to `initialize`");
    }
}

/// LSSE-05, HTTP-30, SEC-10: the handle is no credential, and to everybody else the session does not exist.
#[tokio::test]
async fn lsse_05_nobody_else_may_post_to_a_stream() {
    let alpha = http_server().tool("echo").start();
    let ((one, first), (two, second)) = (key("one"), key("two"));
    let keys = json!({"http": {"sse": true}, "auth": {"keys": [first, second]}, "log": {"level": "trace"}});
    let gateway = gateway().upstream("alpha", &alpha).with(keys).start().await;
    assert_eq!(SseClient::get(gateway.address(), "/sse").send().await.status, 401);
    let open = SseClient::open(gateway.address(), "/sse", &[("authorization", &one)]).await;
    // Also before it is a session.
    let greet = request("7", "initialize", &greeting(OLD).to_string());
    assert_eq!(open.post(&greet).header("authorization", &two).send().await.status, 404);
    let client = open.initialized(OLD).await;
    let ping = request("77", "ping", "{}");
    assert_eq!(client.post(&ping).without("authorization").send().await.status, 401);
    let mut foreign = client.post(&ping).header("authorization", &two).send().await;
    let mut unknown = client.post(&ping).path("/sse?sessionId=made-up").send().await;
    assert_eq!((foreign.status, unknown.status), (404, 404));
    let body = foreign.tree().await;
    assert_eq!(body, unknown.tree().await, "R-07: one answer for both");
    assert_eq!(body["id"], 77);
    let elsewhere = format!("/sse/alpha?{}", client.target.query().unwrap());
    for path in ["/sse", "/sse?sessionId=", "/sse?sessionid=x", &elsewhere, "/mcp"] {
        let status = client.post(&ping).path(path).header("accept", BOTH).send().await.status;
        assert!([400, 404].contains(&status), "{path}: {status}");
    }
    let handle = client.target.query().unwrap().strip_prefix("sessionId=").unwrap();
    let as_session = client.post(&ping).path("/mcp").header("accept", BOTH).header("mcp-session-id", handle);
    assert_eq!(as_session.send().await.status, 404, "a handle is no session id");
    client.call("alpha__echo", json!({})).await;
    assert!(handle.len() >= 43, "{handle}");
    assert!(!gateway.log().contains(handle), "the handle is in the log");
}

/// LSSE-03, HTTP-02, HTTP-03, HTTP-33: both requests pass the same checks as on the newer transport.
#[tokio::test]
async fn lsse_03_origins_hosts_and_preflights_are_those_of_the_newer_transport() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).with(on()).start().await;
    let client = SseClient::connect(gateway.address(), "/sse", OLD).await;
    let ping = request("1", "ping", "{}");
    for letter in [SseClient::get(gateway.address(), "/sse"), client.post(&ping)] {
        assert_eq!(letter.header("origin", "http://evil.test").send().await.status, 403);
    }
    for letter in [SseClient::get(gateway.address(), "/sse"), client.post(&ping)] {
        assert_eq!(letter.header("host", "evil.test").send().await.status, 403);
    }
    let own = format!("http://localhost:{}", gateway.address().port());
    let page = client.post(&ping).header("origin", &own).send().await;
    assert_eq!((page.status, page.header("access-control-allow-origin")), (202, Some(own.as_str())));
    let preflight = Letter::new(gateway.address(), "OPTIONS", "/sse")
        .header("origin", &own)
        .header("access-control-request-method", "POST");
    let preflight = preflight.send().await;
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-methods").is_some_and(|methods| methods.contains("POST")));
    let delete = Letter::new(gateway.address(), "DELETE", "/sse").send().await;
    assert_eq!((delete.status, delete.header("allow")), (405, Some("GET, POST")));
    let json_only = SseClient::get(gateway.address(), "/sse").header("accept", "application/json");
    assert_eq!(json_only.send().await.status, 406);
}

/// LIFE-18, RPC-14, RPC-15, RPC-24: what is no message, or not allowed now, is refused over HTTP, and the session lives on.
#[tokio::test]
async fn rpc_14_envelopes_are_refused_over_http() {
    let limited = json!({"http": {"sse": true, "bodyLimit": "4KiB"}});
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).with(limited).start().await;
    let client = SseClient::open(gateway.address(), "/sse", &[]).await;
    let refused = async |client: &SseClient, body: &str| {
        let mut answer = client.post(body).send().await;
        (answer.status, answer.tree().await["error"]["code"].as_i64())
    };
    assert_eq!(refused(&client, &request("1", "ping", "{}")).await, (400, Some(-32600)), "not initialized");
    let wrong = request("1", "initialize", r#"{"protocolVersion":5}"#);
    assert_eq!(refused(&client, &wrong).await, (400, Some(-32602)));
    // A refusal leaves the stream as it was.
    let client = client.initialized(OLD).await;
    let again = request("2", "initialize", &greeting(OLD).to_string());
    assert_eq!(refused(&client, &again).await, (400, Some(-32600)), "LIFE-18");
    assert_eq!(refused(&client, "{").await, (400, Some(-32700)));
    assert_eq!(refused(&client, r#"{"jsonrpc":"1.0"}"#).await, (400, Some(-32600)));
    let batch = format!("[{}]", request("3", "ping", "{}"));
    assert_eq!(refused(&client, &batch).await, (400, Some(-32600)), "RPC-15");
    assert_eq!(refused(&client, &"x".repeat(5000)).await.0, 413);
    assert_eq!(client.post("{}").header("content-type", "text/plain").send().await.status, 415);
    let batching = SseClient::connect(gateway.address(), "/sse", "2025-03-26").await;
    batching.say(&format!("[{},{}]", request("\"a\"", "ping", "{}"), notification("x", "{}"))).await;
    let answered = |message: &Value| message.as_array().is_some_and(|batch| batch[0]["id"] == "a");
    soon("the answers to a batch", async {
        while !batching.stream.messages().iter().any(answered) {
            pass(ms(20)).await;
        }
    })
    .await;
    assert!(client.call("alpha__echo", json!({})).await["result"].is_object());
}

/// LSSE-04, R-16: with the stream the session ends, its calls are cancelled, and what it held upstream is released.
#[tokio::test]
async fn lsse_04_a_stream_that_ends_takes_its_session_with_it() {
    let alpha = http_server().call("wait", waits).start();
    let gateway = gateway().upstream("alpha", &alpha).with(on()).start().await;
    let client = SseClient::connect(gateway.address(), "/sse", OLD).await;
    client.begin("tools/call", json!({"name": "alpha__wait"})).await;
    let used = alpha.wait_for("tools/call", 1).await[0].session.clone().unwrap();
    let ping = client.post(&request("9", "ping", "{}"));
    drop(client);
    alpha.wait_for_note("cancelled").await;
    alpha.until("DELETE at the upstream", || alpha.ended().contains(&used).then_some(())).await;
    assert_eq!(ping.send().await.status, 404);
    gateway
        .metrics_until("nothing is left", |metrics| {
            metrics.sum("portcullis_sessions", &[]) == 0.0
                && metrics.sum("portcullis_client_streams", &[]) == 0.0
                && metrics.sum("portcullis_sessions_closed_total", &[("reason", "left")]) == 1.0
        })
        .await;
}

/// F-092, LIFE-07: streams count as sessions from their beginning, and those that never become one end.
#[tokio::test]
async fn f_092_streams_without_a_session_are_bounded() {
    let limits = json!({"http": {"sse": true}, "sessions": {"max": 2, "perPrincipal": 2, "handshake": "1s"}});
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).with(limits).start().await;
    let silent = SseClient::open(gateway.address(), "/sse", &[]).await;
    let client = SseClient::connect(gateway.address(), "/sse", OLD).await;
    let full = SseClient::get(gateway.address(), "/sse").send().await;
    assert_eq!(full.status, 429);
    assert!(full.header("retry-after").is_some());
    let visitor = gateway.visitor();
    assert_eq!(visitor.post(&visitor.greeting()).send().await.status, 429, "one limit for both transports");
    silent.stream.wait_for_end().await;
    assert_eq!(silent.post(&request("1", "ping", "{}")).send().await.status, 404);
    gateway.client().await;
    assert!(client.call("alpha__echo", json!({})).await["result"].is_object());
    assert!(!client.stream.ended());
}

/// F-098: a drain ends idle streams at once, others after the answers that they wait for.
#[tokio::test]
async fn f_098_a_drain_ends_streams_after_their_answers() {
    let alpha = http_server().call("wait", waits).start();
    let mut gateway = gateway().upstream("alpha", &alpha).with(on()).start().await;
    let (idle, waiting) = (
        SseClient::connect(gateway.address(), "/sse", OLD).await,
        SseClient::open(gateway.address(), "/sse", &[]).await,
    );
    let busy = SseClient::connect(gateway.address(), "/sse", OLD).await;
    let id = busy.begin("tools/call", json!({"name": "alpha__wait"})).await;
    alpha.wait_for("tools/call", 1).await;
    gateway.signal(Signal::TERM);
    idle.stream.wait_for_end().await;
    waiting.stream.wait_for_end().await;
    assert!(!busy.stream.ended());
    assert_eq!(SseClient::get(gateway.address(), "/sse").send().await.status, 503);
    alpha.release();
    assert_eq!(busy.stream.wait_for_answer(&id).await["result"]["content"][0]["text"], "released");
    busy.stream.wait_for_end().await;
    assert_eq!(gateway.exit(secs(15)).await.code(), Some(0));
}

/// HTTP-24: a silent stream is kept open by comments, before there is a session and after.
#[tokio::test]
async fn http_24_comments_keep_a_silent_stream_open() {
    let often = json!({"http": {"sse": true, "keepAlive": "200ms"}});
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).with(often).start().await;
    let client = SseClient::open(gateway.address(), "/sse", &[]).await;
    let comments = async |client: &SseClient, most: usize| {
        soon("comments", async {
            while client.stream.comments() < most {
                pass(ms(20)).await;
            }
        })
        .await;
    };
    comments(&client, 2).await;
    let client = client.initialized(OLD).await;
    comments(&client, client.stream.comments() + 2).await;
    let over_two = SseClient::get(gateway.address(), "/sse").over_http2().send().await.event().await;
    assert_eq!(over_two.and_then(|event| event.name).as_deref(), Some("endpoint"));
}
