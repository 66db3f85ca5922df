//! Calls: progress, cancellation, time limits, and neighbours that do not feel each other (F-059, F-060, F-062, F-063,
//! F-087, PROG, CANC, LIFE-22, R-15).

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::{self, *};

/// Reports progress three times, with the caller's name in it.
async fn in_three_steps(ask: Exchange) -> Reply {
    let who = ask.argument("who").as_str().unwrap_or_default().to_owned();
    for n in 1..=3 {
        if let Some(token) = ask.token() {
            let params = format!(r#"{{"progressToken":{token},"progress":{n},"total":3,"message":"{who}"}}"#);
            ask.send(&kit::text::notification("notifications/progress", &params)).await;
        }
        pass(ms(20)).await;
    }
    Reply::text(who)
}

/// F-059 PROG-04: equal tokens of several callers meet in one upstream session and part again, each in its own form.
async fn keeps_tokens_apart(entry: impl Into<Entry>) {
    let entry = entry.into().with(json!({"isolation": "shared"}));
    let gateway = gateway().upstream("alpha", entry).start().await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(gateway.client().await);
    }
    clients[0].tools().await;
    let tokens = [Some("1"), Some("1"), Some(r#""1""#), None];
    let calls = clients.iter().zip(tokens).enumerate().map(|(n, (client, token))| async move {
        let arguments = json!({"who": format!("c{n}")});
        let outcome = match token {
            Some(token) => client.call_with_token("alpha__work", arguments, token).await,
            None => client.call("alpha__work", arguments).await,
        };
        (n, token, outcome)
    });
    for (n, token, outcome) in futures_util::future::join_all(calls).await {
        assert_eq!(outcome.said(), format!("c{n}"));
        let wanted = if token.is_some() { vec![1, 2, 3] } else { Vec::new() };
        let mut heard = Vec::new();
        for message in &outcome.before {
            assert_eq!(kit::text::member(message, &["params", "progressToken"]), token, "{message}");
            assert_eq!(kit::text::string(message, &["params", "message"]), Some(format!("c{n}")));
            heard.push(kit::text::tree(message)["params"]["progress"].as_i64().unwrap());
        }
        assert_eq!(heard, wanted, "c{n}");
    }
}

#[tokio::test]
async fn f_059_progress_tokens_of_many_callers_over_http() {
    keeps_tokens_apart(http_server().call("work", in_three_steps)).await;
}

#[tokio::test]
async fn f_059_progress_tokens_of_many_callers_over_a_pipe() {
    keeps_tokens_apart(stdio_server().call("work", in_three_steps)).await;
}

/// PROG-02, PROG-05: only progress of an open token, only upwards.
#[tokio::test]
async fn prog_05_stray_and_falling_progress_is_dropped() {
    let alpha = http_server()
        .call("work", async |ask: Exchange| {
            let token = ask.token().unwrap().to_owned();
            for (token, progress) in
                [(token.as_str(), "1"), ("\"stray\"", "5"), (&token, "0.5"), (&token, "1"), (&token, "2.5")]
            {
                let params = format!(r#"{{"progressToken":{token},"progress":{progress}}}"#);
                ask.send(&kit::text::notification("notifications/progress", &params)).await;
            }
            Reply::text("done")
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let outcome = client.call_with_token("alpha__work", json!({}), "9007199254740993").await;
    let heard: Vec<&str> = outcome
        .before
        .iter()
        .map(|message| kit::text::member(message, &["params", "progress"]).unwrap())
        .collect();
    assert_eq!(heard.first(), Some(&"1"));
    assert_eq!(heard.last(), Some(&"2.5"), "the latest is flushed before the answer");
    assert!(!heard.contains(&"0.5") && !heard.contains(&"5"), "{heard:?}");
    let token = kit::text::member(&outcome.before[0], &["params", "progressToken"]);
    assert_eq!(token, Some("9007199254740993"), "RPC-08");
}

/// F-060 R-15, LIFE-23: silence ends a call, progress renews it, and the whole has an end as well.
async fn has_two_limits(entry: impl Into<Entry>) -> Gateway {
    let limits = json!({"timeouts": {"callIdle": "900ms", "call": "3s"}});
    let gateway = gateway().upstream("alpha", entry.into().with(limits)).start().await;
    let client = gateway.client().await;
    client.call("alpha__steps", json!({"count": 0})).await.result();

    let steady = client.call_with_token("alpha__steps", json!({"count": 6}), "1").await;
    assert_eq!(steady.said(), "end", "1.8 s in all, but never silent for 900 ms");

    let (silent, took) = timed(client.call("alpha__silent", json!({}))).await;
    assert_eq!(
        (silent.status, silent.code(), silent.reason()),
        (200, -32603, "upstream_timeout"),
        "{silent:?}"
    );
    assert!(
        silent.text.contains("callIdle") && silent.text.contains("alpha"),
        "F-060: limit and upstream named"
    );
    assert!(took >= ms(850) && took < secs(3), "{took:?}");

    let (endless, took) = timed(client.call_with_token("alpha__steps", json!({"count": 1000}), "2")).await;
    assert_eq!((endless.code(), endless.reason()), (-32603, "upstream_timeout"), "{endless:?}");
    assert!(took >= ms(2900) && took < secs(6), "{took:?}");
    assert!(client.request("ping", json!({})).await.is_result(), "the session is whole");
    gateway
}

async fn steps(ask: Exchange) -> Reply {
    for n in 0..ask.argument("count").as_i64().unwrap() {
        tokio::select! {
            () = ask.cancelled() => {
                ask.peer.note("cancelled");
                return Reply::Done;
            }
            () = pass(ms(300)) => ask.progress(n + 1, 1000).await,
        }
    }
    Reply::text("end")
}

async fn silent(ask: Exchange) -> Reply {
    ask.cancelled().await;
    ask.peer.note("cancelled");
    Reply::Hang
}

#[tokio::test]
async fn f_060_idle_and_total_limits_over_http() {
    let alpha = http_server().call("steps", steps).call("silent", silent).start();
    let _gateway = has_two_limits(&alpha).await;
    // LIFE-22: each expiry cancels upstream.
    alpha.until("two cancellations", || (alpha.notes() == ["cancelled", "cancelled"]).then_some(())).await;
}

#[tokio::test]
async fn f_060_idle_and_total_limits_over_a_pipe() {
    let alpha = stdio_server().call("steps", steps).call("silent", silent).start();
    let _gateway = has_two_limits(&alpha).await;
    alpha.until("two cancellations", || (alpha.notes() == ["cancelled", "cancelled"]).then_some(())).await;
}

/// F-060 R-15: a tool may have limits of its own.
#[tokio::test]
async fn f_060_a_tool_has_its_own_limits() {
    let alpha = http_server().call("silent", silent).call("slow", async |_: Exchange| {
        pass(ms(1200)).await;
        Reply::text("done")
    });
    let alpha = alpha.start();
    let limits = json!({"timeouts": {"callIdle": "400ms"}, "toolTimeouts": {"slow": {"callIdle": "10s"}}});
    let gateway = gateway().upstream("alpha", alpha.with(limits)).start().await;
    let client = gateway.client().await;
    client.tools().await;
    assert_eq!(client.call("alpha__slow", json!({})).await.said(), "done");
    assert_eq!(client.call("alpha__silent", json!({})).await.reason(), "upstream_timeout");
}

/// F-062 CANC-03: an answer at the very moment of the limit makes one response, never two, never none.
#[tokio::test]
async fn f_062_answers_at_the_limit_are_given_once() {
    let late = async |ask: Exchange| {
        let spread = ask.argument("n").as_u64().unwrap() % 20;
        pass(ms(390 + spread)).await;
        Reply::text("just in time")
    };
    let alpha = http_server().tool("echo").call("late", late);
    let beta = stdio_server().tool("echo").call("late", late);
    let limits = json!({"timeouts": {"callIdle": "400ms"}, "isolation": "shared"});
    let plan = gateway().upstream("alpha", Entry::from(alpha).with(limits.clone()));
    let gateway = plan.upstream("beta", Entry::from(beta).with(limits)).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let calls = (0..80).map(|n| {
        let (client, name) = (&client, if n % 2 == 0 { "alpha__late" } else { "beta__late" });
        // `Outcome` itself shows that nothing follows the answer.
        async move { client.call(name, json!({"n": n})).await }
    });
    for outcome in futures_util::future::join_all(calls).await {
        assert!(outcome.is_result() || outcome.reason() == "upstream_timeout", "{outcome:?}");
    }
    for name in ["alpha__echo", "beta__echo"] {
        client.call(name, json!({})).await.result();
    }
}

/// CANC-01, CANC-07: a cancellation reaches the owner with the owner's id, and nobody else.
async fn cancels_exactly(alpha: &kit::stdio_server::StdioServer, beta: &kit::http_server::HttpServer) {
    /// Were it written as it is, it would end the text and call a tool.
    const REASON: &str = r#"be"cause\"},"id":9,"method":"tools/call","params":{"name":"wait"#;
    let plan = gateway().upstream("alpha", alpha.with(json!({"isolation": "shared"})));
    let gateway = plan.upstream("beta", beta).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    one.tools().await;
    let (at_alpha, at_beta) = (r#"{"name":"alpha__wait"}"#, r#"{"name":"beta__wait"}"#);
    let first = one.post(&kit::text::request(r#""a""#, "tools/call", at_alpha)).send();
    let second = two.request_text(r#""a""#, "tools/call", at_alpha);
    let third = one.request_text("2", "tools/call", at_beta);
    let cancelling = async {
        alpha.wait_for("tools/call", 2).await;
        beta.wait_for("tools/call", 1).await;
        one.notify("notifications/cancelled", json!({"requestId": "nobody's"})).await;
        one.notify("notifications/cancelled", json!({"requestId": 1})).await;
        one.notify("notifications/cancelled", json!({})).await;
        one.notify("notifications/cancelled", json!({"requestId": "a", "reason": REASON})).await;
        let notice = alpha.wait_for("notifications/cancelled", 1).await.remove(0);
        alpha.release();
        beta.release();
        notice
    };
    let (mut first, second, third, notice) = tokio::join!(first, second, third, cancelling);
    assert_eq!((second.said(), third.said()), ("released", "released"));
    assert!(!first.text().await.contains("\"result\""), "HTTP-12");
    let calls = alpha.seen("tools/call");
    let id = notice.member(&["params", "requestId"]).map(String::from);
    assert!(calls.iter().any(|call| call.id == id), "{id:?}");
    assert_eq!(notice.params()["reason"], REASON, "the words and nothing but the words");
    assert_eq!(alpha.seen("notifications/cancelled").len(), 1);
    assert!(beta.seen("notifications/cancelled").is_empty());
}

#[tokio::test]
async fn canc_01_a_cancellation_reaches_its_call_and_no_other() {
    let wait = async |ask: Exchange| {
        tokio::select! {
            () = ask.cancelled() => Reply::Done,
            () = ask.released() => Reply::text("released"),
        }
    };
    let alpha = stdio_server().call("wait", wait).start();
    let beta = http_server().call("wait", wait).start();
    cancels_exactly(&alpha, &beta).await;
}

/// An upstream that is not waited for long.
fn impatient(entry: Value) -> Entry {
    Entry::from(entry).with(json!({"timeouts": {"handshake": "2s"}}))
}

/// F-063 LIFE-17 D10: dead, silent and refusing neighbours are reported, not felt.
#[tokio::test]
async fn f_063_bad_neighbours_delay_neither_handshake_nor_lists() {
    let (silent, refusing) = (Silent::new(), Refusing::new());
    let hanging = http_server().on("initialize", async |_: Exchange| Reply::Hang);
    let plan =
        gateway().upstream("alpha", http_server().tool("echo")).upstream("silent", impatient(silent.entry()));
    let plan = plan.upstream("refusing", refusing.entry()).upstream("hanging", hanging);
    let gateway = plan.with(json!({"catalog": {"startBudget": "1s"}})).start_at_once().await;
    let (client, took) = timed(gateway.client()).await;
    assert!(took < secs(2), "initialize took {took:?}");
    let (names, took) = timed(client.tool_names()).await;
    assert_eq!(names, ["alpha__echo"]);
    assert!(took < secs(3), "tools/list took {took:?}");
    let (_, took) = timed(client.tool_names()).await;
    assert!(took < secs(1), "the second tools/list took {took:?}");
    client.call("alpha__echo", json!({})).await.result();
    for name in ["refusing", "silent"] {
        let own = gateway.client_of(name).await;
        let (outcome, took) = timed(own.request("tools/list", json!({}))).await;
        assert_eq!((outcome.status, outcome.code()), (200, -32603), "{name}: an error, not an empty list");
        assert!(took < secs(5), "{name}: {took:?}");
    }
}

/// F-087 PROG-04: many calls at once all get their own answers.
async fn carries_a_burst(entry: impl Into<Entry>) {
    let gateway = gateway().upstream("alpha", entry).start().await;
    let client = gateway.client().await.patience(secs(60));
    client.call("alpha__echo", json!({})).await.result();
    let calls = (0..300).map(|n| {
        let client = &client;
        async move { (n, client.call("alpha__echo", json!({"n": n})).await) }
    });
    for (n, outcome) in futures_util::future::join_all(calls).await {
        assert_eq!(outcome.result()["structuredContent"], json!({"n": n}));
    }
}

#[tokio::test]
async fn f_087_a_burst_of_calls_over_http() {
    carries_a_burst(http_server().tool("echo")).await;
}

#[tokio::test]
async fn f_087_a_burst_of_calls_over_a_pipe() {
    carries_a_burst(stdio_server().tool("echo")).await;
}

/// F-087 D11: a client that does not read delays itself, and costs bounded memory.
#[tokio::test]
async fn f_087_a_client_that_does_not_read_delays_nobody() {
    let alpha = http_server().tool("echo").call("big", async |_: Exchange| Reply::text("x".repeat(8 << 20)));
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let (lazy, brisk) = (gateway.client().await, gateway.client().await);
    lazy.tools().await;
    brisk.call("alpha__echo", json!({})).await.result();
    let before = kit::process::resident(gateway.pid());
    let mut unread = Vec::new();
    // Ids of their own: while an answer is being sent, its call is in flight, and the id in use.
    for id in ["100", "101", "102", "103"] {
        unread.push(lazy.begin(id, "tools/call", json!({"name": "alpha__big"})).await);
    }
    for n in 0..20 {
        let (outcome, took) = timed(brisk.call("alpha__echo", json!({"n": n}))).await;
        assert!(outcome.is_result() && took < secs(2), "{took:?}");
    }
    let grown = kit::process::resident(gateway.pid()).saturating_sub(before);
    assert!(grown < 96 << 20, "the gateway grew by {grown} bytes");
    drop(unread);
    assert!(lazy.request("ping", json!({})).await.is_result());
}

/// R-15 LIFE-22: reads and prompts have a limit of their own; a timeout there is a JSON-RPC error too.
#[tokio::test]
async fn r_15_reads_and_prompts_have_their_own_limit() {
    let alpha = http_server()
        .resource(json!({"uri": "a://1", "name": "r"}))
        .prompt(json!({"name": "p"}))
        .on("resources/read", async |_: Exchange| Reply::Hang)
        .on("prompts/get", async |_: Exchange| Reply::Hang)
        .start();
    let gateway =
        gateway().upstream("alpha", alpha.with(json!({"timeouts": {"read": "400ms"}}))).start().await;
    let client = gateway.client().await;
    client.list("resources/list", "resources").await;
    for (method, params) in
        [("resources/read", json!({"uri": "alpha+a://1"})), ("prompts/get", json!({"name": "alpha__p"}))]
    {
        let (outcome, took) = timed(client.request(method, params)).await;
        assert_eq!(
            (outcome.status, outcome.code(), outcome.reason()),
            (200, -32603, "upstream_timeout"),
            "{method}"
        );
        assert!(took < secs(3), "{method}: {took:?}");
    }
}

/// R-14 OPS-04: an upstream that fails again and again fails fast, is tried again, and comes back.
#[tokio::test]
async fn r_14_a_failing_upstream_is_left_alone_and_tried_again() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    alpha.guard(|seen| (seen.method.as_deref() == Some("tools/call")).then(|| Reply::status(503)));
    let before = alpha.seen("tools/call").len();
    for _ in 0..60 {
        let outcome = client.call("alpha__echo", json!({})).await;
        assert_eq!((outcome.status, outcome.code(), outcome.reason()), (200, -32603, "upstream_unavailable"));
    }
    let reached = alpha.seen("tools/call").len() - before;
    assert!((1..60).contains(&reached), "{reached} of 60 calls reached a failing upstream");
    alpha.unguard();
    within(secs(40), "the breaker closes again", async {
        while !client.call("alpha__echo", json!({})).await.is_result() {
            pass(ms(200)).await;
        }
    })
    .await;
}

/// R-14: tool errors are no failures of the upstream.
#[tokio::test]
async fn r_14_errors_of_tools_open_no_breaker() {
    let alpha = http_server()
        .tool("echo")
        .call("wrong", async |_: Exchange| Reply::error(-32603, "own words"))
        .call("failing", async |_: Exchange| json!({"content": [], "isError": true}))
        .call("missing", async |_: Exchange| Reply::status(422))
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    for n in 0..60 {
        let name = ["alpha__wrong", "alpha__failing", "alpha__missing"][n % 3];
        let outcome: Value = client.call(name, json!({})).await.tree;
        assert!(outcome["result"].is_object() || outcome["error"].is_object());
    }
    assert_eq!(alpha.seen("tools/call").len(), 60);
    client.call("alpha__echo", json!({})).await.result();
}

/// D12: the work-stealing run time serves the same, and ends in order.
#[tokio::test]
async fn d_12_the_shared_run_time_serves_many_sessions_alike() {
    let (alpha, beta) = (http_server().tool("echo").start(), stdio_server().tool("echo").start());
    let plan = gateway().with(json!({"runtime": "shared"})).upstream("alpha", &alpha);
    let mut gateway = plan.upstream("beta", beta.with(json!({"isolation": "shared"}))).start().await;
    let sessions = futures_util::future::join_all((0..8).map(|_| gateway.client())).await;
    let calls = sessions.iter().flat_map(|client| {
        ["alpha__echo", "beta__echo"].map(|name| async move {
            for n in 0..10 {
                client.call(name, json!({"n": n})).await.result();
            }
        })
    });
    futures_util::future::join_all(calls).await;
    gateway.signal(Signal::TERM);
    assert!(gateway.exit(SOON).await.success());
    beta.wait_until_empty().await;
}
