//! Events: what readers must accept, limits, independence of the chunking, and the way back.

use proptest::prelude::*;

use super::*;

fn all(max_bytes: usize, chunks: &[&[u8]]) -> Vec<Result<Event, Oversized>> {
    let mut decoder = Decoder::new(max_bytes);
    let mut out = Vec::new();
    for chunk in chunks {
        decoder.push(Bytes::copy_from_slice(chunk));
        out.extend(decoder.by_ref());
    }
    while let Some(event) = decoder.finish() {
        out.push(event);
    }
    out
}

fn events(text: &str) -> Vec<Event> {
    all(1 << 20, &[text.as_bytes()])
        .into_iter()
        .map(|event| event.expect("no event is over the limit"))
        .collect()
}

fn datas(text: &str) -> Vec<Bytes> {
    events(text).into_iter().map(|event| event.data).collect()
}

/// HTTP-34
#[test]
fn f_005_bare_data_lines_without_name_and_with_either_space() {
    let got = events(": hello\r\ndata:{\"jsonrpc\":\"2.0\",\"id\":1,\r\ndata: \"result\":{}}\r\n\r\n");
    assert_eq!(got.len(), 1);
    assert_eq!(got[0].data, "{\"jsonrpc\":\"2.0\",\"id\":1,\n\"result\":{}}");
    assert_eq!(got[0].name, None);
}

#[test]
fn f_005_a_last_event_without_blank_line_counts_if_it_has_data() {
    assert_eq!(datas("data: 1\n\ndata: 2\n"), ["1", "2"]);
    assert_eq!(datas("data: 1\n\ndata: 2"), ["1", "2"]);
    assert_eq!(datas("data: 1\n\nid: 7"), ["1"]);
}

/// HTTP-34: an event that the end of the stream cut off does not move the point to resume from.
#[test]
fn the_id_of_a_last_event_without_blank_line_is_not_received() {
    let mut decoder = Decoder::new(100);
    decoder.push(Bytes::from_static(b"id: 1\ndata: a\n\nid: 2\ndata: b\n"));
    while decoder.finish().is_some() {}
    assert_eq!(decoder.last_id(), Some(&Bytes::from_static(b"1")));
}

/// HTTP-34
#[test]
fn all_line_ends_are_line_ends() {
    assert_eq!(datas("data: 1\r\rdata: 2\n\ndata: 3\r\n\r\ndata: 4\r\n\n"), ["1", "2", "3", "4"]);
}

/// HTTP-34
#[test]
fn a_bom_at_the_start_is_skipped() {
    assert_eq!(datas("\u{feff}data: 1\n\n"), ["1"]);
    assert_eq!(datas("\n\u{feff}data: 1\n\n"), [""; 0]);
}

/// HTTP-34
#[test]
fn comments_and_unknown_fields_are_ignored() {
    assert_eq!(datas(":\n: x\nfoo: bar\ndatas: 1\ndata: 1\nbar\n\n: x\n\n"), ["1"]);
}

/// HTTP-34
#[test]
fn only_one_space_belongs_to_the_format() {
    assert_eq!(datas("data:  1\n\ndata\ndata: 2\n\n"), [" 1", "\n2"]);
}

/// HTTP-34
#[test]
fn fields_are_read_and_last_one_wins() {
    let got = events("id: a\nid: b\nevent: x\nevent: endpoint\nretry: 5\nretry: 1x\ndata: d\n\n");
    assert_eq!(
        got,
        [Event { id: Some("b".into()), name: Some("endpoint".into()), data: "d".into(), retry: Some(5) }]
    );
    assert_eq!(events("id: a\0b\ndata: d\nretry: 99999999999999999999\n\n")[0].id, None);
}

/// HTTP-13
#[test]
fn an_empty_data_only_carries_id_or_delay() {
    let got = events("id: 1\ndata: \n\nretry: 20\n\ndata:\n\nevent: message\n\n");
    assert_eq!(got.len(), 2);
    assert_eq!((got[0].id.as_deref(), &got[0].data[..]), (Some(&b"1"[..]), &b""[..]));
    assert_eq!(got[1].retry, Some(20));
}

#[test]
fn f_032_a_character_split_over_reads_survives() {
    let text = "data: {\"text\":\"漢字 — 👩‍🚀 é\"}\n\n";
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    let got = all(1 << 10, &bytes);
    assert_eq!(
        got[0].as_ref().map(|event| &event.data[..]),
        Ok(text["data: ".len()..].trim_end().as_bytes())
    );
}

#[test]
fn f_012_an_event_comes_out_as_soon_as_its_blank_line_is_read() {
    let mut decoder = Decoder::new(100);
    decoder.push(Bytes::from_static(b"data: 1\r\n\r"));
    assert_eq!(decoder.next().and_then(Result::ok).map(|event| event.data), Some("1".into()));
    decoder.push(Bytes::from_static(b"\ndata: 2\r\n\r\n"));
    assert_eq!(decoder.next().and_then(Result::ok).map(|event| event.data), Some("2".into()));
}

