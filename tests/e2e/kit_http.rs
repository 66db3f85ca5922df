//! The kit itself: raw client against scripted HTTP server, with no gateway between.

use serde_json::json;

use crate::kit::http_server::HttpServer;
use crate::kit::{self, *};

fn client_of(server: &HttpServer) -> Client {
    Client::new(server.address(), "/mcp")
}

#[tokio::test]
async fn a_session_is_made_used_and_ended() {
    let alpha = http_server().named("alpha").tool("echo").start();
    let client = client_of(&alpha).connect().await;
    assert_eq!(client.tool_names().await, ["echo"]);
    assert_eq!(client.hello["serverInfo"]["name"], "alpha");

    let outcome = client.call("echo", json!({"a": 1})).await;
    assert_eq!(outcome.result()["structuredContent"], json!({"a": 1}));
    assert!(!outcome.streamed);
    assert_eq!(alpha.sessions().len(), 1);

    assert_eq!(client.delete().send().await.status, 200);
    assert_eq!(alpha.ended(), [client.session.clone().unwrap()]);
    let refused = client.post(&kit::text::request("9", "ping", "{}")).send().await;
    assert_eq!(refused.status, 404);
}

#[tokio::test]
async fn arguments_and_results_keep_their_bytes() {
    let raw = r#"{"z":9007199254740993,"a":[1.0,1e400,-0],"m":{"y":1,"b":"\u0000 \ud800"}}"#;
    let alpha = http_server().tool("echo").start();
    let client = client_of(&alpha).connect().await;
    let outcome = client.call_text("echo", raw).await;
    assert_eq!(alpha.seen("tools/call")[0].arguments(), raw);
    assert_eq!(outcome.member(&["structuredContent"]), raw);
}

