//! Streamable HTTP servers behind the gateway, also odd ones (F-001, F-005, F-006, F-010, F-012, F-070, F-071,
//! F-091, R-31, HTTP-34..HTTP-41).

use std::io::Write;

use serde_json::json;

use crate::kit::{self, *};

/// F-001 HTTP-16, HTTP-41: no push channel and no session id are both in order.
#[tokio::test]
async fn f_001_an_upstream_without_get_and_without_sessions_is_in_order() {
    let alpha = http_server().without_sessions().without_stream().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let _stream = client.listen().await;
    client.call("alpha__echo", json!({})).await.result();
    let counts = || (alpha.verbs("GET").len(), alpha.seen("initialize").len());
    let before = counts();
    pass(ms(1500)).await;
    assert_eq!(counts(), before, "a missing stream is no lost connection");
    assert!(before.0 <= 1 && before.1 <= 2, "GETs and handshakes: {before:?}");
    client.call("alpha__echo", json!({})).await.result();
}

/// F-005 HTTP-34: events without a name, odd line ends, split data, comments, unknown fields.
#[tokio::test]
async fn f_005_event_streams_are_read_as_the_standard_says() {
    let alpha = http_server()
        .on("tools/list", async |ask: Exchange| {
            Page::stream().piece(": hello\r\n\r\n").piece(format!(
                "id: 7\r\nretry: 500\r\nx-unknown: 1\r\ndata:{{\"jsonrpc\":\"2.0\",\"id\":{},\r\ndata: \
                 \"result\":{{\"tools\":[{},{}]}}}}\r\n\r\n",
                ask.id(),
                tool("odd"),
                tool("bare")
            ))
        })
        .behaves("odd", async |ask: Exchange| {
            let message = kit::text::response(ask.id(), &said("odd").to_string());
            Page::stream()
                .piece("\u{feff}data:")
                .piece(message[..9].to_owned())
                .piece(message[9..].to_owned())
                .piece("\n")
                .piece("\n")
        })
        .behaves("bare", async |ask: Exchange| {
            let message = kit::text::response(ask.id(), &said("bare").to_string());
            Page::stream().piece(format!("event:message\rdata: {message}\r\r"))
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["alpha__odd", "alpha__bare"]);
    assert_eq!(client.call("alpha__odd", json!({})).await.said(), "odd");
    assert_eq!(client.call("alpha__bare", json!({})).await.said(), "bare");
}

/// F-006: the answer is found by its id, not by its place.
#[tokio::test]
async fn f_006_a_notification_before_the_handshake_answer_stalls_nothing() {
    let alpha = http_server()
        .capabilities(json!({"tools": {}, "logging": {}}))
        .tool("echo")
        .on("initialize", async |ask: Exchange| {
            ask.notify("notifications/message", json!({"level": "info", "data": "starting"})).await;
            ask.hello()
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    gateway.client().await.call("alpha__echo", json!({})).await.result();
}

/// F-010 HTTP-08: any 2xx accepts a notification, whatever its body.
#[tokio::test]
async fn f_010_upstreams_that_answer_notifications_oddly_work() {
    const NOTICE: &str = "notifications/initialized";
    let alpha = http_server().tool("echo").on(NOTICE, async |_: Exchange| Page::json("null"));
    let beta = http_server().tool("echo").on(NOTICE, async |_: Exchange| Page::new(200));
    let gamma = http_server().tool("echo").on(NOTICE, async |_: Exchange| Page::new(204));
    let gateway = gateway().upstream("alpha", alpha).upstream("beta", beta).upstream("gamma", gamma);
    let gateway = gateway.start().await;
    let client = gateway.client().await;
    for name in ["alpha__echo", "beta__echo", "gamma__echo"] {
        client.call(name, json!({})).await.result();
    }
}

/// F-012: a call is complete with its answer, not with the end of the stream.
#[tokio::test]
async fn f_012_an_upstream_stream_that_stays_open_holds_nobody_up() {
    let alpha = http_server()
        .call("open", async |ask: Exchange| {
            ask.answer(said("now")).await;
            Reply::Hang
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let (outcome, took) = timed(client.call("alpha__open", json!({}))).await;
    assert_eq!(outcome.said(), "now");
    assert!(took < secs(2), "answer and end took {took:?}");
}

/// F-070 HTTP-39: a redirect within the origin keeps method and body.
#[tokio::test]
async fn f_070_a_redirect_to_the_same_origin_is_followed() {
    let alpha = http_server().tool("echo").start();
    alpha.guard(|seen| (seen.path == "/mcp").then(|| Page::new(307).header("location", "/mcp/").into()));
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let outcome = gateway.client().await.call("alpha__echo", json!({"n": 1})).await;
    assert_eq!(outcome.result()["structuredContent"], json!({"n": 1}));
}

/// F-070 HTTP-39: nothing of ours goes to another origin, and the client sees no redirect.
#[tokio::test]
async fn f_070_a_redirect_to_another_origin_is_not_followed() {
    let foreign = http_server().tool("echo").start();
    let alpha = http_server().tool("echo").start();
    let target = foreign.url().replace("127.0.0.1", "localhost");
    alpha.guard(move |_| Some(Page::new(307).header("location", target.clone()).into()));
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", http_server().tool("echo"));
    let gateway = gateway.start().await;
    let client = gateway.client().await;
    client.tools_until("beta is listed", |names| names.contains(&"beta__echo".into())).await;
    let only = gateway.visitor_of("alpha");
    let answer = only.post(&only.greeting()).send().await;
    assert!(!(300..400).contains(&answer.status));
    alpha.until("alpha was asked", || (!alpha.received().is_empty()).then_some(())).await;
    assert!(foreign.received().is_empty());
}

/// F-071 AUTHC-14 HTTP-36: what an upstream says about its own credentials stays between the two.
#[tokio::test]
async fn f_071_an_upstreams_401_fails_that_call_only_and_is_not_relayed() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", http_server().tool("echo"));
    let gateway = gateway.start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    alpha.guard(|_| Some(Page::new(401).header("www-authenticate", "Bearer realm=\"inner\"").into()));
    let before = alpha.received().len();
    let (outcome, took) = timed(client.call("alpha__echo", json!({}))).await;
    assert_eq!(outcome.status, 200, "{outcome:?}");
    assert_eq!(outcome.code(), -32603);
    assert_eq!(outcome.header("www-authenticate"), None);
    assert!(took < secs(3), "the error took {took:?}");
    client.call("beta__echo", json!({})).await.result();
    assert!(alpha.received().len() - before < 6, "an upstream that says 401 is not hammered");
}

/// HTTP-36 RPC-13: what went wrong over HTTP becomes a reason, and its details stay inside.
#[tokio::test]
async fn http_36_upstream_statuses_become_reasons() {
    let alpha = http_server()
        .call("s500", async |_: Exchange| Page::new(500).piece("secret-detail"))
        .call("s503", async |_: Exchange| Page::new(503).header("retry-after", "7"))
        .call("s429", async |_: Exchange| Page::new(429).header("retry-after", "7"))
        .call("html", async |_: Exchange| {
            Page::new(200).header("content-type", "text/html").piece("secret-detail")
        })
        .call("s422", async |ask: Exchange| {
            let mut page =
                Page::json(kit::text::failure(ask.id(), r#"{"code":-32099,"message":"own words"}"#));
            page.status = 422;
            page
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    for (name, reason) in [("html", "upstream_protocol_error"), ("s429", "upstream_unavailable")] {
        let outcome = client.call(&format!("alpha__{name}"), json!({})).await;
        assert_eq!((outcome.status, outcome.code(), outcome.reason()), (200, -32603, reason), "{outcome:?}");
        assert_eq!(outcome.error()["data"]["origin"], "gateway");
        assert_eq!(outcome.error()["data"]["upstream"], "alpha");
        assert!(!outcome.text.contains("secret-detail"));
    }
    for (name, retry) in [("s429", json!(7000)), ("s503", json!(7000))] {
        let outcome = client.call(&format!("alpha__{name}"), json!({})).await;
        assert_eq!(outcome.error()["data"]["retryAfterMs"], retry, "{outcome:?}");
    }
    let outcome = client.call("alpha__s500", json!({})).await;
    assert_eq!((outcome.status, outcome.code()), (200, -32603));
    assert!(!outcome.text.contains("secret-detail"));
    let outcome = client.call("alpha__s422", json!({})).await;
    assert_eq!((outcome.code(), &outcome.error()["message"]), (-32099, &json!("own words")));
}

fn gzipped(text: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(text).unwrap();
    packer.finish().unwrap()
}

/// R-31: identity is asked for; what comes packed all the same is unpacked within bounds.
#[tokio::test]
async fn r_31_packed_answers_are_unpacked_within_bounds() {
    let alpha = http_server()
        .call("packed", async |ask: Exchange| {
            let message = kit::text::response(ask.id(), &said("unpacked").to_string());
            Page::json(gzipped(message.as_bytes())).header("content-encoding", "gzip")
        })
        .call("bomb", async |_: Exchange| {
            Page::json(gzipped(&vec![b' '; 64 << 20])).header("content-encoding", "gzip")
        })
        .call("unknown", async |_: Exchange| Page::json("?").header("content-encoding", "zstd"))
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    assert_eq!(client.call("alpha__packed", json!({})).await.said(), "unpacked");
    let before = kit::process::resident(gateway.pid());
    for name in ["alpha__bomb", "alpha__unknown"] {
        let outcome = client.call(name, json!({})).await;
        assert_eq!((outcome.code(), outcome.reason()), (-32603, "upstream_protocol_error"), "{outcome:?}");
    }
    let grown = kit::process::resident(gateway.pid()).saturating_sub(before);
    assert!(grown < 48 << 20, "the gateway grew by {grown} bytes");
    let asked = alpha.seen("tools/call")[0].header("accept-encoding");
    assert!(asked.is_none() || asked.as_deref() == Some("identity"), "{asked:?}");
}

/// F-091 F-093 HTTP-31: the head of a request to an upstream is ours, not the client's.
#[tokio::test]
async fn f_091_f_072_upstreams_get_our_headers_and_none_of_the_clients() {
    let alpha = http_server().tool("echo").start();
    let entry = Entry::from(&alpha).and(json!({"headers": {"X-Configured": "yes"}}));
    let gateway = gateway().upstream("alpha", entry).start().await;
    let client = gateway
        .visitor()
        .header("authorization", "Bearer CLIENT-SECRET")
        .header("cookie", "sid=CLIENT-SECRET")
        .header("x-api-key", "CLIENT-SECRET")
        .header("proxy-authorization", "Basic CLIENT-SECRET")
        .header("connection", "x-foo")
        .header("x-foo", "CLIENT-SECRET")
        .header("te", "trailers")
        .connect()
        .await;
    let _stream = client.listen().await;
    client.call("alpha__echo", json!({})).await.result();
    client.delete().send().await;
    alpha.until("a session was ended", || (!alpha.ended().is_empty()).then_some(())).await;
    let host = alpha.address().to_string();
    for seen in alpha.received() {
        let what = format!("{} {:?}", seen.verb, seen.method);
        assert_eq!(seen.header("host").as_ref(), Some(&host), "{what}");
        assert_eq!(seen.header("x-configured").as_deref(), Some("yes"), "{what}");
        for (name, value) in &seen.headers {
            assert!(!String::from_utf8_lossy(value.as_bytes()).contains("CLIENT-SECRET"), "{name} on {what}");
        }
        if seen.method.as_deref() != Some("initialize") {
            assert_eq!(seen.header("mcp-protocol-version").as_deref(), Some(NEWEST), "{what}");
        }
    }
}

/// LIFE-04, LIFE-05: an older server is spoken to in its own revision.
#[tokio::test]
async fn life_04_older_upstreams_are_spoken_to_in_their_revision() {
    for revision in &REVISIONS[1..] {
        let alpha = http_server().revisions(&[revision]).tool("echo").start();
        let gateway = gateway().upstream("alpha", &alpha).start().await;
        gateway.client().await.call("alpha__echo", json!({})).await.result();
        let seen = alpha.seen("tools/call");
        assert_eq!(seen[0].header("mcp-protocol-version").as_deref(), Some(*revision));
    }
}

/// F-110: an upstream that refuses probes is an ordinary one, and none is asked without end.
#[tokio::test]
async fn f_110_odd_but_lawful_upstreams_give_their_tools_and_are_left_alone() {
    let alpha = http_server().without_sessions().without_stream().tool("echo").start();
    let beta = http_server().tool("echo").start();
    beta.guard(|seen| (seen.method.as_deref() == Some("server/discover")).then(|| Reply::status(400)));
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    client.call("beta__echo", json!({})).await.result();
    let before = (alpha.received().len(), beta.received().len());
    pass(ms(1500)).await;
    let after = (alpha.received().len(), beta.received().len());
    assert!(after.0 - before.0 <= 2 && after.1 - before.1 <= 2, "idle, yet {before:?} became {after:?}");
}

/// LIFE-16: a session's own connection is offered the revision of its client.
#[tokio::test]
async fn life_16_an_upstream_is_offered_the_clients_revision() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    for revision in REVISIONS {
        let client = gateway.visitor().asking_for(revision).connect().await;
        client.call("alpha__echo", json!({})).await.result();
        let session = alpha.seen("tools/call").last().unwrap().session.clone();
        let open = alpha.sessions().into_iter().find(|open| Some(&open.id) == session.as_ref()).unwrap();
        assert_eq!(open.revision, revision);
    }
}

/// F-095: a proxy of the environment is not asked for what is on this machine.
#[tokio::test]
async fn f_095_loopback_is_never_reached_through_a_proxy() {
    let proxy = http_server().start();
    let alpha = http_server().tool("echo").start();
    let named = json!({"type": "http", "url": alpha.url().replace("127.0.0.1", "localhost")});
    let mut plan = gateway().upstream("alpha", &alpha).upstream("named", named);
    let address = format!("http://{}", proxy.address());
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        plan = plan.environment(name, &address);
    }
    let gateway = plan.start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    client.call("named__echo", json!({})).await.result();
    assert_eq!(proxy.connections(), 0);
}

/// F-095: an address in brackets is an address.
#[tokio::test]
async fn f_095_an_upstream_on_ipv6_is_reached() {
    if std::net::TcpListener::bind("[::1]:0").is_err() {
        eprintln!("this machine has no ::1");
        return;
    }
    let alpha = http_server().on_ipv6().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    gateway.client().await.call("alpha__echo", json!({})).await.result();
}
