//! Servers of HTTP+SSE, the transport of 2024-11-05, behind the gateway (LSSE, F-009, HTTP-38).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::kit::sse_server::named;
use crate::kit::{self, *};

fn claim() -> Value {
    json!({"tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true}, "logging": {}})
}

/// The parameters of a question of this kind.
fn question(kind: &str) -> Value {
    match kind {
        "elicitation/create" => {
            json!({"message": "name?", "requestedSchema": {"type": "object", "properties": {}}})
        }
        "sampling/createMessage" => json!({"messages": [], "maxTokens": 1}),
        _ => json!({}),
    }
}

/// Asks the client what the argument `kind` says, and tells the answer back.
async fn asks(ask: Exchange) -> Reply {
    let kind = ask.argument("kind").as_str().unwrap().to_owned();
    let id = kit::text::quoted(&format!("q-{kind}"));
    ask.send(&kit::text::request(&id, &kind, &question(&kind).to_string())).await;
    let answer = ask
        .peer
        .until("the answer to a question", || {
            let all = ask.peer.received();
            all.into_iter().find(|seen| seen.method.is_none() && seen.id.as_deref() == Some(&id))
        })
        .await;
    Reply::text(answer.body)
}

/// LSSE-01, LSSE-02, LSSE-06: lists, calls, and progress before its answer.
#[tokio::test]
async fn lsse_02_calls_go_out_by_post_and_come_back_on_the_stream() {
    let alpha = sse_server()
        .tool("echo")
        .call("steps", async |ask: Exchange| {
            for n in 1..=3 {
                ask.progress(n, 3).await;
            }
            Reply::text("done")
        })
        .start();
    let headers = json!({"headers": {"authorization": "Bearer k"}});
    let gateway = gateway().upstream("alpha", kit::Entry::from(&alpha).and(headers)).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["alpha__echo", "alpha__steps"]);
    let told = client.call("alpha__echo", json!({"n": 1})).await;
    assert_eq!(told.result()["structuredContent"], json!({"n": 1}));
    let steps = client.call_with_token("alpha__steps", json!({}), "\"t\"").await;
    assert_eq!(steps.said(), "done");
    let heard: Vec<_> = steps.heard("notifications/progress");
    let heard: Vec<_> = heard.iter().map(|one| &one["params"]["progress"]).collect();
    assert_eq!(heard, [1, 2, 3], "RPC-28");
    for seen in alpha.received() {
        assert_eq!(seen.header("authorization").as_deref(), Some("Bearer k"), "{} {}", seen.verb, seen.path);
        assert!(matches!(&*seen.verb, "GET" | "POST"), "no session is ended with {}", seen.verb);
    }
}

/// ELIC, SAMP, ROOT over the one stream: the client's answer comes back to who asked.
#[tokio::test]
async fn questions_reach_the_client_and_answers_the_server() {
    let alpha = sse_server().call("ask", asks).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let able = json!({"elicitation": {}, "sampling": {}, "roots": {"listChanged": true}});
    let client = gateway.visitor().capable_of(able).connect().await;
    let answers = [
        ("elicitation/create", json!({"action": "decline"})),
        (
            "sampling/createMessage",
            json!({"role": "assistant", "content": {"type": "text", "text": "hm"}, "model": "m"}),
        ),
        ("roots/list", json!({"roots": [{"uri": "file:///here"}]})),
    ];
    for (id, (kind, answer)) in (100..).zip(answers) {
        let call = json!({"name": "alpha__ask", "arguments": {"kind": kind}});
        let mut reply = client.begin(&format!("{id}"), "tools/call", call).await;
        let asked = kit::text::tree(&reply.message().await.unwrap());
        assert_eq!(asked["method"], kind);
        let response = kit::text::response(&asked["id"].to_string(), &answer.to_string());
        assert_eq!(client.post(&response).send().await.status, 202);
        let done = kit::text::tree(&reply.message().await.unwrap());
        let told = done["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{done}"));
        let told = &kit::text::tree(told)["result"];
        for (name, value) in answer.as_object().unwrap() {
            assert_eq!(&told[name], value, "{kind}: {told}");
        }
    }
}

