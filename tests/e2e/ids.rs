//! JSON-RPC: ids, batches, envelopes, and the one right form for each error (F-038..F-040, RPC-01..RPC-16, RPC-23, RPC-24).

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::kit::{self, *};

/// F-038 RPC-07: equal ids of many clients meet in one upstream session and part again.
#[tokio::test]
async fn f_038_clients_with_equal_ids_get_their_own_answers() {
    let alpha = http_server().call("who", async |ask: Exchange| {
        pass(ms(ask.argument("wait").as_u64().unwrap())).await;
        Reply::text(ask.argument("who").as_str().unwrap())
    });
    let alpha = alpha.start();
    let beta = stdio_server().call("who", async |ask: Exchange| {
        pass(ms(ask.argument("wait").as_u64().unwrap())).await;
        Reply::text(ask.argument("who").as_str().unwrap())
    });
    let beta = beta.start();
    let shared = json!({"isolation": "shared"});
    let plan = gateway().upstream("alpha", alpha.with(shared.clone())).upstream("beta", beta.with(shared));
    let gateway = plan.start().await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(gateway.client().await);
    }
    let calls = clients.iter().enumerate().flat_map(|(c, client)| {
        (1..=20).map(move |id| async move {
            let (who, wait) = (format!("{c}-{id}"), (c * 7 + id * 3) % 13);
            let tool = if id % 2 == 0 { "alpha__who" } else { "beta__who" };
            let params = json!({"name": tool, "arguments": {"who": who, "wait": wait}}).to_string();
            let outcome = client.request_text(&id.to_string(), "tools/call", &params).await;
            assert_eq!(outcome.said(), who);
            assert_eq!(outcome.tree["id"], id);
        })
    });
    futures_util::future::join_all(calls).await;
    for seen in [alpha.seen("tools/call"), beta.seen("tools/call")] {
        let ids: HashSet<_> = seen.iter().map(|seen| seen.id.clone()).collect();
        assert_eq!(ids.len(), seen.len(), "D3: ids of our own, none twice");
    }
}

/// F-039 RPC-02, RPC-08: an id comes back in the very form it had.
#[tokio::test]
async fn f_039_ids_come_back_as_they_were_written() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let call = r#"{"name":"alpha__echo","arguments":{}}"#;
    for id in
        ["0", "\"\"", "\"0\"", "\"a-b\"", "9007199254740993", "-1", "18446744073709551616", r#""\u00fc é""#]
    {
        for (method, params) in
            [("tools/call", call), ("ping", "{}"), ("tools/list", "{}"), ("no/such", "{}")]
        {
            let outcome = client.request_text(id, method, params).await;
            assert_eq!(outcome.status, 200, "{id} {method}");
            assert_eq!(kit::text::member(&outcome.text, &["id"]), Some(id), "{method}");
        }
    }
}

