//! Sessions: made by `initialize`, owned, renewed behind the client's back, ended (F-013..F-019, LIFE, HTTP-25..HTTP-30).

use std::collections::HashSet;

use serde_json::json;

use crate::kit::{self, *};

/// F-013 HTTP-26, HTTP-27, R-07: 404 for every id that is not ours, 400 for none.
#[tokio::test]
async fn f_013_unknown_sessions_are_404_and_missing_ones_400() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    let own = client.session.clone().unwrap();
    let mut tampered = own.clone().into_bytes();
    *tampered.last_mut().unwrap() ^= 1;
    let tampered = String::from_utf8_lossy(&tampered).into_owned();
    let mut bodies = HashSet::new();
    for id in ["00000000-dead-beef-0000-000000000000", "x", &tampered, &own[1..], &own.repeat(2)] {
        let mut post = client
            .post(&kit::text::request("77", "tools/list", "{}"))
            .header("mcp-session-id", id)
            .send()
            .await;
        assert_eq!(post.status, 404, "POST {id}");
        let body = post.tree().await;
        assert_eq!(body["id"], 77, "POST {id}: {body}");
        assert!(body["error"]["code"].is_i64(), "POST {id}: {body}");
        bodies.insert(body.to_string());
        assert_eq!(client.get().header("mcp-session-id", id).send().await.status, 404, "GET {id}");
        assert_eq!(client.delete().header("mcp-session-id", id).send().await.status, 404, "DELETE {id}");
    }
    assert_eq!(bodies.len(), 1, "R-07: one answer for all of them, {bodies:?}");
    for letter in [client.post(&kit::text::request("78", "tools/list", "{}")), client.get(), client.delete()]
    {
        let verb = letter.without("mcp-session-id").send().await;
        assert_eq!(verb.status, 400);
    }
    assert!(client.request("ping", json!({})).await.is_result());
}

/// F-014 HTTP-28: a forgotten upstream session is renewed once, and the client does not notice.
#[tokio::test]
async fn f_014_an_upstream_that_forgot_its_sessions_is_initialized_once_more() {
    let (alpha, beta) = (http_server().tool("echo").start(), http_server().tool("echo").start());
    let gateway = gateway().upstream("alpha", &alpha).upstream("beta", &beta).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    client.call("beta__echo", json!({})).await.result();
    let (own, handshakes) = (alpha.seen("tools/call")[0].session.clone(), alpha.seen("initialize").len());
    alpha.forget();
    let calls = (0..20).map(|n| {
        let (client, name) = (&client, if n % 2 == 0 { "alpha__echo" } else { "beta__echo" });
        async move { (n, client.call(name, json!({"n": n})).await) }
    });
    for (n, outcome) in futures_util::future::join_all(calls).await {
        assert_eq!(outcome.result()["structuredContent"], json!({"n": n}));
    }
    // The catalog connection may have lost its session too: one renewal for each.
    let renewed = alpha.seen("initialize").len() - handshakes;
    assert!((1..=2).contains(&renewed), "{renewed} handshakes for one loss");
    let sessions: HashSet<_> =
        alpha.seen("tools/call").iter().skip(1).map(|seen| seen.session.clone()).collect();
    assert!(sessions.len() <= 2 && sessions.iter().any(|session| *session != own));
    assert!(client.request("ping", json!({})).await.is_result(), "the client's session lives on");
}

/// F-015 R-10: a stateful upstream has one session for each client session, and keeps them apart.
#[tokio::test]
async fn f_015_two_sessions_never_share_upstream_state() {
    let alpha =
        http_server().call("inc", async |ask: Exchange| Reply::text(ask.count(1).to_string())).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    for count in ["1", "2", "3"] {
        assert_eq!(one.call("alpha__inc", json!({})).await.said(), count);
    }
    assert_eq!(two.call("alpha__inc", json!({})).await.said(), "1");
    let of_one = alpha.seen("tools/call")[0].session.clone().unwrap();
    let of_two = alpha.seen("tools/call")[3].session.clone().unwrap();
    assert_ne!(of_one, of_two);
    one.delete().send().await;
    alpha.until("the first one's session ends", || alpha.ended().contains(&of_one).then_some(())).await;
    assert!(!alpha.ended().contains(&of_two));
    assert_eq!(two.call("alpha__inc", json!({})).await.said(), "2");
}

