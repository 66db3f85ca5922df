//! The operator's view: probes, metrics, and an end in order (F-098..F-102, OPS-05..OPS-08, R-24, R-26, R-33).

use rustix::process::Signal;
use serde_json::json;

use crate::kit::{self, *};

/// F-099 R-26, R-33: alive and ready are about the gateway, cost nothing, and need no credential.
#[tokio::test]
async fn f_099_probes_speak_of_the_gateway_alone() {
    let refusing = Refusing::new();
    let alpha = http_server().tool("echo").start();
    let plan = gateway().upstream("gone", refusing.entry()).upstream("alpha", &alpha);
    let gateway = plan.start().await;
    soon("the first tries are over", async {
        while gateway.operator("/readyz").await.0 != 200 {
            pass(ms(50)).await;
        }
    })
    .await;
    let before = alpha.received().len();
    for _ in 0..50 {
        assert_eq!(gateway.operator("/livez").await.0, 200);
        assert_eq!(
            gateway.operator("/readyz").await.0,
            200,
            "an upstream that is down is reported, not felt"
        );
    }
    assert_eq!(alpha.received().len(), before);
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("portcullis_sessions", &[]), 0.0, "probes make no sessions");
    assert_eq!(metrics.sum("portcullis_upstream_state", &[("upstream", "alpha"), ("state", "ready")]), 1.0);
    assert_eq!(metrics.sum("portcullis_upstream_state", &[("upstream", "gone"), ("state", "ready")]), 0.0);
    assert_eq!(gateway.operator("/mcp").await.0, 404, "clients do not belong there");
}

/// R-33: an upstream may be marked as required.
#[tokio::test]
async fn r_33_a_required_upstream_decides_readiness() {
    let alpha = http_server().tool("echo").start();
    alpha.stop().await;
    let gateway = gateway().upstream("alpha", alpha.with(json!({"required": true}))).start_at_once().await;
    pass(ms(500)).await;
    assert_eq!(gateway.operator("/readyz").await.0, 503);
    assert_eq!(gateway.operator("/livez").await.0, 200);
    alpha.start_again();
    soon("ready with its upstream", async {
        while gateway.operator("/readyz").await.0 != 200 {
            pass(ms(50)).await;
        }
    })
    .await;
}

/// F-083 F-099: not ready until each upstream had its first try or its time.
#[tokio::test]
async fn f_083_readiness_waits_for_the_first_tries() {
    let alpha = stdio_server().tool("echo").on("initialize", async |ask: Exchange| {
        ask.released().await;
        ask.hello()
    });
    let alpha = alpha.start();
    let gateway = gateway()
        .upstream("alpha", &alpha)
        .with(json!({"catalog": {"startBudget": "2s"}}))
        .start_at_once()
        .await;
    assert_eq!(gateway.operator("/readyz").await.0, 503);
    assert_eq!(gateway.operator("/livez").await.0, 200);
    let client = gateway.client().await;
    let listing = client.tool_names();
    let releasing = async {
        alpha.wait_for("initialize", 1).await;
        alpha.release();
    };
    let (names, ()) = tokio::join!(listing, releasing);
    assert_eq!(names, ["alpha__echo"], "the first list waits a little");
    soon("ready", async {
        while gateway.operator("/readyz").await.0 != 200 {
            pass(ms(50)).await;
        }
    })
    .await;
}

/// F-102 OPS-05: calls are counted by what the client was answered.
#[tokio::test]
async fn f_102_each_outcome_is_counted_as_what_it_was() {
    let alpha = http_server()
        .tool("ok")
        .call("failing", async |_: Exchange| json!({"content": [], "isError": true}))
        .call("refusing", async |_: Exchange| Reply::error(-32602, "no"))
        .call("never", async |_: Exchange| Reply::Hang)
        .call("waiting", async |ask: Exchange| {
            ask.progress(0, 1).await;
            ask.cancelled().await;
            Reply::Done
        })
        .call("cut", async |_: Exchange| Reply::Cut)
        .start();
    let slow = json!({"toolTimeouts": {"never": {"callIdle": "300ms"}}});
    let gateway = gateway().upstream("alpha", alpha.with(slow)).start().await;
    let client = gateway.client().await;
    client.tools().await;
    for name in ["ok", "failing", "refusing", "never", "cut"] {
        client.call(&format!("alpha__{name}"), json!({})).await;
    }
    let params = kit::text::tree(&progressing("alpha__waiting", &json!({}), "1"));
    let mut answer = client.begin("77", "tools/call", params).await;
    answer.message().await.unwrap();
    client.notify("notifications/cancelled", json!({"requestId": 77})).await;
    assert_eq!(answer.message().await, None);

    let wanted = ["ok", "tool_error", "rpc_error", "timeout", "upstream_down", "cancelled"];
    let count = |metrics: &kit::metrics::Metrics, outcome: &str| {
        let labels = [("upstream", "alpha"), ("method", "tools/call"), ("outcome", outcome)];
        metrics.sum("portcullis_calls_total", &labels)
    };
    let metrics = gateway
        .metrics_until("every outcome once", |metrics| {
            wanted.iter().all(|outcome| count(metrics, outcome) >= 1.0)
        })
        .await;
    for outcome in wanted {
        assert_eq!(count(&metrics, outcome), 1.0, "{outcome}");
    }
    let measured = metrics.sum("portcullis_call_duration_seconds_count", &[("method", "tools/call")]);
    assert_eq!(measured, 6.0);
    gateway
        .metrics_until("nothing is in flight", |metrics| {
            metrics.sum("portcullis_calls_in_flight", &[]) == 0.0
        })
        .await;
}

