//! Streams of clients that lose their connection and come back (HTTP-13, HTTP-14, HTTP-20..HTTP-23, F-008).

use serde_json::{Value, json};

use crate::kit::http_server::HttpServer;
use crate::kit::*;

/// How many messages precede the answer.
const COUNT: u64 = 30;

/// A server whose tool `count` sends [`COUNT`] numbered notices of two kinds, and waits in their middle, where and
/// for what its arguments say.
fn counting() -> HttpServer {
    let count = async |ask: Exchange| {
        let pause = ask.argument("pause").as_u64();
        for n in 1..=COUNT {
            match n {
                // One only: more of them at such a pace would be dropped (LOG-05).
                15 => ask.notify("notifications/message", json!({"level": "error", "data": n})).await,
                _ => ask.progress(i64::try_from(n).unwrap(), 30).await,
            }
            if pause == Some(n) {
                ask.peer.wait_for_note(ask.argument("until").as_str().unwrap()).await;
            }
        }
        ask.peer.note("counted");
        Reply::text("done")
    };
    http_server().capabilities(json!({"tools": {}, "logging": {}})).call("count", count).start()
}

/// The number that a notice of [`counting`] carries; 0 for the result.
fn number(message: &Value) -> u64 {
    match message["method"].as_str() {
        Some("notifications/progress") => message["params"]["progress"].as_u64().unwrap(),
        Some("notifications/message") => {
            message["params"]["data"].as_u64().unwrap_or_else(|| panic!("{message}"))
        }
        None if message["result"]["content"][0]["text"] == "done" => 0,
        _ => panic!("{message}"),
    }
}

/// Reads events until `count` of them carried messages; gives what those are, and the id of the last event.
async fn read(answer: &mut Answer, count: usize) -> (Vec<u64>, String) {
    let (mut numbers, mut id) = (Vec::new(), None);
    while numbers.len() < count || id.is_none() {
        let event = answer.event().await.expect("the stream goes on");
        numbers.extend(event.message().map(|_| number(&event.tree())));
        id = event.id.or(id);
    }
    (numbers, id.unwrap())
}

async fn rest(answer: &mut Answer) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(event) = answer.event().await {
        numbers.extend(event.message().map(|_| number(&event.tree())));
    }
    numbers
}

/// HTTP-21 HTTP-11 HTTP-20: wherever the connection of an answer is cut, each notice arrives once and in order, then
/// the result; those that are sent meanwhile, too.
#[tokio::test]
async fn http_21_an_answer_is_whole_wherever_it_was_cut() {
    let alpha = counting();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let whole: Vec<_> = (1..=COUNT).chain([0]).collect();
    for revision in ["2025-11-25", "2025-03-26"] {
        let client = gateway.visitor().asking_for(revision).connect().await;
        // From the priming event, which only the newest revision has, to the result itself.
        let first = usize::from(revision != "2025-11-25");
        for cut in first..=whole.len() {
            let note = format!("{revision} is cut after {cut}");
            let arguments = json!({"pause": cut, "until": note});
            let params =
                json!({"name": "alpha__count", "arguments": arguments, "_meta": {"progressToken": cut}});
            let mut answer = client.begin(&client.next_id().to_string(), "tools/call", params).await;
            let (mut seen, id) = read(&mut answer, cut).await;
            answer.reset();
            alpha.note(&note);
            let mut answer = client.get().header("last-event-id", &id).send().await;
            assert_eq!(answer.status, 200, "{revision}, after {cut}");
            seen.extend(rest(&mut answer).await);
            assert_eq!(seen, whole, "{revision}, after {cut}");
        }
    }
    let calls = alpha.seen("tools/call").len();
    assert_eq!(calls, 2 * whole.len() + 1, "a client that comes back is no reason to call again");
}

