//! A call and a batch driven by hand, read by a client that comes and goes.

use std::time::Duration;

use futures_util::stream;
use http_body_util::BodyExt;
use tokio::sync::mpsc;

use super::*;
use crate::call::{Course, Heard, Item, Reply};
use crate::downstream::body::OutBody;
use crate::downstream::events;
use crate::downstream::legacy::in_flight::InFlight;
use crate::downstream::legacy::outbox::Reader;
use crate::downstream::legacy::outbox::tests::{answer, last_id, message, now, question, ready};
use crate::downstream::legacy::track::Framing;
use crate::mcp::revision::Revision;

/// A call whose upstream does what the test says.
struct Scene {
    outbox: Arc<Outbox>,
    calls: Arc<InFlight>,
    say: Option<mpsc::UnboundedSender<Item>>,
}

fn scene(revision: Revision) -> (Scene, Exchange) {
    let outbox = ready(revision);
    let calls = InFlight::new(outbox.clone());
    let (say, said) = mpsc::unbounded_channel();
    let items = stream::unfold(said, async |mut said: mpsc::UnboundedReceiver<Item>| {
        Some((said.recv().await?, said))
    });
    let exchange = exchange(&calls, "7", Reply::Items(items.boxed()));
    (Scene { outbox, calls, say: Some(say) }, exchange)
}

fn exchange(calls: &Arc<InFlight>, id: &'static str, reply: Reply) -> Exchange {
    let ticket = calls.begin(Id::parse(Bytes::from(id)).unwrap()).unwrap();
    ticket.cancel().follows(Arc::new(Course::default()));
    Exchange::new(std::future::ready(Ok(reply)).boxed(), ticket)
}

fn notice(number: u32) -> Item {
    let text =
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progress":{number}}}}}"#);
    Item::Notice(Bytes::from(text))
}

fn done() -> Item {
    Item::Done(Answer::result("{}"))
}

impl Scene {
    fn say(&self, item: Item) {
        assert!(self.say.as_ref().unwrap().send(item).is_ok(), "the call is gone");
    }

    fn resume(&self, id: &str) -> Reader {
        self.outbox.resume(id).unwrap_or_else(|| panic!("{id} leads nowhere"))
    }

