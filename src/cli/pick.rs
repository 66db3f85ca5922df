//! Which tool a name means, and which arguments words mean.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::exit::{Exit, Failure};
use crate::cli::tools::Tool;
use crate::jsonrpc::text::quote;
use crate::mcp::names::SEPARATOR;

/// How alike two names must be for one to be a slip of the other.
const ALIKE: f64 = 0.8;

/// How many names are suggested.
const SUGGESTED: usize = 3;

/// The tool of this exposed name, or of this own name if only one has it.
///
/// # Errors
/// When there is none, or more than one.
pub fn tool<'t>(tools: &'t [Tool], wanted: &str) -> Result<&'t Tool, Failure> {
    if let Some(tool) = tools.iter().find(|tool| tool.name == wanted) {
        return Ok(tool);
    }
    let own: Vec<_> = tools.iter().filter(|tool| is_own_name(tool, wanted)).collect();
    match own.as_slice() {
        [tool] => Ok(tool),
        [] => Err(Failure::new(Exit::ToolError, unknown(tools, wanted))),
        several => {
            let names: Vec<_> = several.iter().map(|tool| format!("`{}`", tool.name)).collect();
            let why = format!("several servers have a tool `{wanted}`: {}", names.join(", "));
            Err(Failure::new(Exit::ToolError, why))
        }
    }
}

fn is_own_name(tool: &Tool, wanted: &str) -> bool {
    match &tool.original {
        Some(original) => original == wanted,
        // A gateway elsewhere does not say; most names show it.
        None => tool.name.strip_suffix(wanted).is_some_and(|prefix| prefix.ends_with(SEPARATOR)),
    }
}

fn unknown(tools: &[Tool], wanted: &str) -> String {
    let likeness = |tool: &Tool| {
        let own = tool.original.as_deref().unwrap_or(&tool.name);
        strsim::jaro_winkler(&tool.name, wanted).max(strsim::jaro_winkler(own, wanted))
    };
    let mut alike: Vec<_> = tools.iter().map(|tool| (likeness(tool), tool)).collect();
    alike.retain(|(likeness, _)| *likeness >= ALIKE);
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    let names: Vec<_> = alike.iter().take(SUGGESTED).map(|(_, tool)| format!("`{}`", tool.name)).collect();
    match (tools.is_empty(), names.is_empty()) {
        (true, _) => format!("no tool is called `{wanted}`; there are no tools at all"),
        (_, true) => format!("no tool is called `{wanted}`; `portcullis tools` lists those that there are"),
        _ => format!("no tool is called `{wanted}`; did you mean {}?", names.join(" or ")),
    }
}

/// What of a tool says which arguments it takes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Definition {
    input_schema: Option<Value>,
}

/// The arguments that `key=value` pairs mean, as the text of an object.
///
/// A value is JSON where it can be, unless the tool wants a text.
///
/// # Errors
/// For a pair without `=`, and for a key that occurs twice.
pub fn arguments(tool: &RawValue, pairs: &[String]) -> Result<String, Failure> {
    let schema = serde_json::from_str::<Definition>(tool.get()).ok().and_then(|tool| tool.input_schema);
    let mut seen: Vec<&str> = Vec::new();
    let mut members = Vec::new();
    for pair in pairs {
        let Some((key, value)) = pair.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            return Err(Failure::new(Exit::Usage, format!("`--arg {pair}`: expected NAME=VALUE")));
        };
        if seen.contains(&key) {
            return Err(Failure::new(Exit::Usage, format!("`--arg {key}=…` is there twice")));
        }
        seen.push(key);
        let is_json = || serde_json::from_str::<&RawValue>(value).is_ok();
        let text = schema.as_ref().is_some_and(|schema| wants_text(schema, key)) || !is_json();
        // JSON stays as it was written, so that no number loses a digit.
        let value = if text { quote(value) } else { value.to_owned() };
        members.push(format!("{}:{value}", quote(key)));
    }
    Ok(format!("{{{}}}", members.join(",")))
}

fn wants_text(schema: &Value, key: &str) -> bool {
    match &schema["properties"][key]["type"] {
        Value::String(kind) => kind == "string",
        Value::Array(kinds) => kinds.iter().any(|kind| kind == "string"),
        _ => false,
    }
}

/// The arguments that are given as one JSON object.
///
/// # Errors
/// When it is something else.
pub fn object(text: &str) -> Result<String, Failure> {
    match serde_json::from_str::<serde_json::Map<String, Value>>(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(Failure::new(Exit::Usage, format!("`--json` is no JSON object: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str, original: Option<&str>) -> Tool {
        Tool::for_test(name, original, "{}")
    }

    #[test]
    fn a_tool_is_found_by_either_name() {
        let tools = [
            named("a__search", Some("search")),
            named("b__search", Some("search")),
            named("b__read_1f", Some("read.all")),
            named("search", Some("x")),
            named("c__write", None),
        ];
        let found = |wanted| tool(&tools, wanted).map(|tool| tool.name.as_str()).map_err(|f| f.to_string());
        assert_eq!(found("b__search").as_deref(), Ok("b__search"));
        assert_eq!(found("search").as_deref(), Ok("search"), "an exposed name wins");
        assert_eq!(found("read.all").as_deref(), Ok("b__read_1f"));
        assert_eq!(found("write").as_deref(), Ok("c__write"));
        let several = tool(&tools[..2], "search").err().unwrap();
        assert_eq!(several.exit, Exit::ToolError);
        assert!(several.to_string().contains("`a__search`, `b__search`"));
        assert!(found("a__serach").unwrap_err().contains("did you mean `a__search`"));
        assert!(found("zzz").unwrap_err().contains("portcullis tools"));
    }

    #[test]
    fn values_are_json_unless_a_text_is_wanted() {
        let tool = r#"{"inputSchema":{"properties":{"s":{"type":"string"},"o":{"type":["null","string"]},
            "n":{"type":"number"}}}}"#;
        let tool = serde_json::from_str::<&RawValue>(tool).unwrap();
        let pairs = ["s=12", "o=null", "n=12345678901234567890123", "x=[1, 2]", "y=a \"b\"", "z=", "w=a=b"];
        let pairs = pairs.map(str::to_owned);
        assert_eq!(
            arguments(tool, &pairs).unwrap(),
            r#"{"s":"12","o":"null","n":12345678901234567890123,"x":[1, 2],"y":"a \"b\"","z":"","w":"a=b"}"#
        );
        for bad in [&["x".to_owned()][..], &["=1".to_owned()], &["a=1".to_owned(), "a=2".to_owned()]] {
            assert_eq!(arguments(tool, bad).unwrap_err().exit, Exit::Usage, "{bad:?}");
        }
    }

    #[test]
    fn whole_arguments_are_an_object() {
        assert_eq!(object(r#"{"a": 1.0}"#).unwrap(), r#"{"a": 1.0}"#);
        assert_eq!(object("[1]").unwrap_err().exit, Exit::Usage);
        assert_eq!(object("{").unwrap_err().exit, Exit::Usage);
    }
}
