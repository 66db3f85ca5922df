//! What upstreams tell unasked: to whom it goes, how often, and in which order (RES-09, RES-10, LOG-02, PROG-02, RPC-28,
//! LIFE-26).

use serde_json::{Value, json};

use crate::kit::http_server::HttpServer;
use crate::kit::script::Server;
use crate::kit::*;

const SUBSCRIBE: &str = "resources/subscribe";
const UNSUBSCRIBE: &str = "resources/unsubscribe";
const UPDATED: &str = "notifications/resources/updated";

/// A server with resources that can be subscribed to.
fn library<T>(server: Server<T>) -> Server<T> {
    let agreed = async |_| json!({});
    server
        .tool("echo")
        .capabilities(json!({
            "tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true}, "logging": {},
        }))
        .resource(json!({"uri": "lib://a", "name": "a"}))
        .resource(json!({"uri": "lib://b", "name": "b"}))
        .on(SUBSCRIBE, agreed)
        .on(UNSUBSCRIBE, agreed)
}

fn shared(server: &HttpServer) -> Entry {
    server.with(json!({"isolation": "shared"}))
}

fn uri(uri: &str) -> Value {
    json!({"uri": uri})
}

/// The URIs of the updates that came on a stream, once there are `count`.
async fn updates(stream: &listener::Listener, count: usize) -> Vec<String> {
    let heard = stream.wait_for(UPDATED, count).await;
    heard.iter().map(|update| update["params"]["uri"].as_str().unwrap().to_owned()).collect()
}

/// RES-09 RES-10: over a connection of several sessions the upstream is asked with the first who subscribes and told with
/// the last who does no more; an update goes to those who are subscribed at that moment.
#[tokio::test]
async fn res_09_subscriptions_of_sessions_are_one_of_the_upstream() {
    let alpha = library(http_server()).start();
    let gateway = gateway().upstream("alpha", shared(&alpha)).start().await;
    let join = async || {
        let client = gateway.client_of("alpha").await;
        (client.listen().await, client)
    };
    let ((one_hears, one), (two_hears, two), (three_hears, three)) =
        (join().await, join().await, join().await);
    for client in [&one, &two, &one] {
        assert_eq!(client.request(SUBSCRIBE, uri("lib://a")).await.result(), &json!({}));
    }
    three.request(SUBSCRIBE, uri("lib://b")).await.result();
    let asked: Vec<_> = alpha.seen(SUBSCRIBE).iter().map(|seen| seen.params()["uri"].clone()).collect();
    assert_eq!(asked, ["lib://a", "lib://b"], "twice is once");
    alpha.wait_for_streams(1).await;
    assert_eq!(alpha.push(UPDATED, uri("lib://a")), 1);
    alpha.push(UPDATED, uri("lib://a/part"));
    alpha.push(UPDATED, uri("lib://c"));
    alpha.push(UPDATED, uri("lib://b"));
    assert_eq!(updates(&one_hears, 2).await, ["lib://a", "lib://a/part"]);
    assert_eq!(updates(&two_hears, 2).await, ["lib://a", "lib://a/part"]);
    assert_eq!(updates(&three_hears, 1).await, ["lib://b"]);

    two.request(UNSUBSCRIBE, uri("lib://a")).await.result();
    two.request(UNSUBSCRIBE, uri("lib://a")).await.result();
    two.request(SUBSCRIBE, uri("lib://b")).await.result();
    assert!(alpha.seen(UNSUBSCRIBE).is_empty(), "another is still subscribed");
    alpha.push(UPDATED, uri("lib://a"));
    alpha.push(UPDATED, uri("lib://b"));
    assert_eq!(updates(&one_hears, 3).await[2], "lib://a");
    assert_eq!(updates(&two_hears, 3).await[2], "lib://b", "what it gave up did not come before");

    one.request(UNSUBSCRIBE, uri("lib://a")).await.result();
    let told = alpha.wait_for(UNSUBSCRIBE, 1).await;
    assert_eq!(told[0].params()["uri"], "lib://a");
    assert_eq!(two.delete().send().await.status, 204);
    alpha.push(UPDATED, uri("lib://b"));
    assert_eq!(updates(&three_hears, 3).await, ["lib://b"; 3]);
    assert_eq!(alpha.seen(UNSUBSCRIBE).len(), 1, "another is still subscribed");
    assert_eq!(three.delete().send().await.status, 204);
    let told = alpha.wait_for(UNSUBSCRIBE, 2).await;
    assert_eq!(told[1].params()["uri"], "lib://b", "the end of the last session ends its subscriptions");
    assert_eq!(one_hears.messages().len(), 3);
}