#[tokio::test]
async fn what_precedes_the_answer_comes_first() {
    let alpha = http_server()
        .call("work", async |ask: Exchange| {
            ask.progress(1, 2).await;
            ask.notify("notifications/message", json!({"level": "info", "data": "x"})).await;
            Reply::text("done")
        })
        .start();
    let client = client_of(&alpha).connect().await;
    let outcome = client.call_with_token("work", json!({}), r#""t""#).await;
    assert!(outcome.streamed);
    assert_eq!(outcome.said(), "done");
    assert_eq!(outcome.heard("notifications/progress")[0]["params"]["progressToken"], "t");
    assert_eq!(outcome.before.len(), 2);
}

#[tokio::test]
async fn pushes_reach_the_stream_and_only_it() {
    let alpha = http_server().tool("echo").start();
    let client = client_of(&alpha).connect().await;
    let stream = client.listen().await;
    alpha.wait_for_streams(1).await;
    assert_eq!(alpha.push("notifications/tools/list_changed", json!({})), 1);
    stream.wait_for("notifications/tools/list_changed", 1).await;
    alpha.drop_streams();
    stream.wait_for_end().await;
}

#[tokio::test]
async fn a_cancellation_reaches_its_handler() {
    let alpha = http_server()
        .call("wait", async |ask: Exchange| {
            ask.cancelled().await;
            Reply::text("cancelled")
        })
        .start();
    let client = client_of(&alpha).connect().await;
    let waiting = client.request_text("7", "tools/call", r#"{"name":"wait"}"#);
    let cancelling = async {
        alpha.wait_for("tools/call", 1).await;
        client.notify("notifications/cancelled", json!({"requestId": 7})).await
    };
    let (outcome, status) = tokio::join!(waiting, cancelling);
    assert_eq!((outcome.said(), status), ("cancelled", 202));
}

#[tokio::test]
async fn a_handler_sees_its_client_leave() {
    let alpha = http_server()
        .call("wait", async |ask: Exchange| {
            ask.progress(0, 1).await;
            ask.gone().await;
            ask.peer.add_tool("it-left");
            Reply::Done
        })
        .start();
    let client = client_of(&alpha).connect().await;
    let params = kit::text::tree(&progressing("wait", &json!({}), "1"));
    let mut answer = client.begin("1", "tools/call", params).await;
    assert!(answer.message().await.is_some());
    answer.reset();
    client.tools_until("the handler saw it", |names| names.contains(&"it-left".into())).await;
}

#[tokio::test]
async fn bad_ends_are_what_they_say() {
    let alpha = http_server()
        .call("cut", async |_: Exchange| Reply::Cut)
        .call("reset", async |_: Exchange| Reply::Reset)
        .call("garbage", async |_: Exchange| Reply::Bytes("HTTP/1.1 abc\r\n\r\n".into()))
        .call("half", async |_: Exchange| {
            Page::json("{\"jsonrpc\":").header("content-length", "100").end(End::Cut)
        })
        .call("stall", async |_: Exchange| Page::json("{").piece("\"").end(End::Hang))
        .call("late", async |ask: Exchange| {
            ask.answer(said("early")).await;
            Reply::Hang
        })
        .start();
    let client = client_of(&alpha).connect().await;
    let ask =
        |name: &str| client.post(&kit::text::request("1", "tools/call", &format!(r#"{{"name":"{name}"}}"#)));
    for name in ["cut", "reset", "garbage"] {
        assert!(ask(name).try_send().await.is_err(), "{name}");
    }
    let mut half = ask("half").send().await;
    let mut outcome = half.piece().await;
    while let Ok(Some(_)) = outcome {
        outcome = half.piece().await;
    }
    assert!(outcome.is_err(), "a body cut is no body");

    let mut stall = ask("stall").send().await;
    assert!(still_waiting(ms(200), async { while let Ok(Some(_)) = stall.piece().await {} }).await);

    let mut late = ask("late").send().await;
    assert!(late.message().await.unwrap().contains("early"));
    assert!(still_waiting(ms(200), late.event()).await);
    assert_eq!(alpha.seen("tools/call").len(), 6);
}

#[tokio::test]
async fn a_trickle_comes_byte_by_byte_and_a_flood_does_not_end() {
    let message = kit::text::response("1", r#"{"content":[]}"#);
    let event = kit::text::event(&message);
    let alpha = http_server()
        .call("trickle", move |_| {
            let page = Page::stream().trickle(event.as_bytes());
            async { page }
        })
        .call("flood", async |_: Exchange| Page::stream().end(End::Flood(": noise\n\n".into())))
        .start();
    let client = client_of(&alpha).connect().await;
    let mut trickle = client.begin("1", "tools/call", json!({"name": "trickle"})).await;
    assert_eq!(trickle.message().await.unwrap(), message);
    let mut flood = client.begin("1", "tools/call", json!({"name": "flood"})).await;
    for _ in 0..200 {
        assert_eq!(flood.event().await.unwrap().comments, ["noise"]);
    }
}

#[tokio::test]
async fn a_stopped_server_refuses_and_comes_back_on_its_port() {
    let alpha = http_server().tool("echo").start();
    let client = client_of(&alpha).connect().await;
    alpha.stop().await;
    let why = client.post(&client.greeting()).try_send().await.err().unwrap();
    assert!(why.contains("refused"), "{why}");
    alpha.start_again();
    assert_eq!(client.call("echo", json!({})).await.status, 200);
    alpha.forget();
    let id = client.next_id().to_string();
    assert_eq!(client.post(&kit::text::request(&id, "ping", "{}")).send().await.status, 404);
}

#[tokio::test]
async fn guards_and_settings_change_how_http_is_spoken() {
    let alpha = http_server().without_sessions().without_stream().with_events().tool("echo").start();
    let client = client_of(&alpha).connect().await;
    assert_eq!(client.session, None);
    assert_eq!(client.get().send().await.status, 405);
    assert!(client.call("echo", json!({})).await.streamed);

    alpha.guard(|seen| (seen.verb == "POST").then(|| Page::new(307).header("location", "/other").into()));
    let moved = client.post("{}").send().await;
    assert_eq!((moved.status, moved.header("location")), (307, Some("/other")));
    alpha.unguard();
    assert_eq!(client.call("echo", json!({})).await.status, 200);
}

#[tokio::test]
async fn connections_are_counted_and_can_be_cut() {
    let alpha = http_server().tool("echo").start();
    let client = client_of(&alpha).connect().await;
    let stream = client.listen().await;
    assert_eq!(alpha.connections(), 3);
    alpha.until("the idle connections are closed", || (alpha.open_connections() == 1).then_some(())).await;
    drop(stream);
    alpha.until("the stream's connection is closed", || (alpha.open_connections() == 0).then_some(())).await;
}

#[tokio::test]
async fn ports_that_refuse_and_ports_that_say_nothing() {
    let refusing = Refusing::new();
    let silent = Silent::new();
    let address = |entry: serde_json::Value| {
        let url = entry["url"].as_str().unwrap().to_owned();
        url.trim_start_matches("http://").trim_end_matches("/mcp").parse().unwrap()
    };
    let refused = Client::new(address(refusing.entry()), "/mcp").post("{}").try_send().await;
    assert!(refused.err().unwrap().contains("refused"));
    let letter = Client::new(address(silent.entry()), "/mcp").post("{}");
    assert!(still_waiting(ms(200), letter.try_send()).await);
}

#[tokio::test]
async fn lists_are_read_by_their_cursors() {
    let alpha = http_server()
        .on("tools/list", async |ask: Exchange| match ask.params()["cursor"].as_str() {
            None => json!({"tools": [tool("one")], "nextCursor": ""}),
            Some(_) => json!({"tools": [tool("two")]}),
        })
        .start();
    let client = client_of(&alpha).connect().await;
    assert_eq!(client.tool_names().await, ["one", "two"]);
}

#[tokio::test]
async fn http2_is_spoken_when_asked_for() {
    // The scripted server does not speak it: the attempt itself is what shows.
    let alpha = http_server().start();
    let letter = client_of(&alpha).post("{}").over_http2();
    assert!(letter.try_send().await.is_err());
    assert!(alpha.received().is_empty());
}

#[tokio::test]
async fn a_metrics_page_is_read_as_a_table() {
    let page = "# HELP x y\nx_total{a=\"1\",b=\"two, 3\"} 4\nx_total{a=\"2\"} 5\nup 1\n";
    let metrics = kit::metrics::Metrics::read(page);
    assert_eq!(metrics.sum("x_total", &[]), 9.0);
    assert_eq!(metrics.sum("x_total", &[("b", "two, 3")]), 4.0);
    assert_eq!(metrics.values("x_total", "a"), ["1", "2"]);
    assert_eq!(metrics.sum("up", &[]), 1.0);
}
