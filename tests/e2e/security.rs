//! What must not get in, and what must not get out (F-090..F-093, F-096, F-103, F-104, F-108, HTTP-02, HTTP-03, HTTP-31,
//! RPC-24, R-25, R-27).

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::kit::{self, *};

/// F-090 HTTP-02, HTTP-03: a page of another origin, or a rebound name, is refused before anything happens.
#[tokio::test]
async fn f_090_foreign_origins_and_hosts_are_refused_before_anything_happens() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    gateway.client().await.tools().await;
    let before = alpha.received().len();
    let visitor = gateway.visitor();
    let greeting = visitor.greeting();
    let port = gateway.address().port();
    let greet = || visitor.post(&greeting);
    for origin in ["http://evil.test", "null", "http://127.0.0.1.evil.test", "file://", "not an origin", ""] {
        let answer = greet().header("origin", origin).send().await;
        assert_eq!(answer.status, 403, "{origin:?}");
        assert_eq!(answer.header("mcp-session-id"), None);
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    for host in ["evil.test", "evil.test:7420", "127.0.0.1.evil.test", "localhost.evil.test"] {
        assert_eq!(greet().header("host", host).send().await.status, 403, "{host}");
    }
    let client = gateway.client().await;
    for letter in [client.get(), client.delete(), client.post(&kit::text::request("1", "ping", "{}"))] {
        assert_eq!(letter.header("origin", "http://evil.test").send().await.status, 403);
    }
    assert_eq!(alpha.received().len(), before, "no upstream was touched");
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), format!("[::1]:{port}")] {
        assert_eq!(greet().header("host", &host).send().await.status, 200, "{host}");
    }
    let own = format!("http://localhost:{port}");
    assert_eq!(greet().header("origin", &own).send().await.status, 200, "{own}");
}

/// F-091 R-27: other names and origins are allowed by list, and the refusal says which list.
#[tokio::test]
async fn f_091_allowed_hosts_and_origins_are_let_in() {
    let lists = json!({"http": {"allowedHosts": ["gw.example"], "allowedOrigins": ["https://app.example"]}});
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).with(lists).start().await;
    let visitor = gateway.visitor();
    let greet = || visitor.post(&visitor.greeting());
    assert_eq!(greet().header("host", "gw.example").send().await.status, 200);
    assert_eq!(greet().header("host", "GW.example:8080").send().await.status, 200);
    assert_eq!(greet().header("origin", "https://app.example").send().await.status, 200);
    assert_eq!(greet().header("origin", "https://app.example:444").send().await.status, 403);
    assert_eq!(greet().header("origin", "http://app.example").send().await.status, 403);
    let mut refused = greet().header("host", "other.example").send().await;
    assert_eq!(refused.status, 403);
    let body = refused.text().await;
    assert!(body.contains("allowedHosts"), "{body}");
}

/// R-25 HTTP-04: a bind that others can reach needs authentication, or an explicit word.
#[tokio::test]
async fn r_25_a_public_bind_without_auth_refuses_to_start() {
    let public = json!({"listen": "0.0.0.0:0"});
    let plan = gateway().upstream("alpha", http_server().tool("echo")).with(public.clone());
    let (status, log) = plan.refused().await;
    assert_ne!(status.code(), Some(0));
    assert!(log.contains("allowAnonymous"), "{log}");
    let told = json!({"auth": {"allowAnonymous": true}});
    let _open = gateway().upstream("alpha", http_server().tool("echo")).with(public).with(told).start().await;
}

/// F-092: invented sessions cost nothing.
#[tokio::test]
async fn f_092_made_up_sessions_are_refused_and_leave_nothing() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let (sessions, memory) = (alpha.sessions().len(), kit::process::resident(gateway.pid()));
    let ping = kit::text::request("1", "tools/list", "{}");
    for round in 0..20 {
        let letters = (0..50).map(|n| {
            let id = format!("made-up-{round}-{n}");
            match n % 3 {
                0 => client.post(&ping).header("mcp-session-id", id).send(),
                1 => client.get().header("mcp-session-id", id).send(),
                _ => client.delete().header("mcp-session-id", id).send(),
            }
        });
        for answer in futures_util::future::join_all(letters).await {
            assert!([404, 429].contains(&answer.status), "{}", answer.status);
        }
    }
    assert_eq!(alpha.sessions().len(), sessions);
    let grown = kit::process::resident(gateway.pid()).saturating_sub(memory);
    assert!(grown < 16 << 20, "the gateway grew by {grown} bytes");
    assert!(client.request("ping", json!({})).await.is_result());
}