/// F-017 HTTP-29, R-08: DELETE is 204, ends everything, and the id stays dead.
#[tokio::test]
async fn f_017_a_deleted_session_ends_its_streams_and_its_upstream_sessions() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let used = alpha.seen("tools/call")[0].session.clone().unwrap();
    let stream = client.listen().await;
    assert_eq!(client.delete().send().await.status, 204);
    stream.wait_for_end().await;
    alpha.until("DELETE at the upstream", || alpha.ended().contains(&used).then_some(())).await;
    assert_eq!(client.post(&kit::text::request("1", "ping", "{}")).send().await.status, 404);
    assert_eq!(client.delete().send().await.status, 404);
}

/// F-017 LIFE-27: a session that nobody uses ends by itself, and so does what it held upstream.
#[tokio::test]
async fn f_017_an_idle_session_expires_and_one_with_a_stream_does_not() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).with(json!({"sessions": {"idle": "1s"}})).start().await;
    let (idle, listening) = (gateway.client().await, gateway.client().await);
    idle.call("alpha__echo", json!({})).await.result();
    let used = alpha.seen("tools/call")[0].session.clone().unwrap();
    let stream = listening.listen().await;
    alpha.until("DELETE at the upstream", || alpha.ended().contains(&used).then_some(())).await;
    let gone = idle.post(&kit::text::request("1", "ping", "{}")).send().await;
    assert_eq!(gone.status, 404);
    pass(ms(1500)).await;
    assert!(!stream.ended());
    assert!(listening.request("ping", json!({})).await.is_result());
}

/// LIFE-07: a session that never becomes ready is dropped.
#[tokio::test]
async fn life_07_a_handshake_that_is_not_completed_expires() {
    let plan = gateway().upstream("alpha", http_server().tool("echo"));
    let gateway = plan.with(json!({"sessions": {"handshake": "1s"}})).start().await;
    let mut client = gateway.visitor();
    client.initialize().await.result();
    soon("the half-open session is gone", async {
        while client.post(&kit::text::request("1", "ping", "{}")).send().await.status != 404 {
            pass(ms(100)).await;
        }
    })
    .await;
}

/// F-018 HTTP-25 R-06: long, random, visible, on the initialize answer only, never across the hop.
#[tokio::test]
async fn f_018_session_ids_are_secret_and_appear_once() {
    let alpha = http_server().named("alpha").tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).with(json!({"log": {"level": "trace"}})).start().await;
    let (client, other) = (gateway.client().await, gateway.client().await);
    let own = client.session.clone().unwrap();
    assert!(
        (22..=256).contains(&own.len()) && own.bytes().all(|byte| (0x21..=0x7e).contains(&byte)),
        "{own:?}"
    );
    assert_ne!(client.session, other.session);
    let mut outcomes =
        vec![client.request("ping", json!({})).await, client.request("tools/list", json!({})).await];
    outcomes.push(client.call("alpha__echo", json!({})).await);
    for outcome in &outcomes {
        assert_eq!(outcome.header("mcp-session-id"), None, "{outcome:?}");
        for session in alpha.sessions() {
            assert!(!format!("{outcome:?}").contains(&session.id), "an upstream id at the client");
        }
    }
    for seen in alpha.received() {
        assert!(!format!("{seen:?}").contains(&own), "the client's id at the upstream");
    }
    let log = gateway.log();
    assert!(!log.contains(&own), "the client's id in the log");
    assert!(alpha.sessions().iter().all(|session| !log.contains(&session.id)), "an upstream id in the log");
}

/// HTTP-25: no session where the handshake failed. LIFE-02: what is missing is said.
#[tokio::test]
async fn life_02_a_malformed_handshake_makes_no_session() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let visitor = gateway.visitor();
    for params in [
        json!({}),
        json!({"protocolVersion": 5, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}),
        json!({"protocolVersion": NEWEST, "clientInfo": {"name": "x", "version": "1"}}),
        json!({"protocolVersion": NEWEST, "capabilities": [], "clientInfo": {"name": "x", "version": "1"}}),
        json!({"protocolVersion": NEWEST, "capabilities": {}}),
        json!({"protocolVersion": NEWEST, "capabilities": {}, "clientInfo": {"name": "x"}}),
    ] {
        let outcome = visitor.request("initialize", params.clone()).await;
        assert_eq!((outcome.status, outcome.code()), (400, -32602), "{params}");
        assert_eq!(outcome.header("mcp-session-id"), None, "{params}");
    }
}

