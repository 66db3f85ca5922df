//! Sampling between an upstream and a client of different revisions (SAMP-02, VER-11).
//!
//! Content may be a list of blocks since 2025-11-25. Before, it is one block: a list of one is unwrapped, a list of text
//! is joined by line ends, and all else has no form.

use bytes::Bytes;

use crate::jsonrpc::scan::Span;
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, text};
use crate::mcp::project::content::text_block;
use crate::mcp::project::{Unshowable, edited, elements, whole};
use crate::mcp::revision::Revision;

/// The `params` of `sampling/createMessage` as a client of `to` understands them; `None` leaves them.
///
/// # Errors
/// `Unknown` for tools, for a list of content that is not one block, and for content that `to` does not have; `Scan`.
pub fn sampling(params: &[u8], to: Revision) -> Result<Option<Bytes>, Unshowable> {
    if to >= Revision::V2025_11_25 {
        return Ok(None);
    }
    let Some(object) = whole(params)? else { return Ok(None) };
    if ["tools", "toolChoice"].iter().any(|name| object.find(params, name).is_some()) {
        return Err(Unshowable::Unknown { what: "tools in sampling", to });
    }
    let mut edits = Edits::new();
    for message in elements(params, object.find(params, "messages"))? {
        let content = object_at(params, Some(message))?.and_then(|message| message.find(params, "content"));
        one_block(params, content, to, &mut edits)?;
    }
    Ok(edited(params, &edits))
}

/// The `result` of `sampling/createMessage` as an upstream of `to` understands it; `None` leaves it.
///
/// # Errors
/// As [`sampling`], for the content of the answer.
pub fn sampling_answer(result: &[u8], to: Revision) -> Result<Option<Bytes>, Unshowable> {
    if to >= Revision::V2025_11_25 {
        return Ok(None);
    }
    let Some(object) = whole(result)? else { return Ok(None) };
    let mut edits = Edits::new();
    one_block(result, object.find(result, "content"), to, &mut edits)?;
    Ok(edited(result, &edits))
}

/// Makes one block of the content at `span`, of a kind that `to` has.
fn one_block(text: &[u8], span: Option<Span>, to: Revision, edits: &mut Edits) -> Result<(), Unshowable> {
    let Some(span) = span else { return Ok(()) };
    if text[span.start] != b'[' {
        return known(text, span, to);
    }
    match &elements(text, Some(span.clone()))?[..] {
        [only] if text[only.start] == b'{' => {
            known(text, only.clone(), to)?;
            edits.replace(span, Bytes::copy_from_slice(&text[only.clone()]));
        }
        several => {
            let what = "list of content, and this one is not text alone";
            edits.replace(span, joined(text, several)?.ok_or(Unshowable::Unknown { what, to })?);
        }
    }
    Ok(())
}

/// Checks that `to` has blocks like the one at `span`; kinds that nobody has heard of pass.
fn known(text: &[u8], span: Span, to: Revision) -> Result<(), Unshowable> {
    let block = object_at(text, Some(span))?;
    let what = match block.and_then(|block| block.string(text, "type")).as_deref() {
        Some("audio") if to < Revision::V2025_03_26 => "audio in sampling",
        Some("tool_use" | "tool_result") => "tools in sampling",
        _ => return Ok(()),
    };
    Err(Unshowable::Unknown { what, to })
}

/// The text blocks at `spans` as one; `None` when there are none, or others among them.
fn joined(text: &[u8], spans: &[Span]) -> Result<Option<String>, Unshowable> {
    let mut parts = Vec::with_capacity(spans.len());
    for span in spans {
        let Some(block) = object_at(text, Some(span.clone()))? else { return Ok(None) };
        let is_text = block.value(text, "type").is_some_and(|kind| text::means(kind, "text"));
        // Literals are joined as they are written, so that every escape survives.
        let literal = block.value(text, "text").filter(|_| is_text);
        let inner = literal.and_then(|literal| literal.strip_prefix(b"\"")?.strip_suffix(b"\""));
        let Some(inner) = inner else { return Ok(None) };
        parts.push(String::from_utf8_lossy(inner));
    }
    Ok((!parts.is_empty()).then(|| text_block(&format!("\"{}\"", parts.join("\\n")))))
}
