//! Servers that lose the connection in the middle of an answer, and go on where it broke off (HTTP-20, HTTP-21, F-008).

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

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