/// F-039 RPC-02: what is no id is refused, and surely no notification.
#[tokio::test]
async fn f_039_what_is_no_id_is_refused_and_not_executed() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    for id in ["null", "1.5", "{}", "[1]", "true"] {
        let letter =
            client.post(&kit::text::request(id, "tools/call", r#"{"name":"alpha__echo","arguments":{}}"#));
        let mut answer = letter.send().await;
        assert_eq!(answer.status, 400, "{id}");
        let body = answer.tree().await;
        assert_eq!(body["error"]["code"], -32600, "{id}: {body}");
        assert!(body["id"].is_null(), "{id}: {body}");
    }
    assert!(alpha.seen("tools/call").is_empty());
}

/// RPC-02: an id that is in flight is not used again; one that is done may be.
#[tokio::test]
async fn rpc_02_an_id_in_flight_is_taken_and_a_finished_one_is_free() {
    let alpha = http_server().tool("echo").call("wait", async |ask: Exchange| {
        ask.released().await;
        Reply::text("done")
    });
    let alpha = alpha.start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let running = client.request_text("7", "tools/call", r#"{"name":"alpha__wait"}"#);
    let meanwhile = async {
        alpha.wait_for("tools/call", 1).await;
        let twin = client.request_text("7", "tools/call", r#"{"name":"alpha__echo"}"#).await;
        let other = client.request_text(r#""7""#, "tools/call", r#"{"name":"alpha__echo"}"#).await;
        alpha.release();
        (twin, other)
    };
    let (outcome, (twin, other)) = tokio::join!(running, meanwhile);
    assert_eq!(outcome.said(), "done");
    assert_eq!((twin.status, twin.code()), (400, -32600));
    assert!(other.is_result(), "RPC-07: \"7\" is another id than 7");
    assert!(client.request_text("7", "ping", "{}").await.is_result());
}

/// F-040 RPC-15: a batch belongs to one revision only.
#[tokio::test]
async fn f_040_batches_are_refused_outside_their_revision() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let call = kit::text::request("1", "tools/call", r#"{"name":"alpha__echo","arguments":{}}"#);
    for revision in ["2025-11-25", "2025-06-18", "2024-11-05"] {
        let client = gateway.visitor().asking_for(revision).connect().await;
        client.tools().await;
        for batch in ["[]".to_owned(), format!("[{call}]"), format!("[{call},{call}]")] {
            let mut answer = client.post(&batch).send().await;
            assert_eq!(answer.status, 400, "{revision} {batch}");
            assert_eq!(answer.tree().await["error"]["code"], -32600, "{revision} {batch}");
        }
    }
    assert!(alpha.seen("tools/call").is_empty());
}

/// F-040 RPC-15, RPC-16: within it each member is answered once, and the forms are those of the revision.
#[tokio::test]
async fn f_040_batches_of_their_revision_are_answered_member_by_member() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).with(json!({"http": {"maxBatch": 4}})).start().await;
    let client = gateway.visitor().asking_for("2025-03-26").connect().await;
    client.tools().await;
    let call = |id: &str| {
        let params = format!(r#"{{"name":"alpha__echo","arguments":{{"id":{id}}}}}"#);
        kit::text::request(id, "tools/call", &params)
    };
    let notice = kit::text::notification("notifications/roots/list_changed", "{}");
    let ping = kit::text::request("3", "ping", "{}");
    let batch = format!("[{},{notice},{},{ping}]", call("1"), call(r#""two""#));
    let answers = answers_of(client.post(&batch).send().await).await;
    let ids: HashSet<String> = answers.iter().map(|answer| answer["id"].to_string()).collect();
    assert_eq!(ids, ["1", "\"two\"", "3"].map(String::from).into());
    for answer in answers.iter().filter(|answer| answer["id"] != 3) {
        assert_eq!(answer["result"]["structuredContent"]["id"], answer["id"]);
    }

    let mut only_notices = client.post(&format!("[{notice},{notice}]")).send().await;
    assert_eq!((only_notices.status, only_notices.bytes().await), (202, Vec::new()));
    let greeting = gateway.visitor().greeting();
    for bad in ["[]".to_owned(), format!("[{greeting}]"), format!("[{}]", [ping.as_str(); 5].join(","))] {
        let mut answer = client.post(&bad).send().await;
        assert!([400, 413].contains(&answer.status), "{} {bad}", answer.status);
        assert_eq!(answer.tree().await["error"]["code"], -32600, "{bad}");
    }
    let mixed =
        answers_of(client.post(&format!("[{ping},{{\"jsonrpc\":\"2.0\",\"id\":9}}]")).send().await).await;
    assert!(mixed.iter().any(|answer| answer["id"] == 3 || answer["error"]["code"] == -32600), "{mixed:?}");
}

/// The responses to a batch, however they came.
async fn answers_of(mut answer: Answer) -> Vec<Value> {
    if !answer.is_stream() {
        let body = answer.tree().await;
        return body.as_array().cloned().unwrap_or_else(|| vec![body]);
    }
    let mut answers = Vec::new();
    while let Some(message) = answer.message().await {
        match kit::text::tree(&message) {
            Value::Array(more) => answers.extend(more),
            one => answers.push(one),
        }
    }
    answers
}

/// F-040 RPC-01, RPC-14: what is no message is refused with 400, and nothing breaks.
#[tokio::test]
async fn f_040_what_is_no_message_is_refused_in_the_right_words() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let cases: [(&[u8], i64); 14] = [
        (b"", -32700),
        (b"{", -32700),
        (b"\xff", -32700),
        (br#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, -32700),
        (br#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#, -32700),
        (b"null", -32600),
        (b"5", -32600),
        (br#""x""#, -32600),
        (b"{}", -32600),
        (br#"{"id":1,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"method":5}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1}"#, -32600),
        (br#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"m"}}"#, -32600),
    ];
    for (body, code) in cases {
        let shown = String::from_utf8_lossy(body);
        let mut answer = client.post("").body(body.to_vec()).send().await;
        assert_eq!(answer.status, 400, "{shown}");
        assert_eq!(answer.tree().await["error"]["code"], code, "{shown}");
    }
    let mut answer = client.post(&deep).send().await;
    assert!([400, 413].contains(&answer.status));
    assert!(answer.tree().await["error"]["code"].is_i64());
    assert!(client.request("ping", json!({})).await.is_result(), "the session is whole");
}

/// RPC-23: a second member of the same name, where we look, is refused.
#[tokio::test]
async fn rpc_23_a_repeated_member_where_we_look_is_refused() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    for body in [
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call","params":{"name":"alpha__echo"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"tools/call","params":{"name":"alpha__echo"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha__echo","na\u006de":"other"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"alpha__echo","_meta":{"progressToken":1,"progressToken":2}}}"#,
    ] {
        let mut answer = client.post(body).send().await;
        assert_eq!(answer.tree().await["error"]["code"], -32600, "{body}");
    }
    assert!(alpha.seen("tools/call").is_empty());
    let twice = r#"{"a":1,"a":2}"#;
    let outcome = client.call_text("alpha__echo", twice).await;
    assert_eq!(outcome.member(&["structuredContent"]), twice, "D2: blind where we do not look");
}

/// RPC-10, RPC-14, TOOL-06, RES-07, PROM-03: a well-formed request is answered 200, whatever the answer.
#[tokio::test]
async fn rpc_10_errors_of_well_formed_requests_travel_with_200() {
    let alpha = http_server()
        .tool("echo")
        .resource(json!({"uri": "a://1", "name": "one"}))
        .prompt(json!({"name": "p"}));
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    for (method, params, code) in [
        ("no/such/method", "{}", -32601),
        ("tools/call", r#"{"name":"no__such"}"#, -32602),
        ("tools/call", r#"{"name":5}"#, -32602),
        ("tools/call", "{}", -32602),
        ("tools/call", "[]", -32602),
        ("tools/list", r#"{"cursor":"garbage"}"#, -32602),
        ("tools/list", r#"{"cursor":5}"#, -32602),
        ("prompts/get", r#"{"name":"no__such"}"#, -32602),
        ("resources/read", r#"{"uri":"alpha+a://no-such"}"#, -32002),
        ("resources/read", r#"{"uri":"nobody+a://1"}"#, -32002),
        ("logging/setLevel", r#"{"level":"loud"}"#, -32602),
    ] {
        let outcome = client.request_text("1", method, params).await;
        assert_eq!((outcome.status, outcome.code()), (200, code), "{method} {params}: {outcome:?}");
    }
    let unknown = client.call("no__such", json!({})).await;
    assert!(unknown.text.contains("no__such"), "TOOL-06: the exposed name, {unknown:?}");
    let missing = client.request("resources/read", json!({"uri": "alpha+a://no-such"})).await;
    assert_eq!(missing.error()["data"]["uri"], "alpha+a://no-such", "RPC-12: the client's URI");
}

/// RPC-03, RPC-06: an upstream that breaks the envelope fails that call and nothing else.
#[tokio::test]
async fn rpc_06_broken_answers_of_an_upstream_fail_that_call() {
    let alpha = http_server()
        .tool("echo")
        .call("both", async |ask: Exchange| {
            Page::json(format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{}},"error":{{"code":1,"message":"m"}}}}"#,
                ask.id()
            ))
        })
        .call("neither", async |ask: Exchange| {
            Page::json(format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, ask.id()))
        })
        .call("garbage", async |_: Exchange| Page::json("<html>"))
        .call("scalar", async |_: Exchange| Page::json("5"))
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    for name in ["both", "neither", "garbage", "scalar"] {
        let outcome = client.call(&format!("alpha__{name}"), json!({})).await;
        assert_eq!((outcome.status, outcome.code()), (200, -32603), "{name}: {outcome:?}");
        assert_eq!(outcome.reason(), "upstream_protocol_error", "{name}");
    }
    client.call("alpha__echo", json!({})).await.result();
}

/// RPC-04: an error without id over HTTP belongs to the POST that got it. RPC-03: foreign ids are dropped.
#[tokio::test]
async fn rpc_04_an_error_without_id_belongs_to_its_post() {
    let alpha = http_server()
        .call("nameless", async |_: Exchange| {
            Page::json(r#"{"jsonrpc":"2.0","error":{"code":-32050,"message":"own words"}}"#)
        })
        .call("stray", async |ask: Exchange| {
            ask.send(r#"{"jsonrpc":"2.0","id":"nobody asked","result":{}}"#).await;
            Reply::text("mine")
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let outcome = client.call("alpha__nameless", json!({})).await;
    assert_eq!((outcome.code(), &outcome.error()["message"]), (-32050, &json!("own words")));
    let outcome = client.call("alpha__stray", json!({})).await;
    assert_eq!((outcome.said(), outcome.before.len()), ("mine", 0));
}

/// RPC-15: a batch from a server is read, whatever its revision.
#[tokio::test]
async fn rpc_15_an_array_from_an_upstream_is_read_member_by_member() {
    let alpha = stdio_server().tool("echo").call("both", async |ask: Exchange| {
        let params = format!(r#"{{"progressToken":{},"progress":1}}"#, ask.token().unwrap());
        let notice = kit::text::notification("notifications/progress", &params);
        Reply::Bytes(
            format!("[{notice},{}]\n", kit::text::response(ask.id(), &said("batched").to_string())).into(),
        )
    });
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let outcome = client.call_with_token("alpha__both", json!({}), "1").await;
    assert_eq!((outcome.said(), outcome.heard("notifications/progress").len()), ("batched", 1));
}

/// PING-01: hop by hop, at once, also before the session is ready and while an upstream hangs.
#[tokio::test]
async fn ping_01_a_ping_is_answered_here() {
    let alpha = http_server().tool("echo").on("ping", async |_: Exchange| Reply::Hang).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let mut client = gateway.visitor();
    client.initialize().await.result();
    let (outcome, took) = timed(client.request("ping", json!({}))).await;
    assert_eq!(outcome.result(), &json!({}));
    assert!(took < secs(2));
    client.notify("notifications/initialized", json!({})).await;
    assert_eq!(client.request("ping", json!({})).await.result(), &json!({}));
    assert!(alpha.seen("ping").is_empty(), "never forwarded");
}

/// PING-01 F-056: an upstream's ping is answered by the gateway and hidden from clients.
#[tokio::test]
async fn f_056_an_upstreams_ping_is_answered_and_not_shown() {
    let alpha = http_server()
        .call("pinging", async |ask: Exchange| {
            ask.send(r#"{"jsonrpc":"2.0","id":"p-1","method":"ping"}"#).await;
            let answered =
                || ask.peer.received().into_iter().find(|seen| seen.id.as_deref() == Some("\"p-1\""));
            let answer = ask.peer.until("an answer to the ping", answered).await;
            Reply::text(answer.member(&["result"]).unwrap_or("no result"))
        })
        .start();
    let beta = stdio_server()
        .call("pinging", async |ask: Exchange| {
            ask.send(r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#).await;
            let answered = || {
                ask.peer
                    .received()
                    .into_iter()
                    .find(|seen| seen.method.is_none() && seen.id.as_deref() == Some("0"))
            };
            let answer = ask.peer.until("an answer to the ping", answered).await;
            Reply::text(answer.member(&["result"]).unwrap_or("no result"))
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let client = gateway.client().await;
    let stream = client.listen().await;
    for name in ["alpha__pinging", "beta__pinging"] {
        let outcome = client.call(name, json!({})).await;
        assert_eq!(outcome.said(), "{}", "{name}");
        assert!(outcome.heard("ping").is_empty());
    }
    assert!(stream.heard("ping").is_empty());
}
