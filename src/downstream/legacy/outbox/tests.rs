//! Which stream a message goes on, and what becomes of questions.

use futures_util::FutureExt;

use super::*;
use crate::call::{Heard, Hearing, UpstreamId, ask};
use crate::downstream::legacy::store::Bounds;
use crate::mcp::questions::QuestionKind;

const BOUNDS: Bounds = Bounds { bytes: 1 << 16, age: Duration::from_mins(5), questions: 3 };

/// The outbox of a session whose client is not ready.
pub(in crate::downstream) fn outbox(revision: Revision) -> Arc<Outbox> {
    Outbox::new(SessionKey([7; 16]), revision, Store::new(BOUNDS))
}

pub(in crate::downstream) fn ready(revision: Revision) -> Arc<Outbox> {
    let outbox = outbox(revision);
    outbox.set_ready();
    outbox
}

pub(in crate::downstream) fn question(upstream: u16) -> (Question, Hearing) {
    let (asker, hearing) = ask();
    let kind = QuestionKind::Elicitation;
    (Question { upstream: UpstreamId(upstream), kind, params: Bytes::from_static(b"{}"), asker }, hearing)
}

pub(in crate::downstream) fn message(text: &str) -> Message {
    Message::parse(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

pub(in crate::downstream) fn answer(id: u64) -> Message {
    message(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#))
}

/// What the reader is given without waiting.
pub(in crate::downstream) fn now(reader: &Reader) -> String {
    let mut out = String::new();
    while let Some(Some(part)) = reader.next().now_or_never() {
        out.push_str(std::str::from_utf8(&part.unwrap()).unwrap());
    }
    out
}

/// The id of the last event of a text.
pub(in crate::downstream) fn last_id(text: &str) -> &str {
    text.lines().rev().find_map(|line| line.strip_prefix("id: ")).unwrap()
}

fn course(upstream: u16) -> Option<Arc<Course>> {
    let course = Course::default();
    course.goes_to(UpstreamId(upstream));
    Some(Arc::new(course))
}

fn is_over(reader: &Reader) -> bool {
    reader.next().now_or_never().is_some_and(|next| next.is_none())
}

/// Lets tasks run that were woken.
async fn settle() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

/// F-004, F-024, F-053, HTTP-18
#[test]
fn changes_are_told_once_on_the_newest_stream() {
    let outbox = ready(Revision::LATEST);
    for kind in [ItemKind::Tool, ItemKind::Tool, ItemKind::Template] {
        outbox.list_changed(kind);
    }
    let old = outbox.open_standing();
    let told = now(&old);
    assert_eq!(told.matches("tools/list_changed").count(), 1);
    assert_eq!(told.matches("resources/list_changed").count(), 1);
    let new = outbox.open_standing();
    outbox.list_changed(ItemKind::Prompt);
    assert_eq!(now(&old), "");
    assert!(now(&new).contains("prompts/list_changed"));
    // What the newest did not tell before it went is told by the other.
    outbox.list_changed(ItemKind::Tool);
    drop(new);
    assert!(now(&old).contains("tools/list_changed"));
    outbox.end_standing();
    assert_eq!(now(&old), "retry: 1000\n\n");
    assert!(is_over(&old));
    drop(old);
    assert!(!outbox.is_busy());
}

/// LIFE-08
#[tokio::test]
async fn life_08_nothing_is_told_or_asked_before_the_client_is_ready() {
    let outbox = outbox(Revision::LATEST);
    let (standing, call) = (outbox.open_standing(), outbox.open_answer(course(1)));
    outbox.list_changed(ItemKind::Tool);
    let (first, _hearing) = question(1);
    outbox.ask(first, Some(call.track()));
    assert_eq!(now(&standing) + &now(&call), "");
    outbox.set_ready();
    let told = now(&standing);
    assert!(told.contains("tools/list_changed") && told.contains("elicitation/create"), "{told}");
}

/// F-007, HTTP-22: the oldest stream gives way, and it can be gone on with.
#[test]
fn f_007_the_oldest_gives_way() {
    let outbox = ready(Revision::LATEST);
    let first = outbox.open_standing();
    outbox.list_changed(ItemKind::Tool);
    let id = last_id(&now(&first)).to_owned();
    let _more: Vec<_> = (0..caps::STREAMS_PER_SESSION).map(|_| outbox.open_standing()).collect();
    assert!(is_over(&first));
    assert!(outbox.resume(&id).is_some());
}

/// HTTP-18, HTTP-19: a question goes on the newest standing stream; without one with a call to the same upstream;
/// without that it waits.
#[tokio::test]
async fn http_19_a_question_goes_where_it_can() {
    let outbox = ready(Revision::LATEST);
    let (other, same) = (outbox.open_answer(course(1)), outbox.open_answer(course(2)));
    let (first, _first) = question(2);
    outbox.push(Push::Ask(first));
    assert_eq!(now(&other), "");
    assert!(now(&same).contains(r#""id":1,"method":"elicitation/create""#));
    drop(same);
    let (second, _second) = question(3);
    outbox.push(Push::Ask(second));
    assert_eq!(now(&other), "");
    let later = outbox.open_answer(course(3));
    assert!(now(&later).contains(r#""id":2"#));
    let standing = outbox.open_standing();
    let (third, _third) = question(1);
    outbox.push(Push::Ask(third));
    assert_eq!(now(&other), "");
    assert!(now(&standing).contains(r#""id":3"#));
}

/// HTTP-19, D11: what matters waits for a stream, the rest is dropped; nothing waits without bound.
#[test]
fn http_19_notices_wait_within_bounds() {
    let outbox = ready(Revision::LATEST);
    let notice = |method: &str, number: usize| {
        Bytes::from(format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{{"n":"<{number}>"}}}}"#
        ))
    };
    outbox.push(Push::Notice(notice("message", 0)));
    outbox.push(Push::Notice(notice("progress", 1)));
    outbox.push(Push::Notice(notice("elicitation/complete", 2)));
    for number in 3..3 + caps::WAITING_NOTICES {
        outbox.push(Push::Notice(notice("resources/updated", number)));
    }
    let standing = outbox.open_standing();
    let told = now(&standing);
    assert!(!told.contains("<0>") && !told.contains("<1>") && !told.contains("<2>"), "{told}");
    assert_eq!(told.matches("resources/updated").count(), caps::WAITING_NOTICES);
    for number in 0..2 * caps::UNREAD_NOTICES {
        outbox.push(Push::Notice(notice("message", number)));
    }
    let told = now(&standing);
    assert_eq!(told.matches("notifications/message").count(), caps::UNREAD_NOTICES);
    assert!(told.ends_with(&format!("<{}>\"}}}}\n\n", 2 * caps::UNREAD_NOTICES - 1)));
    for _ in 0..4 {
        outbox.push(Push::Notice(Bytes::from(vec![b' '; caps::WAITING_BYTES / 2])));
    }
    assert_eq!(now(&standing).matches("data: ").count(), 2);
}

/// RPC-07, RPC-09, PROG-07: the client's answer reaches who asked, once; it is not asked again by a replay.
#[tokio::test]
async fn rpc_09_an_answer_counts_once() {
    let outbox = ready(Revision::LATEST);
    let standing = outbox.open_standing();
    standing.track().prime(RETRY);
    let (asked, mut hearing) = question(1);
    outbox.push(Push::Ask(asked));
    let id = last_id(&now(&standing)[..40]).to_owned();
    outbox.progressed(message(
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#,
    ));
    outbox.answered(answer(1));
    outbox.answered(answer(1));
    outbox.answered(answer(9));
    assert!(matches!(hearing.next().await, Some(Heard::Progress(_))));
    assert!(matches!(hearing.next().await, Some(Heard::Answer(_))));
    assert!(hearing.next().await.is_none());
    let again = outbox.resume(&id).unwrap();
    assert_eq!(now(&again), "");
}

/// CANC-06: a question that was withdrawn is cancelled where it was asked, and only if it was.
#[tokio::test]
async fn canc_06_a_withdrawn_question_is_cancelled_where_it_was_asked() {
    let outbox = ready(Revision::LATEST);
    let (call, standing) = (outbox.open_answer(course(1)), outbox.open_standing());
    let (asked, hearing) = question(1);
    outbox.ask(asked, Some(call.track()));
    assert!(now(&call).contains("elicitation/create"));
    drop(hearing);
    settle().await;
    assert!(now(&call).contains(r#""method":"notifications/cancelled","params":{"requestId":1}"#));
    assert_eq!(now(&standing), "");
    // Nobody saw this one.
    let (asked, hearing) = question(1);
    outbox.ask(asked, Some(call.track()));
    drop(hearing);
    settle().await;
    assert_eq!(now(&call), "");
    // The stream of this one has ended meanwhile.
    let (asked, hearing) = question(1);
    outbox.ask(asked, Some(call.track()));
    assert!(now(&call).contains(r#""id":3"#));
    call.track().end();
    drop(hearing);
    settle().await;
    assert!(now(&standing).contains(r#"{"requestId":3}"#));
    // And one that still waits just goes.
    drop(standing);
    let (asked, hearing) = question(5);
    outbox.push(Push::Ask(asked));
    drop(hearing);
    settle().await;
    assert!(!now(&outbox.open_standing()).contains("requestId"));
    assert!(!outbox.lock().asked.iter().any(|_| true));
}

/// CANC-01, CANC-06: what a call asked ends with it, and its stream says so before its own end.
#[tokio::test]
async fn canc_06_a_cancelled_call_takes_its_questions_along() {
    let outbox = ready(Revision::LATEST);
    let call = outbox.open_answer(course(1));
    let (bound, _first) = question(1);
    outbox.ask(bound, Some(call.track()));
    let (unbound, _second) = question(1);
    outbox.push(Push::Ask(unbound));
    now(&call);
    outbox.withdraw_from(call.track());
    let told = now(&call);
    assert!(told.contains(r#"{"requestId":1}"#) && !told.contains(r#"{"requestId":2}"#), "{told}");
}

/// R-62: an unanswered question is asked again on the next new stream, under the same id, and not by a replay.
#[tokio::test]
async fn r_62_a_question_whose_stream_ended_is_offered_again() {
    let outbox = ready(Revision::LATEST);
    let call = outbox.open_answer(course(1));
    call.track().prime(RETRY);
    let (asked, mut hearing) = question(1);
    outbox.ask(asked, Some(call.track()));
    let seen = now(&call);
    let before = EventId { event: 0, ..EventId::parse(last_id(&seen)).unwrap() }.to_string();
    drop(call);
    // A resume is no new stream: it replays.
    let again = outbox.resume(&before).unwrap();
    assert!(now(&again).contains(r#""id":1"#));
    let other = outbox.open_standing();
    assert_eq!(now(&other), "", "its stream is read");
    drop(again);
    drop(other);
    let fresh = outbox.open_standing();
    assert!(now(&fresh).contains(r#""id":1,"method":"elicitation/create""#));
    assert_eq!(now(&outbox.resume(&before).unwrap()), "");
    outbox.answered(answer(1));
    assert!(matches!(hearing.next().await, Some(Heard::Answer(_))));
}

/// OPS-03, D11: questions are bounded, and who asks too many learns it at once.
#[tokio::test]
async fn ops_03_open_questions_are_bounded() {
    let outbox = ready(Revision::LATEST);
    let mut held = Vec::new();
    for _ in 0..BOUNDS.questions {
        let (asked, hearing) = question(1);
        outbox.push(Push::Ask(asked));
        held.push(hearing);
    }
    let (asked, mut hearing) = question(1);
    outbox.push(Push::Ask(asked));
    assert!(hearing.next().await.is_none());
    outbox.answered(answer(1));
    let (asked, hearing) = question(1);
    outbox.push(Push::Ask(asked));
    settle().await;
    assert!(outbox.lock().asked.find(4).is_some());
    drop(hearing);
}

/// LIFE-21, LIFE-27: a question keeps a session; its end drops questions and ends streams.
#[tokio::test]
async fn life_21_the_end_of_a_session_ends_all() {
    let outbox = ready(Revision::LATEST);
    assert!(!outbox.is_busy());
    let (asked, mut hearing) = question(1);
    outbox.push(Push::Ask(asked));
    assert!(outbox.is_busy());
    let (standing, call) = (outbox.open_standing(), outbox.open_answer(course(1)));
    now(&standing);
    outbox.close();
    assert!(is_over(&standing) && is_over(&call));
    assert!(hearing.next().await.is_none());
    let (asked, mut hearing) = question(1);
    outbox.push(Push::Ask(asked));
    assert!(hearing.next().await.is_none());
    assert!(is_over(&outbox.open_standing()));
    drop((standing, call));
    assert_eq!(outbox.account.used(), 0);
}

/// HTTP-23, R-07: an id that is malformed, unknown, foreign or expired leads nowhere.
#[tokio::test(start_paused = true)]
async fn http_23_only_what_can_be_gone_on_with_is() {
    let outbox = ready(Revision::LATEST);
    let standing = outbox.open_standing();
    outbox.list_changed(ItemKind::Tool);
    let id = last_id(&now(&standing)).to_owned();
    drop(standing);
    let read = EventId::parse(&id).unwrap();
    let other = Outbox::new(SessionKey([8; 16]), Revision::LATEST, Store::new(BOUNDS));
    drop(other.open_standing());
    assert!(other.resume(&id).is_none(), "foreign");
    let unknown = EventId { stream: 9, proof: prove(&outbox.key, 9), ..read };
    let ahead = EventId { event: read.event + 1, ..read };
    for id in [unknown.to_string(), ahead.to_string(), format!("{id} "), String::new(), "1".into()] {
        assert!(outbox.resume(&id).is_none(), "{id}");
    }
    let again = outbox.resume(&id).unwrap();
    outbox.list_changed(ItemKind::Prompt);
    assert!(now(&again).contains("prompts/list_changed"), "it goes on live");
    drop(again);
    outbox.expire(clock::now());
    assert!(outbox.resume(&id).is_some());
    clock::sleep(BOUNDS.age).await;
    outbox.expire(clock::now());
    assert!(outbox.resume(&id).is_none(), "expired");
}

/// F-008, HTTP-18, HTTP-21: a replay holds what its own stream carried, in its own session.
#[tokio::test]
async fn f_008_a_replay_crosses_neither_streams_nor_sessions() {
    let (mine, other) =
        (ready(Revision::LATEST), Outbox::new(SessionKey([8; 16]), Revision::LATEST, Store::new(BOUNDS)));
    other.set_ready();
    let mut streams = Vec::new();
    for (number, outbox) in [&mine, &mine, &other].into_iter().enumerate() {
        let call = outbox.open_answer(course(1));
        call.track().prime(RETRY);
        let id = last_id(&now(&call)).to_owned();
        call.track().append(format!("\"<{number}>\"").as_bytes(), 0);
        streams.push((outbox, id));
    }
    for (number, (outbox, id)) in streams.iter().enumerate() {
        let replayed = now(&outbox.resume(id).unwrap());
        assert_eq!(replayed.matches('<').count(), 1, "{replayed}");
        assert!(replayed.contains(&format!("<{number}>")), "{replayed}");
        let elsewhere = if Arc::ptr_eq(outbox, &mine) { &other } else { &mine };
        assert!(elsewhere.resume(id).is_none());
    }
}

/// HTTP-13, HTTP-20: only revisions that know of it have ids, and only the newest is primed.
#[test]
fn http_20_ids_are_for_those_who_know_them() {
    for (revision, numbered, primes) in [
        (Revision::V2024_11_05, false, false),
        (Revision::V2025_03_26, true, false),
        (Revision::V2025_06_18, true, false),
        (Revision::V2025_11_25, true, true),
    ] {
        let outbox = ready(revision);
        let standing = outbox.open_standing();
        outbox.list_changed(ItemKind::Tool);
        assert_eq!(now(&standing).contains("id: "), numbered, "{revision}");
        assert_eq!(outbox.primes(), primes, "{revision}");
    }
    let nothing = Store::new(Bounds { bytes: 0, ..BOUNDS });
    let outbox = Outbox::new(SessionKey([7; 16]), Revision::LATEST, nothing);
    assert!(!outbox.primes() && !outbox.numbers());
}

/// HTTP-22, D11: streams that nobody comes back to are forgotten beyond a number, those under way last.
#[test]
fn http_22_streams_of_a_session_are_bounded() {
    let outbox = ready(Revision::LATEST);
    let running = outbox.open_answer(course(1));
    running.track().append(b"{}", 0);
    let first = last_id(&now(&running)).to_owned();
    drop(running);
    for _ in 0..3 * caps::RESUMABLE_STREAMS {
        let done = outbox.open_answer(course(1));
        done.track().append(b"{}", 0);
        now(&done);
        done.track().end();
    }
    assert!(outbox.lock().tracks.len() <= caps::RESUMABLE_STREAMS);
    assert!(outbox.resume(&first).is_some());
    let mut sizes = Vec::new();
    for _ in 0..40 {
        let done = outbox.open_answer(course(1));
        done.track().append(&[b'x'; 60_000], 0);
        now(&done);
        outbox.relieve();
        sizes.push(outbox.account.used());
    }
    assert!(sizes.iter().all(|size| *size <= caps::REPLAY_BYTES_PER_SESSION));
    assert!(sizes.iter().any(|size| *size > caps::REPLAY_BYTES_PER_SESSION / 2));
}
