//! One stream, written and read by hand.

use super::*;
use crate::downstream::legacy::store::{Bounds, Store};

const AGE: Duration = Duration::from_mins(5);

pub(in crate::downstream) fn open(account: &Arc<Account>, number: u32) -> Arc<Track> {
    let opening = Opening { number, proof: 1, framing: Framing::Numbered, course: None };
    Track::open(account.clone(), opening)
}

/// Lets the first reader take this many times, then leave.
pub(in crate::downstream) fn shown(track: &Track, times: usize) {
    for _ in 0..times {
        track.take(0);
    }
    track.detach(0);
}

fn account(bytes: usize) -> Arc<Account> {
    Account::new(Store::new(Bounds { bytes, age: AGE, questions: 1 }))
}

fn framed(framing: Framing) -> Arc<Track> {
    Track::open(account(1 << 16), Opening { number: 1, proof: 1, framing, course: None })
}

/// All that a reader is given now.
fn all(track: &Track, reader: u32) -> String {
    let mut out = String::new();
    while let Taken::Part(part) = track.take(reader) {
        out.push_str(std::str::from_utf8(&part).unwrap());
    }
    out
}

/// HTTP-20, HTTP-21, HTTP-22: whatever a client saw last, it is given what follows and nothing else.
#[test]
fn http_21_replay_goes_on_at_every_event() {
    let track = open(&account(1 << 16), 3);
    track.prime(Duration::from_secs(1));
    for number in 1..=3 {
        assert!(track.append(format!("{{\"n\":{number}}}").as_bytes(), 0));
    }
    track.begin();
    track.more([Bytes::from_static(b"{\"n\":"), Bytes::from_static(b"4}")]);
    track.complete();
    track.end();
    let whole = all(&track, 0);
    assert!(whole.starts_with("id: 3.0.0000000000000001\nretry: 1000\ndata: \n\n"), "{whole}");
    let events: Vec<_> = whole.split_inclusive("\n\n").collect();
    assert_eq!(events.len(), 5);
    assert_eq!(events[4], "event: message\nid: 3.4.0000000000000001\ndata: {\"n\":4}\n\n");
    for (last, _) in events.iter().enumerate() {
        let reader = track.attach(last as u64).unwrap();
        assert_eq!(all(&track, reader), events[last + 1..].concat());
        assert_eq!(track.take(reader), Taken::Over);
    }
    assert!(track.attach(5).is_none(), "an event that there is not");
}

/// HTTP-18: a reader that was replaced is given nothing more.
#[test]
fn http_18_a_new_reader_replaces_the_old_one() {
    let track = open(&account(1 << 16), 1);
    track.append(b"1", 0);
    track.append(b"2", 0);
    track.take(0);
    let second = track.attach(1).unwrap();
    assert_eq!(track.take(0), Taken::Over);
    track.detach(0);
    assert!(track.is_read());
    let third = track.attach(0).unwrap();
    assert_eq!(track.take(second), Taken::Over);
    assert_eq!(all(&track, third).matches("data: ").count(), 2);
}

/// HTTP-22, D11: beyond the limit the oldest goes, and who would need it cannot come back.
#[test]
fn http_22_an_overflow_is_no_gap() {
    let account = account(4000);
    let track = open(&account, 1);
    for _ in 0..100 {
        track.append(&[b'x'; 500], 0);
        track.take(0);
        assert!(account.used() <= 4000);
    }
    track.detach(0);
    let first = (0..=100).find(|last| track.attach(*last).is_some()).unwrap();
    assert!(first > 90, "{first}");
    let reader = track.attach(first).unwrap();
    assert_eq!(all(&track, reader).matches("data: ").count() as u64, 100 - first);
    // Without a reader, the last that it can come back to is lost with what is too much.
    track.detach(reader);
    assert!(!track.is_lost());
    while track.append(&[b'x'; 500], 0) {}
    assert!(track.is_lost());
    assert!((0..200).all(|last| track.attach(last).is_none()));
}

/// HTTP-22: a large answer is given in parts without a copy, and only its stream cannot be resumed.
#[test]
fn http_22_a_large_answer_is_not_kept() {
    let account = account(4000);
    let track = open(&account, 1);
    track.append(b"1", 0);
    all(&track, 0);
    track.begin();
    let large = Bytes::from(vec![b'x'; 100_000]);
    track.take(0);
    track.more([large.clone()]);
    assert_eq!(track.take(0), Taken::Part(large.clone()));
    assert!(matches!(track.take(0), Taken::Nothing));
    assert!(track.attach(1).is_none());
    assert!(!track.append(b"2", 0), "nothing within an event");
    track.complete();
    track.end();
    assert_eq!(all(&track, 0), "\n\n");
    assert_eq!(track.take(0), Taken::Over);
    assert!(account.used() < 4000);
}

