//! What a fuzz target does with its input, one function each. The fuzzer calls them with what it makes up,
//! `tests/corpus.rs` of the gateway with every file of `corpus/`. They panic where an invariant is broken.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use portcullis::config::Format;
use portcullis::config::environment::Environment;
use portcullis::framing::{lines::Lines, sse};
use portcullis::jsonrpc::rewrite::{Plan, Rewriter};
use portcullis::jsonrpc::{Edits, Message};
use portcullis::mcp::{answers, uris};

/// Small, so that limits are met all the time.
const LIMIT: usize = 24;

/// A fuzz target.
pub type Entry = fn(&[u8]);

/// Every target: its name, which is also that of its corpus folder, and its function.
pub const ENTRIES: &[(&str, Entry)] = &[
    ("config", config),
    ("lines", lines),
    ("message", message),
    ("rewrite", rewrite),
    ("splice", splice),
    ("sse", sse),
    ("uris", uris),
];

/// Configuration: anything in any format is a snapshot or a list of problems.
pub fn config(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let environment = Environment::default();
    for format in [Format::Json, Format::Yaml, Format::Toml] {
        if let Err(problems) = portcullis::config::parse(text, format, "fuzz", &environment) {
            assert!(!problems.to_string().is_empty());
        }
    }
}

/// Messages: what is read as one is JSON for the reference, too, and can be sent on.
pub fn message(input: &[u8]) {
    let text = Bytes::copy_from_slice(input);
    let Ok(message) = Message::parse(text.clone()) else { return };
    let reference: &serde_json::value::RawValue =
        serde_json::from_slice(&text).expect("what is read is JSON");
    assert!(reference.get().starts_with('{'));
    let again = message.readdress(Some(7), "x", &Edits::new());
    assert!(Message::parse(again).is_ok());
    let _ = (message.id(), message.method().len());
}

/// Rewriting: no chunking changes what comes out.
pub fn rewrite(input: &[u8]) {
    let plan = || Plan {
        root: &answers::TOOL,
        id: Bytes::from_static(b"1"),
        uris: Some(Arc::new(|uri| Some(format!("ns+{uri}")))),
    };
    let run = |chunks: &[&[u8]]| {
        let (mut rewriter, mut out) = (Rewriter::new(plan()), Vec::new());
        for chunk in chunks {
            rewriter.push(&Bytes::copy_from_slice(chunk), &mut out).ok()?;
        }
        rewriter.finish().ok().map(|findings| (out.concat(), findings))
    };
    let (chunks, whole) = chunked(input);
    assert_eq!(run(&chunks), run(&[whole]));
}

/// Splicing: what is not named stays.
pub fn splice(input: &[u8]) {
    let Some((&[start, length, ..], text)) = input.split_first_chunk::<2>() else {
        return;
    };
    let start = usize::from(start).min(text.len());
    let end = (start + usize::from(length)).min(text.len());
    let mut edits = Edits::new();
    edits.replace(start..end, &b"new"[..]);
    let out = edits.apply(&Bytes::copy_from_slice(text));
    assert_eq!(out, [&text[..start], b"new", &text[end..]].concat());
}

/// Lines: no chunking changes them, none is blank or too long.
pub fn lines(input: &[u8]) {
    let read = |chunks: &[&[u8]]| {
        let mut lines = Lines::new(LIMIT);
        let mut out = Vec::new();
        for chunk in chunks {
            lines.push(Bytes::copy_from_slice(chunk));
            out.extend(lines.by_ref());
        }
        out.extend(std::iter::from_fn(|| lines.finish()));
        out
    };
    let (chunks, whole) = chunked(input);
    let got = read(&chunks);
    assert_eq!(got, read(&[whole]));
    for line in got.into_iter().flatten() {
        assert!(line.len() <= LIMIT && !line.contains(&b'\n') && !line.trim_ascii().is_empty());
    }
}

/// Events: no chunking changes them, and what one holds survives being sent on.
pub fn sse(input: &[u8]) {
    let read = |chunks: &[&[u8]]| {
        let mut decoder = sse::Decoder::new(LIMIT);
        let mut out = Vec::new();
        for chunk in chunks {
            decoder.push(Bytes::copy_from_slice(chunk));
            out.extend(decoder.by_ref());
        }
        out.extend(std::iter::from_fn(|| decoder.finish()));
        out
    };
    let (chunks, whole) = chunked(input);
    let got = read(&chunks);
    assert_eq!(got, read(&[whole]));
    for event in got.into_iter().flatten() {
        assert!(event.data.len() <= LIMIT);
        if event.data.is_empty() {
            continue;
        }
        let mut out = BytesMut::new();
        sse::encode(&mut out, "message", Some("1"), &event.data);
        let again = read(&[&out]);
        let [Ok(again)] = &again[..] else {
            panic!("one event in, {again:?} out");
        };
        assert_eq!(again.data, sse::flatten(event.data));
    }
}

/// URIs: what is exposed comes back, what splits is bounded and free of control characters.
pub fn uris(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else {
        return;
    };
    if let Ok(exposed) = uris::expose("ns", text)
        && exposed != text
    {
        assert_eq!(uris::split(&exposed), Some(("ns", text.into())));
    }
    // A template may be anything; that it is refused or mapped without harm is all there is to say.
    let _ = uris::expose_template("ns", text);
    if let Some((_, original)) = uris::split(text) {
        assert!(!original.is_empty() && !original.chars().any(char::is_control));
    }
}

/// The input's first byte says how the rest is cut into chunks.
fn chunked(input: &[u8]) -> (Vec<&[u8]>, &[u8]) {
    let Some((&seed, whole)) = input.split_first() else {
        return (Vec::new(), input);
    };
    let size = usize::from(seed % 16) + 1;
    (whole.chunks(size).collect(), whole)
}
