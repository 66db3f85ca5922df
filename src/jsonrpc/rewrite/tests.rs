//! Rewriting: what changes, what stays, and that chunking does not matter.

use proptest::prelude::*;

use super::*;

static URI: Node = leaf(Action::Uri);
static BLOCK: Node = walk(&[("uri", &URI), ("resource", &INNER)]);
static INNER: Node = walk(&[("uri", &URI)]);
static BLOCKS: Node = Node { members: &[], elements: Some(&BLOCK), action: Action::Walk };
static FLAG: Node = leaf(Action::IsError);
static RESULT: Node =
    Node { members: &[("content", &BLOCKS), ("isError", &FLAG)], elements: None, action: Action::Result };
static CODE: Node = leaf(Action::Code);
static DATA: Node = walk(&[("uri", &URI)]);
static ERROR: Node =
    Node { members: &[("code", &CODE), ("data", &DATA)], elements: None, action: Action::Error };
static ID: Node = leaf(Action::Id);
static ROOT: Node = walk(&[("id", &ID), ("result", &RESULT), ("error", &ERROR)]);

fn plan() -> Plan {
    let uris: UriMap = Arc::new(|uri| uri.strip_prefix("file:").map(|rest| format!("ns+file:{rest}")));
    Plan { root: &ROOT, id: Bytes::from(r#""mine""#), uris: Some(uris) }
}

fn whole(text: &str) -> Result<(String, Findings), RewriteError> {
    let (out, findings) = Rewriter::whole(plan(), &Bytes::copy_from_slice(text.as_bytes()))?;
    Ok((String::from_utf8(out.to_vec()).unwrap(), findings))
}

#[test]
fn replaces_ids_and_uris_and_nothing_else() {
    let (out, findings) = whole(concat!(
        r#" {"result" : {"content":[{"type":"resource_link","uri":"file:///a"},{"uri":7,"resource":{"text":"file:","uri":"file:///b"}},"#,
        r#"{"type":"text","text":"{\"uri\":\"file:///c\"}"}],"structuredContent":{"uri":"file:///d","id":1.0},"isError":true},"jsonrpc":"2.0","id":12}"#,
    ))
    .unwrap();
    assert_eq!(
        out,
        concat!(
            r#" {"result" : {"content":[{"type":"resource_link","uri":"ns+file:///a"},{"uri":7,"resource":{"text":"file:","uri":"ns+file:///b"}},"#,
            r#"{"type":"text","text":"{\"uri\":\"file:///c\"}"}],"structuredContent":{"uri":"file:///d","id":1.0},"isError":true},"jsonrpc":"2.0","id":"mine"}"#,
        )
    );
    assert_eq!(findings, Findings { result: true, is_error: true, ..Findings::default() });
}

#[test]
fn errors_are_seen() {
    let (out, findings) =
        whole(r#"{"id":"x","error":{"code":-32002,"message":"m","data":{"uri":"file:/x"}}}"#).unwrap();
    assert_eq!(out, r#"{"id":"mine","error":{"code":-32002,"message":"m","data":{"uri":"ns+file:/x"}}}"#);
    assert_eq!(findings, Findings { error: true, code: Some(-32002), ..Findings::default() });
}

#[test]
fn hidden_and_repeated_names_are_seen() {
    let (out, _) = whole(r#"{"\u0069d":1,"result":{"content":[]}}"#).unwrap();
    assert!(out.contains(r#""mine""#));
    assert_eq!(whole(r#"{"id":1,"i\u0064":2,"result":{}}"#), Err(RewriteError::Repeated));
}

/// RES-04, RES-06, TOOL-09: one that is too long to be mapped costs neither the answer nor the next one.
#[test]
fn a_uri_that_is_too_long_passes_as_it_is() {
    let long = format!(r#"file:\"{}"#, "x".repeat(CAPTURE));
    let answer = |first: &str, second: &str, id: &str| {
        format!(r#"{{"id":{id},"result":{{"content":[{{"uri":"{first}"}},{{"uri":"{second}"}}]}}}}"#)
    };
    let text = Bytes::from(answer(&long, "file:b", "7"));
    let wanted = answer(&long, "ns+file:b", r#""mine""#);
    for size in [1, 1000, CAPTURE, text.len()] {
        let (mut rewriter, mut out) = (Rewriter::new(plan()), Vec::new());
        for at in (0..text.len()).step_by(size) {
            rewriter.push(&text.slice(at..text.len().min(at + size)), &mut out).unwrap();
        }
        assert!(rewriter.finish().unwrap().result);
        assert!(out.concat() == wanted.as_bytes(), "in chunks of {size}");
    }
    let id = format!(r#"{{"id":"{long}","result":{{}}}}"#);
    assert_eq!(whole(&id), Err(RewriteError::Malformed));
}

#[test]
fn what_is_no_answer_is_refused() {
    for text in [
        "[]",
        "7",
        "{\"id\":1}",
        "{\"id\":1,\"result\":{}",
        "{\"id\" 1}",
        "{\"id\":1}}",
        "nonsense",
        "{\"id\":1,\"result\":{},}",
        "{\"result\":{\"content\":[1,]}}",
        "{\"result\":]}",
    ] {
        assert!(whole(text).is_err(), "{text}");
    }
}

prop_compose! {
    fn json(depth: u32)(seed in leafs(), nested in proptest::collection::vec(leafs(), 0..4)) -> String {
        let _ = depth;
        format!("{{\"k\":{seed},\"content\":[{}]}}", nested.join(","))
    }
}

fn leafs() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<String>().prop_map(|s| text::quote(&s)),
        Just("null".to_owned()),
        any::<String>()
            .prop_map(|s| format!(r#"{{"uri":{},"x":[{{}},"]"]}}"#, text::quote(&format!("file:{s}")))),
    ]
}

proptest! {
    #[test]
    fn any_chunking_rewrites_alike(result in json(2), cuts in proptest::collection::vec(1_usize..9, 1..60)) {
        let text = Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":7,"result":{result}}}"#));
        let (wanted, findings) = Rewriter::whole(plan(), &text).unwrap();
        let (mut rewriter, mut out, mut at) = (Rewriter::new(plan()), Vec::new(), 0);
        for cut in cuts.iter().cycle() {
            let end = text.len().min(at + cut);
            rewriter.push(&text.slice(at..end), &mut out).unwrap();
            at = end;
            if at == text.len() { break }
        }
        prop_assert_eq!(Bytes::from(out.concat()), wanted);
        prop_assert_eq!(rewriter.finish(), Ok(findings));
    }

    #[test]
    fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Rewriter::whole(plan(), &Bytes::from(text));
    }
}