/// F-093: odd bytes are refused where they could end up in a header, and never injected.
#[tokio::test]
async fn f_093_odd_bytes_inject_nothing() {
    let evil = "a\r\nX-Evil: 1";
    let alpha = http_server().tool("echo").call(evil, async |_: Exchange| Reply::text("ok")).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    for name in client.tool_names().await {
        assert!(!name.contains(['\r', '\n']), "{name:?}");
        client.call(&name, json!({})).await;
    }
    let ping = kit::text::request("1", "ping", "{}");
    for id in ["a&user=b", "../../x", "a b", &"x".repeat(3000), "\u{e9}"] {
        let status = client.post(&ping).header("mcp-session-id", id.as_bytes()).send().await.status;
        assert!([400, 404, 431].contains(&status), "{id:.20}: {status}");
    }
    for seen in alpha.received() {
        assert_eq!(seen.header("x-evil"), None);
    }
    client.call("alpha__echo", json!({})).await.result();
}

/// F-093 RPC-24: heads, bodies and depth have limits, and each refusal is clean.
#[tokio::test]
async fn rpc_24_heads_bodies_and_depth_are_limited() {
    let alpha = http_server().tool("echo").start();
    let limits = json!({"http": {"bodyLimit": "64KiB", "headerLimit": "8KiB", "maxDepth": 20}});
    let gateway = gateway().upstream("alpha", &alpha).with(limits).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let call = |text: &str| {
        let params = format!(r#"{{"name":"alpha__echo","arguments":{text}}}"#);
        client.post(&kit::text::request("1", "tools/call", &params))
    };
    let fits = format!(r#"{{"x":"{}"}}"#, "y".repeat(60_000));
    assert!(client.ask(call(&fits), "1").await.is_result());
    let large = format!(r#"{{"x":"{}"}}"#, "y".repeat(70_000));
    assert_eq!(call(&large).send().await.status, 413);
    let huge = "z".repeat(8 << 20);
    match call(&huge).try_send().await {
        Ok(answer) => assert_eq!(answer.status, 413),
        // The gateway may close while the rest is still being sent.
        Err(_closed) => {}
    }
    let deep = |depth: usize| format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
    assert!(client.ask(call(&deep(10)), "1").await.is_result());
    let mut answer = call(&deep(30)).send().await;
    assert!([400, 413].contains(&answer.status), "{}", answer.status);
    assert_eq!(answer.tree().await["error"]["code"], -32600);
    let padded = client.post(&kit::text::request("1", "ping", "{}")).header("x-padding", "p".repeat(10_000));
    assert!([400, 431].contains(&padded.send().await.status));
    assert_eq!(alpha.seen("tools/call").len(), 2);
    client.call("alpha__echo", json!({})).await.result();
}

/// F-096: a head that never ends holds up nobody, and is not waited for without end.
#[tokio::test]
async fn f_096_slow_heads_hold_up_nobody() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let mut slow = Vec::new();
    for _ in 0..60 {
        let mut socket = gateway.socket().await;
        socket
            .write_all(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nX-")
            .await
            .unwrap();
        slow.push(socket);
    }
    let (_, took) = timed(async {
        for n in 0..5 {
            client.call("alpha__echo", json!({"n": n})).await.result();
        }
        gateway.client().await.call("alpha__echo", json!({})).await.result();
    })
    .await;
    assert!(took < secs(3), "{took:?}");
    let mut rest = Vec::new();
    let closed = within(secs(60), "a slow head is given up", slow[0].read_to_end(&mut rest)).await;
    assert!(closed.is_err() || rest.is_empty() || rest.starts_with(b"HTTP/1.1 4"), "{rest:?}");
}

/// F-096: one connection carries many requests, also after a refusal and after a rest.
#[tokio::test]
async fn f_096_a_connection_is_kept_over_many_requests() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    client.tools().await;
    let mut socket = gateway.socket().await;
    let session = client.session.clone().unwrap();
    let mut ask = async |body: &str| {
        let request = format!(
            "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: {BOTH}\r\nContent-Type: application/json\r\n\
             Mcp-Session-Id: {session}\r\nMcp-Protocol-Version: {NEWEST}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        socket.write_all(request.as_bytes()).await.unwrap();
        soon("an answer on the same connection", read_one(&mut socket)).await
    };
    let ping = kit::text::request("1", "ping", "{}");
    for _ in 0..20 {
        assert_eq!(ask(&ping).await, 200);
    }
    assert_eq!(ask(&kit::text::notification("notifications/initialized", "{}")).await, 202);
    assert_eq!(ask("{bad").await, 400);
    assert_eq!(ask(&ping).await, 200);
    pass(secs(2)).await;
    assert_eq!(ask(&ping).await, 200);
}

/// Reads one HTTP/1.1 response with a Content-Length; gives its status.
async fn read_one(socket: &mut tokio::net::TcpStream) -> u16 {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.expect("the connection is kept"));
    }
    let head = String::from_utf8(head).unwrap().to_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:")).map_or("0", str::trim);
    let mut body = vec![0; length.parse().unwrap()];
    socket.read_exact(&mut body).await.unwrap();
    assert!(!head.contains("connection: close"), "{head}");
    head[9..12].parse().unwrap()
}

/// F-108 HTTP-31, HTTP-32: absent is fine, another known one is served, unknown ones are refused.
#[tokio::test]
async fn f_108_the_version_header_is_checked() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let client = gateway.client().await;
    let list = || client.post(&kit::text::request("1", "tools/list", "{}"));
    assert_eq!(list().without("mcp-protocol-version").send().await.status, 200);
    for known in REVISIONS {
        assert_eq!(list().header("mcp-protocol-version", known).send().await.status, 200, "{known}");
    }
    for wrong in ["1999-01-01", "foo", "", "2025-11-25, 2025-06-18"] {
        let mut answer = list().header("mcp-protocol-version", wrong).send().await;
        assert_eq!(answer.status, 400, "{wrong:?}");
        assert!(answer.text().await.contains(NEWEST), "{wrong:?}: what is supported is said");
    }
    for (one, two) in [("2025-11-25", "1999-01-01"), ("1999-01-01", "2025-11-25")] {
        let letter = list().header("mcp-protocol-version", one).and_header("mcp-protocol-version", two);
        assert_eq!(letter.send().await.status, 400, "{one} and {two}");
    }
    assert_eq!(client.get().header("mcp-protocol-version", "foo").send().await.status, 400);
    let visitor = gateway.visitor();
    let greeting = visitor.post(&visitor.greeting()).header("mcp-protocol-version", "1999-01-01");
    assert_eq!(greeting.send().await.status, 200, "LIFE-18: the body negotiates");
}

