//! Content blocks of results in the terms of an older revision (VER-11).

use std::fmt::Write as _;

use crate::base::ids;
use crate::jsonrpc::rewrite::UriMap;
use crate::jsonrpc::{Object, text};
use crate::mcp::revision::Revision;

/// What stands in place of `block` for a client of `to`; `None` leaves it.
///
/// A link that becomes text is out of reach of the rewriting of URIs, so `uris` is applied here.
pub(super) fn older(text: &[u8], block: &Object, to: Revision, uris: Option<&UriMap>) -> Option<String> {
    match &*block.string(text, "type")? {
        "resource_link" if to < Revision::V2025_06_18 => Some(link(text, block, uris)),
        "audio" if to < Revision::V2025_03_26 => Some(audio(text, block)),
        _ => None,
    }
}

/// The text block that says `literal`, a JSON string.
pub(super) fn text_block(literal: &str) -> String {
    format!(r#"{{"type":"text","text":{literal}}}"#)
}

/// `<title or name>: <uri>`
fn link(text: &[u8], block: &Object, uris: Option<&UriMap>) -> String {
    let filled = |name| block.string(text, name).filter(|value| !value.is_empty());
    let label = filled("title").or_else(|| filled("name"));
    let uri = filled("uri").map(|uri| match uris.and_then(|map| map(&uri)) {
        Some(exposed) => exposed.into(),
        None => uri,
    });
    let plain = match (label, uri) {
        (Some(label), Some(uri)) => format!("{label}: {uri}"),
        (Some(one), None) | (None, Some(one)) => one.into_owned(),
        (None, None) => "resource_link".to_owned(),
    };
    with_notes(text_block(&text::quote(&plain)), text, block)
}

/// An embedded resource with the audio's bytes, under a URI made of them.
fn audio(text: &[u8], block: &Object) -> String {
    let literal = |name| block.value(text, name).filter(|value| value.first() == Some(&b'"'));
    let Some(data) = literal("data") else {
        return with_notes(text_block(r#""audio""#), text, block);
    };
    let mut out = format!(r#"{{"type":"resource","resource":{{"uri":"urn:uuid:{}""#, uuid(data));
    if let Some(kind) = literal("mimeType") {
        add(&mut out, "mimeType", kind);
    }
    add(&mut out, "blob", data);
    out.push_str("}}");
    with_notes(out, text, block)
}

/// A UUID that the bytes determine: version 8 of RFC 9562, filled from a SHA-256.
fn uuid(bytes: &[u8]) -> String {
    let hex = ids::sha256_hex(bytes);
    format!("{}-{}-8{}-a{}-{}", &hex[..8], &hex[8..12], &hex[12..15], &hex[15..18], &hex[18..30])
}

/// The finished object `out`, with what is said about `block` added.
fn with_notes(mut out: String, text: &[u8], block: &Object) -> String {
    out.pop();
    for name in ["annotations", "_meta"] {
        if let Some(value) = block.value(text, name).filter(|value| value.first() == Some(&b'{')) {
            add(&mut out, name, value);
        }
    }
    out.push('}');
    out
}

/// Adds a member to an object that is still open and not empty.
fn add(out: &mut String, name: &str, value: &[u8]) {
    // Writing into a string cannot fail, and a message is UTF-8.
    let _ = write!(out, r#","{name}":{}"#, String::from_utf8_lossy(value));
}
