//! Replies on their way back, whole.

use bytes::Bytes;
use futures_util::{FutureExt, stream};

use super::*;
use crate::call::{Call, Endpoint, Fault, Heard, Reply};
use crate::jsonrpc::text;
use crate::mcp::capabilities::ServerCapabilities;
use crate::mcp::methods;
use crate::mcp::questions::QuestionKind;
use crate::mcp::revision::Revision;
use crate::relay::one;
use crate::relay::tests::{
    ALPHA, at, declare, heard, message, notification, question, relay_with, session, session_at,
};

fn call(session: &Arc<Session>, method: &str, uri: &str) -> Call {
    let params = format!(r#"{{"uri":{}}}"#, text::quote(uri));
    let request = message(&format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#));
    Call::new(Arc::clone(session), methods::find(method).unwrap(), request).unwrap()
}

/// What a session that reads a resource of alpha gets, when alpha sends `sent`.
async fn reply(relay: &Arc<Relay>, session: &Arc<Session>) -> Items {
    let reply = one::call(relay, call(session, "resources/read", "x://1"), Slot::Resource).await.unwrap();
    let Reply::Items(items) = reply else { panic!("not in parts") };
    items
}

fn of(items: Vec<Item>) -> Items {
    Box::pin(stream::iter(items))
}

fn done(text: &str) -> Item {
    Item::Done(Answer::of(Body::Message(message(text))))
}

const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// A session of alpha alone, so that any URI is its.
fn alone() -> Arc<Session> {
    session_at(1, Endpoint::Upstream(ALPHA), Revision::LATEST).0
}

fn notice(item: Option<Item>) -> String {
    match item {
        Some(Item::Notice(text)) => String::from_utf8(text.to_vec()).unwrap(),
        _ => panic!("no notice"),
    }
}

/// RPC-28, F-055: all that comes before the answer comes before it, in its order.
#[tokio::test]
async fn f_055_items_keep_their_order() {
    let (asked, mut hearing) = question(ALPHA, QuestionKind::Sampling, r#"{"messages":[],"maxTokens":1}"#);
    let (bad, mut refused) = question(ALPHA, QuestionKind::Sampling, "{}");
    let log = |n: u8| Item::Raw(notification(logs::METHOD, &format!(r#"{{"level":"info","data":{n}}}"#)));
    let relay = relay_with(of(vec![
        log(1),
        Item::Ask(bad),
        Item::Notice(Bytes::from_static(b"{}")),
        Item::Raw(notification("notifications/unknown", "{}")),
        Item::Ask(asked),
        Item::Pause(None),
        log(2),
        done(RESULT),
    ]));
    let mut items = reply(&relay, &alone()).await;
    assert_eq!(at(&notice(items.next().await), "/params/data"), 1);
    assert_eq!(notice(items.next().await), "{}");
    assert!(heard(&mut refused).unwrap().contains("-32602"));
    let Some(Item::Ask(asked)) = items.next().await else { panic!("no question") };
    asked.asker.answer(message(RESULT));
    assert!(heard(&mut hearing).is_some());
    assert!(matches!(items.next().await, Some(Item::Pause(None))));
    assert_eq!(at(&notice(items.next().await), "/params/data"), 2);
    assert!(matches!(items.next().await, Some(Item::Done(_))));
    assert!(items.next().await.is_none());
}

/// LOG-05: what a call's flood lost is told before its answer.
#[tokio::test]
async fn log_05_a_loss_is_told_before_the_answer() {
    let logs =
        (0..300).map(|n| Item::Raw(notification(logs::METHOD, &format!(r#"{{"level":"info","data":{n}}}"#))));
    let relay = relay_with(of(logs.chain([done(RESULT)]).collect()));
    let mut items: Vec<_> = reply(&relay, &alone()).await.collect().await;
    assert_eq!(items.len(), 202);
    assert!(matches!(items.pop(), Some(Item::Done(_))));
    assert_eq!(at(&notice(items.pop()), "/params/data"), "100 messages dropped, from `alpha`");
}

/// ROOT-03: the question for roots goes with the call whose upstream asks, while that is at work.
#[tokio::test]
async fn root_03_a_call_carries_its_question_for_roots() {
    let (asked, mut hearing) = question(ALPHA, QuestionKind::Roots, "");
    let relay = relay_with(Box::pin(stream::iter([Item::Ask(asked)]).chain(stream::pending())));
    let mut items = reply(&relay, &alone()).await;
    let Some(Item::Ask(asked)) = items.next().await else { panic!("no question") };
    assert_eq!(asked.kind, QuestionKind::Roots);
    asked.asker.answer(message(r#"{"jsonrpc":"2.0","id":7,"result":{"roots":[{"uri":"file:///a"}]}}"#));
    let Some(Heard::Answer(answer)) = hearing.next().await else { panic!("no answer") };
    assert!(String::from_utf8_lossy(answer.text()).contains("file:///a"));
    assert!(items.next().now_or_never().is_none(), "the call goes on");
}

/// ELIC-10, R-22: errors that mean something to the gateway are seen in both forms of a reply.
#[tokio::test]
async fn elic_10_an_error_that_names_pages_is_mapped_on_its_way() {
    let page = r#"{"mode":"url","elicitationId":"e1","url":"https://h.example/","message":"m"}"#;
    let error = format!(
        r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-32042,"message":"first","data":{{"elicitations":[{page}]}}}}}}"#
    );
    let relay = relay_with(of(vec![done(&error)]));
    let session = alone();
    let Some(Item::Done(streamed)) = reply(&relay, &session).await.next().await else { panic!("no answer") };
    let plain = |session: &Arc<Session>| {
        let back = Back { relay: &relay, session, upstream: ALPHA, method: &methods::RESOURCES_READ };
        back.answer(Answer::of(Body::Message(message(&error))))
    };
    let (merged, _) = crate::relay::tests::session(2);
    // Where there is one upstream to be seen, its ids are unique.
    for (answer, kept) in [(streamed, true), (plain(&session), true), (plain(&merged), false)] {
        let Body::Message(message) = answer.body else { panic!("not whole") };
        let text = String::from_utf8(message.text().to_vec()).unwrap();
        assert_eq!(at(&text, "/error/data/elicitations/0/elicitationId") == "e1", kept);
        assert_eq!(at(&text, "/error/data/elicitations/0/url"), "https://h.example/");
    }
}

/// RES-10: who has no subscriptions is not asked for one; who may have them is.
#[tokio::test]
async fn res_10_subscriptions_go_to_who_offers_them() {
    let relay = relay_with(of(vec![done(RESULT)]));
    let (merged, _) = session(1);
    let subscribe = |method: &str, uri: &str| {
        let (relay, call) = (relay.clone(), call(&merged, method, uri));
        async move { one::call(&relay, call, Slot::Resource).await }
    };
    declare(&relay, ALPHA, ServerCapabilities { resources: true, ..ServerCapabilities::default() });
    let refused = subscribe("resources/subscribe", "alpha+x://1").await.unwrap_err();
    assert_eq!(refused, Fault::SubscribeUnsupported { uri: "alpha+x://1".into() });
    let nothing = subscribe("resources/unsubscribe", "alpha+x://1").await.unwrap();
    assert!(matches!(nothing, Reply::Done(_)), "there is nothing to end");
    let nobody = subscribe("resources/subscribe", "gamma+x://1").await.unwrap_err();
    assert!(matches!(nobody, Fault::ResourceNotFound { .. }));
    declare(&relay, ALPHA, ServerCapabilities { subscribe: true, ..ServerCapabilities::default() });
    assert!(matches!(subscribe("resources/subscribe", "alpha+x://1").await, Ok(Reply::Items(_))));
}