/// F-101 OPS-06: nothing that peers send becomes a label.
#[tokio::test]
async fn f_101_the_number_of_series_does_not_grow_with_what_peers_send() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let provoke = async |n: u32| {
        client.call(&format!("alpha__unknown{n}"), json!({})).await;
        client.request(&format!("x/{n}"), json!({})).await;
        client.request("resources/read", json!({"uri": format!("alpha+a://{n}")})).await;
        client.post("{}").path(&format!("/mcp/p{n}")).send().await;
        client.post("{}").header("mcp-session-id", format!("s{n}")).send().await;
    };
    provoke(0).await;
    let before = gateway.metrics().await.series.len();
    for n in 1..100 {
        provoke(n).await;
    }
    let metrics = gateway.metrics().await;
    assert!(metrics.series.len() <= before + 4, "{before} series became {}", metrics.series.len());
    assert!(metrics.bytes < 200_000);
    for series in &metrics.series {
        assert!(series.name.starts_with("portcullis_"), "R-24: {}", series.name);
    }
    assert_eq!(metrics.values("portcullis_calls_total", "upstream"), ["-", "alpha"]);
}

/// OPS-05: sessions, streams and bytes are counted, and the gauges come back down.
#[tokio::test]
async fn ops_05_sessions_and_streams_are_gauged() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    one.call("alpha__echo", json!({})).await.result();
    let stream = one.listen().await;
    let metrics = gateway.metrics().await;
    assert_eq!(metrics.sum("portcullis_sessions", &[]), 2.0);
    assert_eq!(metrics.sum("portcullis_client_streams", &[("stream", "standalone")]), 1.0);
    for direction in ["in", "out"] {
        assert!(metrics.sum("portcullis_client_bytes_total", &[("direction", direction)]) > 0.0);
        assert!(
            metrics
                .sum("portcullis_upstream_bytes_total", &[("upstream", "alpha"), ("direction", direction)])
                > 0.0
        );
    }
    drop(stream);
    one.delete().send().await;
    two.delete().send().await;
    let all_down = |metrics: &kit::metrics::Metrics| {
        metrics.sum("portcullis_sessions", &[]) == 0.0 && metrics.sum("portcullis_client_streams", &[]) == 0.0
    };
    gateway.metrics_until("the gauges are down", all_down).await;
}

/// F-098: not ready at once, streams end, calls finish, sessions and children end, exit code 0.
#[tokio::test]
async fn f_098_sigterm_drains_in_order() {
    let alpha = http_server()
        .call("slow", async |ask: Exchange| {
            ask.released().await;
            Reply::text("end")
        })
        .start();
    let child = stdio_server().tool("echo").start();
    let drain = json!({"drain": {"grace": "20s"}});
    let mut gateway = gateway().upstream("alpha", &alpha).upstream("child", &child).with(drain).start().await;
    let client = gateway.client().await;
    client.tools().await;
    client.call("child__echo", json!({})).await.result();
    let streams = (client.listen().await, gateway.client().await.listen().await);
    let running = client.call("alpha__slow", json!({}));
    let ending = async {
        alpha.wait_for("tools/call", 1).await;
        gateway.signal(Signal::TERM);
        let ((), took) = timed(streams.0.wait_for_end()).await;
        assert!(took < secs(5), "an idle stream took {took:?} to end");
        streams.1.wait_for_end().await;
        let visitor = gateway.visitor();
        match visitor.post(&visitor.greeting()).try_send().await {
            Ok(answer) => {
                assert_eq!(answer.status, 503, "no new session while draining");
                assert!(answer.header("retry-after").is_some());
            }
            // The listener may be closed already.
            Err(_closed) => {}
        }
        alpha.release();
    };
    let (outcome, ()) = tokio::join!(running, ending);
    assert_eq!(outcome.said(), "end");
    let (status, took) = timed(gateway.exit(secs(15))).await;
    assert_eq!(status.code(), Some(0));
    assert!(took < secs(12), "{took:?} after the last call");
    child.wait_until_empty().await;
    alpha.until("every upstream session is ended", || alpha.sessions().is_empty().then_some(())).await;
}

