//! Chaos: one upstream behaves as badly as it can, and nobody else feels it (D10, F-031, F-050, F-063).
//!
//! Each way of going wrong is a test: beside the bad one stand two good ones, by HTTP and by pipe.
//! While calls to the bad one go wrong, those to the good ones must succeed, quickly, every one,
//! and lists must be served.

use std::time::Duration;

use serde_json::{Value, json};

use crate::kit::{self, *};

/// What a call to a good upstream may take while a bad one rages: less than a bad one is waited for.
const UNDISTURBED: Duration = secs(2);

/// Runs a bad upstream, whose tools are `do` and `other` if it has any, between two good ones.
async fn rages_alone(bad: impl Into<Entry>) {
    rages_alone_at(bad, json!({})).await;
}

/// As [`rages_alone`], with these arguments for the bad one's tools.
async fn rages_alone_at(bad: impl Into<Entry>, arguments: Value) {
    let limits =
        json!({"timeouts": {"callIdle": "2500ms", "handshake": "3s", "list": "3s", "connect": "3s"}});
    let plan =
        gateway().upstream("alpha", http_server().tool("echo")).upstream("bad", bad.into().with(limits));
    let plan = plan.upstream("omega", stdio_server().tool("echo"));
    let gateway =
        plan.with(json!({"catalog": {"startBudget": "500ms"}, "maxMessage": "1MiB"})).start_at_once().await;
    let (client, took) = timed(gateway.client()).await;
    assert!(took < UNDISTURBED, "initialize took {took:?}");
    let good = ["alpha__echo".to_owned(), "omega__echo".to_owned()];
    client
        .tools_until("the good ones are listed", |names| good.iter().all(|name| names.contains(name)))
        .await;
    for name in &good {
        client.call(name, json!({})).await.result();
    }

    let stranger = gateway.client().await;
    let provoking = futures_util::future::join_all((0..6).map(|n| {
        let name = if n < 3 { "bad__do" } else { "bad__other" };
        let params = json!({"name": name, "arguments": arguments});
        provoke(stranger.post(&kit::text::request(&n.to_string(), "tools/call", &params.to_string())))
    }));
    let undisturbed = async {
        for n in 0..40 {
            let (outcome, took) = timed(client.call(&good[n % 2], json!({"n": n}))).await;
            assert_eq!(outcome.result()["structuredContent"], json!({"n": n}));
            assert!(took < UNDISTURBED, "call {n} took {took:?}");
            if n % 10 == 0 {
                let (names, took) = timed(client.tool_names()).await;
                assert!(
                    good.iter().all(|name| names.contains(name)) && took < UNDISTURBED,
                    "{names:?} in {took:?}"
                );
                let (fresh, took) = timed(gateway.client()).await;
                assert!(took < UNDISTURBED, "a new session took {took:?}");
                fresh.delete().send().await;
            }
            pass(ms(10)).await;
        }
    };
    tokio::join!(provoking, undisturbed);
    for name in &good {
        client.call(name, json!({})).await.result();
    }
    assert_eq!(gateway.operator("/livez").await.0, 200);
    assert_eq!(gateway.operator("/readyz").await.0, 200);
}

/// A call to the bad one must end: with an answer, or cut where a begun answer cannot be completed.
async fn provoke(letter: Letter) {
    let mut answer = letter.send().await;
    assert_eq!(answer.status, 200);
    let mut body = Vec::new();
    loop {
        match answer.piece().await {
            Ok(Some(piece)) => body.extend(piece),
            Ok(None) => break,
            Err(_cut) => return,
        }
    }
    let body = String::from_utf8_lossy(&body);
    let answered = body.contains("\"error\":{") || body.contains("\"result\":{");
    assert!(answered, "a call to the bad one was left without an answer: {body}");
}

/// An HTTP server whose handshake and lists are fine and whose calls go wrong in this way.
fn going_wrong(wrong: fn(&Exchange) -> Reply) -> Entry {
    let act = move |ask: Exchange| async move { wrong(&ask) };
    http_server().call("do", act).call("other", act).into()
}

#[tokio::test]
async fn hangs_before_the_head() {
    rages_alone(going_wrong(|_| Reply::Hang)).await;
}

#[tokio::test]
async fn hangs_in_the_middle_of_a_body() {
    rages_alone(going_wrong(|_| {
        Page::json("{\"jsonrpc\":").header("content-length", "1000").end(End::Hang).into()
    }))
    .await;
}

#[tokio::test]
async fn hangs_in_the_middle_of_a_stream() {
    rages_alone(going_wrong(|_| {
        Page::stream().piece(": soon\n\n").piece("data: {\"json").end(End::Hang).into()
    }))
    .await;
}

#[tokio::test]
async fn trickles_byte_by_byte_without_end() {
    rages_alone(going_wrong(|_| {
        let drops = [b'x'; 100];
        Page::json("{\"jsonrpc\":\"").trickle(&drops).pace(ms(10)).end(End::Hang).into()
    }))
    .await;
}

