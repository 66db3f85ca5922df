//! One client on the standard streams of `portcullis stdio`.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::kit::process::{alive, descendants, resident};
use crate::kit::script::Server;
use crate::kit::*;

/// A server with a bit of everything, of either kind.
fn everything<T>(server: Server<T>) -> Server<T> {
    let claim = json!({"tools": {"listChanged": true}, "prompts": {}, "resources": {"subscribe": true}, "logging": {}});
    server
        .tool("echo")
        .call("ask", ask)
        .call("report", |exchange: Exchange| async move {
            exchange.progress(1, 2).await;
            exchange.notify("notifications/message", json!({"level": "info", "data": "half"})).await;
            said("whole")
        })
        .call("hang", |exchange: Exchange| async move {
            exchange.peer.note("begun");
            exchange.cancelled().await;
            exchange.peer.note("cancelled");
            Reply::Done
        })
        .resource(json!({"uri": "mem://a", "name": "a"}))
        .prompt(json!({"name": "greet"}))
        .capabilities(claim)
        .on("resources/subscribe", |_| async { json!({}) })
}

/// Asks what its arguments say, and tells what was answered.
async fn ask(exchange: Exchange) -> Value {
    let (method, params) = (exchange.argument("method"), exchange.argument("params"));
    let id = text::quoted(method.as_str().unwrap());
    exchange.send(&text::request(&id, method.as_str().unwrap(), &params.to_string())).await;
    let peer = &exchange.peer;
    let answered =
        || peer.received().into_iter().find(|seen| seen.method.is_none() && seen.id.as_deref() == Some(&*id));
    let seen = peer.until("the answer to a question", answered).await;
    json!({"content": [], "structuredContent": text::tree(&seen.body)})
}

/// A call of a tool that asks.
fn asking(tool: &str, method: &str, params: Value) -> Value {
    json!({"name": tool, "arguments": {"method": method, "params": params}})
}

fn elicitation() -> Value {
    json!({"message": "name?", "requestedSchema": {"type": "object", "properties": {}}})
}

/// STDIO-01, STDIO-02, STDIO-03: lists, calls and reads, over a child and over HTTP alike.
#[tokio::test]
async fn stdio_01_one_client_sees_all_servers_and_nothing_but_messages() {
    let plan = gateway().upstream("a", everything(stdio_server())).upstream("b", everything(http_server()));
    let mut piped = plan.pipe(&[]).connect().await;
    assert_eq!(piped.hello["result"]["serverInfo"]["name"], "portcullis");
    let names = piped.tool_names().await;
    assert!(names.contains(&"a__echo".to_owned()) && names.contains(&"b__ask".to_owned()), "{names:?}");
    for server in ["a", "b"] {
        let answer = piped.call(&format!("{server}__echo"), json!({"n": 1})).await;
        assert_eq!(answer["result"]["structuredContent"], json!({"n": 1}));
        let answer = piped.request("prompts/get", json!({"name": format!("{server}__greet")})).await;
        assert!(answer["result"]["messages"].is_array(), "{answer}");
    }
    let resources = piped.request("resources/list", json!({})).await;
    let uri = resources["result"]["resources"][0]["uri"].clone();
    let read = piped.request("resources/read", json!({"uri": uri})).await;
    assert_eq!(read["result"]["contents"][0]["uri"], uri, "{read}");
    piped.leave().await;
    assert_eq!(piped.errors(), "", "a client shows its users what is written there");
}

/// The endpoint of one server, and a server without any file.
#[tokio::test]
async fn one_server_is_served_under_its_own_names() {
    let server = everything(stdio_server()).start();
    let other = stdio_server().tool("other").start();
    let plan = gateway().upstream("a", &server).upstream("b", &other);
    let mut piped = plan.pipe(&["--server", "a"]).connect().await;
    assert_eq!(piped.call("echo", json!({"n": 1})).await["result"]["structuredContent"], json!({"n": 1}));
    piped.leave().await;
    assert!(other.children().is_empty(), "a server that nobody can see is not started");

    let (command, arguments) = server.command();
    let mut line = vec!["stdio", "--", &command];
    line.extend(arguments.iter().map(String::as_str));
    let mut piped = Piped::start(&line, &[]).connect().await;
    assert_eq!(piped.call("echo", json!({"n": 2})).await["result"]["structuredContent"], json!({"n": 2}));
    piped.leave().await;
}