/// F-098: what does not finish within the grace is cancelled and told so.
#[tokio::test]
async fn f_098_a_call_beyond_the_grace_gets_an_error() {
    let alpha = http_server()
        .call("endless", async |ask: Exchange| {
            ask.cancelled().await;
            ask.peer.note("cancelled");
            Reply::Hang
        })
        .start();
    let plan = gateway().upstream("alpha", &alpha).with(json!({"drain": {"grace": "1s"}}));
    let mut gateway = plan.start().await;
    let client = gateway.client().await;
    client.tools().await;
    let running = client.call("alpha__endless", json!({}));
    let ending = async {
        alpha.wait_for("tools/call", 1).await;
        gateway.signal(Signal::TERM);
    };
    let ((outcome, ()), took) = timed(async { tokio::join!(running, ending) }).await;
    assert!(outcome.error()["code"].is_i64(), "{outcome:?}");
    assert!(took >= ms(900) && took < secs(5), "{took:?}");
    assert_eq!(gateway.exit(secs(10)).await.code(), Some(0));
    alpha.wait_for_note("cancelled").await;
}

/// F-098: readiness goes first, for as long as the configured delay, while everything is still served.
#[tokio::test]
async fn f_098_readiness_goes_before_service_does() {
    let plan = gateway().upstream("alpha", http_server().tool("echo"));
    let mut gateway = plan.with(json!({"drain": {"delay": "1500ms", "grace": "1s"}})).start().await;
    let client = gateway.client().await;
    client.tools().await;
    gateway.signal(Signal::TERM);
    soon("not ready", async {
        while gateway.operator("/readyz").await.0 != 503 {
            pass(ms(20)).await;
        }
    })
    .await;
    assert_eq!(gateway.operator("/livez").await.0, 200);
    client.call("alpha__echo", json!({})).await.result();
    gateway.client().await;
    assert_eq!(gateway.exit(secs(15)).await.code(), Some(0));
}

/// F-098: a second signal is a wish to go now.
#[tokio::test]
async fn f_098_a_second_signal_ends_at_once() {
    let alpha = http_server().call("endless", async |_: Exchange| Reply::Hang).start();
    let child = stdio_server().tool("echo").start();
    let plan = gateway().upstream("alpha", &alpha).upstream("child", &child);
    let mut gateway = plan.with(json!({"drain": {"grace": "60s"}})).start().await;
    let client = gateway.client().await;
    client.call("child__echo", json!({})).await.result();
    let call = kit::text::request("1", "tools/call", r#"{"name":"alpha__endless"}"#);
    let mut held = client.post(&call).send().await;
    gateway.signal(Signal::TERM);
    gateway.logged("it drains", |line| line.to_lowercase().contains("drain")).await;
    gateway.signal(Signal::TERM);
    let (_, took) = timed(gateway.exit(secs(15))).await;
    assert!(took < secs(10), "{took:?}");
    child.wait_until_empty().await;
    while let Ok(Some(_)) = held.piece().await {}
}

/// F-100: an empty configuration and unreachable upstreams are no reason not to start.
#[tokio::test]
async fn f_100_the_gateway_starts_with_nothing_reachable() {
    let refusing = Refusing::new();
    let mut gateway = gateway().upstream("gone", refusing.entry()).start().await;
    let client = gateway.client().await;
    let listed = client.request("tools/list", json!({})).await;
    assert_eq!((listed.status, listed.code()), (200, -32603), "F-063: an error, not an empty list");
    assert_eq!(gateway.terminate().await.code(), Some(0));
}

/// SIGINT is as good as SIGTERM.
#[tokio::test]
async fn f_098_sigint_drains_too() {
    let mut gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    gateway.client().await.tools().await;
    gateway.signal(Signal::INT);
    assert_eq!(gateway.exit(secs(10)).await.code(), Some(0));
}

/// R-24: a port that is taken is said so, with the way out, and no other is taken silently.
#[tokio::test]
async fn r_24_a_taken_port_is_named_and_ends_the_start() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for ours in [json!({"listen": address}), json!({"admin": {"listen": address}})] {
        let (status, log) =
            gateway().upstream("alpha", http_server().tool("echo")).with(ours).refused().await;
        assert!(status.code().is_some_and(|code| code != 0), "{status:?}");
        assert!(log.contains(&address), "{log}");
    }
}