#[tokio::test]
async fn closes_in_the_middle_of_a_body() {
    rages_alone(going_wrong(|_| {
        Page::json("{\"jsonrpc\":").header("content-length", "1000").end(End::Cut).into()
    }))
    .await;
}

#[tokio::test]
async fn resets_every_call() {
    rages_alone(going_wrong(|_| Reply::Reset)).await;
}

#[tokio::test]
async fn answers_garbage_in_place_of_http() {
    rages_alone(going_wrong(|_| Reply::Bytes("\0\u{1}garbage\r\n\r\nHTTP/9.9 999\r\n".into()))).await;
}

#[tokio::test]
async fn answers_garbage_in_place_of_json() {
    rages_alone(going_wrong(|_| Page::json("]]}}<html>\u{0}").into())).await;
}

#[tokio::test]
async fn floods_its_stream_without_end() {
    let line = ": ".to_owned() + &"f".repeat(8000) + "\n\n";
    let noise = bytes::Bytes::from(line);
    let act = move |_: Exchange| {
        let page = Page::stream().end(End::Flood(noise.clone()));
        async { page }
    };
    rages_alone(http_server().call("do", act.clone()).call("other", act)).await;
}

#[tokio::test]
async fn floods_its_answer_without_end() {
    rages_alone(going_wrong(|_| {
        Page::json("[").end(End::Flood("[[[[[[[[[[[[[[[[".repeat(500).into())).into()
    }))
    .await;
}

#[tokio::test]
async fn floods_notifications_on_its_push_stream() {
    let bad = http_server().tool("do").tool("other").start();
    let message = kit::text::notification("notifications/tools/list_changed", "{}");
    let noise = bytes::Bytes::from(kit::text::event(&message).repeat(2));
    bad.guard(move |seen| (seen.verb == "GET").then(|| Page::stream().end(End::Flood(noise.clone())).into()));
    rages_alone(&bad).await;
}

#[tokio::test]
async fn loops_its_cursor_through_ever_new_pages() {
    let bad = http_server().on("tools/list", async |ask: Exchange| {
        let page: u64 = ask.params()["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
        json!({"tools": [tool("do"), tool("other")], "nextCursor": (page + 1).to_string()})
    });
    rages_alone(bad.behaves("do", async |_: Exchange| Reply::Hang)).await;
}

#[tokio::test]
async fn never_answers_its_handshake() {
    rages_alone(http_server().on("initialize", async |_: Exchange| Reply::Hang)).await;
}

#[tokio::test]
async fn accepts_connections_and_says_nothing() {
    let silent = Silent::new();
    rages_alone(silent.entry()).await;
}

#[tokio::test]
async fn refuses_connections() {
    let refusing = Refusing::new();
    rages_alone(refusing.entry()).await;
}

#[tokio::test]
async fn never_answers_its_lists() {
    rages_alone(http_server().on("tools/list", async |_: Exchange| Reply::Hang)).await;
}

#[tokio::test]
async fn a_child_that_dies_in_the_middle_of_a_frame() {
    let act = async |ask: Exchange| {
        ask.write("{\"jsonrpc\":\"2.0\",\"id\":").await;
        Reply::Killed
    };
    rages_alone(stdio_server().call("do", act).call("other", act)).await;
}

#[tokio::test]
async fn a_child_that_floods_its_output_with_noise() {
    let act = async |ask: Exchange| {
        for _ in 0..32 {
            ask.write("no message at all\n".repeat(1000)).await;
        }
        Reply::text("done")
    };
    rages_alone(stdio_server().call("do", act).call("other", act)).await;
}

#[tokio::test]
async fn a_child_that_never_ends_its_line() {
    let act = async |ask: Exchange| {
        for _ in 0..3 {
            ask.write(vec![b'x'; 1 << 20]).await;
        }
        Reply::Hang
    };
    rages_alone(stdio_server().call("do", act).call("other", act)).await;
}

/// STDIO-07: a child that stops reading after a good start; what does not fit its pipe waits for it alone.
#[tokio::test]
async fn a_child_that_stops_reading() {
    let words = r#"while read -r line; do
        id=${line#*\"id\":}; id=${id%%[,\}]*}
        case $line in
            *'"initialize"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"sh","version":"1"}}}\n' "$id" ;;
            *'"tools/list"'*) printf '{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"do","inputSchema":{"type":"object"}},{"name":"other","inputSchema":{"type":"object"}}]}}\n' "$id"; exec sleep 600 ;;
            *'"method":"notifications'*) : ;;
            *) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id" ;;
        esac
    done"#;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.sh");
    std::fs::write(&file, words).unwrap();
    let deaf = Entry::from(json!({"command": "sh", "args": [file]})).with(json!({"isolation": "shared"}));
    rages_alone_at(deaf, json!({"text": "x".repeat(300_000)})).await;
}

#[tokio::test]
async fn a_child_that_says_nothing() {
    rages_alone(json!({"command": "sleep", "args": ["600"]})).await;
}

#[tokio::test]
async fn a_child_that_dies_at_once_for_ever() {
    rages_alone(json!({"command": "sh", "args": ["-c", "exit 1"]})).await;
}