/// HTTP-09: half an answer is never taken for a whole one.
#[test]
fn http_09_an_end_within_an_event_breaks_off() {
    let track = framed(Framing::Events);
    track.begin();
    track.more([Bytes::from_static(b"{")]);
    track.end();
    assert_eq!(all(&track, 0), "event: message\ndata: {");
    let track = framed(Framing::Numbered);
    track.begin();
    track.end();
    track.take(0);
    assert_eq!(track.take(0), Taken::Broken);
    assert_eq!(track.take(0), Taken::Over);
}

/// STDIO-06, HTTP-13: other framings keep nothing and cannot be resumed.
#[test]
fn http_13_streams_without_ids_keep_nothing() {
    for (framing, text) in [
        (Framing::Lines, "{ }\n{}\n"),
        (Framing::Events, "event: message\ndata: { }\n\nevent: message\ndata: {}\n\n"),
    ] {
        let track = framed(framing);
        track.append(b"{\n}", 0);
        track.begin();
        track.more([Bytes::from_static(b"{}")]);
        track.complete();
        assert_eq!(all(&track, 0), text);
        assert_eq!(track.account.used(), 0);
        assert!(track.attach(0).is_none());
        track.detach(0);
        assert!(track.is_lost() && !track.append(b"{}", 0));
    }
}

/// what is taken back is not replayed, and it is known whether it was seen.
#[test]
fn r_62_a_question_can_be_taken_back() {
    let track = open(&account(1 << 16), 1);
    track.append(b"1", 0);
    track.append(b"?", 7);
    track.take(0);
    assert!(!track.forget(7), "it was given to a reader");
    assert!(!track.forget(7), "and is gone");
    track.append(b"??", 8);
    assert!(track.forget(8), "nobody has seen it");
    track.append(b"4", 0);
    let reader = track.attach(1).unwrap();
    let rest = all(&track, reader);
    assert!(rest.contains("data: 4") && !rest.contains('?'), "{rest}");
}

/// HTTP-14: the reader is sent away after what it can have, and may come back.
#[test]
fn http_14_a_reader_is_sent_away_with_a_word() {
    let track = open(&account(1 << 16), 1);
    track.append(b"1", 0);
    track.send_away(Some(Duration::from_millis(1500)));
    assert!(all(&track, 0).ends_with("data: 1\n\nretry: 1500\n\n"));
    assert_eq!(track.take(0), Taken::Over);
    assert!(!track.is_read());
    track.append(b"2", 0);
    let reader = track.attach(1).unwrap();
    assert!(all(&track, reader).contains("data: 2"));
    assert_eq!(track.take(reader), Taken::Nothing);
    track.send_away(None);
    assert_eq!(track.take(reader), Taken::Over);
}

/// HTTP-22: age counts from when a part came, and for the stream from when it came to rest.
#[tokio::test(start_paused = true)]
async fn http_22_what_is_old_expires() {
    let account = account(1 << 16);
    let track = open(&account, 1);
    track.append(b"1", 0);
    track.append(b"2", 0);
    track.take(0);
    clock::sleep(AGE / 2).await;
    track.append(b"3", 0);
    clock::sleep(AGE / 2).await;
    assert!(!track.expire(clock::now(), AGE));
    assert!(track.attach(1).is_none());
    let reader = track.attach(2).unwrap();
    assert!(all(&track, reader).contains("data: 3"));
    track.detach(reader);
    assert!(!track.expire(clock::now(), AGE), "it has just come to rest");
    clock::sleep(AGE).await;
    assert!(track.expire(clock::now(), AGE));
    assert_eq!(account.used(), 0);
}

/// who writes for a reader waits for it, who writes for nobody does not.
#[tokio::test]
async fn r_16_a_producer_waits_for_its_reader() {
    use futures_util::FutureExt;
    let track = open(&account(1000), 1);
    track.append(&[b'x'; 5000], 0);
    assert!(track.room().now_or_never().is_none());
    let waiting = tokio::spawn({
        let track = track.clone();
        async move { track.room().await }
    });
    tokio::task::yield_now().await;
    track.take(0);
    waiting.await.unwrap();
    track.append(&[b'x'; 5000], 0);
    track.detach(0);
    assert!(track.room().now_or_never().is_some());
}