/// RES-09 RES-04 LIFE-15: with a connection for each session there is a subscription for each, and what comes over one
/// is for its session alone; the URI is the one that the client knows.
#[tokio::test]
async fn res_09_each_session_has_subscriptions_of_its_own() {
    let alpha = library(http_server()).start();
    let gateway =
        gateway().upstream("alpha", &alpha).upstream("beta", http_server().tool("echo")).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    let known = one.list("resources/list", "resources").await[0]["uri"].as_str().unwrap().to_owned();
    let (one_hears, two_hears) = (one.listen().await, two.listen().await);
    for client in [&one, &two] {
        client.request(SUBSCRIBE, uri(&known)).await.result();
    }
    let asked = alpha.seen(SUBSCRIBE);
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|seen| seen.params()["uri"] == "lib://a"));
    let [mine, other] = [&asked[0].session, &asked[1].session].map(|id| id.clone().unwrap());
    assert_ne!(mine, other);
    alpha.wait_for_streams(2).await;
    assert_eq!(alpha.push_to(&mine, UPDATED, uri("lib://a")), 1);
    assert_eq!(updates(&one_hears, 1).await[0], known);
    assert_eq!(alpha.push_to(&other, UPDATED, uri("lib://a/part")), 1);
    assert_eq!(updates(&two_hears, 1).await, [format!("{known}/part")], "the first was not for this one");
    one.request(UNSUBSCRIBE, uri(&known)).await.result();
    let told = alpha.wait_for(UNSUBSCRIBE, 1).await;
    assert_eq!((told[0].session.as_ref(), &told[0].params()["uri"]), (Some(&mine), &json!("lib://a")));
    assert_eq!(alpha.push_to(&other, UPDATED, uri("lib://a")), 1);
    assert_eq!(updates(&two_hears, 2).await[1], known);
    assert_eq!(one_hears.messages().len(), 1);
}

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// A tool that logs at every level.
async fn logging(ask: Exchange) -> Reply {
    for level in LEVELS {
        ask.notify("notifications/message", json!({"level": level, "data": level})).await;
    }
    Reply::text("logged")
}

/// The levels of what came, in order.
fn levels(messages: &[Value]) -> Vec<String> {
    messages.iter().map(|message| message["params"]["level"].as_str().unwrap().to_owned()).collect()
}

/// LOG-02: whatever the upstream sends, each session gets what it has asked for, from the next message on.
async fn logs_are_filtered(entry: Entry) {
    let gateway = gateway().upstream("alpha", entry).start().await;
    let (one, two) = (gateway.client().await, gateway.client().await);
    for (client, level) in [(&one, "error"), (&two, "info"), (&one, "emergency"), (&one, "debug")] {
        client.request("logging/setLevel", json!({"level": level})).await.result();
        let least = LEVELS.iter().position(|known| *known == level).unwrap();
        let outcome = client.call("alpha__log", json!({})).await;
        assert_eq!(levels(&outcome.heard("notifications/message")), LEVELS[least..], "{level}");
    }
    let outcome = two.call("alpha__log", json!({})).await;
    assert_eq!(levels(&outcome.heard("notifications/message")), LEVELS[1..], "its own level is as it was");
    assert_eq!(one.request("logging/setLevel", json!({"level": "loud"})).await.code(), -32602);
}

/// LOG-02: over a connection of each session's own.
#[tokio::test]
async fn log_02_each_session_hears_what_it_asked_for() {
    let alpha = http_server().capabilities(json!({"tools": {}, "logging": {}})).call("log", logging).start();
    logs_are_filtered((&alpha).into()).await;
}

/// LOG-02: over one of several, whose upstream is asked for what any of them wants.
#[tokio::test]
async fn log_02_sessions_with_one_connection_hear_what_each_asked_for() {
    let alpha = http_server().capabilities(json!({"tools": {}, "logging": {}})).call("log", logging).start();
    logs_are_filtered(shared(&alpha)).await;
    let told = alpha.seen("logging/setLevel");
    let told: Vec<_> = told.iter().map(|seen| seen.params()["level"].as_str().unwrap().to_owned()).collect();
    assert_eq!(told.last().map(String::as_str), Some("debug"), "{told:?}");
}

/// Progress and log messages of a call, told by name and number.
async fn reporting(ask: Exchange) -> Reply {
    for step in 1..=40 {
        ask.progress(2 * step, 80).await;
        ask.notify("notifications/message", json!({"level": "error", "data": 2 * step + 1})).await;
    }
    Reply::text("done")
}

/// RPC-28 PROG-02, HTTP-19: what a call says comes on its own stream, in order, and before its answer.
fn is_in_order(outcome: &Outcome, token: &Value) {
    assert_eq!(outcome.said(), "done");
    let words: Vec<_> = outcome.before.iter().map(|message| text::tree(message)["params"].clone()).collect();
    let steps: Vec<_> = words.iter().filter(|word| !word["progress"].is_null()).collect();
    assert!(steps.iter().all(|step| step["progressToken"] == *token), "{steps:?}");
    let number = |word: &Value| word["progress"].as_u64().or_else(|| word["data"].as_u64()).unwrap();
    let numbers: Vec<_> = words.iter().map(number).collect();
    assert_eq!(numbers, (2..=81).collect::<Vec<_>>());
}

