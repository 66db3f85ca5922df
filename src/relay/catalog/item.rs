//! One entry of a list: read once, checked alone, kept as text (TOOL-02, RES-02, PROM-02, F-046).

use bytes::Bytes;

use crate::jsonrpc::scan::{ScanError, Span};
use crate::jsonrpc::view::{elements_at, object_at};
use crate::jsonrpc::{Edits, Object, text};
use crate::mcp::methods::ItemKind;
use crate::telemetry::words::{DropReason, FindingKind};

/// An entry of an upstream's list.
///
/// *Invariants.* The text is a valid object in which the key, and for tools the input schema, have
/// the types that clients rely on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Item {
    /// The definition, as the upstream wrote it but for what had to be left out.
    pub text: Bytes,
    /// The upstream's own name, URI or template.
    pub key: Box<str>,
    /// Where the key stands in the text.
    pub key_at: Span,
    /// What is suspicious in it.
    pub findings: Vec<FindingKind>,
}

/// Why an entry is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// Its name, if it has one.
    pub item: String,
    /// The kind of reason.
    pub reason: DropReason,
    /// The reason for people.
    pub detail: &'static str,
}

/// The longest description that is no finding, in bytes.
pub const LONG: usize = 16 * 1024;

/// Reads one element of a list.
///
/// # Errors
/// `Unfit` costs this entry alone.
pub fn read(kind: ItemKind, element: &Bytes, max_bytes: usize) -> Result<Item, Unfit> {
    let unfit = |item: &str, reason, detail| Unfit { item: item.to_owned(), reason, detail };
    if element.len() > max_bytes {
        return Err(unfit("", DropReason::TooLarge, "it is larger than `maxItemSize`"));
    }
    let object = match Object::scan(element, 0) {
        Ok(object) => object,
        Err(ScanError::Repeated(_)) => return Err(unfit("", DropReason::Malformed, "a member occurs twice")),
        Err(_) => return Err(unfit("", DropReason::Malformed, "it is not an object")),
    };
    let key = object.string(element, kind.key()).unwrap_or_default().into_owned();
    let malformed = |detail| unfit(&key, DropReason::Malformed, detail);
    if key.is_empty() {
        return Err(malformed("its name or URI is missing, empty or not a string"));
    }
    check(kind, element, &object).map_err(malformed)?;
    let mut findings = Vec::new();
    let edits = leave_out(kind, element, &object, &mut findings).map_err(malformed)?;
    suspicious(element, &object, &mut findings);
    let text = edits.apply(element);
    let object = Object::scan(&text, 0).map_err(|_| malformed("it is not an object"))?;
    let key_at = object.find(&text, kind.key()).ok_or_else(|| malformed("it has no name"))?;
    Ok(Item { text, key: key.into(), key_at, findings })
}

/// What strict clients check, and drop the whole list for.
fn check(kind: ItemKind, element: &[u8], object: &Object) -> Result<(), &'static str> {
    let is =
        |name: &str, first: u8| object.value(element, name).is_none_or(|value| value.first() == Some(&first));
    if !is("description", b'"') || !is("title", b'"') {
        return Err("`description` or `title` is not a string");
    }
    if !is("annotations", b'{') || !is("_meta", b'{') {
        return Err("`annotations` or `_meta` is not an object");
    }
    if !is("icons", b'[') {
        return Err("`icons` is not an array");
    }
    match kind {
        ItemKind::Tool => match object.find(element, "inputSchema") {
            None => Err("`inputSchema` is missing"),
            Some(span) => check_schema(element, span),
        },
        ItemKind::Prompt if !is("arguments", b'[') => Err("`arguments` is not an array"),
        ItemKind::Prompt => Ok(()),
        ItemKind::Resource | ItemKind::Template => match object.value(element, "name") {
            Some([b'"', ..]) => Ok(()),
            _ => Err("`name` is missing or not a string"),
        },
    }
}

/// A tool's schema describes an object; its keywords are the upstream's business (F-047).
fn check_schema(element: &[u8], span: Span) -> Result<(), &'static str> {
    let Ok(Some(schema)) = object_at(element, Some(span)) else { return Err("the schema is not an object") };
    if !schema.value(element, "type").is_some_and(|kind| text::means(kind, "object")) {
        return Err("the schema's `type` is not \"object\"");
    }
    let is =
        |name: &str, first: u8| schema.value(element, name).is_none_or(|value| value.first() == Some(&first));
    if is("properties", b'{') && is("required", b'[') {
        Ok(())
    } else {
        Err("the schema's `properties` or `required` has the wrong type")
    }
}

