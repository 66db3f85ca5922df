//! Elicitation by an upstream that is newer than the client (ELIC-03, VER-12).
//!
//! Forms came with 2025-06-18; 2025-11-25 added modes, titles of choices as `oneOf`, default values beside those of
//! booleans, and choices of several values. A choice of several has no older form, and is never made one of a single value.

use bytes::Bytes;

use crate::jsonrpc::scan::{ScanError, Span};
use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, Object, text};
use crate::mcp::project::{Unshowable, edited, elements, whole};
use crate::mcp::revision::Revision;

/// The `params` of `elicitation/create` as a client of `to` understands them; `None` leaves them.
///
/// # Errors
/// `Schema` for forms that `to` cannot describe, `Unknown` for other modes and where `to` has no elicitation, `Scan`.
pub fn elicitation(params: &[u8], to: Revision) -> Result<Option<Bytes>, Unshowable> {
    if to >= Revision::V2025_11_25 {
        return Ok(None);
    }
    if to < Revision::V2025_06_18 {
        return Err(Unshowable::Unknown { what: "elicitation", to });
    }
    let Some(object) = whole(params)? else { return Ok(None) };
    if object.value(params, "mode").is_some_and(|mode| !text::means(mode, "form")) {
        return Err(Unshowable::Unknown { what: "elicitation but by form", to });
    }
    let mut edits = Edits::new();
    edits.remove(params, &object, &["mode"]);
    let schema = object_at(params, object.find(params, "requestedSchema"))?;
    let fields = schema.and_then(|schema| schema.find(params, "properties"));
    if let Some(fields) = object_at(params, fields)? {
        for (_, field) in fields.iter() {
            if let Some(field) = object_at(params, Some(field.clone()))? {
                rephrase(params, &field, to, &mut edits)?;
            }
        }
    }
    Ok(edited(params, &edits))
}

/// Describes one field of the form in the older way.
fn rephrase(text: &[u8], field: &Object, to: Revision, edits: &mut Edits) -> Result<(), Unshowable> {
    let kind = field.string(text, "type");
    if kind.as_deref() == Some("array") {
        return Err(Unshowable::Schema { what: "choice of several values", to });
    }
    if kind.as_deref() != Some("boolean") {
        edits.remove(text, field, &["default"]);
    }
    let named = |(key, _): &&(Span, Span)| text::means(&text[key.clone()], "oneOf");
    if let Some((key, options)) = field.iter().find(named) {
        let twice = ["enum", "enumNames"].iter().any(|name| field.find(text, name).is_some());
        let choice = if twice { None } else { titled(text, options.clone())? };
        let what = "choice of this kind";
        edits.replace(key.start..options.end, choice.ok_or(Unshowable::Schema { what, to })?);
    }
    Ok(())
}

/// `enum` and `enumNames` for the `oneOf` at `options`; `None` when it is no list of titled strings.
fn titled(text: &[u8], options: Span) -> Result<Option<String>, ScanError> {
    if text[options.start] != b'[' {
        return Ok(None);
    }
    let (mut values, mut names) = (Vec::new(), Vec::new());
    for option in elements(text, Some(options))? {
        let Some(option) = object_at(text, Some(option))? else { return Ok(None) };
        let literal = |name| option.value(text, name).filter(|value| value.first() == Some(&b'"'));
        let Some(value) = literal("const") else { return Ok(None) };
        values.push(String::from_utf8_lossy(value));
        names.push(String::from_utf8_lossy(literal("title").unwrap_or(value)));
    }
    Ok(Some(format!(r#""enum":[{}],"enumNames":[{}]"#, values.join(","), names.join(","))))
}
