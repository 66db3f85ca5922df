//! Tests of the projections: a table over all pairs of revisions, and properties over made-up trees.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::jsonrpc::rewrite::UriMap;
use crate::jsonrpc::{Kind, Message};
use crate::mcp::methods::{COMPLETE, PROMPTS_GET, RESOURCES_READ, TOOLS_CALL};

const V1: Revision = Revision::V2024_11_05;
const V2: Revision = Revision::V2025_03_26;
const V3: Revision = Revision::V2025_06_18;
const V4: Revision = Revision::V2025_11_25;

const TEXT: &str = r#"{"type":"text","text":"a"}"#;
const IMAGE: &str =
    r#"{"type":"image","data":"AA==","mimeType":"image/png","annotations":{"audience":["user"]}}"#;
const EMBEDDED: &str = r#"{"type":"resource","resource":{"uri":"x://1","text":"t"}}"#;
const AUDIO: &str = r#"{"type":"audio","data":"AAEC","mimeType":"audio/wav","annotations":{"priority":0.5}}"#;
const LINK: &str = r#"{"type":"resource_link","uri":"x://2","name":"n","title":"A \"link\"","annotations":{"priority":1.0},"_meta":{"k":1}}"#;
const ICONED: &str =
    r#"{"type":"resource_link","uri":"x://3","name":"n","icons":[{"src":"https://a/b.png"}]}"#;

const AUDIO_BEFORE: &str = r#"{"type":"resource","resource":{"uri":"urn:uuid:1ed0b317-c015-8f7f-afda-104d6d3113e9","mimeType":"audio/wav","blob":"AAEC"},"annotations":{"priority":0.5}}"#;
const LINK_BEFORE: &str =
    r#"{"type":"text","text":"A \"link\": up+x://2","annotations":{"priority":1.0},"_meta":{"k":1}}"#;
const ICONED_BEFORE: &str = r#"{"type":"text","text":"n: up+x://3"}"#;

/// What the relay would do to the URIs of one upstream.
fn exposed() -> UriMap {
    Arc::new(|uri: &str| Some(format!("up+{uri}")))
}

fn answer(result: &str) -> Message {
    Message::parse(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#).into()).unwrap()
}

/// The value of `result` or `params` in a message.
fn inner(message: &Message) -> String {
    let span = message.body().or(message.params()).unwrap();
    String::from_utf8(message.text()[span].to_vec()).unwrap()
}

/// What travels, each in a form that uses all that a revision has.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kinds {
    Tool,
    Structured,
    Prompt,
    Progress,
    Sampling,
    SamplingAnswer,
    Elicitation,
}

const ALL: [Kinds; 7] = [
    Kinds::Tool,
    Kinds::Structured,
    Kinds::Prompt,
    Kinds::Progress,
    Kinds::Sampling,
    Kinds::SamplingAnswer,
    Kinds::Elicitation,
];

impl Kinds {
    /// The definition of the schema, and whether it is one of results, in which members of later revisions may stay.
    fn definition(self) -> (&'static str, bool) {
        match self {
            Self::Tool | Self::Structured => ("CallToolResult", true),
            Self::Prompt => ("GetPromptResult", true),
            Self::Progress => ("ProgressNotification", false),
            Self::Sampling => ("CreateMessageRequest", false),
            Self::SamplingAnswer => ("CreateMessageResult", false),
            Self::Elicitation => ("ElicitRequest", false),
        }
    }

