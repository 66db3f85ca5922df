//! Which entries are fit, and what is left out of them.

use super::*;

fn tool(text: &str) -> Result<Item, Unfit> {
    read(ItemKind::Tool, &Bytes::copy_from_slice(text.as_bytes()), 4096)
}

/// F-045, F-047: a fit entry is kept byte for byte.
#[test]
fn a_fit_entry_keeps_its_text() {
    for text in [
        r#"{"name":"a","inputSchema":{"type":"object"}}"#,
        r#"{ "x-new":{"k":[1]}, "inputSchema":{"$defs":{"B":{}},"type":"object","properties":{"a":true,"n":{"type":"int"}}}, "name" : "a b" }"#,
        r#"{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"object"},"icons":[{"src":"https://x/y.png"},{"src":"data:image/png;base64,AA"}]}"#,
    ] {
        let item = tool(text).unwrap();
        assert_eq!(item.text, text);
        assert_eq!(text::unquote(&item.text[item.key_at]).unwrap(), *item.key);
        assert!(item.findings.is_empty());
    }
}

/// TOOL-02, F-046
#[test]
fn an_unfit_entry_is_refused_with_its_name() {
    for text in [
        "null",
        "{}",
        r#"{"name":"","inputSchema":{"type":"object"}}"#,
        r#"{"name":"a"}"#,
        r#"{"name":"a","inputSchema":null}"#,
        r#"{"name":"a","inputSchema":{"type":"string"}}"#,
        r#"{"name":"a","inputSchema":{}}"#,
        r#"{"name":"a","inputSchema":{"type":"object","required":null}}"#,
        r#"{"name":"a","inputSchema":{"type":"object","properties":[]}}"#,
        r#"{"name":"a","description":5,"inputSchema":{"type":"object"}}"#,
        r#"{"name":"a","annotations":[],"inputSchema":{"type":"object"}}"#,
        r#"{"name":"a","name":"b","inputSchema":{"type":"object"}}"#,
    ] {
        let unfit = tool(text).unwrap_err();
        assert_eq!(unfit.reason, DropReason::Malformed, "{text}");
    }
    assert_eq!(tool(r#"{"name":"a"}"#).unwrap_err().item, "a");
    assert_eq!(
        tool(&format!(r#"{{"name":"{}"}}"#, "a".repeat(5000))).unwrap_err().reason,
        DropReason::TooLarge
    );
}

/// F-046, RPC-26
#[test]
fn bad_output_schemas_and_icons_cost_only_themselves() {
    let item = tool(r#"{"outputSchema":[],"name":"a","inputSchema":{"type":"object"}}"#).unwrap();
    assert_eq!(item.text, r#"{"name":"a","inputSchema":{"type":"object"}}"#);
    let item = tool(r#"{"name":"a","inputSchema":{"type":"object"},"outputSchema":7}"#).unwrap();
    assert_eq!(item.text, r#"{"name":"a","inputSchema":{"type":"object"}}"#);
    let item = tool(r#"{"name":"a","inputSchema":{"type":"object"},"icons":[{"src":"javascript:x"},{"src":"HTTPS://x"}]}"#).unwrap();
    assert_eq!(item.text, r#"{"name":"a","inputSchema":{"type":"object"},"icons":[{"src":"HTTPS://x"}]}"#);
    assert_eq!(item.findings, [FindingKind::IconScheme]);
}

/// R-23
#[test]
fn hidden_characters_are_found_and_can_be_stripped() {
    let text = r#"{"name":"a","description":"x\u200by\u202ez \udb40\udc41 \\u200b é 👩‍🚀","inputSchema":{"type":"object"}}"#;
    let item = tool(text).unwrap();
    assert_eq!(item.findings, [FindingKind::Invisible, FindingKind::Bidi, FindingKind::Tags]);
    let stripped = stripped(&item.text);
    assert_eq!(stripped, r#"{"name":"a","description":"xyz  \\u200b é 👩‍🚀","inputSchema":{"type":"object"}}"#);
    let raw = tool(
        "{\"name\":\"a\",\"description\":\"x\u{200b}y\u{e0041}\",\"inputSchema\":{\"type\":\"object\"}}",
    )
    .unwrap();
    assert_eq!(raw.findings, [FindingKind::Invisible, FindingKind::Tags]);
    assert!(super::stripped(&raw.text).is_ascii());
}

/// RES-02, PROM-02
#[test]
fn other_kinds_need_what_they_are_called_by() {
    let fits = |kind, text: &str| read(kind, &Bytes::copy_from_slice(text.as_bytes()), 4096).is_ok();
    assert!(fits(ItemKind::Resource, r#"{"uri":"a://1","name":"n"}"#));
    assert!(!fits(ItemKind::Resource, r#"{"uri":"a://1"}"#));
    assert!(!fits(ItemKind::Resource, r#"{"name":"n"}"#));
    assert!(fits(ItemKind::Template, r#"{"uriTemplate":"a://{x}","name":"n"}"#));
    assert!(fits(ItemKind::Prompt, r#"{"name":"n"}"#));
    assert!(!fits(ItemKind::Prompt, r#"{"name":"n","arguments":{}}"#));
}