/// RPC-28 PROG-02, HTTP-19: over HTTP calls are told apart also while they run at once.
#[tokio::test]
async fn rpc_28_what_a_call_says_stays_in_order() {
    let alpha = http_server().capabilities(json!({"tools": {}, "logging": {}})).call("report", reporting);
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    let standing = client.listen().await;
    let calls = ["1", r#""1""#].map(|token| client.call_with_token("alpha__report", json!({}), token));
    let outcomes = futures_util::future::join_all(calls).await;
    is_in_order(&outcomes[0], &json!(1));
    is_in_order(&outcomes[1], &json!("1"));
    assert!(standing.messages().is_empty(), "{:?}", standing.messages());
}

/// RPC-28 PROG-02: over a pipe, where all that comes is a call's while it is alone.
#[tokio::test]
async fn rpc_28_what_a_child_says_stays_in_order() {
    let alpha = stdio_server().capabilities(json!({"tools": {}, "logging": {}})).call("report", reporting);
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    let standing = client.listen().await;
    is_in_order(&client.call_with_token("alpha__report", json!({}), "1").await, &json!(1));
    assert!(standing.messages().is_empty(), "{:?}", standing.messages());
}

/// LIFE-26 RES-09, F-024: what may have changed while the upstream was away is made up: it is asked again for updates,
/// whoever had subscribed is told of one, and of lists that differ.
async fn an_outage_is_made_up(isolation: &str) {
    const TOOLS_CHANGED: &str = "notifications/tools/list_changed";
    let alpha = library(http_server()).start();
    let entry = alpha.with(json!({"isolation": isolation}));
    let gateway = gateway().upstream("alpha", entry).start().await;
    let (one, two) = (gateway.client_of("alpha").await, gateway.client_of("alpha").await);
    assert_eq!(one.tool_names().await, ["echo"]);
    one.request(SUBSCRIBE, uri("lib://a")).await.result();
    one.request(SUBSCRIBE, uri("lib://b")).await.result();
    one.request(UNSUBSCRIBE, uri("lib://b")).await.result();
    let (one_hears, two_hears) = (one.listen().await, two.listen().await);
    alpha.wait_for_streams(1).await;
    let before = alpha.seen(SUBSCRIBE).len();

    alpha.stop().await;
    alpha.forget();
    alpha.add_tool("new");
    alpha.start_again();
    assert_eq!(updates(&one_hears, 1).await, ["lib://a"], "{isolation}");
    let again = &alpha.wait_for(SUBSCRIBE, before + 1).await[before..];
    assert_eq!(again.iter().map(|seen| seen.params()).collect::<Vec<_>>(), [uri("lib://a")], "{isolation}");
    for stream in [&one_hears, &two_hears] {
        stream.wait_for(TOOLS_CHANGED, 1).await;
    }
    assert_eq!(one.tool_names().await, ["echo", "new"]);
    // Until the stream is open on which this one is heard.
    soon("one more update", async {
        while one_hears.heard(UPDATED).len() < 2 {
            alpha.push(UPDATED, uri("lib://a"));
            pass(ms(50)).await;
        }
    })
    .await;
    assert!(two_hears.heard(UPDATED).is_empty(), "{isolation}: it has no subscription");
}

/// LIFE-26: for a connection of one session.
#[tokio::test]
async fn life_26_an_outage_is_made_up_for_a_session() {
    an_outage_is_made_up("session").await;
}

/// LIFE-26: for a connection of several.
#[tokio::test]
async fn life_26_an_outage_is_made_up_for_all_who_share() {
    an_outage_is_made_up("shared").await;
}

/// LIFE-26 STDIO-08: a child that died is started again for who listens to its resources, without a call.
#[tokio::test]
async fn life_26_the_end_of_a_child_is_made_up() {
    let alpha = library(stdio_server()).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client_of("alpha").await;
    client.request(SUBSCRIBE, uri("lib://a")).await.result();
    let stream = client.listen().await;
    let subscribed = alpha.seen(SUBSCRIBE)[0].session.clone();
    for child in alpha.running() {
        child.die();
    }
    assert_eq!(updates(&stream, 1).await, ["lib://a"]);
    let again = &alpha.wait_for(SUBSCRIBE, 2).await[1];
    assert_eq!(again.params(), uri("lib://a"));
    assert_ne!(again.session, subscribed, "another child");
}

/// LIFE-26 STDIO-08: the same where it cannot be started at first, and although nobody calls it for long.
#[tokio::test]
async fn life_26_a_child_that_is_missed_is_tried_again() {
    let alpha = library(stdio_server()).start();
    let gateway = gateway().upstream("alpha", &alpha).with(json!({"children": {"idle": "1s"}})).start().await;
    let client = gateway.client_of("alpha").await;
    client.request(SUBSCRIBE, uri("lib://a")).await.result();
    let stream = client.listen().await;
    let met = alpha.seen("initialize").len();
    alpha.on("initialize", async |_| Reply::Exit(1));
    for child in alpha.running() {
        child.die();
    }
    alpha.wait_for("initialize", met + 2).await;
    assert!(stream.messages().is_empty());
    alpha.on("initialize", async |ask: Exchange| ask.hello());
    assert_eq!(updates(&stream, 1).await, ["lib://a"]);
}
