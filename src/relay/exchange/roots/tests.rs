//! One question for the roots of a client, however many upstreams ask.

use tokio::task::yield_now;

use super::*;
use crate::call::{Attendant, Hearing, Observer};
use crate::mcp::questions::QuestionKind;
use crate::relay::exchange::question::put;
use crate::relay::route::Relay;
use crate::relay::tests::{ALPHA, BETA, Ear, at, message, pair, question, relay, session};

async fn answer(hearing: &mut Hearing) -> String {
    match hearing.next().await {
        Some(Heard::Answer(message)) => String::from_utf8(message.text().to_vec()).unwrap(),
        other => panic!("{other:?}"),
    }
}

/// The one question that the client has got.
async fn the_question(ear: &Ear) -> Question {
    loop {
        if let Some(question) = ear.questions().pop() {
            return question;
        }
        yield_now().await;
    }
}

fn asks(relay: &Relay, session: &Arc<Session>, upstream: crate::call::UpstreamId) -> Hearing {
    let (question, hearing) = question(upstream, QuestionKind::Roots, "");
    relay.asked(session, question);
    hearing
}

const ROOTS: &str = r#"{"jsonrpc":"2.0","id":3,"result":{"roots":[{"uri":"file:///a","name":"A"}]}}"#;

/// ROOT-03: concurrent askers share one question, later ones what it brought, until the roots change.
#[tokio::test]
async fn root_03_the_client_is_asked_once_until_its_roots_change() {
    let (relay, (session, ear)) = (relay(), session(1));
    let (mut one, mut two) = (asks(&relay, &session, ALPHA), asks(&relay, &session, BETA));
    let asked = the_question(&ear).await;
    yield_now().await;
    assert!(ear.questions().is_empty());
    assert!(String::from_utf8_lossy(&asked.params).contains("io.portcullis/upstream"));
    asked.asker.answer(message(ROOTS));
    for hearing in [&mut one, &mut two, &mut asks(&relay, &session, BETA)] {
        assert_eq!(at(&answer(hearing).await, "/result/roots/0/name"), "A");
    }
    assert!(ear.questions().is_empty());
    relay.roots_changed(&session);
    let mut three = asks(&relay, &session, ALPHA);
    the_question(&ear).await.asker.answer(message(&ROOTS.replace("///a", "///b")));
    assert_eq!(at(&answer(&mut three).await, "/result/roots/0/uri"), "file:///b");
}

/// ROOT-03: an answer from before the change is no answer to who asks after it.
#[tokio::test]
async fn root_03_a_change_divides_who_asked_before_from_who_asks_after() {
    let (relay, (session, ear)) = (relay(), session(1));
    let mut before = asks(&relay, &session, ALPHA);
    let old = the_question(&ear).await;
    relay.roots_changed(&session);
    let mut after = asks(&relay, &session, BETA);
    let new = the_question(&ear).await;
    new.asker.answer(message(&ROOTS.replace("///a", "///b")));
    assert_eq!(at(&answer(&mut after).await, "/result/roots/0/uri"), "file:///b");
    old.asker.answer(message(ROOTS));
    assert_eq!(at(&answer(&mut before).await, "/result/roots/0/uri"), "file:///a");
    let mut last = asks(&relay, &session, ALPHA);
    assert_eq!(at(&answer(&mut last).await, "/result/roots/0/uri"), "file:///b");
}

/// ROOT-03, ROOT-04: an error is everybody's, and is not kept; nor is anything of a client that tells of no change.
#[tokio::test]
async fn root_03_errors_and_what_may_be_old_are_not_kept() {
    let (relay, (session, ear)) = (relay(), session(1));
    let (mut one, mut two) = (asks(&relay, &session, ALPHA), asks(&relay, &session, BETA));
    let refused = r#"{"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"no"}}"#;
    the_question(&ear).await.asker.answer(message(refused));
    assert_eq!(at(&answer(&mut one).await, "/error/message"), "no");
    assert_eq!(at(&answer(&mut two).await, "/error/message"), "no");
    let mut three = asks(&relay, &session, ALPHA);
    the_question(&ear).await.asker.answer(message(ROOTS));
    assert!(answer(&mut three).await.contains("file:///a"));

    let (mut silent, ear) = self::session(2);
    Arc::get_mut(&mut silent).unwrap().capabilities.roots_changed = false;
    for _ in 0..2 {
        let mut hearing = asks(&relay, &silent, ALPHA);
        the_question(&ear).await.asker.answer(message(ROOTS));
        assert!(answer(&mut hearing).await.contains("file:///a"));
    }
}

