//! Servers that lose or end the stream of an answer and go on where it broke off, or do not (HTTP-14, HTTP-20, HTTP-21,
//! HTTP-35, F-008).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::json;

use crate::kit::*;

const EVENTS: usize = 30;

/// Calls under way: by the event after which each is cut, the id and the token that it came with.
type Calls = Arc<Mutex<HashMap<usize, (String, String)>>>;

/// The events after the one of this number: notices, then the answer.
fn events(page: Page, cut: usize, after: usize, (id, token): &(String, String), to: usize) -> Page {
    let mut page = page;
    for n in after + 1..=to {
        let message = if n > EVENTS {
            text::response(id, &said("done").to_string())
        } else {
            let params = format!(r#"{{"progressToken":{token},"progress":{n},"total":{EVENTS}}}"#);
            text::notification("notifications/progress", &params)
        };
        page = page.piece(format!("id: {cut}-{n}\nevent: message\ndata: {message}\n\n"));
    }
    page
}

/// HTTP-21: cut after every event of an answer, each event reaches the client once and in order.
#[tokio::test]
async fn http_21_a_server_that_breaks_off_anywhere_is_asked_for_the_rest() {
    each_event_comes_once(|page, _| page).await;
}

/// HTTP-21 HTTP-34: the same where it is cut within the next event: what is not whole was not seen, whatever its id.
#[tokio::test]
async fn http_21_a_server_that_breaks_off_within_an_event_is_asked_for_it_again() {
    each_event_comes_once(|page, next| {
        // All but the blank line that would complete it.
        page.piece(next.slice(..next.len() - 1))
    })
    .await;
}

/// Cuts after each event and what `and_then` adds to it of the next.
async fn each_event_comes_once(and_then: fn(Page, Bytes) -> Page) {
    let calls = Calls::default();
    let begun = Arc::clone(&calls);
    let alpha = http_server()
        .call("count", move |ask: Exchange| {
            let begun = Arc::clone(&begun);
            async move {
                let cut = usize::try_from(ask.argument("cut").as_u64().unwrap()).unwrap();
                let call = (ask.id().to_owned(), ask.token().unwrap().to_owned());
                let page = Page::stream().piece(format!("id: {cut}-0\nretry: 1\ndata: \n\n"));
                let page = events(page, cut, 0, &call, cut);
                let next = events(Page::stream(), cut, cut, &call, cut + 1).pieces.remove(0);
                let page = and_then(page, next);
                begun.lock().unwrap().insert(cut, call);
                Reply::from(page.end(End::Cut))
            }
        })
        .start();
    let known = Arc::clone(&calls);
    alpha.guard(move |seen| {
        let last = seen.header("last-event-id").filter(|_| seen.verb == "GET")?;
        let (cut, after) = last.split_once('-').expect("an id of this server");
        let (cut, after): (usize, usize) = (cut.parse().unwrap(), after.parse().unwrap());
        let call = known.lock().unwrap()[&cut].clone();
        Some(events(Page::stream(), cut, after, &call, EVENTS + 1).into())
    });
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    for cut in 0..=EVENTS {
        let outcome = client.call_with_token("alpha__count", json!({"cut": cut}), r#""p""#).await;
        assert_eq!(outcome.said(), "done", "cut after {cut}");
        let steps = outcome.heard("notifications/progress");
        let steps: Vec<_> = steps.iter().map(|step| step["params"]["progress"].as_u64().unwrap()).collect();
        assert_eq!(steps, (1..=EVENTS as u64).collect::<Vec<_>>(), "cut after {cut}");
    }
    assert_eq!(alpha.seen("tools/call").len(), EVENTS + 1, "no call was made twice");
}

/// HTTP-20: without ids there is nothing to ask for: the call fails, and is not made again.
#[tokio::test]
async fn http_20_a_server_without_ids_that_breaks_off_has_failed() {
    let alpha = http_server().call("half", async |ask: Exchange| {
        let params = format!(r#"{{"progressToken":{},"progress":1}}"#, ask.token().unwrap());
        let notice = text::event(&text::notification("notifications/progress", &params));
        Reply::from(Page::stream().piece(notice).end(End::Cut))
    });
    let alpha = alpha.start();
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let outcome = client.call_with_token("alpha__half", json!({}), r#""p""#).await;
    assert_eq!(outcome.heard("notifications/progress").len(), 1);
    assert_eq!(outcome.code(), -32603, "{outcome:?}");
    assert_eq!(alpha.seen("tools/call").len(), 1, "it may have been done");
}

/// HTTP-35 D10: a server that gives ids but does not go on has failed as well, and is not asked for ever.
#[tokio::test]
async fn http_35_a_server_that_refuses_to_go_on_has_failed() {
    for (status, asked) in [(404, 1), (400, 1), (405, 1), (503, 5)] {
        let half = async |_| Reply::from(Page::stream().piece("id: 1\nretry: 1\ndata: \n\n").end(End::Cut));
        let alpha = http_server().call("half", half).start();
        alpha.guard(move |seen| {
            (seen.verb == "GET" && seen.header("last-event-id").is_some()).then(|| Reply::status(status))
        });
        let gateway = gateway().upstream("alpha", &alpha).start().await;
        let client = gateway.client().await;
        let outcome = client.call("alpha__half", json!({})).await;
        assert_eq!((outcome.code(), outcome.reason()), (-32603, "upstream_outcome_unknown"), "{status}");
        let polls = alpha.verbs("GET").iter().filter(|seen| seen.header("last-event-id").is_some()).count();
        assert_eq!(polls, asked, "{status}");
        assert_eq!(alpha.seen("tools/call").len(), 1, "{status}");
    }
}

/// HTTP-14 HTTP-13: a server that ends its stream, to be asked again later, lets the gateway's client do the same, with
/// the same delay; a client of an older revision keeps its stream.
#[tokio::test]
async fn http_14_a_pause_of_the_server_is_the_client_s_too() {
    let polled = Arc::new(Mutex::new(String::new()));
    let call = Arc::clone(&polled);
    let slow = move |ask: Exchange| {
        *call.lock().unwrap() = ask.id().to_owned();
        async { Reply::from(Page::stream().piece("id: a\nretry: 70\ndata: \n\n")) }
    };
    let alpha = http_server().call("slow", slow).start();
    alpha.guard(move |seen| {
        let last = seen.header("last-event-id").filter(|_| seen.verb == "GET")?;
        assert_eq!(last, "a");
        let answer = text::response(&polled.lock().unwrap(), &said("late").to_string());
        Some(Page::stream().piece(text::event(&answer)).into())
    });
    let gateway = gateway().upstream("alpha", &alpha).start().await;
    let client = gateway.client().await;
    let params = json!({"name": "alpha__slow"});
    let mut answer = client.begin("7", "tools/call", params.clone()).await;
    let (mut id, mut retry) = (None, None);
    while let Some(event) = answer.event().await {
        assert_eq!(event.message(), None, "the answer is for later");
        (id, retry) = (event.id.or(id), event.retry.or(retry));
    }
    assert_eq!(retry.as_deref(), Some("70"));
    let mut rest = client.get().header("last-event-id", id.unwrap()).send().await;
    let late = text::tree(&rest.message().await.unwrap());
    assert_eq!((&late["id"], &late["result"]["content"][0]["text"]), (&json!(7), &json!("late")));
    assert_eq!(rest.message().await, None);

    let older = gateway.visitor().asking_for("2025-06-18").connect().await;
    let outcome = older.request("tools/call", params).await;
    assert_eq!(outcome.said(), "late");
    assert_eq!(alpha.seen("tools/call").len(), 2);
}