/// LIFE-03 ERA-03: known revisions are agreed to, all others get the newest with a handshake.
#[tokio::test]
async fn life_03_revisions_are_negotiated_by_membership() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    for revision in REVISIONS {
        let client = gateway.visitor().asking_for(revision).connect().await;
        assert_eq!(client.revision.as_deref(), Some(revision));
        assert_eq!(client.tool_names().await, ["alpha__echo"]);
        assert_eq!(
            client.call("alpha__echo", json!({"r": 1})).await.result()["structuredContent"],
            json!({"r": 1})
        );
    }
    for unknown in ["2030-01-01", "1999-01-01", "2026-07-28", "latest", ""] {
        let client = gateway.visitor().asking_for(unknown).connect().await;
        assert_eq!(client.revision.as_deref(), Some(NEWEST), "{unknown:?}");
    }
}

/// LIFE-18 R-09: no second handshake in a live session; a stale id is ignored and a fresh one made.
#[tokio::test]
async fn life_18_a_second_handshake_in_a_session_is_refused() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    let outcome = client.ask(client.post(&client.greeting()), "0").await;
    assert_eq!((outcome.status, outcome.code()), (400, -32600));
    assert!(client.request("ping", json!({})).await.is_result());

    let visitor = gateway.visitor();
    let greeting = visitor.post(&visitor.greeting()).header("mcp-session-id", "long-gone");
    let fresh = visitor.ask(greeting, "0").await;
    assert_eq!(fresh.status, 200);
    assert!(fresh.header("mcp-session-id").is_some_and(|id| id != "long-gone"));
}

/// LIFE-06, LIFE-13: what the gateway says of itself.
#[tokio::test]
async fn life_13_the_handshake_names_the_gateway_and_the_union_of_features() {
    let alpha = http_server().named("secret-inner-name").tool("echo");
    let beta = http_server().resource(json!({"uri": "b://1", "name": "b"})).prompt(json!({"name": "p"}));
    let gateway = gateway().upstream("alpha", alpha).upstream("beta", beta).start().await;
    gateway.client().await.tools().await;
    let client = gateway.client().await;
    let capabilities = &client.hello["capabilities"];
    for kind in ["tools", "resources", "prompts"] {
        assert_eq!(capabilities[kind]["listChanged"], true, "{kind} in {capabilities}");
    }
    assert!(capabilities["logging"].is_object(), "{capabilities}");
    assert!(!client.hello["serverInfo"].to_string().contains("secret-inner-name"));
    let oldest = gateway.visitor().asking_for("2024-11-05").connect().await;
    assert!(oldest.hello["capabilities"].get("completions").is_none(), "VER-06");
    for revision in &REVISIONS[1..] {
        let client = gateway.visitor().asking_for(revision).connect().await;
        assert!(client.hello["capabilities"].get("tasks").is_none(), "VER-06 {revision}");
    }
}

/// F-019: what a session of one endpoint may see is the same on every path.
#[tokio::test]
async fn f_019_an_endpoint_of_one_upstream_shows_it_alone_on_every_path() {
    let (alpha, beta) = (http_server().tool("echo").tool("mine").start(), http_server().tool("echo").start());
    let entry = Entry::from(&alpha).and(json!({"headers": {"X-Route": "alpha"}}));
    let gateway = gateway().upstream("alpha", entry).upstream("beta", &beta).start().await;
    let client = gateway.client_of("alpha").await;
    for _ in 0..2 {
        assert_eq!(client.tool_names().await, ["echo", "mine"]);
    }
    client.call("echo", json!({})).await.result();
    for guess in ["beta__echo", "alpha__echo", "beta.echo", ""] {
        let outcome = client.call(guess, json!({})).await;
        assert_eq!((outcome.status, outcome.code()), (200, -32602), "{guess:?}");
    }
    assert!(beta.seen("tools/call").is_empty());
    assert!(alpha.verbs("POST").iter().all(|seen| seen.header("x-route").as_deref() == Some("alpha")));

    let merged = gateway.client().await;
    let foreign = merged.post(&kit::text::request("1", "ping", "{}")).path("/mcp/alpha").send().await;
    assert_eq!(foreign.status, 404, "a session belongs to the endpoint it was made on");
}

