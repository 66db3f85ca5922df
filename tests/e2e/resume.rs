//! Streams of clients that lose their connection and come back (HTTP-13, HTTP-14, HTTP-20..HTTP-23, F-008).

use serde_json::{Value, json};

use crate::kit::*;

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