/// F-103 SEC-24: at the chattiest level, no secret is in the log, whole or in part.
#[tokio::test]
async fn f_103_no_secret_is_in_the_log() {
    let alpha = http_server().tool("echo").call("fail", async |_: Exchange| Reply::Cut).start();
    // Nonsense words, so that no piece of them is in a log by chance.
    let words = ["Qx7Zw2Vb9Kd4", "Jy5Tg8Rn1Ph6", "Lm3Fc0Ws7Ue2", "Bd9Hv4Ky6Xo1", "Nr8Pa5Gt3Zi7"];
    let [token, api_key, argument, failed, broken] = words;
    let more = ["Ck2Wj6Ym9Tq4", "Sv1Lb7Eh5Xd8", "Gf4Ru0Np3Kz9", "Ow6Ic8Dx2Vy5"];
    let [header, query, child_env, outside] = more;
    let child = stdio_server().tool("echo").call("confess", move |ask: Exchange| async move {
        ask.stderr(format!("the token is {child_env}, as I said\n"));
        Reply::text("ok")
    });
    let child = child.start();

    let headers = json!({"Authorization": format!("Bearer {header}"), "X-More": "${FROM_OUTSIDE}"});
    let entry = json!({"type": "http", "url": format!("{}?token={query}", alpha.url()), "headers": headers});
    let plan = gateway().upstream("alpha", entry).environment("FROM_OUTSIDE", outside);
    let plan = plan.upstream("child", Entry::from(&child).and(json!({"env": {"TOKEN": child_env}})));
    let gateway =
        plan.with(json!({"log": {"level": "trace"}})).environment("RUST_LOG", "trace").start().await;
    let client = gateway.visitor().header("authorization", &format!("Bearer {token}"));
    let client = client.header("x-api-key", api_key).connect().await;
    client.call("alpha__echo", json!({"password": argument})).await.result();
    client.call("child__echo", json!({"password": argument})).await.result();
    client.call("alpha__fail", json!({"password": failed})).await;
    client.call("child__confess", json!({})).await.result();
    gateway
        .logged("the child's line, masked", |line| line.contains("the token is [secret], as I said"))
        .await;
    client.post(&format!(r#"{{"jsonrpc":"2.0","params":{{"p":"{broken}"}}"#)).send().await;
    assert_eq!(alpha.seen("tools/call")[0].header("x-more").as_deref(), Some(outside));
    client.delete().send().await;
    alpha.until("the session ends", || (!alpha.ended().is_empty()).then_some(())).await;
    let log = gateway.log();
    assert!(!log.is_empty());
    for secret in words.into_iter().chain(more) {
        for piece in [&secret[..8], &secret[4..]] {
            assert!(!log.contains(piece), "{piece} of {secret} is in the log");
        }
    }
    let session = client.session.unwrap();
    assert!(!log.contains(&session[..16]), "the session id is in the log");
}

/// F-104: every line of the log is one JSON object, whatever peers call themselves, and a flood is not logged by line.
#[tokio::test]
async fn f_104_the_log_is_neither_forged_nor_flooded() {
    let forged = "x\n{\"level\":\"error\",\"forged\":\"FORGED-1\"}\u{1b}[31m";
    let alpha = stdio_server().named(forged).call("say", async |ask: Exchange| {
        ask.stderr("{\"level\":\"ERROR\",\"forged\":\"FORGED-2\"}\n\u{1b}[31mred\n");
        Reply::text("ok")
    });
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.visitor().named(forged).connect().await;
    client.call("alpha__say", json!({})).await.result();
    gateway.logged("the child's line", |line| line.contains("FORGED-2")).await;
    let before = gateway.log_lines().len();
    for _ in 0..20 {
        let floods = (0..50).map(|_| client.post("{bad").send());
        for answer in futures_util::future::join_all(floods).await {
            assert_eq!(answer.status, 400);
        }
    }
    let lines = gateway.log_lines();
    assert!(lines.len() - before < 100, "{} lines for 1000 bad requests", lines.len() - before);
    for line in lines {
        let parsed: serde_json::Value =
            serde_json::from_str(&line).unwrap_or_else(|why| panic!("{line}: {why}"));
        assert!(parsed.get("forged").is_none(), "{line}");
        assert!(!line.contains('\u{1b}'), "{line}");
    }
}

/// SEC-22, RPC-12: errors tell nothing of the inside.
#[tokio::test]
async fn rpc_12_errors_do_not_name_inner_addresses() {
    let alpha = http_server().tool("echo").start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    client.call("alpha__echo", json!({})).await.result();
    let inner = alpha.address().to_string();
    alpha.guard(|_| Some(Page::new(502).header("x-inner", "secret").piece("inner-detail").into()));
    let failing = client.call("alpha__echo", json!({})).await;
    alpha.unguard();
    alpha.stop().await;
    let refused = client.call("alpha__echo", json!({})).await;
    for outcome in [failing, refused] {
        let shown = format!("{outcome:?}");
        for hidden in [inner.as_str(), "inner-detail", "x-inner", "127.0.0.1"] {
            assert!(!shown.contains(hidden), "{hidden} in {shown}");
        }
    }
}