/// HTTP-21 HTTP-18 RES-09: the same for a standing stream: what comes while it is cut waits, and comes once.
#[tokio::test]
async fn http_21_a_standing_stream_is_whole_wherever_it_was_cut() {
    const UPDATED: &str = "notifications/resources/updated";
    let done = async |_| json!({});
    let alpha = http_server().capabilities(json!({"resources": {"subscribe": true}}));
    let alpha = alpha.resource(json!({"uri": "a://1", "name": "r"})).on("resources/subscribe", done).start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client_of("alpha").await;
    for n in 1..=COUNT {
        client.request("resources/subscribe", json!({"uri": format!("a://{n}")})).await.result();
    }
    alpha.wait_for_streams(1).await;
    let push = |from: u64, to: u64| {
        for n in from..=to {
            alpha.push(UPDATED, json!({"uri": format!("a://{n}")}));
        }
    };
    let updated = async |stream: &mut Answer, count: u64| {
        let (mut seen, mut id) = (Vec::new(), None);
        while (seen.len() as u64) < count || id.is_none() {
            let event = stream.event().await.expect("a standing stream does not end");
            id = event.id.clone().or(id);
            if event.message().is_some() {
                assert_eq!(event.tree()["method"], UPDATED);
                seen.push(event.tree()["params"]["uri"].as_str().unwrap().to_owned());
            }
        }
        (seen, id.unwrap())
    };
    let whole: Vec<_> = (1..=COUNT).map(|n| format!("a://{n}")).collect();
    for cut in 0..=COUNT {
        let mut stream = client.get().send().await;
        push(1, cut);
        let (mut seen, id) = updated(&mut stream, cut).await;
        stream.reset();
        push(cut + 1, COUNT);
        let mut stream = client.get().header("last-event-id", &id).send().await;
        assert_eq!(stream.status, 200, "after {cut}");
        // One more shows that nothing came twice.
        push(1, 1);
        seen.extend(updated(&mut stream, COUNT - cut + 1).await.0);
        assert_eq!(seen.pop().as_ref(), whole.first(), "after {cut}");
        assert_eq!(seen, whole, "after {cut}");
    }
}

/// HTTP-11 HTTP-13 HTTP-21: a call whose connection was lost goes on, and its client fetches the rest, also twice.
#[tokio::test]
async fn http_21_a_lost_answer_is_fetched_later() {
    for revision in ["2025-11-25", "2025-06-18", "2025-03-26"] {
        let alpha = http_server().call("wait", async |ask: Exchange| {
            ask.progress(1, 2).await;
            ask.released().await;
            Reply::text("done")
        });
        let alpha = alpha.start();
        let gateway = gateway().upstream("alpha", &alpha).start().await;
        let client = gateway.visitor().asking_for(revision).connect().await;
        client.tools().await;
        let params = json!({"name": "alpha__wait", "_meta": {"progressToken": "p"}});
        let mut answer = client.begin("1", "tools/call", params).await;
        let mut id = None;
        loop {
            let event = answer.event().await.unwrap();
            id = event.id.clone().or(id);
            if event.message().is_some() {
                break;
            }
        }
        let id = id.expect("events have ids");
        answer.reset();
        alpha.release();
        for _ in 0..2 {
            let mut rest = client.get().header("last-event-id", &id).send().await;
            assert_eq!(rest.status, 200, "{revision}");
            let message: Value = serde_json::from_str(&rest.message().await.unwrap()).unwrap();
            assert_eq!(message["id"], 1, "{revision}");
            assert_eq!(message["result"]["content"][0]["text"], "done");
            assert_eq!(rest.message().await, None);
        }
    }
}