/// F-079 F-080: upstreams with sessions (of long ids), without, and children, in one session of short id.
#[tokio::test]
async fn f_080_stateful_and_stateless_upstreams_work_side_by_side() {
    let long = "n".repeat(200);
    let stateful =
        http_server().named(&long).call("inc", async |ask: Exchange| Reply::text(ask.count(1).to_string()));
    let stateful = stateful.start();
    let stateless = http_server().without_sessions().without_stream().tool("echo").start();
    let plan = gateway().upstream("stateful", &stateful).upstream("stateless", &stateless);
    let gateway = plan.upstream("child", stdio_server().tool("echo")).start().await;
    for revision in [NEWEST, "2025-06-18"] {
        let client = gateway.visitor().asking_for(revision).connect().await;
        assert!(client.session.as_ref().unwrap().len() <= 256);
        assert_eq!(client.call("stateful__inc", json!({})).await.said(), "1");
        assert_eq!(client.call("stateful__inc", json!({})).await.said(), "2");
        client.call("stateless__echo", json!({})).await.result();
        client.call("child__echo", json!({})).await.result();
    }
    assert!(
        stateless.received().iter().all(|seen| seen.session.is_none()),
        "HTTP-26: none was issued, none is sent"
    );
}

/// R-16 HTTP-11: a dropped connection is no cancellation.
#[tokio::test]
async fn r_16_a_call_runs_on_when_its_client_vanishes() {
    let alpha = http_server()
        .call("work", async |ask: Exchange| {
            ask.progress(0, 1).await;
            tokio::select! {
                () = ask.cancelled() => ask.peer.note("cancelled"),
                () = ask.gone() => ask.peer.note("gone"),
                () = ask.released() => ask.peer.note("finished"),
            }
            Reply::text("done")
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let params = kit::text::tree(&progressing("alpha__work", &json!({}), "1"));
    let mut answer = client.begin("1", "tools/call", params).await;
    answer.message().await.unwrap();
    answer.reset();
    pass(ms(500)).await;
    assert!(alpha.notes().is_empty(), "{:?}", alpha.notes());
    alpha.release();
    alpha.wait_for_note("finished").await;
    assert!(client.request("ping", json!({})).await.is_result());
}

/// LIFE-21 R-16: the end of a session cancels its running calls upstream.
#[tokio::test]
async fn life_21_a_deleted_session_cancels_its_running_calls() {
    let alpha = http_server()
        .call("work", async |ask: Exchange| {
            tokio::select! {
                () = ask.cancelled() => {}
                () = ask.gone() => {}
            }
            ask.peer.note("stopped");
            Reply::Done
        })
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let running = client.post(&kit::text::request("1", "tools/call", r#"{"name":"alpha__work"}"#)).try_send();
    let ending = async {
        alpha.wait_for("tools/call", 1).await;
        client.delete().send().await.status
    };
    let (_ended, status) = tokio::join!(running, ending);
    assert_eq!(status, 204);
    alpha.wait_for_note("stopped").await;
}

/// F-092 D11: sessions are capped, and the cap frees itself.
#[tokio::test]
async fn f_092_the_number_of_sessions_is_capped() {
    let plan = gateway().upstream("alpha", http_server().tool("echo"));
    let gateway = plan.with(json!({"sessions": {"max": 3, "perPrincipal": 3}})).start().await;
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(gateway.client().await);
    }
    let visitor = gateway.visitor();
    let refused = visitor.post(&visitor.greeting()).send().await;
    assert!([429, 503].contains(&refused.status), "{}", refused.status);
    assert_eq!(refused.header("mcp-session-id"), None);
    for client in &clients {
        assert!(client.request("ping", json!({})).await.is_result());
    }
    clients.pop().unwrap().delete().send().await;
    gateway.client().await;
}
