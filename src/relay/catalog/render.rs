//! An item as clients see it: its name or URI replaced, everything else as the upstream wrote it.

use std::borrow::Cow;

use bytes::Bytes;

use crate::jsonrpc::view::object_at;
use crate::jsonrpc::{Edits, Object, text};
use crate::mcp::methods::ItemKind;
use crate::mcp::names::Exposed;
use crate::mcp::uris::{self, UriFault};
use crate::relay::catalog::item::Item;

/// The key under which the original name of an aliased item is kept in `_meta` (R-18). Its prefix is
/// free under the rules of all revisions (RPC-18).
const ORIGINAL: &str = "io.portcullis/originalName";

/// A tool or a prompt under its exposed name. `slug` maps the URIs that its `_meta` names (TOOL-17).
#[must_use]
pub fn named(item: &Item, exposed: &Exposed, slug: Option<&str>) -> Bytes {
    let mut edits = Edits::new();
    if exposed.name != *item.key {
        edits.replace(item.key_at.clone(), text::quote(&exposed.name));
    }
    let Ok(object) = Object::scan(&item.text, 0) else { return item.text.clone() };
    if exposed.altered {
        keep_original(item, &object, &mut edits);
    }
    if let Some(slug) = slug {
        map_meta(item, &object, slug, &mut edits);
    }
    edits.apply(&item.text)
}

/// Keeps the original name where people or programs can see it (R-18).
fn keep_original(item: &Item, object: &Object, edits: &mut Edits) {
    let original = text::quote(&item.key);
    if object.find(&item.text, "title").is_none() {
        let end = item.key_at.end;
        edits.replace(end..end, format!(r#","title":{original}"#));
        return;
    }
    match object.find(&item.text, "_meta") {
        None => {
            let end = object.end() - 1;
            edits.replace(end..end, format!(r#","_meta":{{"{ORIGINAL}":{original}}}"#));
        }
        Some(meta) => {
            let inside = meta.start + 1;
            let empty = Object::scan(&item.text, meta.start).is_ok_and(|meta| meta.is_empty());
            let comma = if empty { "" } else { "," };
            edits.replace(inside..inside, format!(r#""{ORIGINAL}":{original}{comma}"#));
        }
    }
}

/// Maps `_meta.ui.resourceUri` and `_meta["ui/resourceUri"]`, which name a resource of the same upstream.
fn map_meta(item: &Item, object: &Object, slug: &str, edits: &mut Edits) {
    let text = &item.text;
    let Ok(Some(meta)) = object_at(text, object.find(text, "_meta")) else { return };
    let nested = object_at(text, meta.find(text, "ui")).ok().flatten();
    let nested = nested.and_then(|ui| ui.find(text, "resourceUri"));
    for span in [meta.find(text, "ui/resourceUri"), nested].into_iter().flatten() {
        if let Some(uri) = text::unquote(&text[span.clone()])
            && let Ok(Cow::Owned(mapped)) = uris::expose(slug, &uri)
        {
            edits.replace(span, text::quote(&mapped));
        }
    }
}

/// A resource or a template under its exposed URI.
///
/// # Errors
/// When the URI cannot be exposed.
pub fn located(kind: ItemKind, item: &Item, slug: Option<&str>) -> Result<(Bytes, String), UriFault> {
    let Some(slug) = slug else { return Ok((item.text.clone(), item.key.to_string())) };
    let exposed = match kind {
        ItemKind::Template => uris::expose_template(slug, &item.key)?,
        _ => uris::expose(slug, &item.key)?,
    };
    let mut edits = Edits::new();
    if *exposed != *item.key {
        edits.replace(item.key_at.clone(), text::quote(&exposed));
    }
    Ok((edits.apply(&item.text), exposed.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::catalog::item;

    fn tool(text: &str) -> Item {
        item::read(ItemKind::Tool, &Bytes::copy_from_slice(text.as_bytes()), 4096).unwrap()
    }

    fn exposed(name: &str, altered: bool) -> Exposed {
        Exposed { name: name.to_owned(), altered }
    }

    /// R-18: an alias keeps the original in `title`, else in `_meta`.
    #[test]
    fn an_alias_keeps_the_original_visible() {
        let plain = tool(r#"{"name":"a.b","inputSchema":{"type":"object"}}"#);
        let text = named(&plain, &exposed("ns__a_b_12", true), None);
        assert_eq!(text, r#"{"name":"ns__a_b_12","title":"a.b","inputSchema":{"type":"object"}}"#);
        let titled = tool(r#"{"name":"a.b","title":"T","inputSchema":{"type":"object"}}"#);
        let text = named(&titled, &exposed("x", true), None);
        assert_eq!(
            text,
            r#"{"name":"x","title":"T","inputSchema":{"type":"object"},"_meta":{"io.portcullis/originalName":"a.b"}}"#
        );
        for (meta, wanted) in [
            ("{}", r#"{"io.portcullis/originalName":"a.b"}"#),
            (r#"{"k":1}"#, r#"{"io.portcullis/originalName":"a.b","k":1}"#),
        ] {
            let item = tool(&format!(
                r#"{{"name":"a.b","title":"T","_meta":{meta},"inputSchema":{{"type":"object"}}}}"#
            ));
            let text = named(&item, &exposed("x", true), None);
            assert!(String::from_utf8_lossy(&text).contains(wanted), "{text:?}");
        }
    }

    /// TOOL-17
    #[test]
    fn known_uris_in_meta_follow_their_resources() {
        let item = tool(
            r#"{"name":"a","_meta":{"ui":{"resourceUri":"ui://app/x"},"ui/resourceUri":"ui://app/x","other":"ui://app/x"},"inputSchema":{"type":"object"}}"#,
        );
        let text = named(&item, &exposed("a", false), Some("ns"));
        assert_eq!(String::from_utf8_lossy(&text).matches("ui://ns.app/x").count(), 2);
    }

    /// F-044, R-20
    #[test]
    fn resources_get_their_namespace() {
        let item = item::read(ItemKind::Resource, &Bytes::from(r#"{"name":"n","uri":"file:///A%20b"}"#), 99)
            .unwrap();
        let (text, uri) = located(ItemKind::Resource, &item, Some("ns")).unwrap();
        assert_eq!(text, r#"{"name":"n","uri":"ns+file:///A%20b"}"#);
        assert_eq!(uri, "ns+file:///A%20b");
        let web =
            item::read(ItemKind::Resource, &Bytes::from(r#"{"name":"n","uri":"https://x/"}"#), 99).unwrap();
        assert_eq!(located(ItemKind::Resource, &web, Some("ns")).unwrap().0, web.text);
        assert_eq!(located(ItemKind::Resource, &item, None).unwrap().0, item.text);
    }
}