    /// Waits until the call is over.
    async fn over(&self) {
        while !self.calls.is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

/// Reads a body until it holds `end`.
async fn until(body: &mut OutBody, end: &str) -> String {
    let mut text = String::new();
    while !text.contains(end) {
        let frame = body.frame().await.unwrap_or_else(|| panic!("{text}")).unwrap();
        text.push_str(std::str::from_utf8(&frame.into_data().unwrap()).unwrap());
    }
    text
}

/// Reads a body to its end.
async fn rest(mut body: OutBody) -> String {
    let mut text = String::new();
    while let Some(frame) = body.frame().await {
        text.push_str(std::str::from_utf8(&frame.unwrap().into_data().unwrap()).unwrap());
    }
    text
}

/// Reads a reader to its end.
async fn all(reader: &Reader) -> String {
    let mut text = String::new();
    while let Some(part) = reader.next().await {
        text.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
    }
    text
}

/// HTTP-13, RPC-28, PROG-01: an id first, then what precedes the answer in its order, the answer last.
#[tokio::test]
async fn rpc_28_a_stream_keeps_the_order_of_its_call() {
    for revision in Revision::ALL {
        let (scene, exchange) = scene(revision);
        let (asked, _hearing) = question(1);
        scene.say(notice(1));
        scene.say(Item::Ask(asked));
        scene.say(notice(2));
        scene.say(done());
        let text = rest(events::answer(exchange, None, Duration::ZERO).into_body()).await;
        let places: Vec<_> = [r#""progress":1"#, "elicitation/create", r#""progress":2"#, r#""result":{}"#]
            .iter()
            .map(|what| text.find(what).unwrap_or_else(|| panic!("{what} in {text}")))
            .collect();
        assert!(places.is_sorted(), "{text}");
        assert_eq!(text.starts_with("id: 1.0."), revision.has_priming(), "{text}");
        assert_eq!(text.contains("data: \n"), revision.has_priming());
        assert_eq!(text.contains("\nid: 1.4."), revision != Revision::V2024_11_05, "{text}");
        assert!(scene.calls.is_empty());
    }
}

/// HTTP-11, HTTP-21, HTTP-22: wherever the connection is lost, the client comes back for the rest, live or finished.
#[tokio::test]
async fn http_21_a_lost_connection_loses_nothing() {
    for lost in 0..=3 {
        for late in [false, true] {
            let (scene, exchange) = scene(Revision::LATEST);
            let mut body = events::answer(exchange, None, Duration::ZERO).into_body();
            let mut seen = until(&mut body, "data: ").await;
            for number in 1..=lost {
                scene.say(notice(number));
                seen += &until(&mut body, &format!(r#""progress":{number}"#)).await;
            }
            drop(body);
            let id = last_id(&seen).to_owned();
            let early = (!late).then(|| scene.resume(&id));
            for number in lost + 1..=4 {
                scene.say(notice(number));
            }
            scene.say(done());
            scene.over().await;
            let reader = early.unwrap_or_else(|| scene.resume(&id));
            let replayed = all(&reader).await;
            for number in 1..=4 {
                let told = |text: &str| text.contains(&format!(r#""progress":{number}"#));
                assert!(told(&seen) != told(&replayed), "{number} once: {seen} {replayed}");
            }
            assert!(replayed.ends_with("\"id\":7,\"result\":{}}\n\n"), "{replayed}");
        }
    }
}

/// HTTP-18: a client that comes back before its loss is noticed is the one that is told.
#[tokio::test]
async fn http_18_who_comes_back_takes_over() {
    let (scene, exchange) = scene(Revision::LATEST);
    let mut body = events::answer(exchange, None, Duration::ZERO).into_body();
    let id = last_id(&until(&mut body, "data: ").await).to_owned();
    let reader = scene.resume(&id);
    assert_eq!(rest(body).await, "");
    scene.say(done());
    assert!(all(&reader).await.contains(r#""result":{}"#));
}

/// HTTP-14: a pause of the upstream is passed on to those who know it, and the answer is fetched later.
#[tokio::test]
async fn http_14_a_pause_is_passed_on() {
    let (scene, exchange) = scene(Revision::LATEST);
    scene.say(Item::Pause(Some(Duration::from_millis(700))));
    let seen = rest(events::answer(exchange, None, Duration::ZERO).into_body()).await;
    assert!(seen.ends_with("retry: 700\n\n"), "{seen}");
    let reader = scene.resume(last_id(&seen));
    scene.say(Item::Pause(None));
    assert_eq!(all(&reader).await, "");
    drop(reader);
    scene.say(done());
    scene.over().await;
    assert!(all(&scene.resume(last_id(&seen))).await.contains(r#""result":{}"#));
    for revision in [Revision::V2024_11_05, Revision::V2025_06_18] {
        let (scene, exchange) = self::scene(revision);
        scene.say(Item::Pause(Some(Duration::from_secs(1))));
        scene.say(done());
        let seen = rest(events::answer(exchange, None, Duration::ZERO).into_body()).await;
        assert!(seen.contains(r#""result":{}"#) && !seen.contains("retry"), "{seen}");
    }
}

/// HTTP-12, CANC-01: a cancelled call has no answer, now or later, and takes its questions along.
#[tokio::test]
async fn http_12_there_is_no_coming_back_to_a_cancelled_call() {
    let (scene, exchange) = scene(Revision::LATEST);
    let mut body = events::answer(exchange, None, Duration::ZERO).into_body();
    let (asked, mut hearing) = question(1);
    scene.say(Item::Ask(asked));
    let seen = until(&mut body, "elicitation/create").await;
    scene.calls.cancel(&Id::parse(Bytes::from("7")).unwrap(), None);
    let told = rest(body).await;
    assert!(told.contains(r#"{"requestId":1}"#) && !told.contains("result"), "{told}");
    assert!(hearing.next().await.is_none());
    assert!(scene.outbox.resume(last_id(&seen)).is_none());
    assert!(scene.outbox.resume(last_id(&told)).is_none());
}

/// HTTP-22: an answer that is larger than what may be kept reaches who listens, and nobody else.
#[tokio::test]
async fn http_22_a_large_answer_overflows_its_own_stream() {
    for stays in [true, false] {
        let (scene, exchange) = scene(Revision::LATEST);
        let mut body = events::answer(exchange, None, Duration::ZERO).into_body();
        let mut seen = until(&mut body, "data: ").await;
        let id = last_id(&seen).to_owned();
        let large = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{}"}}}}"#, "x".repeat(1 << 18));
        let chunks: Vec<_> =
            large.as_bytes().chunks(10_000).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
        let answer = Answer::of(Body::Stream(stream::iter(chunks).boxed()));
        if !stays {
            drop(body);
            scene.say(Item::Done(answer));
            scene.over().await;
            assert!(scene.outbox.resume(&id).is_none());
            continue;
        }
        scene.say(Item::Done(answer));
        seen += &rest(body).await;
        assert!(seen.ends_with("x\"}}\n\n") && seen.contains("\"id\":7"));
        assert!(scene.outbox.resume(&id).is_none());
    }
}

/// R-16, HTTP-21: who comes back to a large answer is given it at its own pace.
#[tokio::test]
async fn r_16_a_large_answer_waits_for_who_came_back() {
    let (scene, exchange) = scene(Revision::LATEST);
    let mut body = events::answer(exchange, None, Duration::ZERO).into_body();
    let id = last_id(&until(&mut body, "data: ").await).to_owned();
    drop(body);
    let reader = scene.resume(&id);
    let large = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{}"}}}}"#, "x".repeat(1 << 20));
    let chunks: Vec<_> =
        large.as_bytes().chunks(10_000).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    scene.say(Item::Done(Answer::of(Body::Stream(stream::iter(chunks).boxed()))));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!scene.calls.is_empty(), "it was read ahead of its reader");
    assert!(all(&reader).await.contains(&"x".repeat(1 << 20)));
}

/// RPC-07, CANC-06: a call goes on with the client's answer.
#[tokio::test]
async fn rpc_07_a_call_asks_on_its_own_stream() {
    let (scene, exchange) = scene(Revision::LATEST);
    let standing = scene.outbox.open_standing();
    let mut body = events::answer(exchange, None, Duration::ZERO).into_body();
    let (asked, mut hearing) = question(1);
    scene.say(Item::Ask(asked));
    until(&mut body, r#""id":1,"method":"elicitation/create""#).await;
    scene.outbox.answered(answer(1));
    assert!(matches!(hearing.next().await, Some(Heard::Answer(_))));
    scene.say(done());
    assert!(rest(body).await.contains(r#""result":{}"#));
    assert_eq!(now(&standing), "");
}

/// HTTP-19: a client that takes no events is told and asked on its standing stream.
#[tokio::test]
async fn http_19_what_precedes_a_plain_answer_goes_elsewhere() {
    let (scene, mut exchange) = scene(Revision::LATEST);
    let standing = scene.outbox.open_standing();
    let (asked, _hearing) = question(1);
    scene.say(notice(1));
    scene.say(Item::Ask(asked));
    scene.say(done());
    assert!(matches!(exchange.settle().await, Some(Ok(_))));
    let told = now(&standing);
    assert!(told.contains(r#""progress":1"#) && told.contains("elicitation/create"), "{told}");
}

/// RPC-15, RPC-16: members of a batch ask on its stream.
#[tokio::test]
async fn rpc_16_members_of_a_batch_may_ask() {
    let (scene, exchange) = scene(Revision::V2025_03_26);
    let other = self::exchange(&scene.calls, "8", Reply::empty());
    let response = events::batch(&scene.outbox, Vec::new(), vec![exchange, other], Duration::ZERO);
    let mut body = response.into_body();
    let (asked, hearing) = question(1);
    scene.say(Item::Ask(asked));
    let mut seen = until(&mut body, "elicitation/create").await;
    drop(hearing);
    seen += &until(&mut body, r#"{"requestId":1}"#).await;
    scene.say(done());
    seen += &rest(body).await;
    assert!(seen.contains(r#""id":7,"result""#) && seen.contains(r#""id":8,"result""#), "{seen}");
    assert!(!seen.contains("id: "), "{seen}");
}

/// STDIO-01, HTTP-18: where there is one stream for all, it carries calls, questions and the rest, in order.
#[tokio::test]
async fn one_stream_may_carry_all() {
    let (scene, exchange) = scene(Revision::V2024_11_05);
    let only = scene.outbox.attach(Framing::Lines);
    let (asked, _hearing) = question(1);
    for item in [notice(1), Item::Ask(asked), done()] {
        scene.say(item);
    }
    carry(exchange).await;
    scene.outbox.tell(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/message"}"#));
    let text = now(&only);
    let kinds: Vec<_> = text.lines().map(|line| message(line).method().into_owned()).collect();
    assert_eq!(kinds, ["notifications/progress", "elicitation/create", "", "notifications/message"]);
}