/// ROOT-03, CANC-06: when the one that carried the question goes, the client is told, and asked again for the others.
#[tokio::test]
async fn root_03_who_waits_asks_when_the_first_one_leaves() {
    let (relay, (session, ear)) = (relay(), session(1));
    let first = asks(&relay, &session, ALPHA);
    let carried = the_question(&ear).await;
    let mut second = asks(&relay, &session, BETA);
    yield_now().await;
    drop(first);
    carried.asker.withdrawn().await;
    let again = the_question(&ear).await;
    assert_eq!(again.upstream, BETA);
    again.asker.answer(message(ROOTS));
    assert!(answer(&mut second).await.contains("file:///a"));
}

/// SAMP-10: a client that goes leaves nobody waiting.
#[tokio::test]
async fn samp_10_a_client_that_goes_answers_nobody() {
    let (relay, (session, ear)) = (relay(), session(1));
    let (mut one, mut two) = (asks(&relay, &session, ALPHA), asks(&relay, &session, BETA));
    drop(the_question(&ear).await);
    drop(the_question(&ear).await);
    assert!(one.next().await.is_none() && two.next().await.is_none());
    assert_eq!(relay.exchanges.of(&session).unwrap().roots.lock().waiting, 0);
}

/// ROOT-03: the question of a call goes with that call; what is lost there is asked by who else waits.
#[tokio::test]
async fn root_03_a_calls_question_goes_with_the_call() {
    let (relay, (session, ear)) = (relay(), session(1));
    let (to, mut call) = mpsc::channel(1);
    let (ask, mut hearing) = question(ALPHA, QuestionKind::Roots, "{}");
    assert!(put(pair(&relay, &session, ALPHA), ask, || Way::Call(to)).is_none());
    let mut beside = asks(&relay, &session, BETA);
    let carried = call.recv().await.unwrap();
    assert!(ear.questions().is_empty());
    drop((call, carried));
    the_question(&ear).await.asker.answer(message(ROOTS));
    assert!(answer(&mut beside).await.contains("file:///a"));
    assert!(hearing.next().await.is_none());
}

/// D11
#[tokio::test]
async fn d11_not_everybody_may_wait() {
    let (relay, (session, _ear)) = (relay(), session(1));
    let waiting: Vec<_> = (0..MOST).map(|_| asks(&relay, &session, ALPHA)).collect();
    assert_eq!(at(&answer(&mut asks(&relay, &session, ALPHA)).await, "/error/code"), INTERNAL_ERROR);
    drop(waiting);
}

/// ROOT-02
#[test]
fn root_02_what_is_no_file_is_left_out() {
    let roots =
        |list: &str| message(&format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"roots":[{list}],"x":1.0}}}}"#));
    let text = |answer: Message| String::from_utf8(cleaned(answer).text().to_vec()).unwrap();
    let file = r#"{"uri":"FILE:///a%20b","name":"n"}"#;
    let mixed = format!(r#"{{"uri":"https://x/"}},{file},7,{{"name":"file:"}},{{"uri":"fil"}}"#);
    assert_eq!(text(roots(&mixed)), text(roots(file)));
    assert!(text(roots(&mixed)).contains(r#""x":1.0"#));
    let repeated = message(r#"{"jsonrpc":"2.0","id":1,"result":{"roots":[],"roots":[]}}"#);
    assert_eq!(at(&text(repeated), "/error/code"), INTERNAL_ERROR);
    let odd = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    assert_eq!(text(message(odd)), odd);
}