    /// The richest `result` or `params` of `from`; `None` where it has no such thing.
    fn richest(self, from: Revision) -> Option<String> {
        let blocks = match from {
            V1 => [TEXT, IMAGE, EMBEDDED].join(","),
            V2 => [TEXT, IMAGE, EMBEDDED, AUDIO].join(","),
            V3 => [TEXT, IMAGE, EMBEDDED, AUDIO, LINK].join(","),
            V4 => [TEXT, IMAGE, EMBEDDED, AUDIO, LINK, ICONED].join(","),
        };
        Some(match self {
            Self::Tool => format!(r#"{{"_meta":{{"k":1}},"content":[{blocks}],"isError":false}}"#),
            Self::Structured if from < V3 => return None,
            Self::Structured => format!(r#"{{"content":[{IMAGE}],"structuredContent":{{"n":1.0}}}}"#),
            Self::Prompt => {
                let each = |block: &str| format!(r#"{{"role":"user","content":{block}}}"#);
                let last = match from {
                    V1 => EMBEDDED,
                    V2 => AUDIO,
                    V3 => LINK,
                    V4 => ICONED,
                };
                format!(r#"{{"messages":[{},{}]}}"#, each(TEXT), each(last))
            }
            Self::Progress if from == V1 => r#"{"progressToken":"t","progress":1,"total":2}"#.into(),
            Self::Progress => r#"{"progressToken":"t","progress":1,"message":"m"}"#.into(),
            Self::Sampling => {
                let content = match from {
                    V1 => IMAGE.to_owned(),
                    V2 | V3 => AUDIO.to_owned(),
                    V4 => format!("[{AUDIO}]"),
                };
                format!(r#"{{"maxTokens":9,"messages":[{{"role":"user","content":{content}}}]}}"#)
            }
            Self::SamplingAnswer => {
                let content = if from == V4 { format!("[{TEXT}, {TEXT}]") } else { TEXT.to_owned() };
                format!(r#"{{"role":"assistant","model":"m","content":{content}}}"#)
            }
            Self::Elicitation => match from {
                V1 | V2 => return None,
                V3 => FORM_BEFORE.to_owned(),
                V4 => FORM.to_owned(),
            },
        })
    }

    /// Projects, as the relay would.
    fn project(self, inside: &str, to: Revision) -> Result<Option<String>, Unshowable> {
        let text = |bytes: Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        let whole = |bytes: Bytes| inner(&Message::parse(bytes).unwrap());
        let method = if self == Self::Prompt { &PROMPTS_GET } else { &TOOLS_CALL };
        Ok(match self {
            Self::Tool | Self::Structured | Self::Prompt => {
                result(method, to, &answer(inside), Some(&exposed())).map(whole)
            }
            Self::Progress => {
                let text =
                    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{inside}}}"#);
                notice(to, &Message::parse(text.into()).unwrap()).map(whole)
            }
            Self::Sampling => sampling(inside.as_bytes(), to)?.map(text),
            Self::SamplingAnswer => sampling_answer(inside.as_bytes(), to)?.map(text),
            Self::Elicitation => elicitation(inside.as_bytes(), to)?.map(text),
        })
    }
}

const FORM: &str = r#"{"mode":"form","message":"m","requestedSchema":{"type":"object","properties":{"s":{"type":"string","default":"x","minLength":1},"n":{"default":1.0,"type":"integer"},"b":{"type":"boolean","default":true},"e":{"type":"string","enum":["a"],"default":"a"},"t":{"type":"string","oneOf":[{"const":"a","title":"A"},{"const":"b","title":"B"}],"default":"a"}},"required":["s"]}}"#;
const FORM_BEFORE: &str = r#"{"message":"m","requestedSchema":{"type":"object","properties":{"s":{"type":"string","minLength":1},"n":{"type":"integer"},"b":{"type":"boolean","default":true},"e":{"type":"string","enum":["a"]},"t":{"type":"string","enum":["a","b"],"enumNames":["A","B"]}},"required":["s"]}}"#;

/// What a message of one revision becomes in another.
#[derive(Debug, PartialEq)]
enum Becomes {
    Same,
    This(String),
    Refused(String),
}

/// The table: what each kind becomes; what is not listed stays the same.
fn table(from: Revision, to: Revision, kind: Kinds) -> Becomes {
    let tool = |blocks: &[&str]| {
        Becomes::This(format!(r#"{{"_meta":{{"k":1}},"content":[{}],"isError":false}}"#, blocks.join(",")))
    };
    let prompt = |last: &str| {
        let each = |block: &str| format!(r#"{{"role":"user","content":{block}}}"#);
        Becomes::This(format!(r#"{{"messages":[{},{}]}}"#, each(TEXT), each(last)))
    };
    let sampling = |content: &str| {
        Becomes::This(format!(r#"{{"maxTokens":9,"messages":[{{"role":"user","content":{content}}}]}}"#))
    };
    match (kind, from, to) {
        (Kinds::Tool, V2, V1) => tool(&[TEXT, IMAGE, EMBEDDED, AUDIO_BEFORE]),
        (Kinds::Tool, V3, V1) => tool(&[TEXT, IMAGE, EMBEDDED, AUDIO_BEFORE, LINK_BEFORE]),
        (Kinds::Tool, V4, V1) => tool(&[TEXT, IMAGE, EMBEDDED, AUDIO_BEFORE, LINK_BEFORE, ICONED_BEFORE]),
        (Kinds::Tool, V3, V2) => tool(&[TEXT, IMAGE, EMBEDDED, AUDIO, LINK_BEFORE]),
        (Kinds::Tool, V4, V2) => tool(&[TEXT, IMAGE, EMBEDDED, AUDIO, LINK_BEFORE, ICONED_BEFORE]),
        (Kinds::Structured, V3 | V4, V1 | V2) => Becomes::This(format!(
            r#"{{"content":[{IMAGE},{{"type":"text","text":"{{\"n\":1.0}}"}}],"structuredContent":{{"n":1.0}}}}"#
        )),
        (Kinds::Prompt, V2, V1) => prompt(AUDIO_BEFORE),
        (Kinds::Prompt, V3, V1 | V2) => prompt(LINK_BEFORE),
        (Kinds::Prompt, V4, V1 | V2) => prompt(ICONED_BEFORE),
        (Kinds::Progress, V2 | V3 | V4, V1) => Becomes::This(r#"{"progressToken":"t","progress":1}"#.into()),
        (Kinds::Sampling, V2 | V3 | V4, V1) => {
            Becomes::Refused("revision 2024-11-05 has no audio in sampling".into())
        }
        (Kinds::Sampling, V4, V2 | V3) => sampling(AUDIO),
        (Kinds::SamplingAnswer, V4, V1 | V2 | V3) => Becomes::This(
            r#"{"role":"assistant","model":"m","content":{"type":"text","text":"a\na"}}"#.into(),
        ),
        (Kinds::Elicitation, _, V1) => Becomes::Refused("revision 2024-11-05 has no elicitation".into()),
        (Kinds::Elicitation, _, V2) => Becomes::Refused("revision 2025-03-26 has no elicitation".into()),
        (Kinds::Elicitation, V4, V3) => Becomes::This(FORM_BEFORE.into()),
        _ => Becomes::Same,
    }
}

/// VER-01, VER-02, VER-03, VER-04, VER-11, VER-12, ELIC-03, SAMP-02
#[test]
fn ver_01_each_kind_of_message_between_all_pairs_of_revisions() {
    let mut pairs = 0;
    for (from, to) in Revision::ALL.into_iter().flat_map(|from| Revision::ALL.map(|to| (from, to))) {
        pairs += usize::from(from != to);
        for kind in ALL {
            let Some(text) = kind.richest(from) else { continue };
            conforms(kind, from, &text);
            let becomes = match kind.project(&text, to) {
                Ok(None) => Becomes::Same,
                Ok(Some(text)) => Becomes::This(text),
                Err(why) => Becomes::Refused(why.to_string()),
            };
            assert_eq!(becomes, table(from, to, kind), "{kind:?} from {from} to {to}");
            match becomes {
                Becomes::This(text) => conforms(kind, to, &text),
                Becomes::Same => conforms(kind, to, &text),
                Becomes::Refused(_) => {}
            }
        }
    }
    assert_eq!(pairs, 12);
}

// === the schemas of the specification ===

fn schema(revision: Revision) -> Value {
    let text = match revision {
        V1 => include_str!("../../../tests/fixtures/schema/2024-11-05.json"),
        V2 => include_str!("../../../tests/fixtures/schema/2025-03-26.json"),
        V3 => include_str!("../../../tests/fixtures/schema/2025-06-18.json"),
        V4 => include_str!("../../../tests/fixtures/schema/2025-11-25.json"),
    };
    serde_json::from_str(text).unwrap()
}

/// Fails unless `text` is what `revision` calls for; what is no result has no members but those of the revision.
fn conforms(kind: Kinds, revision: Revision, text: &str) {
    let (all, (name, is_result)) = (schema(revision), kind.definition());
    let definitions = all.get("definitions").or(all.get("$defs")).unwrap();
    let definition = &definitions[name];
    let inside = if name.ends_with("Result") { definition } else { &definition["properties"]["params"] };
    let rules = Rules { definitions, closed: !is_result };
    assert!(rules.allow(inside, &serde_json::from_str(text).unwrap()), "{name} of {revision}: {text}");
}

/// The part of JSON Schema that the definitions use.
struct Rules<'a> {
    definitions: &'a Value,
    /// Whether members that are not described are wrong.
    closed: bool,
}

impl Rules<'_> {
    fn allow(&self, schema: &Value, value: &Value) -> bool {
        let is = |kind: &Value| match kind.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "number" => value.is_number(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            other => panic!("{other}"),
        };
        let list = |name: &str| schema.get(name).and_then(Value::as_array);
        let under = |name: &str| schema.get(name).is_none_or(|end| value.as_f64() <= end.as_f64());
        let over = |name: &str| schema.get(name).is_none_or(|end| value.as_f64() >= end.as_f64());
        let target =
            |link: &Value| self.definitions[link.as_str().unwrap().rsplit('/').next().unwrap()].clone();
        schema.get("$ref").is_none_or(|link| self.allow(&target(link), value))
            && schema.get("type").is_none_or(|kind| match kind {
                Value::Array(kinds) => kinds.iter().any(is),
                kind => is(kind),
            })
            && schema.get("const").is_none_or(|only| only == value)
            && list("enum").is_none_or(|values| values.contains(value))
            && list("anyOf").is_none_or(|any| any.iter().any(|schema| self.allow(schema, value)))
            && list("required")
                .is_none_or(|names| names.iter().all(|name| value.get(name.as_str().unwrap()).is_some()))
            && under("maximum")
            && over("minimum")
            && schema
                .get("items")
                .is_none_or(|items| value.as_array().unwrap().iter().all(|item| self.allow(items, item)))
            && value
                .as_object()
                .is_none_or(|members| members.iter().all(|(name, value)| self.member(schema, name, value)))
    }

    fn member(&self, schema: &Value, name: &str, value: &Value) -> bool {
        let properties = schema.get("properties");
        match (properties.and_then(|known| known.get(name)), schema.get("additionalProperties")) {
            (Some(schema), _) | (None, Some(schema @ Value::Object(_))) => self.allow(schema, value),
            (None, Some(allowed)) => allowed == &json!(true),
            (None, None) => !self.closed || properties.is_none(),
        }
    }
}

// === single rules ===

/// VER-11: also of a link without a name, of one without a URI, and of audio without data something is left.
#[test]
fn ver_11_odd_blocks_become_text() {
    for (block, becomes) in [
        (r#"{"type":"resource_link","name":"n"}"#, r#"{"type":"text","text":"n"}"#),
        (r#"{"type":"resource_link","title":"","uri":"x:1"}"#, r#"{"type":"text","text":"x:1"}"#),
        (r#"{"type":"resource_\u006cink"}"#, r#"{"type":"text","text":"resource_link"}"#),
        (r#"{"type":"audio","data":7,"_meta":{}}"#, r#"{"type":"text","text":"audio","_meta":{}}"#),
    ] {
        let message = answer(&format!(r#"{{"content":[ {block} ]}}"#));
        let projected = result(&TOOLS_CALL, V1, &message, None).unwrap();
        assert_eq!(inner(&Message::parse(projected).unwrap()), format!(r#"{{"content":[ {becomes} ]}}"#));
    }
}

/// VER-11: the same audio has the same URI, other audio another.
#[test]
fn ver_11_the_uri_of_audio_is_made_of_it() {
    let uri = |data: &str| {
        let block = format!(r#"{{"content":[{{"type":"audio","data":"{data}"}}]}}"#);
        let value: Value =
            serde_json::from_slice(&result(&TOOLS_CALL, V1, &answer(&block), None).unwrap()).unwrap();
        value["result"]["content"][0]["resource"]["uri"].as_str().unwrap().to_owned()
    };
    assert_eq!(uri("AAEC"), "urn:uuid:1ed0b317-c015-8f7f-afda-104d6d3113e9");
    assert_eq!(uri("AAEC"), uri("AAEC"));
    assert_ne!(uri("AAEC"), uri("AAED"));
}

/// VER-03
#[test]
fn ver_03_structured_content_is_repeated_where_no_text_is() {
    for (before, after) in [
        (r#"{"structuredContent":{"a":1}}"#, Some(r#"{"structuredContent":{"a":1},"content":[@]}"#)),
        (
            r#"{"content":[ ],"structuredContent":{"a":1}}"#,
            Some(r#"{"content":[@],"structuredContent":{"a":1}}"#),
        ),
        (
            r#"{"content":[{"type":"x"} ],"structuredContent":{"a":1}}"#,
            Some(r#"{"content":[{"type":"x"},@ ],"structuredContent":{"a":1}}"#),
        ),
        (r#"{"content":[{"type":"text","text":""}],"structuredContent":{"a":1}}"#, None),
        (r#"{"content":[],"structuredContent":null}"#, None),
        (r#"{"content":7,"structuredContent":{"a":1}}"#, None),
    ] {
        for to in [V1, V2] {
            let projected = result(&TOOLS_CALL, to, &answer(before), None);
            let projected = projected.map(|text| inner(&Message::parse(text).unwrap()));
            let added = r#"{"type":"text","text":"{\"a\":1}"}"#;
            assert_eq!(projected, after.map(|after| after.replace('@', added)), "{before}");
        }
    }
}

/// VER-11: what does not need a look may stream past.
#[test]
fn only_old_clients_need_a_look() {
    for to in Revision::ALL {
        assert_eq!(needs(&TOOLS_CALL, to), to < V3);
        assert_eq!(needs(&PROMPTS_GET, to), to < V3);
        assert!(!needs(&RESOURCES_READ, to) && !needs(&COMPLETE, to));
    }
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m","content":[{"type":"audio"}]}}"#;
    let error = Message::parse(error.into()).unwrap();
    assert_eq!(error.kind(), Kind::Error);
    assert_eq!(result(&TOOLS_CALL, V1, &error, None), None);
}

/// COMP-02, TASK-06, VER-05
#[test]
fn ver_05_members_are_kept_from_who_does_not_know_them() {
    for to in Revision::ALL {
        assert_eq!(unknown_members(&COMPLETE, Some(to)).contains(&"context"), to < V3);
        assert_eq!(unknown_members(&TOOLS_CALL, Some(to)), ["task"]);
    }
    assert_eq!(unknown_members(&COMPLETE, None), ["task"]);
}

/// SAMP-02, VER-11
#[test]
fn ver_11_sampling_without_an_older_form_is_refused() {
    let asked = |content: &str| format!(r#"{{"messages":[{{"role":"user","content":{content}}}]}}"#);
    let tool_use = r#"{"type":"tool_use","id":"1","name":"n","input":{}}"#;
    let answered = |content: &str| format!(r#"{{"content":{content}}}"#);
    for content in [
        "[]".to_owned(),
        format!("[{TEXT},{IMAGE}]"),
        format!("[[{TEXT}]]"),
        tool_use.to_owned(),
        format!("[{tool_use}]"),
        format!("[{TEXT},{tool_use}]"),
    ] {
        for to in [V1, V2, V3] {
            let why = sampling(asked(&content).as_bytes(), to).unwrap_err();
            assert!(matches!(why, Unshowable::Unknown { .. }), "{content}");
            assert!(sampling_answer(answered(&content).as_bytes(), to).is_err(), "{content}");
            assert_eq!((why.refusal().code, why.refusal().data), (INVALID_PARAMS, None));
        }
        assert_eq!(sampling(asked(&content).as_bytes(), V4), Ok(None));
        assert_eq!(sampling_answer(answered(&content).as_bytes(), V4), Ok(None));
    }
    for tools in [r#"{"tools":[]}"#, r#"{"toolChoice":{"mode":"auto"}}"#] {
        assert!(sampling(tools.as_bytes(), V3).is_err());
        assert_eq!(sampling(tools.as_bytes(), V4), Ok(None));
    }
    assert!(sampling_answer(answered(AUDIO).as_bytes(), V1).is_err());
    assert_eq!(sampling_answer(answered(AUDIO).as_bytes(), V2), Ok(None));
}

/// SAMP-02: escapes survive, also those that have no plain form.
#[test]
fn samp_02_text_is_joined_as_it_was_written() {
    let content = r#"{"content":[{"type":"text","text":"\ud800"},{"text":"\u0041\"","type":"text"}]}"#;
    let joined = sampling_answer(content.as_bytes(), V1).unwrap().unwrap();
    assert_eq!(joined, r#"{"content":{"type":"text","text":"\ud800\n\u0041\""}}"#);
}

/// ELIC-03, VER-12
#[test]
fn ver_12_a_choice_that_has_no_older_form_is_refused() {
    let form =
        |field: &str| format!(r#"{{"message":"m","requestedSchema":{{"properties":{{"f":{field}}}}}}}"#);
    for field in [
        r#"{"type":"array","items":{"type":"string","enum":["a"]}}"#,
        r#"{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]}}"#,
        r#"{"type":"string","oneOf":[{"const":1}]}"#,
        r#"{"type":"string","oneOf":[{"const":"a"}],"enum":["a"]}"#,
        r#"{"type":"string","oneOf":7}"#,
    ] {
        let why = elicitation(form(field).as_bytes(), V3).unwrap_err();
        assert!(matches!(why, Unshowable::Schema { .. }), "{field}");
        let refusal = why.refusal();
        assert_eq!(
            (refusal.code, refusal.data.as_deref()),
            (INVALID_PARAMS, Some(r#"{"reason":"unsupported_schema"}"#))
        );
        assert_eq!(elicitation(form(field).as_bytes(), V4), Ok(None));
    }
    let untitled = elicitation(form(r#"{"oneOf":[{"const":"a"}],"x":1}"#).as_bytes(), V3).unwrap().unwrap();
    assert_eq!(untitled, form(r#"{"enum":["a"],"enumNames":["a"],"x":1}"#));
    assert!(elicitation(br#"{"mode":"url"}"#, V3).is_err());
}

/// RPC-23: what repeats a member is not projected by a guess.
#[test]
fn what_cannot_be_read_is_refused_or_left() {
    let twice = br#"{"messages":[],"messages":[],"message":"a","message":"b"}"#;
    assert!(matches!(sampling(twice, V3), Err(Unshowable::Scan(_))));
    assert!(matches!(elicitation(twice, V3), Err(Unshowable::Scan(_))));
    assert_eq!(
        result(&TOOLS_CALL, V1, &answer(r#"{"content":[],"content":[{"type":"audio"}]}"#), None),
        None
    );
    for nothing in ["", "7", "[]"] {
        assert_eq!(sampling(nothing.as_bytes(), V1), Ok(None));
        assert_eq!(elicitation(nothing.as_bytes(), V3), Ok(None));
    }
}

// === properties ===

/// Trees of words that mean something here, in places where they mean something and where they do not.
fn tree() -> impl Strategy<Value = Value> {
    let words = || {
        prop::sample::select(vec![
            "type",
            "content",
            "text",
            "audio",
            "resource_link",
            "tool_use",
            "uri",
            "name",
            "title",
            "data",
            "mimeType",
            "structuredContent",
            "messages",
            "message",
            "mode",
            "form",
            "requestedSchema",
            "properties",
            "default",
            "oneOf",
            "enum",
            "enumNames",
            "const",
            "array",
            "boolean",
            "annotations",
            "_meta",
            "\u{1}\"\\é",
        ])
    };
    let leaf = prop_oneof![
        words().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        Just(Value::Null),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((words(), inner), 0..7).prop_map(|members| {
                Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
            }),
        ]
    })
}

/// Messages in which nearly every place that is read holds something odd.
fn inside() -> impl Strategy<Value = String> {
    let block = || {
        (prop::sample::select(vec!["text", "audio", "resource_link", "image", "tool_use", "later"]), tree())
            .prop_map(|(kind, mut block)| {
                if let Some(members) = block.as_object_mut() {
                    members.insert("type".into(), kind.into());
                }
                block
            })
    };
    let blocks = prop::collection::vec(block(), 0..4);
    (blocks, block(), tree(), tree(), any::<bool>()).prop_map(|(blocks, block, other, field, listed)| {
        let said = if listed { json!(blocks) } else { block.clone() };
        let mut all = json!({
            "content": blocks, "messages": [{"role": "user", "content": said}],
            "requestedSchema": {"properties": {"f": field, "g": {"type": "string", "oneOf": [field], "default": other}}},
        });
        if other.is_object() {
            all["structuredContent"] = other;
        }
        all.to_string()
    })
}

proptest! {
    /// Whatever comes, what goes out is JSON, of which nothing is left to project.
    #[test]
    fn projecting_twice_is_projecting_once(text in prop_oneof![inside(), tree().prop_map(|tree| tree.to_string())]) {
        for (kind, to) in ALL.into_iter().flat_map(|kind| Revision::ALL.map(|to| (kind, to))) {
            if let Ok(Some(once)) = kind.project(&text, to) {
                prop_assert!(serde_json::from_str::<Value>(&once).is_ok(), "{once}");
                prop_assert_eq!(kind.project(&once, to), Ok(None), "{:?} to {}: {}", kind, to, once);
                prop_assert_ne!(once, text.clone());
            }
        }
    }

    /// What every revision has stays as it is, whatever else stands beside it.
    #[test]
    fn what_every_revision_has_is_left(plain: String, more in tree(), kind in "[a-z]{1,3}") {
        let block = json!({"type": "text", "text": plain, "x": more});
        let later = json!({"type": kind, "y": more});
        let result = json!({"content": [block, later], "structuredContent": {"z": more}}).to_string();
        let prompt = json!({"messages": [{"role": "user", "content": block}, {"role": "user", "content": later}]}).to_string();
        let field = json!({"type": "string", "title": plain, "enum": [plain]});
        let form = json!({"message": plain, "requestedSchema": {"properties": {"f": field, "b": {"type": "boolean", "default": true}}}});
        let answer = json!({"content": block, "model": "m"}).to_string();
        for to in Revision::ALL {
            prop_assert_eq!(Kinds::Tool.project(&result, to), Ok(None));
            prop_assert_eq!(Kinds::Prompt.project(&prompt, to), Ok(None));
            prop_assert_eq!(Kinds::Sampling.project(&prompt, to), Ok(None));
            prop_assert_eq!(Kinds::SamplingAnswer.project(&answer, to), Ok(None));
        }
        prop_assert_eq!(Kinds::Elicitation.project(&form.to_string(), V3), Ok(None));
    }
}
