//! Down is a passing state of one upstream: recover alone, repeat nothing, disturb nobody (F-020..F-024, F-084,
//! F-088, F-100).

use serde_json::json;

use crate::kit::*;

/// F-020: a restart of the upstream is survived by a session that lived on.
#[tokio::test]
async fn f_020_a_restarted_upstream_works_again_by_itself() {
    let (alpha, beta) = (http_server().tool("echo").start(), http_server().tool("echo").start());
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    client.call("beta__echo", json!({})).await.result();

    alpha.stop().await;
    for _ in 0..3 {
        let (outcome, took) = timed(client.call("alpha__echo", json!({}))).await;
        assert_eq!((outcome.status, outcome.code()), (200, -32603), "{outcome:?}");
        assert_eq!(outcome.error()["data"]["upstream"], "alpha");
        assert!(took < secs(3), "the error took {took:?}");
    }
    let (outcome, took) = timed(client.call("beta__echo", json!({}))).await;
    assert!(outcome.is_result() && took < secs(2), "beta: {took:?}");
    assert!(client.tool_names().await.contains(&"beta__echo".into()), "F-022");

    alpha.start_again();
    works_again(&client, "alpha__echo").await;
}

/// F-020 LIFE-22: the error of one call is the error of that call.
#[tokio::test]
async fn f_020_a_timed_out_call_takes_nothing_else_with_it() {
    let alpha = http_server()
        .tool("echo")
        .call("never", async |ask: Exchange| {
            ask.cancelled().await;
            ask.peer.note("cancelled");
            Reply::Hang
        })
        .start();
    let gateway =
        gateway().upstream("alpha", alpha.with(json!({"timeouts": {"callIdle": "500ms"}}))).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    for _ in 0..6 {
        let outcome = client.call("alpha__never", json!({})).await;
        assert_eq!((outcome.status, outcome.code(), outcome.reason()), (200, -32603, "upstream_timeout"));
    }
    client.call("alpha__echo", json!({})).await.result();
    gateway.client().await.call("alpha__echo", json!({})).await.result();
    alpha.wait_for_note("cancelled").await;
    let handshakes = alpha.seen("initialize").len();
    assert!(
        handshakes <= 3,
        "R-14: a caller's timeout is no failure of the upstream, {handshakes} handshakes"
    );
}

async fn works_again(client: &Client, tool: &str) {
    soon(format!("{tool} works again"), async {
        while !client.call(tool, json!({})).await.is_result() {
            pass(ms(100)).await;
        }
    })
    .await;
}