#[test]
fn f_035_an_oversized_event_is_skipped_to_its_end() {
    let long = "x".repeat(3000);
    let text = format!("data: 1\n\nid: 9\ndata: {long}\ndata: end\nevent: message\n\ndata: 2\n\n");
    let mut decoder = Decoder::new(10);
    for chunk in text.as_bytes().chunks(100) {
        decoder.push(Bytes::copy_from_slice(chunk));
    }
    let got: Vec<_> = decoder.by_ref().collect();
    assert_eq!(got.len(), 3);
    assert!(got[0].is_ok() && got[2].is_ok());
    let oversized = got[1].clone().expect_err("the second event is too big");
    assert_eq!(oversized.bytes, 3004);
    assert!(oversized.head.starts_with(b"xxx") && oversized.tail.ends_with(b"x\nend"));
    assert_eq!(decoder.last_id(), Some(&Bytes::from_static(b"9")));
}

#[test]
fn f_035_many_small_lines_are_one_big_event() {
    let got = all(10, &["data: 123\n".repeat(4).as_bytes(), b"\ndata: 2\n\n"]);
    assert_eq!(got[0].as_ref().map_err(|oversized| oversized.bytes), Err(15));
    assert!(got[1].is_ok());
}

#[test]
fn comments_never_make_an_event_too_big() {
    let text = format!("data: 1\n{}:{}\ndata: 2\n\n", ": ping\n".repeat(1000), "x".repeat(5000));
    assert_eq!(all(3, &[text.as_bytes()])[0].as_ref().map(|event| &event.data[..]), Ok(&b"1\n2"[..]));
}

#[test]
fn data_in_one_line_of_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"data: {}\n\n");
    let start = chunk[6..].as_ptr();
    let mut decoder = Decoder::new(100);
    decoder.push(chunk);
    let event = decoder.next().and_then(Result::ok).expect("an event");
    assert_eq!(event.data.as_ptr(), start);
}

#[test]
fn what_is_written() {
    let mut out = BytesMut::new();
    priming(&mut out, "a.0", Some(100));
    encode(&mut out, "message", Some("a.1"), b"{\n\"a\":\r\n1}");
    encode(&mut out, "endpoint", None, b"/messages");
    out.extend_from_slice(COMMENT);
    retry(&mut out, 20);
    let text = "id: a.0\nretry: 100\ndata: \n\n\
        event: message\nid: a.1\ndata: { \"a\":  1}\n\n\
        event: endpoint\ndata: /messages\n\n\
        : keep-alive\n\nretry: 20\n\n";
    assert_eq!(out, text);
}

#[test]
fn nothing_written_breaks_out_of_its_field() {
    let mut out = BytesMut::new();
    encode(&mut out, "a\ndata: x", Some("1\r\n\r\n2\0"), b"{}\n\ndata: {}");
    assert_eq!(out, "event: adata: x\nid: 12\ndata: {}  data: {}\n\n");
}

#[test]
fn flat_data_is_not_copied() {
    let data = Bytes::from_static(b"{\"a\":\"b\"}");
    assert_eq!(flatten(data.clone()).as_ptr(), data.as_ptr());
    assert_eq!(flatten(Bytes::from_static(b"[\n1\r]")), "[ 1 ]");
}

fn cut<'a>(mut rest: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut chunks = Vec::new();
    for cut in cuts {
        let (chunk, after) = rest.split_at((*cut).min(rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    chunks.push(rest);
    chunks
}

fn part() -> impl Strategy<Value = Vec<u8>> {
    let word = prop_oneof![
        Just("data:"),
        Just("data: "),
        Just("id: "),
        Just("event: "),
        Just("retry: 1"),
        Just(":"),
        Just("\n"),
        Just("\n\n"),
        Just("\r"),
        Just("\r\n"),
        Just("\r\n\r\n"),
        Just("x"),
        Just("12345678"),
        Just("\u{feff}"),
    ];
    prop_oneof![
        8 => word.prop_map(|word| word.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..4),
    ]
}

proptest! {
    /// F-032: the same bytes give the same events however they were cut.
    #[test]
    fn chunking_does_not_matter(
        parts in proptest::collection::vec(part(), 0..40),
        cuts in proptest::collection::vec(1usize..9, 0..60),
        max_bytes in 0usize..20,
    ) {
        let bytes = parts.concat();
        prop_assert_eq!(all(max_bytes, &cut(&bytes, &cuts)), all(max_bytes, &[&bytes]));
    }

    /// What is encoded comes back, line ends aside.
    #[test]
    fn encoded_events_decode_to_themselves(
        messages in proptest::collection::vec(("[a-z]{1,8}", proptest::option::of("[!-~]{0,9}"), "[^\u{0}]{1,40}"), 0..6),
        cuts in proptest::collection::vec(1usize..30, 0..20),
    ) {
        let mut out = BytesMut::new();
        for (name, id, data) in &messages {
            out.extend_from_slice(COMMENT);
            encode(&mut out, name, id.as_deref(), data.as_bytes());
        }
        let expected: Vec<_> = messages
            .into_iter()
            .map(|(name, id, data)| Ok(Event {
                id: id.map(Bytes::from),
                name: Some(name.into()),
                data: data.replace(['\r', '\n'], " ").into(),
                retry: None,
            }))
            .collect();
        prop_assert_eq!(all(1 << 10, &cut(&out, &cuts)), expected);
    }
}
