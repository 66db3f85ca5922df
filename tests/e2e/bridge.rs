//! A client on the standard streams of `portcullis connect`, and a server on the network.

use serde_json::{Value, json};

use crate::kit::*;

fn secret() -> String {
    ["s3cr3t", "of", "the", "test"].join("-")
}

/// R-51, F-093: what the server has, under its own names; and the headers, which nobody sees.
#[tokio::test]
async fn r_51_a_server_on_the_network_is_reached_with_headers() {
    let asks = |exchange: Exchange| async move {
        let question = json!({"message": "name?", "requestedSchema": {"type": "object", "properties": {}}});
        exchange.send(&text::request("\"q\"", "elicitation/create", &question.to_string())).await;
        let peer = &exchange.peer;
        let answered = || {
            peer.received()
                .into_iter()
                .find(|seen| seen.method.is_none() && seen.id.as_deref() == Some("\"q\""))
        };
        json!({"content": [], "structuredContent": text::tree(&peer.until("the answer", answered).await.body)})
    };
    let server = http_server().tool("echo").call("ask", asks).instructions("Be kind.").start();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key");
    std::fs::write(&file, "from-a-file\n").unwrap();
    let from_file = format!("X-File={}", file.display());
    let url = server.url();
    let arguments = [
        "connect",
        &url,
        "--header",
        "X-Team: blue",
        "--header-env",
        "Authorization=TOKEN",
        "--header-file",
        &from_file,
        "--log-level",
        "trace",
    ];
    let token = format!("Bearer {}", secret());
    let piped = Piped::start(&arguments, &[("TOKEN", &token)]);
    let mut piped = piped.connect_as(NEWEST, json!({"elicitation": {}})).await;
    assert_eq!(piped.hello["result"]["instructions"], "Be kind.");
    assert_eq!(piped.tool_names().await, ["echo", "ask"]);
    assert_eq!(piped.call("echo", json!({"n": 1})).await["result"]["structuredContent"], json!({"n": 1}));
    let id = piped.begin("tools/call", json!({"name": "ask"})).await;
    let question = piped.hears("elicitation/create").await;
    assert_eq!(question["params"]["message"], "name?", "there is one server only");
    piped.say(&text::response(&question["id"].to_string(), r#"{"action":"decline"}"#)).await;
    let told = piped.answer(json!(id)).await;
    assert_eq!(told["result"]["structuredContent"]["result"]["action"], "decline", "{told}");
    for seen in server.received() {
        assert_eq!(seen.header("x-team").as_deref(), Some("blue"));
        assert_eq!(seen.header("authorization"), Some(token.clone()));
        assert_eq!(seen.header("x-file").as_deref(), Some("from-a-file"));
    }
    let command = std::fs::read_to_string(format!("/proc/{}/cmdline", piped.pid())).unwrap_or_default();
    piped.leave().await;
    assert!(!piped.errors().is_empty());
    let shown = piped.errors() + &piped.output().join("\n") + &command;
    assert!(!shown.contains(&secret()) && !shown.contains("from-a-file"), "{shown}");
}

/// A server that is not there when the session is to be opened: the client is told, and so is who looks.
#[tokio::test]
async fn a_server_that_is_away_is_an_error_with_a_code_of_its_own() {
    let refusing = Refusing::new();
    let entry = refusing.entry();
    let url = entry["url"].as_str().unwrap();
    let mut piped = Piped::start(&["connect", url], &[]);
    let answer = piped.greet(NEWEST, json!({})).await;
    assert!(answer["error"]["message"].as_str().unwrap().contains("refuses the connection"), "{answer}");
    piped.close().await;
    assert_eq!(piped.exit(SOON).await.code(), Some(3), "{}", piped.errors());
    assert!(piped.errors().contains("error: upstream"), "{}", piped.errors());

    let server = http_server().start();
    server.guard(|_| Some(Reply::status(401)));
    let mut piped = Piped::start(&["connect", &server.url()], &[]);
    let answer = piped.greet(NEWEST, json!({})).await;
    assert!(answer["error"].is_object(), "{answer}");
    piped.close().await;
    assert_eq!(piped.exit(SOON).await.code(), Some(4), "{}", piped.errors());
    assert!(piped.errors().contains("needs authorization"), "{}", piped.errors());

    // It may come while the client still tries.
    server.unguard();
    server.stop().await;
    let mut piped = Piped::start(&["connect", &server.url()], &[]);
    assert!(piped.greet(NEWEST, json!({})).await["error"].is_object());
    server.start_again();
    let met = soon("a session after all", async {
        loop {
            let answer = piped.greet(NEWEST, json!({})).await;
            if answer["result"].is_object() {
                return answer;
            }
            pass(ms(50)).await;
        }
    });
    assert_eq!(met.await["result"]["protocolVersion"], NEWEST);
    piped.leave().await;
}

/// LIFE-26: a server that restarts, or goes away for a while, keeps its client.
#[tokio::test]
async fn life_26_a_server_that_restarts_keeps_its_client() {
    let server = http_server().tool("echo").start();
    let mut piped = Piped::start(&["connect", &server.url()], &[]).connect().await;
    let echoes = async |piped: &Piped, n: i64| {
        let answer = piped.call("echo", json!({"n": n})).await;
        answer["result"]["structuredContent"] == json!({"n": n})
    };
    assert!(echoes(&piped, 1).await);
    server.forget();
    assert!(echoes(&piped, 2).await);
    assert!(server.seen("initialize").len() >= 2);

    server.stop().await;
    assert!(!echoes(&piped, 3).await);
    server.start_again();
    soon("calls succeed again", async {
        while !echoes(&piped, 4).await {
            pass(ms(50)).await;
        }
    })
    .await;
    piped.leave().await;
}

/// Wrong words are said before anything is begun.
#[tokio::test]
async fn wrong_arguments_are_refused() {
    for (arguments, said) in [
        (vec!["connect", "ftp://h/"], "http"),
        (vec!["connect", "http://h/", "--header", "nothing"], "--header"),
        (vec!["connect", "http://h/", "--header-env", "Authorization=UNSET_HERE"], "UNSET_HERE"),
        (vec!["connect", "http://h/", "--header", "mcp-session-id: x"], "mcp-session-id"),
    ] {
        let mut piped = Piped::start(&arguments, &[]);
        assert_eq!(piped.exit(SOON).await.code(), Some(2), "{arguments:?}");
        assert!(piped.errors().contains(said), "{}", piped.errors());
        assert_eq!(piped.messages(), Vec::<Value>::new());
    }
}
