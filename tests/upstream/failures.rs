//! Streamable HTTP: what is made of failures, redirects and upstreams that are not there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use portcullis::base::clock;
use portcullis::call::Fault;
use tokio::net::TcpListener;

use crate::http::entry;
use crate::rig::*;

/// F-021, TOOL-13: a call with effects is never sent twice; a list may be.
#[tokio::test]
async fn f_021_a_lost_connection_does_not_repeat_a_call() {
    let lists = AtomicUsize::new(0);
    let server = Server::start(move |seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| match seen.method().as_str() {
            "tools/list" if lists.fetch_add(1, Ordering::Relaxed) > 0 => json(result(&seen.id(), "{}")),
            _ => Act::Last(Vec::new()),
        })
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let lost = rig.call(&session(1), r#"{"name":"pay"}"#).await.unwrap_err();
    assert!(matches!(lost, Fault::OutcomeUnknown { .. }), "{lost:?}");
    assert_eq!(server.count("tools/call"), 1);
    assert!(done(rig.list().await).await.contains("result"));
    assert_eq!(server.count("tools/list"), 2);
}

/// F-070, HTTP-39
#[tokio::test]
async fn f_070_redirects_stay_within_the_origin() {
    let server = Server::start(|seen| match seen.path.as_str() {
        "/mcp" => status("307 Temporary Redirect", "Location: /mcp/\r\n", ""),
        _ => greeting(seen, Some("s")).unwrap_or_else(|| json(result(&seen.id(), "{}"))),
    })
    .await;
    let rig = Rig::new(&format!(r#"{}, "headers": {{"authorization": "Bearer t"}}"#, entry(&server)));
    done(rig.call(&session(1), r#"{"name":"t"}"#).await).await;
    let mut seen = server.seen();
    assert!(seen.iter().all(|seen| seen.header("authorization") == "Bearer t"));
    // The push channel is tried beside it, and may be on its way.
    seen.retain(|seen| seen.verb == "POST");
    let (asked, led) =
        (seen.iter().filter(|seen| seen.path == "/mcp"), seen.iter().filter(|seen| seen.path == "/mcp/"));
    assert_eq!(asked.count(), led.count(), "a temporary redirect holds once");

    let evil = Server::start(|_| Act::Hang).await;
    let location = format!("Location: {}?token=secret\r\n", evil.url());
    let server = Server::start(move |_| status("307 Temporary Redirect", &location, "")).await;
    let fault = Rig::new(&entry(&server)).connect().await.unwrap_err();
    assert!(matches!(&fault, Fault::Protocol { why, .. } if why.contains("redirects")), "{fault:?}");
    assert!(evil.seen().is_empty());
    let server = Server::start(|_| status("302 Found", "Location: /x\r\n", "")).await;
    assert!(Rig::new(&entry(&server)).connect().await.is_err());
    assert_eq!(server.seen().len(), 1);
}

/// F-070, HTTP-39: a permanent redirect is remembered, until there is nothing where it leads.
#[tokio::test]
async fn f_070_a_permanent_redirect_holds_while_it_leads_somewhere() {
    let back = Arc::new(AtomicBool::new(false));
    let moved_back = Arc::clone(&back);
    let server = Server::start(move |seen| {
        match (seen.path.as_str(), moved_back.load(Ordering::Relaxed)) {
            ("/mcp", false) => return status("308 Permanent Redirect", "Location: /mcp/\r\n", ""),
            ("/mcp/", true) => return status("404 Not Found", "", ""),
            _ => {}
        }
        greeting(seen, Some("s")).unwrap_or_else(|| json(result(&seen.id(), "{}")))
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let session = session(1);
    for _ in 0..3 {
        done(rig.call(&session, r#"{"name":"t"}"#).await).await;
    }
    assert_eq!(server.seen().iter().filter(|seen| seen.path == "/mcp").count(), 1);
    back.store(true, Ordering::Relaxed);
    done(rig.call(&session, r#"{"name":"t"}"#).await).await;
    assert_eq!(server.seen().last().unwrap().path, "/mcp");
}

/// R-14: answers whose heads do not come count for the breaker, but for tools, which may take their time.
#[tokio::test]
async fn r_14_missing_heads_count_except_those_of_tools() {
    let limits = r#""portcullis": {"timeouts": {"list": "50ms", "callIdle": "50ms", "call": "50ms"}}"#;
    let server = Server::start(|seen| match seen.method().as_str() {
        "initialize" | "notifications/initialized" | "GET" => greeting(seen, Some("s")).unwrap(),
        _ => Act::Hang,
    })
    .await;
    let rig = Rig::new(&format!("{}, {limits}", entry(&server)));
    rig.connect().await.unwrap();
    let rested = clock::within(PATIENCE, async {
        while !matches!(rig.list().await, Err(Fault::Unavailable { retry_after: Some(_), .. })) {}
    });
    rested.await.expect("it is left alone");

    let rig = Rig::new(&format!("{}, {limits}", entry(&server)));
    rig.connect().await.unwrap();
    let session = session(1);
    for _ in 0..8 {
        let fault = rig.call(&session, r#"{"name":"t"}"#).await.err().unwrap();
        assert!(matches!(fault, Fault::Timeout { .. }), "{fault:?}");
    }
}

/// HTTP-35, F-021: without a point to resume from nobody knows.
#[tokio::test]
async fn f_021_a_stream_that_ends_without_an_answer_leaves_the_outcome_open() {
    let server = Server::start(|seen| greeting(seen, Some("s")).unwrap_or_else(|| events(&[]))).await;
    let fault = Rig::new(&entry(&server)).call(&session(1), r#"{"name":"t"}"#).await.unwrap_err();
    assert!(matches!(fault, Fault::OutcomeUnknown { .. }), "{fault:?}");
}

/// R-14, F-020: left alone after failures, and back by itself.
#[tokio::test]
async fn f_020_an_unreachable_upstream_is_left_alone_and_comes_back() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let rig = Rig::new(&format!(r#""url": "http://{address}/mcp""#));
    let fault = rig.connect().await.unwrap_err();
    assert!(
        matches!(&fault, Fault::Unavailable { why, unsent: true, .. } if why == "it refuses the connection")
    );
    let session = session(1);
    let rested = clock::within(PATIENCE, async {
        loop {
            let fault = rig.call(&session, r#"{"name":"t"}"#).await.unwrap_err();
            if let Fault::Unavailable { retry_after: Some(rest), .. } = fault {
                return rest;
            }
        }
    });
    assert!(rested.await.unwrap() <= Duration::from_secs(2));
    let listener = TcpListener::bind(address).await.unwrap();
    let _server = Server::on(listener, |seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| json(result(&seen.id(), "{}")))
    });
    let back = clock::within(PATIENCE, async {
        while rig.call(&session, r#"{"name":"t"}"#).await.is_err() {
            clock::sleep(Duration::from_millis(50)).await;
        }
    });
    back.await.unwrap();
}

/// F-071, HTTP-36
#[tokio::test]
async fn f_071_challenges_and_states_of_the_upstream_are_not_relayed() {
    let server = Server::start(|seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| {
            if seen.body.contains("auth") {
                status("401 Unauthorized", "WWW-Authenticate: Bearer realm=secret\r\n", "secret")
            } else if seen.body.contains("busy") {
                status("429 Too Many", "Retry-After: 3\r\n", "")
            } else {
                status(
                    "400 Bad Request",
                    "Content-Type: application/json\r\n",
                    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}"#,
                )
            }
        })
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let session = session(1);
    let fault = rig.call(&session, r#"{"name":"auth"}"#).await.unwrap_err();
    assert_eq!(fault.to_string(), "upstream `alpha` is not available: it needs authorization");
    let fault = rig.call(&session, r#"{"name":"busy"}"#).await.unwrap_err();
    assert!(
        matches!(fault, Fault::Unavailable { retry_after: Some(wait), .. } if wait == Duration::from_secs(3))
    );
    let answer = done(rig.call(&session, r#"{"name":"bad"}"#).await).await;
    assert!(answer.contains(r#""error":{"code":-32602,"message":"no"}"#), "{answer}");
}

/// RPC-06, F-040
#[tokio::test]
async fn f_040_odd_answers_fail_their_own_call() {
    let server = Server::start(|seen| {
        greeting(seen, Some("s")).unwrap_or_else(|| {
            let id = seen.id();
            let both =
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}},"error":{{"code":1,"message":""}}}}"#);
            if seen.body.contains("both event") {
                events(&[event(both)])
            } else if seen.body.contains("both") {
                json(both)
            } else if seen.body.contains("html") {
                status("200 OK", "Content-Type: text/html\r\n", "<html>")
            } else if seen.body.contains("batch") {
                json(format!(r#"[{{"jsonrpc":"2.0","method":"x"}},{}]"#, result(&id, "{}")))
            } else {
                json(result(&format!("\"{id}\""), "{}"))
            }
        })
    })
    .await;
    let rig = Rig::new(&entry(&server));
    let session = session(1);
    for tool in ["both", "both event", "html"] {
        let fault = rig.call(&session, &format!(r#"{{"name":"{tool}"}}"#)).await.unwrap_err();
        assert!(matches!(fault, Fault::Protocol { .. }), "{tool}: {fault:?}");
    }
    for tool in ["batch", "id as a string"] {
        assert!(done(rig.call(&session, &format!(r#"{{"name":"{tool}"}}"#)).await).await.contains("result"));
    }
}

/// F-095: IPv6 or not, `localhost` is found.
#[tokio::test]
async fn f_095_localhost_is_tried_both_ways() {
    let server = Server::start(|seen| greeting(seen, None).unwrap()).await;
    let rig = Rig::new(&format!(r#""url": "http://localhost:{}/mcp""#, server.address.port()));
    rig.connect().await.unwrap();
}

/// HTTP-38: what speaks neither transport is told as that, and what refuses for other reasons is not asked again.
#[tokio::test]
async fn http_38_the_older_transport_is_tried_where_the_newer_is_unknown() {
    let server = Server::start(|_| status("405 Method Not Allowed", "", "")).await;
    let fault = Rig::new(&entry(&server)).connect().await.unwrap_err().to_string();
    assert!(fault.contains("neither Streamable HTTP") && fault.contains("HTTP+SSE"), "{fault}");
    assert_eq!(verbs(&server), ["POST", "GET"]);
    for refusal in ["401 Unauthorized", "403 Forbidden", "429 Too Many Requests", "500 Internal Server Error"]
    {
        let server = Server::start(move |_| status(refusal, "", "")).await;
        assert!(Rig::new(&entry(&server)).connect().await.is_err());
        assert_eq!(verbs(&server), ["POST"], "{refusal}");
    }
}

/// What is stated in the entry is not doubted.
#[tokio::test]
async fn the_older_transport_is_not_tried_where_the_newer_is_stated() {
    let server = Server::start(|_| status("404 Not Found", "", "")).await;
    let stated = format!(r#""type": "http", {}"#, entry(&server));
    assert!(Rig::new(&stated).connect().await.is_err());
    assert_eq!(verbs(&server), ["POST"]);
}

fn verbs(server: &Server) -> Vec<String> {
    server.seen().into_iter().map(|seen| seen.verb).collect()
}
