//! JSON as text: members read and messages built without a tree, so that every byte can be compared.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::Value;
use serde_json::value::RawValue;

/// The text of a member, found by its path of names; `None` when a name is missing.
pub fn member<'a>(text: &'a str, path: &[&str]) -> Option<&'a str> {
    let mut here = text;
    for name in path {
        let members: HashMap<Cow<str>, &'a RawValue> = serde_json::from_str(here).ok()?;
        here = members.get(*name)?.get();
    }
    Some(here)
}

/// The texts of an array's items.
pub fn items(text: &str) -> Vec<&str> {
    let items: Vec<&RawValue> = serde_json::from_str(text).unwrap_or_default();
    items.into_iter().map(RawValue::get).collect()
}

/// A string member, decoded.
pub fn string(text: &str, path: &[&str]) -> Option<String> {
    serde_json::from_str(member(text, path)?).ok()
}

/// The tree of a text; `Null` for what no tree can hold (`1e400`) or what is no JSON.
pub fn tree(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// A response with a result, both given as text.
pub fn response(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// An error response, all parts given as text.
pub fn failure(id: &str, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// A request, all parts given as text.
pub fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A notification.
pub fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#)
}

/// A string as JSON text.
pub fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// A JSON text as one SSE event.
pub fn event(message: &str) -> String {
    format!("event: message\ndata: {message}\n\n")
}
