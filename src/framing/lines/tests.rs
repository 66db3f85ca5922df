//! Lines: trimming, limits, and independence of the chunking.

use proptest::prelude::*;

use super::*;

fn all(max_bytes: usize, chunks: &[&[u8]]) -> Vec<Result<Bytes, Oversized>> {
    let mut lines = Lines::new(max_bytes);
    let mut out = Vec::new();
    for chunk in chunks {
        lines.push(Bytes::copy_from_slice(chunk));
        out.extend(lines.by_ref());
    }
    while let Some(line) = lines.finish() {
        out.push(line);
    }
    out
}

fn texts(chunks: &[&[u8]]) -> Vec<Bytes> {
    all(1 << 20, chunks).into_iter().map(|line| line.expect("no line is over the limit")).collect()
}

/// STDIO-01
#[test]
fn f_033_several_messages_in_one_read_and_one_in_several() {
    let read = b"log line\n{\"a\":1}\n{\"b\":2}\n{\"c\"";
    assert_eq!(texts(&[read, b":", b"3}\n"]), [&b"log line"[..], b"{\"a\":1}", b"{\"b\":2}", b"{\"c\":3}"]);
}

#[test]
fn f_034_bom_cr_and_blank_lines_are_trimmed() {
    let read = "\u{feff}Server v1\r\n\r\n \t\n[INFO] ready\n{}\r\n".as_bytes();
    assert_eq!(texts(&[read]), [&b"Server v1"[..], b"[INFO] ready", b"{}"]);
}

#[test]
fn f_034_a_bom_is_trimmed_only_at_the_start_of_the_stream() {
    let read = "\u{feff}\n\u{feff}{}\n".as_bytes();
    assert_eq!(texts(&[read]), ["\u{feff}{}".as_bytes()]);
}

#[test]
fn f_032_a_character_split_over_reads_survives() {
    let text = "{\"text\":\"漢字 — 👩‍🚀 é\"}\n";
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    assert_eq!(texts(&bytes), [text.trim_end().as_bytes()]);
}

#[test]
fn f_035_an_oversized_line_is_reported_once_and_the_stream_goes_on() {
    let long = vec![b'x'; 4000];
    let got = all(10, &[b"{}\n", &long, &long, b"tail\n", b"{\"a\":1}\n"]);
    assert_eq!(got.len(), 3);
    assert_eq!(got[0].as_deref(), Ok(&b"{}"[..]));
    let oversized = got[1].clone().expect_err("the second line is too long");
    assert_eq!(oversized.bytes, 8004);
    assert!(oversized.head.starts_with(b"xxx") && oversized.tail.ends_with(b"xtail"));
    assert_eq!(got[2].as_deref(), Ok(&b"{\"a\":1}"[..]));
}

#[test]
fn f_035_the_limit_is_exact_and_does_not_count_the_line_end() {
    let got = all(4, &[b"1234\r\n12345\n\xef\xbb\xbf1\n"]);
    assert!(got[0].is_ok() && got[1].is_err());
}

#[test]
fn the_last_line_needs_no_newline() {
    assert_eq!(texts(&[b"a\nb"]), [&b"a"[..], b"b"]);
    assert_eq!(texts(&[b"a\n"]), [&b"a"[..]]);
}

#[test]
fn a_line_inside_one_chunk_is_not_copied() {
    let chunk = Bytes::from_static(b"first\nsecond\n");
    let start = chunk.as_ptr();
    let mut lines = Lines::new(100);
    lines.push(chunk);
    let first = lines.next().and_then(Result::ok).expect("a line");
    assert_eq!(first.as_ptr(), start);
}

proptest! {
    /// F-032, F-033: the same bytes give the same lines however they were cut.
    #[test]
    fn chunking_does_not_matter(
        text in proptest::collection::vec(prop_oneof![
            4 => Just(b'a'), 1 => Just(b'\n'), 1 => Just(b'\r'), 1 => Just(b' '), 1 => any::<u8>(),
        ], 0..200),
        with_bom in any::<bool>(),
        cuts in proptest::collection::vec(1usize..9, 1..40),
        max_bytes in 0usize..20,
    ) {
        let mut bytes = if with_bom { BOM.to_vec() } else { Vec::new() };
        bytes.extend(text);
        let mut chunks = Vec::new();
        let mut rest = &bytes[..];
        for cut in cuts {
            let (chunk, after) = rest.split_at(cut.min(rest.len()));
            chunks.push(chunk);
            rest = after;
        }
        chunks.push(rest);
        prop_assert_eq!(all(max_bytes, &chunks), all(max_bytes, &[&bytes]));
    }
}