/// F-008 HTTP-23: another session's id, or one that was tampered with, is 400 without an id, and never a fresh stream.
#[tokio::test]
async fn f_008_an_id_leads_nowhere_in_another_session() {
    let gateway = gateway().upstream("alpha", http_server().tool("echo")).start().await;
    let (mine, other) = (gateway.client().await, gateway.client().await);
    let mut stream = mine.get().send().await;
    let id = stream.event().await.unwrap().id.expect("the first event has an id");
    let last = if id.ends_with('0') { '1' } else { '0' };
    let changed = format!("{}{last}", &id[..id.len() - 1]);
    for (client, id) in [(&other, &id), (&mine, &changed), (&mine, &format!("9{id}"))] {
        let mut refused = client.get().header("last-event-id", id).send().await;
        assert_eq!(refused.status, 400, "{id}");
        assert_eq!(refused.tree().await.get("id"), None);
    }
    assert_eq!(mine.get().header("last-event-id", &id).send().await.status, 200);
    assert_eq!(stream.event().await.map(|event| event.data), None, "it was replaced");
}

const EVENTS: u64 = 30;

/// HTTP-21 HTTP-22: cut after every event of an answer; what follows comes once and in order, then the answer.
#[tokio::test]
async fn http_21_a_client_that_is_cut_anywhere_misses_nothing() {
    let alpha = http_server().call("count", async |ask: Exchange| {
        for step in 1..=EVENTS.cast_signed() {
            ask.progress(step, EVENTS.cast_signed()).await;
        }
        Reply::text("done")
    });
    let gateway = gateway().upstream("alpha", alpha).start().await;
    let client = gateway.client().await;
    for cut in 0..=EVENTS {
        let params = json!({"name": "alpha__count", "_meta": {"progressToken": "p"}});
        let mut answer = client.begin(&format!("{cut}"), "tools/call", params).await;
        let (mut steps, mut id) = (Vec::new(), None);
        // The first event carries an id alone (HTTP-13).
        while id.is_none() || (steps.len() as u64) < cut {
            let event = answer.event().await.expect("the stream goes on");
            id = event.id.clone().or(id);
            steps.extend(event.tree()["params"]["progress"].as_u64());
        }
        answer.reset();
        let mut rest = client.get().header("last-event-id", id.unwrap()).send().await;
        assert_eq!(rest.status, 200, "cut after {cut}");
        let mut last = Value::Null;
        while let Some(message) = rest.message().await {
            last = text::tree(&message);
            steps.extend(last["params"]["progress"].as_u64());
        }
        assert_eq!(steps, (1..=EVENTS).collect::<Vec<_>>(), "cut after {cut}");
        assert_eq!(last["id"], cut);
        assert_eq!(last["result"]["content"][0]["text"], "done");
    }
}

/// HTTP-21 HTTP-19: the same for a standing stream, on which nothing ends.
#[tokio::test]
async fn http_21_a_standing_stream_that_is_cut_anywhere_misses_nothing() {
    const CHANGED: &str = "notifications/resources/updated";
    let alpha = http_server()
        .resource(json!({"uri": "mem://a", "name": "a"}))
        .capabilities(json!({"resources": {"subscribe": true}}))
        .on("resources/subscribe", async |_: Exchange| json!({}))
        .start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client_of("alpha").await;
    let mut stream = client.get().send().await;
    let mut id = stream.event().await.and_then(|event| event.id).expect("a stream begins with an id");
    client.request("resources/subscribe", json!({"uri": "mem://a"})).await.result();
    alpha.wait_for_streams(1).await;
    for step in 0..EVENTS {
        // One is missed while no stream is open, the other is not.
        stream.reset();
        let streams = alpha.push(CHANGED, json!({"uri": "mem://a", "_meta": {"step": 2 * step}}));
        assert_eq!(streams, 1);
        stream = client.get().header("last-event-id", &id).send().await;
        assert_eq!(stream.status, 200, "{step}");
        alpha.push(CHANGED, json!({"uri": "mem://a", "_meta": {"step": 2 * step + 1}}));
        for expected in [2 * step, 2 * step + 1] {
            let event = loop {
                let event = stream.event().await.expect("the stream goes on");
                if event.message().is_some() {
                    break event;
                }
            };
            assert_eq!(event.tree()["params"]["_meta"]["step"], expected);
            id = event.id.expect("events have ids");
        }
    }
}