/// LIFE-01, LIFE-18: nothing but `ping` before the session, and one session only.
#[tokio::test]
async fn life_18_a_session_is_opened_first_and_once() {
    let piped = gateway().upstream("a", everything(stdio_server())).pipe(&[]);
    assert_eq!(piped.request("ping", json!({})).await["result"], json!({}));
    for method in ["tools/list", "server/discover"] {
        assert_eq!(piped.request(method, json!({})).await["error"]["code"], -32600);
    }
    piped.say("[]").await;
    piped.notify("notifications/initialized", json!({})).await;
    let refused = piped.request("initialize", json!({"protocolVersion": 7})).await;
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    let mut piped = piped.connect().await;
    let again = piped.greet(NEWEST, json!({})).await;
    assert_eq!(again["error"]["code"], -32600, "{again}");
    assert_eq!(piped.call("a__echo", json!({"n": 1})).await["result"]["structuredContent"], json!({"n": 1}));
    piped.leave().await;
}

/// RPC-10, RPC-24, F-033, F-034, F-035: whatever a line holds, the next one is read.
#[tokio::test]
async fn f_035_a_bad_line_is_answered_and_the_next_one_read() {
    let limits = json!({"http": {"bodyLimit": 2048, "maxDepth": 16}});
    let mut piped =
        gateway().upstream("a", everything(stdio_server())).with(limits).pipe(&[]).connect().await;
    let error =
        |code: i64, id: Value| move |message: &Value| message["error"]["code"] == code && message["id"] == id;
    piped.write("\r\n   \nno JSON\n").await;
    piped.message("a syntax error", error(-32700, Value::Null)).await;
    piped.write(&b"{\"a\":\"\xff\"}\n"[..]).await;
    piped.say(r#"{"jsonrpc":"1.0","id":"old","method":"ping"}"#).await;
    piped.message("an error of the envelope", error(-32600, json!("old"))).await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":"deep","method":"ping","params":{{"a":{}1{}}}}}"#,
        "[".repeat(20),
        "]".repeat(20)
    );
    let lines = piped.output().len();
    piped.say(&deep).await;
    piped.message_after(lines, "an error of depth", error(-32600, Value::Null)).await;
    let filler = "x".repeat(5000);
    for (line, id) in [
        (
            format!(
                r#"{{"jsonrpc":"2.0","id":"long","method":"tools/call","params":{{"name":"{filler}"}}}}"#
            ),
            json!("long"),
        ),
        (
            format!(
                r#"{{"method":"tools/call","params":{{"id":7,"name":"{filler}"}},"jsonrpc":"2.0","id":8}}"#
            ),
            json!(8),
        ),
        (filler.clone(), Value::Null),
    ] {
        let lines = piped.output().len();
        piped.say(&line).await;
        let refused = piped.message_after(lines, "an error of size", error(-32600, id)).await;
        assert!(refused["error"]["message"].as_str().unwrap().contains("bodyLimit"), "{refused}");
    }
    // In pieces, with the line end of another system.
    for piece in [r#"{"jsonrpc":"2.0","id":"cut","#, r#""method":"pi"#, "ng\"}\r", "\n"] {
        piped.write(piece).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(piped.answer(json!("cut")).await["result"], json!({}));
    // The last one may lack its end.
    piped.write(r#"{"jsonrpc":"2.0","id":"last","method":"ping"}"#).await;
    piped.leave().await;
    assert!(piped.messages().iter().any(|message| message["id"] == "last"));
}

/// RPC-15, STDIO-11: an array where the revision has them, with the answers in one.
#[tokio::test]
async fn rpc_15_batches_belong_to_one_revision() {
    let plan = || gateway().upstream("a", everything(stdio_server()));
    let batch = json!([
        {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": {"name": "a__echo", "arguments": {"n": 1}}},
        {"jsonrpc": "2.0", "method": "notifications/unknown"},
        {"jsonrpc": "2.0", "id": "y", "method": "nothing"},
        7,
    ])
    .to_string();
    let mut piped = plan().pipe(&[]).connect_as("2025-03-26", json!({})).await;
    piped.say(&batch).await;
    let answers = piped.message("an array", Value::is_array).await;
    let of = |id: &str| answers.as_array().unwrap().iter().find(|one| one["id"] == id).unwrap().clone();
    assert_eq!(of("x")["result"]["structuredContent"], json!({"n": 1}));
    assert_eq!(of("y")["error"]["code"], -32601);
    assert_eq!(answers.as_array().unwrap().len(), 3, "{answers}");
    piped.say("[]").await;
    piped.message("a refusal", |message| message["error"]["code"] == -32600).await;
    piped.leave().await;

    let mut piped = plan().pipe(&[]).connect().await;
    piped.say(&batch).await;
    piped.message("a refusal", |message| message["error"]["code"] == -32600).await;
    piped.leave().await;
}

/// What a server asks reaches the client, and the client's answer the server.
#[tokio::test]
async fn questions_of_servers_are_answered_by_the_client() {
    let plan = gateway().upstream("a", everything(stdio_server())).upstream("b", everything(http_server()));
    let able = json!({"sampling": {}, "elicitation": {}, "roots": {"listChanged": true}});
    let mut piped = plan.pipe(&[]).connect_as(NEWEST, able).await;
    let user = json!({"role": "user", "content": {"type": "text", "text": "hi"}});
    let assistant = json!({"role": "assistant", "content": {"type": "text", "text": "ho"}, "model": "m"});
    let questions = [
        ("elicitation/create", elicitation(), json!({"action": "accept", "content": {}})),
        ("sampling/createMessage", json!({"messages": [user], "maxTokens": 9}), assistant),
        ("roots/list", json!({}), json!({"roots": [{"uri": "file:///tmp"}]})),
    ];
    for server in ["a", "b"] {
        for (method, params, answer) in &questions {
            let lines = piped.output().len();
            let call = asking(&format!("{server}__ask"), method, params.clone());
            let id = piped.begin("tools/call", call).await;
            // The roots are known from the first server's question.
            if (server, *method) != ("b", "roots/list") {
                let asked = |message: &Value| message["method"] == *method;
                let question = piped.message_after(lines, method, asked).await;
                piped.say(&text::response(&question["id"].to_string(), &answer.to_string())).await;
            }
            let told = piped.answer(json!(id)).await;
            assert_eq!(told["result"]["structuredContent"]["result"], *answer, "{server} {method}: {told}");
        }
    }
    piped.leave().await;
}

/// PROG-07, LOG-02: what precedes an answer comes before it.
#[tokio::test]
async fn progress_logs_and_updates_come_through() {
    let server = everything(http_server()).start();
    let plan = gateway().upstream("a", everything(stdio_server())).upstream("b", &server);
    let mut piped = plan.pipe(&[]).connect().await;
    assert_eq!(piped.request("logging/setLevel", json!({"level": "debug"})).await["result"], json!({}));
    for server in ["a", "b"] {
        let lines = piped.output().len();
        let call =
            json!({"name": format!("{server}__report"), "arguments": {}, "_meta": {"progressToken": server}});
        let answer = piped.request("tools/call", call).await;
        assert_eq!(answer["result"]["content"][0]["text"], "whole");
        let methods: Vec<_> =
            piped.messages()[lines..].iter().map(|message| message["method"].clone()).collect();
        assert_eq!(
            methods,
            [json!("notifications/progress"), json!("notifications/message"), Value::Null],
            "{server}"
        );
        let progress = &piped.messages()[lines];
        assert_eq!(progress["params"]["progressToken"], server, "{progress}");
    }
    let resources = piped.request("resources/list", json!({})).await;
    for resource in resources["result"]["resources"].as_array().unwrap() {
        let uri = json!({"uri": resource["uri"]});
        assert_eq!(piped.request("resources/subscribe", uri).await["result"], json!({}));
    }
    server.wait_for_streams(1).await;
    server.push("notifications/resources/updated", json!({"uri": "mem://a"}));
    piped.hears("notifications/resources/updated").await;
    server.add_tool("late");
    server.push("notifications/tools/list_changed", json!({}));
    piped.hears("notifications/tools/list_changed").await;
    assert!(piped.tool_names().await.contains(&"b__late".to_owned()));
    piped.leave().await;
}

/// CANC-01: the client's cancellation reaches the server, and a server's the client.
#[tokio::test]
async fn canc_01_either_side_may_cancel() {
    let child = everything(stdio_server()).start();
    let remote = everything(http_server())
        .call("retract", |exchange: Exchange| async move {
            exchange.send(&text::request("\"r\"", "elicitation/create", &elicitation().to_string())).await;
            exchange.released().await;
            exchange.notify("notifications/cancelled", json!({"requestId": "r"})).await;
            said("done without")
        })
        .start();
    let plan = gateway().upstream("a", &child).upstream("b", &remote);
    let mut piped = plan.pipe(&[]).connect_as(NEWEST, json!({"elicitation": {}})).await;
    let id = piped.begin("tools/call", json!({"name": "a__hang"})).await;
    child.wait_for_note("begun").await;
    piped.notify("notifications/cancelled", json!({"requestId": id})).await;
    child.wait_for_note("cancelled").await;
    let call = piped.begin("tools/call", json!({"name": "b__retract"})).await;
    let question = piped.hears("elicitation/create").await;
    remote.release();
    let cancelled = piped.hears("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], question["id"]);
    assert_eq!(piped.answer(json!(call)).await["result"]["content"][0]["text"], "done without");
    piped.leave().await;
    let answered = |message: &Value| message["id"] == id && message["method"].is_null();
    assert!(!piped.messages().iter().any(answered), "a cancelled call has no answer");
}

/// RPC-28: many calls at once, each with its own answer.
#[tokio::test]
async fn a_thousand_calls_are_under_way_at_once() {
    let plan = gateway().upstream("a", everything(stdio_server())).upstream("b", everything(http_server()));
    let mut piped = plan.pipe(&[]).connect().await;
    let call = |id: usize| {
        let server = ["a", "b"][id % 2];
        let params = json!({"name": format!("{server}__echo"), "arguments": {"n": id}});
        text::request(&format!("\"c{id}\""), "tools/call", &params.to_string()) + "\n"
    };
    let all: String = (0..1000).map(call).collect();
    piped.write(&all).await;
    for id in 0..1000 {
        let answer = piped.answer(json!(format!("c{id}"))).await;
        assert_eq!(answer["result"]["structuredContent"]["n"], id, "{answer}");
    }
    piped.leave().await;
}

/// What is piped in is answered, also when the input is over before; what takes too long is cancelled.
#[tokio::test]
async fn the_end_of_the_input_leaves_time_for_what_is_quick() {
    let server = everything(stdio_server())
        .call("slow", |exchange: Exchange| async move {
            exchange.peer.note("slow has begun");
            exchange.released().await;
            said("slow and done")
        })
        .start();
    let piped = gateway().upstream("a", &server).pipe(&[]);
    let mut piped = piped.connect_as(NEWEST, json!({"elicitation": {}})).await;
    let slow = piped.begin("tools/call", json!({"name": "a__slow"})).await;
    server.wait_for_note("slow has begun").await;
    let asks = piped.begin("tools/call", asking("a__ask", "elicitation/create", elicitation())).await;
    piped.close().await;
    server.release();
    assert_eq!(piped.exit(SOON).await.code(), Some(0), "{}", piped.errors());
    let of = |id: u64| {
        piped
            .messages()
            .into_iter()
            .find(|message| message["id"] == id && message["method"].is_null())
            .unwrap()
    };
    assert_eq!(of(slow)["result"]["content"][0]["text"], "slow and done");
    // Nobody is left who could be asked.
    let told = of(asks);
    assert!(told["result"].is_object() || told["error"].is_object(), "{told}");
    server.wait_until_empty().await;

    let piped = gateway().upstream("a", &server).with(json!({"drain": {"grace": "300ms"}})).pipe(&[]);
    let mut piped = piped.connect().await;
    let hangs = piped.begin("tools/call", json!({"name": "a__hang"})).await;
    server.wait_for_note("begun").await;
    piped.leave().await;
    let error = piped.messages().into_iter().find(|message| message["id"] == hangs).unwrap();
    assert!(error["error"]["message"].as_str().unwrap().contains("shutting down"), "{error}");
    server.wait_for_note("cancelled").await;
    server.wait_until_empty().await;
}

/// F-098, STDIO-04: told to stop, it ends in order, and no child is left.
#[tokio::test]
async fn f_098_a_signal_ends_it_and_its_children() {
    for signal in [Signal::TERM, Signal::INT] {
        let server = everything(stdio_server()).start();
        let plan = gateway().upstream("a", &server).with(json!({"drain": {"grace": "200ms"}}));
        let mut piped = plan.pipe(&[]).connect().await;
        let hangs = piped.begin("tools/call", json!({"name": "a__hang"})).await;
        server.wait_for_note("begun").await;
        let children = descendants(piped.pid());
        assert!(!children.is_empty());
        piped.signal(signal);
        assert_eq!(piped.exit(SOON).await.code(), Some(0), "{}", piped.errors());
        let error = piped.messages().into_iter().find(|message| message["id"] == hangs).unwrap();
        assert!(error["error"].is_object(), "{error}");
        eventually(SOON, "no child is left", || children.iter().all(|child| !alive(child.pid))).await;
    }
}

/// A signal after the end of the input waits for nobody.
#[tokio::test]
async fn a_signal_cuts_the_grace_short() {
    let server = everything(stdio_server()).start();
    let mut piped = gateway().upstream("a", &server).pipe(&[]).connect().await;
    let _hangs = piped.begin("tools/call", json!({"name": "a__hang"})).await;
    server.wait_for_note("begun").await;
    piped.close().await;
    piped.signal(Signal::TERM);
    assert_eq!(piped.exit(secs(4)).await.code(), Some(0), "{}", piped.errors());
    server.wait_until_empty().await;
}

/// A client that reads no more has gone, whatever it still writes.
#[tokio::test]
async fn a_broken_output_ends_it() {
    let server = everything(stdio_server()).start();
    let mut piped = gateway().upstream("a", &server).pipe(&[]).connect().await;
    let _answer = piped.call("a__echo", json!({})).await;
    piped.stop_reading().await;
    piped.begin("ping", json!({})).await;
    assert_eq!(piped.exit(SOON).await.code(), Some(0), "{}", piped.errors());
    server.wait_until_empty().await;
}

/// R-16: a client that does not read makes nothing grow, and loses nothing.
#[tokio::test]
async fn r_16_a_client_that_does_not_read_costs_little() {
    const CALLS: usize = 128;
    let large = |_: Exchange| async { said("x".repeat(1 << 20)) };
    let plan = gateway().upstream("a", http_server().call("large", large).tool("echo"));
    let mut piped = plan.pipe(&[]).connect().await;
    let _answer = piped.call("a__large", json!({})).await;
    let before = resident(piped.pid());
    let lines = piped.output().len();
    piped.turn_deaf();
    let call =
        |id: usize| text::request(&format!("\"c{id}\""), "tools/call", r#"{"name":"a__large"}"#) + "\n";
    piped.write((0..CALLS).map(call).collect::<String>()).await;
    // The servers' answers come in the meantime, as far as they are read.
    pass(secs(2)).await;
    let grown = resident(piped.pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    piped.listen_again();
    let mut answered = std::collections::BTreeSet::new();
    for line in lines..lines + CALLS {
        let answer = piped.message_after(line, "an answer", |message| message["result"].is_object()).await;
        answered.insert(answer["id"].to_string());
    }
    assert_eq!(answered.len(), CALLS);
    piped.leave().await;
}

/// A client starts as many as it likes, of one file.
#[tokio::test]
async fn two_at_once_do_not_meet() {
    let server = everything(stdio_server()).start();
    let own = json!({"stateDirectory": tempfile::tempdir().unwrap().path(), "listen": "127.0.0.1:7420"});
    let plan = || gateway().upstream("a", &server).with(own.clone());
    let (one, two) = tokio::join!(plan().pipe(&[]).connect(), plan().pipe(&[]).connect());
    for mut piped in [one, two] {
        assert_eq!(
            piped.call("a__echo", json!({"n": 1})).await["result"]["structuredContent"],
            json!({"n": 1})
        );
        piped.leave().await;
    }
    server.wait_until_empty().await;
}
