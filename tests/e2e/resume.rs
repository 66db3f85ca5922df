//! Streams of clients that lose their connection and come back (HTTP-13, HTTP-14, HTTP-20..HTTP-23, F-008).

use serde_json::{Value, json};

use crate::kit::http_server::HttpServer;
use crate::kit::*;

/// How many messages precede the answer.
const COUNT: u64 = 30;

const UPDATED: &str = "notifications/resources/updated";

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

/// HTTP-21 HTTP-19: one standing stream that is cut again and again goes on each time where its client was.
#[tokio::test]
async fn http_21_a_standing_stream_can_be_cut_again_and_again() {
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
    for step in 0..COUNT {
        // One is missed while no stream is open, the other is not.
        stream.reset();
        let streams = alpha.push(UPDATED, json!({"uri": "mem://a", "_meta": {"step": 2 * step}}));
        assert_eq!(streams, 1);
        stream = client.get().header("last-event-id", &id).send().await;
        assert_eq!(stream.status, 200, "{step}");
        alpha.push(UPDATED, json!({"uri": "mem://a", "_meta": {"step": 2 * step + 1}}));
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

/// Asks with an id that must be refused: 400, and an error without an id (HTTP-23).
async fn is_refused(client: &Client, id: &str, why: &str) {
    let mut refused = client.get().header("last-event-id", id).send().await;
    assert_eq!(refused.status, 400, "{why}: {id:?}");
    let error = refused.tree().await;
    assert_eq!(error.get("id"), None, "{why}");
    assert!(
        error["error"]["message"].as_str().is_some_and(|text| text.contains("resumed")),
        "{why}: {error}"
    );
}

/// HTTP-23 HTTP-20 F-008: what is no id of ours, or one put together from parts of others.
#[tokio::test]
async fn http_23_ids_that_were_never_given_are_refused() {
    let alpha = counting();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let (mine, other) = (gateway.client().await, gateway.client().await);
    let mut given = Vec::new();
    for client in [&mine, &mine, &other] {
        let params = json!({"name": "alpha__count", "_meta": {"progressToken": 1}});
        let mut answer = client.begin(&client.next_id().to_string(), "tools/call", params).await;
        given.push(read(&mut answer, 5).await.1);
        assert_eq!(rest(&mut answer).await.len(), 26);
    }
    let parts: Vec<Vec<&str>> = given.iter().map(|id| id.split('.').collect()).collect();
    assert_ne!(given[0], given[1]);
    is_refused(&mine, &given[2], "of another session").await;
    is_refused(&other, &given[0], "of another session").await;
    let mixed = [parts[1][0], parts[0][1], parts[0][2]].join(".");
    is_refused(&mine, &mixed, "the number of another stream").await;
    let later = [parts[0][0], "33", parts[0][2]].join(".");
    is_refused(&mine, &later, "an event that never was").await;
    let never = ["99", parts[0][1], parts[0][2]].join(".");
    is_refused(&mine, &never, "a stream that never was").await;
    for garbage in ["", "0", "x", "1.1", "1.1.", "-1.1.0000000000000000", "1.1.zzzzzzzzzzzzzzzz", "\u{e9}"] {
        is_refused(&mine, garbage, "garbage").await;
    }
    is_refused(&mine, &"9".repeat(4000), "a long one").await;
    for id in &given[..2] {
        let mut answer = mine.get().header("last-event-id", id).send().await;
        assert_eq!(rest(&mut answer).await.len(), 26, "its own are served all the same");
    }
}

/// HTTP-22 HTTP-23: where what followed is no longer kept, that is said; a gap is never passed over.
#[tokio::test]
async fn http_22_an_event_that_is_no_longer_kept_is_refused() {
    let alpha = counting();
    let plan = gateway().upstream("alpha", &alpha).with(json!({"http": {"replayBytes": 2048}}));
    let gateway = plan.start().await;
    let client = gateway.client().await;
    let params = json!({"name": "alpha__count", "_meta": {"progressToken": 1}});
    let mut answer = client.begin("1", "tools/call", params).await;
    let mut ids = Vec::new();
    while let Some(event) = answer.event().await {
        ids.extend(event.id);
    }
    assert_eq!(ids.len(), 32, "the first event, the notices, the result");
    is_refused(&client, &ids[0], "the start").await;
    is_refused(&client, &ids[5], "an early one").await;
    let mut answer = client.get().header("last-event-id", &ids[30]).send().await;
    assert_eq!(rest(&mut answer).await, [0], "the end is kept");
}

/// HTTP-13 HTTP-14 R-06: a stream of the newest revision begins with an event that has an id, a time to come back after
/// and no data; no older one does.
#[tokio::test]
async fn http_13_a_stream_begins_with_a_way_back() {
    let alpha = counting();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    for revision in REVISIONS {
        let client = gateway.visitor().asking_for(revision).connect().await;
        let params = json!({"name": "alpha__count", "_meta": {"progressToken": 1}});
        let mut answer = client.begin("1", "tools/call", params).await;
        let first = answer.event().await.unwrap();
        assert_eq!(first.message().is_none(), revision == "2025-11-25", "{revision}: {first:?}");
        assert_eq!(first.id.is_some(), revision != "2024-11-05", "{revision}: {first:?}");
        if revision != "2025-11-25" {
            continue;
        }
        let mut standing = client.get().send().await;
        for first in [first, standing.event().await.unwrap()] {
            assert_eq!(first.data.as_deref(), Some(""), "{first:?}");
            assert!(first.id.is_some());
            let retry: u64 = first.retry.unwrap().parse().unwrap();
            assert!((1..=10_000).contains(&retry), "{retry} ms");
        }
    }
}