/// Edits that leave out a bad output schema (F-046) and icons of forbidden schemes (RPC-26).
fn leave_out(
    kind: ItemKind,
    element: &Bytes,
    object: &Object,
    findings: &mut Vec<FindingKind>,
) -> Result<Edits, &'static str> {
    let mut edits = Edits::new();
    if kind == ItemKind::Tool
        && let Some(span) = object.find(element, "outputSchema")
        && check_schema(element, span).is_err()
    {
        edits.remove(element, object, &["outputSchema"]);
    }
    if let Some(span) = object.find(element, "icons") {
        let icons = elements_at(element, Some(span.clone())).map_err(|_| "`icons` is not an array")?;
        let kept: Vec<&Bytes> = icons.iter().filter(|icon| allowed_icon(icon)).collect();
        if kept.len() < icons.len() {
            findings.push(FindingKind::IconScheme);
            edits.replace(span, format!("[{}]", join(&kept)));
        }
    }
    Ok(edits)
}

fn join(parts: &[&Bytes]) -> String {
    let parts: Vec<_> = parts.iter().map(|part| String::from_utf8_lossy(part)).collect();
    parts.join(",")
}

fn allowed_icon(icon: &[u8]) -> bool {
    let Ok(object) = Object::scan(icon, 0) else { return false };
    let source = object.string(icon, "src").unwrap_or_default().to_ascii_lowercase();
    ["https:", "http:", "data:"].iter().any(|scheme| source.starts_with(scheme))
}

/// Notes characters that people do not see or that turn text around, and over-long descriptions.
fn suspicious(element: &[u8], object: &Object, findings: &mut Vec<FindingKind>) {
    if object.value(element, "description").is_some_and(|text| text.len() > LONG) {
        findings.push(FindingKind::TooLong);
    }
    findings.extend(hidden(element));
}

/// The kinds of hidden characters in JSON text, escaped ones included.
pub fn hidden(text: &[u8]) -> Vec<FindingKind> {
    // ASCII without escapes cannot hide anything; nearly all definitions are that.
    if text.is_ascii() && memchr::memmem::find(text, b"\\u").is_none() {
        return Vec::new();
    }
    let plain = String::from_utf8_lossy(text);
    let escaped = plain
        .match_indices("\\u")
        .filter_map(|(at, _)| u32::from_str_radix(plain.get(at + 2..at + 6)?, 16).ok());
    suspects(plain.chars().map(u32::from).chain(escaped))
}

/// The kinds of hidden characters among code points, each once.
pub fn suspects(codes: impl Iterator<Item = u32>) -> Vec<FindingKind> {
    let mut found = Vec::new();
    for kind in codes.filter_map(suspect) {
        if !found.contains(&kind) {
            found.push(kind);
        }
    }
    found
}

/// Plain text without hidden characters.
pub fn visible(text: &str) -> String {
    text.chars().filter(|c| suspect(u32::from(*c)).is_none()).collect()
}

/// What kind of hidden character a code point is. Joiners are left alone: emoji and scripts need them.
fn suspect(code: u32) -> Option<FindingKind> {
    match code {
        0x200b | 0x2060..=0x2064 | 0xfeff | 0x00ad | 0x180e => Some(FindingKind::Invisible),
        0x202a..=0x202e | 0x2066..=0x2069 | 0x200e | 0x200f | 0x061c => Some(FindingKind::Bidi),
        // As UTF-16 escapes, tag characters begin with this high surrogate and a low one of its block.
        0xe0000..=0xe007f | 0xdb40 => Some(FindingKind::Tags),
        _ => None,
    }
}

/// JSON text without hidden characters, for `onFinding: strip`.
pub fn stripped(text: &Bytes) -> Bytes {
    let plain = visible(&String::from_utf8_lossy(text));
    let mut out = String::with_capacity(plain.len());
    let mut rest = plain.as_str();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 2..at + 6).filter(|_| rest[at..].starts_with("\\u"));
        let code = code.and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let low = code == Some(0xdb40) && rest.get(at + 6..at + 8) == Some("\\u");
        let length = match code {
            Some(code) if suspect(code).is_some() => {
                rest = rest.get(at + if low { 12 } else { 6 }..).unwrap_or_default();
                continue;
            }
            Some(_) => 6,
            None => 2,
        };
        let end = (at + length).min(rest.len());
        out.push_str(&rest[at..end]);
        rest = &rest[end..];
    }
    out.push_str(rest);
    Bytes::from(out)
}

#[cfg(test)]
mod tests;