/// F-021 D10, HTTP-35: what may have been done is not done again, and the client is told.
async fn is_not_repeated(act: fn() -> Reply) -> Outcome {
    let alpha = http_server()
        .tool("echo")
        .call("pay", move |ask: Exchange| async move {
            ask.peer.note("paid");
            act()
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let outcome = client.call("alpha__pay", json!({})).await;
    assert_eq!(outcome.status, 200, "{outcome:?}");
    assert!(!outcome.is_result(), "{outcome:?}");
    works_again(&client, "alpha__echo").await;
    pass(ms(700)).await;
    assert_eq!(alpha.notes(), ["paid"]);
    outcome
}

#[tokio::test]
async fn f_021_a_closed_connection_leaves_the_outcome_unknown() {
    let outcome = is_not_repeated(|| Reply::Cut).await;
    assert_eq!((outcome.code(), outcome.reason()), (-32603, "upstream_outcome_unknown"));
}

#[tokio::test]
async fn f_021_a_reset_connection_leaves_the_outcome_unknown() {
    let outcome = is_not_repeated(|| Reply::Reset).await;
    assert_eq!((outcome.code(), outcome.reason()), (-32603, "upstream_outcome_unknown"));
}

#[tokio::test]
async fn f_021_a_broken_stream_leaves_the_outcome_unknown() {
    let outcome =
        is_not_repeated(|| Page::stream().piece(": on my way\n\n").piece(": \n\n").end(End::Cut).into())
            .await;
    assert_eq!((outcome.code(), outcome.reason()), (-32603, "upstream_outcome_unknown"));
}

#[tokio::test]
async fn f_021_a_stream_that_ends_without_the_answer_leaves_the_outcome_unknown() {
    let outcome = is_not_repeated(|| Page::stream().piece(": nothing\n\n").into()).await;
    assert_eq!((outcome.code(), outcome.reason()), (-32603, "upstream_outcome_unknown"));
}

#[tokio::test]
async fn f_021_statuses_of_the_server_are_not_retried() {
    is_not_repeated(|| Reply::status(500)).await;
    is_not_repeated(|| Page::new(503).header("retry-after", "0").into()).await;
}

#[tokio::test]
async fn f_021_an_error_of_the_server_is_not_retried() {
    let outcome = is_not_repeated(|| Reply::error(-32603, "own words")).await;
    assert_eq!(outcome.error(), &json!({"code": -32603, "message": "own words"}));
}

/// F-088 D10: a pooled connection that the upstream closed while idle costs nothing.
#[tokio::test]
async fn f_088_a_connection_closed_while_idle_is_replaced_silently() {
    let alpha = http_server()
        .tool("echo")
        .call("pay", async |ask: Exchange| {
            ask.peer.note(&ask.argument("n").to_string());
            Reply::text("paid")
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    for n in 0..5 {
        alpha.cut_connections();
        alpha.until("no connection is open", || (alpha.open_connections() == 0).then_some(())).await;
        // The close is on its way to the gateway, as it would be after any idle time.
        pass(ms(200)).await;
        assert_eq!(client.call("alpha__pay", json!({"n": n})).await.said(), "paid");
    }
    assert_eq!(alpha.notes(), ["0", "1", "2", "3", "4"]);
}

/// F-088 HTTP-40: connections and sessions are reused.
#[tokio::test]
async fn f_088_many_calls_of_one_session_need_one_handshake_and_few_connections() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let (handshakes, connections) = (alpha.seen("initialize").len(), alpha.connections());
    for n in 0..100 {
        client.call("alpha__echo", json!({"n": n})).await.result();
    }
    assert_eq!(alpha.seen("initialize").len(), handshakes);
    let more = alpha.connections() - connections;
    assert!(more <= 8, "{more} new connections for calls one after another");
}

/// F-023: a stream that always ends is not chased, and calls go on meanwhile.
#[tokio::test]
async fn f_023_a_push_stream_that_always_ends_is_not_chased() {
    let alpha = http_server().tool("echo").start();
    alpha.guard(|seen| (seen.verb == "GET").then(|| Page::stream().piece(": open\n\n").into()));
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let _stream = client.listen().await;
    client.call("alpha__echo", json!({})).await.result();
    let before = alpha.verbs("GET").len();
    pass(secs(3)).await;
    let more = alpha.verbs("GET").len() - before;
    assert!(more <= 30, "{more} GETs in 3 s");
    client.call("alpha__echo", json!({})).await.result();
    assert!(alpha.seen("initialize").len() <= 3);
}

/// F-024 LIFE-26: what was missed while the push channel was down is made up for.
#[tokio::test]
async fn f_024_a_change_during_a_gap_is_noticed_afterwards() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    assert_eq!(client.tool_names().await, ["alpha__echo"]);
    let stream = client.listen().await;
    alpha.wait_for_streams(1).await;
    alpha.guard(|seen| (seen.verb == "GET").then(|| Reply::status(503)));
    alpha.drop_streams();
    alpha.add_tool("missed");
    pass(ms(300)).await;
    alpha.unguard();
    stream.wait_for("notifications/tools/list_changed", 1).await;
    assert_eq!(client.tool_names().await, ["alpha__echo", "alpha__missed"]);
    pass(ms(700)).await;
    assert_eq!(stream.heard("notifications/tools/list_changed").len(), 1, "told once");
}

/// F-100 F-083: an upstream that comes up after the gateway is found without help.
#[tokio::test]
async fn f_100_an_upstream_that_comes_late_is_found() {
    let alpha = http_server().tool("echo").start();
    alpha.stop().await;
    let gateway =
        gateway().upstream("alpha", &alpha).upstream("beta", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    let stream = client.listen().await;
    let (names, took) = timed(client.tool_names()).await;
    assert_eq!(names, ["beta__echo"]);
    assert!(took < secs(5), "the list took {took:?}");
    alpha.start_again();
    stream.wait_for("notifications/tools/list_changed", 1).await;
    assert_eq!(client.tool_names().await, ["alpha__echo", "beta__echo"]);
    client.call("alpha__echo", json!({})).await.result();
}

/// F-084: nothing is opened for upkeep and left open.
#[tokio::test]
async fn f_084_an_idle_gateway_opens_no_further_sessions_and_leaves_none() {
    let alpha = http_server().tool("echo").start();
    let busy = json!({"catalog": {"refresh": "1s"}});
    let mut gateway = gateway().upstream("alpha", &alpha).with(busy).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let (handshakes, open) = (alpha.seen("initialize").len(), alpha.sessions().len());
    pass(secs(3)).await;
    assert_eq!(alpha.seen("initialize").len(), handshakes);
    assert!(alpha.sessions().len() <= open && open <= 2, "{open} sessions at the upstream");
    assert_eq!(gateway.terminate().await.code(), Some(0));
    assert_eq!(alpha.sessions().len(), 0, "a DELETE for each");
}

/// F-022: an upstream that is down fails its own calls at once, on its own endpoint too.
#[tokio::test]
async fn f_022_calls_to_a_dead_upstream_fail_fast_everywhere() {
    let alpha = http_server().tool("echo").start();
    let gateway =
        gateway().upstream("alpha", &alpha).upstream("beta", http_server().tool("echo")).start().await;
    let (merged, own) = (gateway.client().await, gateway.client_of("alpha").await);
    merged.call("alpha__echo", json!({})).await.result();
    own.call("echo", json!({})).await.result();
    alpha.stop().await;
    for (client, name) in [(&merged, "alpha__echo"), (&own, "echo")] {
        let (outcome, took) = timed(client.call(name, json!({}))).await;
        assert_eq!((outcome.code(), outcome.reason()), (-32603, "upstream_unavailable"), "{outcome:?}");
        assert!(took < secs(3), "{took:?}");
        assert!(!outcome.text.contains(&alpha.address().port().to_string()), "RPC-12: no inner address");
    }
    let (names, took) = timed(merged.tool_names()).await;
    assert!(names.contains(&"beta__echo".into()) && took < secs(3), "{names:?} in {took:?}");
}