/// CANC-01: a cancellation is a POST of its own.
#[tokio::test]
async fn canc_01_a_cancellation_reaches_the_server() {
    let alpha = sse_server()
        .tool("echo")
        .call("hang", async |ask: Exchange| {
            ask.peer.note("begun");
            ask.cancelled().await;
            ask.peer.note("cancelled");
            Reply::Hang
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let calling = {
        let client = client.clone();
        tokio::spawn(async move { client.begin("7", "tools/call", json!({"name": "alpha__hang"})).await })
    };
    alpha.wait_for_note("begun").await;
    client.notify("notifications/cancelled", json!({"requestId": 7})).await;
    alpha.wait_for_note("cancelled").await;
    calling.abort();
    client.call("alpha__echo", json!({})).await.result();
}

/// LIFE-26: level and subscriptions hold, also over a stream that breaks; who listens is told that something may have
/// been missed.
#[tokio::test]
async fn life_26_a_new_stream_stands_where_the_old_one_stood() {
    let alpha = sse_server()
        .tool("echo")
        .resource(json!({"uri": "mem://a", "name": "a"}))
        .capabilities(claim())
        .on("resources/subscribe", |_| async { json!({}) })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let stream = client.listen().await;
    let uri = client.list("resources/list", "resources").await[0]["uri"].clone();
    client.request("logging/setLevel", json!({"level": "info"})).await.result();
    client.request("resources/subscribe", json!({"uri": uri})).await.result();
    let before = alpha.seen("resources/subscribe").len();

    let update = kit::text::notification("notifications/resources/updated", r#"{"uri":"mem://a"}"#);
    alpha.push(kit::text::event(&update));
    let heard = stream.wait_for("notifications/resources/updated", 1).await;
    assert_eq!(heard[0]["params"]["uri"], uri);
    let log = r#"{"level":"warning","logger":"x","data":"look"}"#;
    alpha.push(kit::text::event(&kit::text::notification("notifications/message", log)));
    let heard = stream.wait_for("notifications/message", 1).await;
    assert_eq!(heard[0]["params"]["data"], "look");

    alpha.drop_streams();
    client.call("alpha__echo", json!({})).await.result();
    alpha.wait_for("resources/subscribe", before + 1).await;
    let heard = stream.wait_for("notifications/resources/updated", 2).await;
    assert_eq!(heard[1]["params"]["uri"], uri);
    assert_eq!(alpha.seen("logging/setLevel").last().unwrap().params()["level"], "info");
}

/// LSSE-08, F-021: what was under way when the stream ended has no known outcome and is not repeated; the next call opens
/// another stream.
#[tokio::test]
async fn lsse_08_a_stream_that_ends_fails_what_was_under_way() {
    let alpha = sse_server()
        .tool("echo")
        .call("pay", async |ask: Exchange| {
            ask.peer.note("paid");
            ask.released().await;
            Reply::Cut
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let (first, second, ()) = tokio::join!(
        client.call("alpha__pay", json!({"n": 1})),
        client.call("alpha__pay", json!({"n": 2})),
        async {
            alpha.until("two calls", || (alpha.notes().len() == 2).then_some(())).await;
            alpha.release();
        }
    );
    for lost in [first, second] {
        assert_eq!((lost.code(), lost.reason()), (-32603, "upstream_outcome_unknown"), "{lost:?}");
    }
    client.call("alpha__echo", json!({})).await.result();
    assert_eq!(alpha.notes(), ["paid", "paid"]);
}

/// A server that has forgotten the session of a stream that still stands says so to the next message: that had no effect,
/// and goes over a new stream.
#[tokio::test]
async fn a_forgotten_session_is_begun_anew() {
    let alpha = sse_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let old = alpha.seen("tools/call")[0].session.clone();
    let forgotten = old.clone();
    alpha.guard(move |seen| (seen.verb == "POST" && seen.session == forgotten).then(|| Reply::status(404)));
    client.call("alpha__echo", json!({})).await.result();
    let last = alpha.seen("tools/call").last().unwrap().session.clone();
    assert_ne!(last, old);
}

/// F-035: a large answer passes whole, one that is too large fails alone.
#[tokio::test]
async fn f_035_large_answers_pass_and_larger_ones_fail_alone() {
    let alpha = sse_server()
        .call("fill", async |ask: Exchange| {
            let bytes = usize::try_from(ask.argument("bytes").as_u64().unwrap()).unwrap();
            Reply::text("x".repeat(bytes))
        })
        .start();
    let plan = gateway().with(json!({"maxMessage": "6MiB"})).upstream("alpha", &alpha);
    let gateway = plan.start().await;
    let client = gateway.client().await;
    let large = client.call("alpha__fill", json!({"bytes": 5_000_000})).await;
    assert_eq!(large.said().len(), 5_000_000);
    let larger = client.call("alpha__fill", json!({"bytes": 7_000_000})).await;
    assert!(larger.error()["message"].as_str().unwrap().contains("maxMessage"), "{}", larger.text);
    assert_eq!(client.call("alpha__fill", json!({"bytes": 3})).await.said(), "xxx");
}

/// F-009: every way to name the place for messages, behind a prefix or not.
#[tokio::test]
async fn f_009_the_endpoint_is_resolved_against_the_stream() {
    let server = |opening: fn(std::net::SocketAddr, &str) -> String| {
        sse_server().tool("echo").at("/tools/alpha/sse", opening).start()
    };
    let prefixed = server(|_, id| named(&format!("/tools/alpha/messages?session_id={id}")));
    let relative = server(|_, id| named(&format!("messages?session_id={id}")));
    let whole = server(|at, id| named(&format!("http://{at}/deep/m?session_id={id}")));
    let noisy = server(|_, id| {
        format!("retry: 100\n\nid: 1\ndata:\n\n: hm\r\nevent:endpoint\r\ndata:/m?session_id={id}\r\n\r\n")
    });
    let gateway = gateway()
        .upstream("prefixed", &prefixed)
        .upstream("relative", &relative)
        .upstream("whole", &whole)
        .upstream("noisy", &noisy);
    let gateway = gateway.start().await;
    let client = gateway.client().await;
    for (name, server, place) in [
        ("prefixed", &prefixed, "/tools/alpha/messages?"),
        ("relative", &relative, "/tools/alpha/messages?"),
        ("whole", &whole, "/deep/m?"),
        ("noisy", &noisy, "/m?"),
    ] {
        client.call(&format!("{name}__echo"), json!({})).await.result();
        for post in server.verbs("POST") {
            assert!(post.path.starts_with(place), "{name}: {}", post.path);
        }
    }
}

/// A server whose streams begin well at first, and after the returned switch was set as `then` says.
fn turning(
    then: impl Fn(&str) -> String + Send + Sync + 'static,
) -> (kit::sse_server::SseServer, Arc<AtomicBool>) {
    let turned = Arc::new(AtomicBool::new(false));
    let switch = Arc::clone(&turned);
    let opening = move |_, id: &str| match turned.load(Ordering::SeqCst) {
        true => then(id),
        false => named(&format!("/messages?session_id={id}")),
    };
    (sse_server().tool("echo").at("/sse", opening).start(), switch)
}

/// F-009, LSSE-02: another server is told nothing, and who looks is told why.
#[tokio::test]
async fn f_009_a_foreign_endpoint_is_refused() {
    let other = sse_server().start();
    let address = other.address();
    let (alpha, turned) =
        turning(move |id| named(&format!("http://{address}/m?session_id={id}&token=s3cr3t")));
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    turned.store(true, Ordering::SeqCst);
    alpha.drop_streams();
    let refused = client.call("alpha__echo", json!({})).await;
    assert_eq!(refused.reason(), "upstream_protocol_error", "{refused:?}");
    let told = refused.error()["message"].as_str().unwrap();
    assert!(told.contains("`endpoint` event names another server"), "{told}");
    let logged = gateway.logged("the refusal", |line| line.contains("names another server")).await;
    assert!(logged.contains(&address.to_string()), "{logged}");
    assert!(!gateway.log().contains("s3cr3t"));
    assert!(other.received().is_empty());
}

/// A stream that never says where to send messages is given up after the limit of the handshake.
#[tokio::test]
async fn a_missing_endpoint_ends_the_handshake() {
    let (alpha, turned) = turning(|_| ": nothing\n\n".into());
    let brief = alpha.with(json!({"timeouts": {"handshake": "500ms"}}));
    let gateway = gateway().upstream("alpha", brief).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    turned.store(true, Ordering::SeqCst);
    alpha.drop_streams();
    let given_up = client.call("alpha__echo", json!({})).await;
    assert_eq!(given_up.reason(), "upstream_timeout", "{given_up:?}");
    assert!(given_up.text.contains("handshake"), "{}", given_up.text);
    gateway.logged("what was missing", |line| line.contains("no `endpoint` event")).await;
    turned.store(false, Ordering::SeqCst);
    works_again(&client).await;
}

/// LSSE-02: a place for messages that is named late is waited for, and nothing is sent before.
#[tokio::test]
async fn lsse_02_a_late_endpoint_is_waited_for() {
    let alpha = sse_server().tool("echo").late().start();
    let gateway = gateway().upstream("alpha", &alpha).start_at_once().await;
    alpha.until("a stream", || (alpha.streams() > 0).then_some(())).await;
    assert!(alpha.verbs("POST").is_empty());
    alpha.release();
    let client = gateway.client().await;
    client.tools_until("its tools", |names| !names.is_empty()).await;
    client.call("alpha__echo", json!({})).await.result();
}

async fn works_again(client: &Client) {
    soon("it works again", async {
        while !client.call("alpha__echo", json!({})).await.is_result() {
            pass(ms(50)).await;
        }
    })
    .await;
}

/// HTTP-36: what is no stream of this transport, and what refuses, are told apart.
#[tokio::test]
async fn http_36_what_is_wrong_with_a_server_is_told() {
    let page = || Page::new(200).header("content-type", "text/html").piece("<p>").into();
    type Wrong = fn() -> Reply;
    let replies: [(Wrong, &str); 5] = [
        (|| Reply::status(401), "needs authorization"),
        (|| Reply::status(403), "does not admit"),
        (|| Reply::status(404), "HTTP status 404"),
        (|| Reply::status(503), "is not ready"),
        (page, "not with an event stream"),
    ];
    let alpha = sse_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    for (reply, told) in replies {
        works_again(&client).await;
        alpha.guard(move |seen| (seen.verb == "GET").then(reply));
        alpha.drop_streams();
        let outcome = client.call("alpha__echo", json!({})).await;
        let message = outcome.error()["message"].as_str().unwrap();
        assert!(message.contains(told), "{message}");
        alpha.unguard();
    }
}

/// A POST that is refused concerns its call alone; a JSON-RPC error in it is the answer.
#[tokio::test]
async fn a_refused_message_fails_its_call_alone() {
    let alpha = sse_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let streams = alpha.verbs("GET").len();
    let error = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32042,"message":"no"}}"#;
    alpha.guard(move |seen| {
        (seen.method.as_deref() == Some("tools/call")).then(|| Page::new(400).piece(error).into())
    });
    assert_eq!(client.call("alpha__echo", json!({})).await.code(), -32042);
    alpha.guard(|seen| (seen.method.as_deref() == Some("tools/call")).then(|| Reply::status(500)));
    let unknown = client.call("alpha__echo", json!({})).await;
    assert_eq!(unknown.reason(), "upstream_outcome_unknown", "{unknown:?}");
    alpha.unguard();
    client.call("alpha__echo", json!({})).await.result();
    assert_eq!(alpha.verbs("GET").len(), streams, "the connection has lived on");
}

/// The answer may come before the POST of its request is done, or while that is never answered.
#[tokio::test]
async fn an_answer_need_not_wait_for_its_post() {
    let alpha = sse_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    alpha.guard(|seen| (seen.method.as_deref() == Some("tools/call")).then_some(Reply::Hang));
    let before = alpha.seen("tools/call").len();
    let answered = async {
        let asked = alpha.wait_for("tools/call", before + 1).await.pop().unwrap();
        let answer = kit::text::response(asked.id.as_deref().unwrap(), r#"{"content":[]}"#);
        alpha.push(kit::text::event(&answer));
    };
    let (outcome, ()) = tokio::join!(client.call("alpha__echo", json!({})), answered);
    assert_eq!(outcome.result()["content"], json!([]));
}

/// LIFE-15: two clients and two servers, four streams, and nothing goes astray.
#[tokio::test]
async fn life_15_sessions_of_several_clients_and_servers_are_never_mixed() {
    let count = || {
        let counts =
            |ask: Exchange| async move { json!({"content": [], "structuredContent": {"n": ask.count(1)}}) };
        sse_server().call("count", counts)
    };
    let (alpha, beta) = (count().named("a").start(), count().named("b").start());
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    for n in 1..=3 {
        for (client, name) in [(&one, "alpha"), (&two, "alpha"), (&one, "beta"), (&two, "beta")] {
            let told = client.call(&format!("{name}__count"), json!({})).await;
            assert_eq!(told.result()["structuredContent"]["n"], n, "{name}");
        }
    }
    let calls = (0..40).map(|n| {
        let (client, name) = ([&one, &two][n % 2], ["alpha", "beta"][n / 2 % 2]);
        async move { client.call(&format!("{name}__count"), json!({})).await.result().clone() }
    });
    futures_util::future::join_all(calls).await;
    for (client, name) in [(&one, "alpha"), (&two, "alpha"), (&one, "beta"), (&two, "beta")] {
        let told = client.call(&format!("{name}__count"), json!({})).await;
        assert_eq!(told.result()["structuredContent"]["n"], 14, "{name}");
    }
    assert_eq!(one.delete().send().await.status / 100, 2);
    let left = |server: &kit::sse_server::SseServer| server.ended().len();
    alpha.until("the end of its stream", || (left(&alpha) >= 1).then_some(())).await;
    beta.until("the end of its stream", || (left(&beta) >= 1).then_some(())).await;
}

/// HTTP-38, LSSE-07: an entry that states no type is reached either way; what was found holds for a connection, so that a
/// server which learns the newer transport is spoken to in it.
#[tokio::test]
async fn http_38_an_unstated_transport_is_found_out() {
    let alpha = sse_server().tool("echo").start();
    let plan = gateway().upstream("alpha", json!({"url": alpha.url()}));
    let gateway = plan.start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({"n": 1})).await.result();
    client.call("alpha__echo", json!({"n": 2})).await.result();
    let at_home = alpha.received().into_iter().filter(|seen| seen.verb == "POST" && seen.path == "/sse");
    assert!(at_home.count() <= alpha.verbs("GET").len(), "asked once for each connection");

    let upgraded = Arc::new(AtomicBool::new(false));
    let says = Arc::clone(&upgraded);
    alpha.guard(move |seen| {
        if seen.path != "/sse" || seen.verb != "POST" {
            return (seen.path == "/sse" && seen.verb == "GET").then(|| Reply::status(405));
        }
        says.store(true, Ordering::SeqCst);
        let id = seen.id.as_deref();
        let result = match seen.method.as_deref()? {
            "initialize" => json!({
                "protocolVersion": NEWEST,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "newer", "version": "2"},
            }),
            "tools/list" => json!({"tools": [tool("echo")]}),
            "tools/call" => said("by the newer transport"),
            _ => return Some(Reply::status(202)),
        };
        Some(Page::json(kit::text::response(id?, &result.to_string())).into())
    });
    alpha.drop_streams();
    assert_eq!(client.call("alpha__echo", json!({})).await.said(), "by the newer transport");
    assert!(upgraded.load(Ordering::SeqCst));
}

/// HTTP-39: a redirect of the stream within its server is followed, and the place for messages is relative to where it led.
#[tokio::test]
async fn http_39_redirects_are_followed_within_the_server() {
    let relative = |_, id: &str| named(&format!("messages?session_id={id}"));
    let alpha = sse_server().tool("echo").at("/moved/sse", relative).start();
    alpha.guard(|seen| {
        let moved = || Page::new(307).header("location", "/moved/sse").into();
        (seen.path == "/old").then(moved)
    });
    let url = format!("http://{}/old", alpha.address());
    let plan = gateway().upstream("alpha", json!({"type": "sse", "url": url}));
    let gateway = plan.start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    for post in alpha.verbs("POST") {
        assert!(post.path.starts_with("/moved/messages?"), "{}", post.path);
    }

    let beta = sse_server().tool("echo").start();
    let away = format!("http://{}/sse", beta.address());
    alpha.guard(move |seen| {
        (seen.verb == "GET").then(|| Page::new(307).header("location", away.clone()).into())
    });
    alpha.drop_streams();
    let outcome = client.call("alpha__echo", json!({})).await;
    assert!(outcome.text.contains("redirects to another place"), "{}", outcome.text);
    assert!(beta.received().is_empty());
}
