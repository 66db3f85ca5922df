//! What a tool answers, and what it says on the way, for people.

use std::io::Write;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::cli::exit::{Exit, Failure};
use crate::cli::output::{self, Reader};

/// Prints a result: its text to standard output, or to standard error if the tool says that it failed.
///
/// # Errors
/// When it is no result of a tool.
pub fn show(result: &RawValue, raw: bool) -> Result<Exit, Failure> {
    let value: Value = serde_json::from_str(result.get())?;
    let failed = value["isError"] == true;
    if raw {
        output::print(result.get())?;
    } else if failed {
        output::note(&format!("error: the tool failed\n{}", text(&value, Reader::of_notes())));
    } else {
        output::print(&text(&value, Reader::of_results()))?;
    }
    Ok(if failed { Exit::ToolError } else { Exit::Done })
}

/// The text of a result; its structured content if there is no text.
fn text(result: &Value, reader: Reader) -> String {
    let blocks = result["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let structured = result.get("structuredContent").filter(|content| !content.is_null());
    let has_text = blocks.iter().any(|block| block["text"].is_string());
    let mut parts: Vec<String> = Vec::new();
    if let Some(structured) = structured.filter(|_| !has_text) {
        parts.push(reader.fit(&format!("{structured:#}")).into_owned());
    }
    parts.extend(blocks.iter().map(|block| reader.fit(&self::block(block)).into_owned()));
    parts.join("\n")
}

/// One block of content; what is no text is named.
fn block(block: &Value) -> String {
    let word = |name: &str| block[name].as_str().unwrap_or_default();
    let resource = &block["resource"];
    match word("type") {
        "text" => word("text").to_owned(),
        kind @ ("image" | "audio") => {
            // Four characters of base64 are three bytes.
            format!("[{kind}: {}, about {} bytes]", word("mimeType"), word("data").len() / 4 * 3)
        }
        "resource_link" => format!("[resource: {}]", word("uri")),
        "resource" => match resource["text"].as_str() {
            Some(text) => text.to_owned(),
            None => format!("[resource: {}]", resource["uri"].as_str().unwrap_or_default()),
        },
        kind => format!("[{kind}]"),
    }
}

/// Shows progress and log messages of a call on standard error.
pub struct Progress {
    reader: Reader,
    /// A line that is still to be written over.
    open: bool,
}

impl Progress {
    /// For this reader.
    pub fn to(reader: Reader) -> Self {
        Self { reader, open: false }
    }

    /// Shows a message, if it is one of those.
    pub fn take(&mut self, message: &[u8]) {
        let Ok(message) = serde_json::from_slice::<Value>(message) else { return };
        let Some((line, passing)) = line(&message) else { return };
        let shown = match self.reader {
            Reader::Program => format!("{line}\n"),
            Reader::Terminal => {
                let end = if passing { "" } else { "\n" };
                self.open = passing;
                // To the start of the line, and clear it.
                format!("\r\x1b[K{}{end}", output::harmless(&line))
            }
        };
        // Who does not hear of progress misses nothing that counts.
        let _ = std::io::stderr().lock().write_all(shown.as_bytes());
    }

    /// Nothing comes any more.
    pub fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            output::note("");
        }
    }
}

/// The line for a message, and whether the next one may replace it.
fn line(message: &Value) -> Option<(String, bool)> {
    let params = &message["params"];
    match message["method"].as_str()? {
        "notifications/progress" => {
            let mut line = match (&params["progress"], &params["total"]) {
                (done, Value::Null) => format!("progress {done}"),
                (done, total) => format!("progress {done} of {total}"),
            };
            if let Some(words) = params["message"].as_str().filter(|words| !words.is_empty()) {
                line.push_str(": ");
                line.push_str(&words.replace('\n', " "));
            }
            Some((line, true))
        }
        "notifications/message" => {
            let level = params["level"].as_str().unwrap_or("info");
            let words = match &params["data"] {
                Value::String(words) => words.clone(),
                other => other.to_string(),
            };
            Some((format!("{level}: {words}"), false))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn text_first_and_the_rest_is_named() {
        let result = json!({
            "content": [
                {"type": "text", "text": "one\ntwo"},
                {"type": "image", "mimeType": "image/png", "data": "AAAA"},
                {"type": "resource_link", "uri": "a:b", "name": "n"},
                {"type": "resource", "resource": {"uri": "a:c", "text": "inside"}},
                {"type": "resource", "resource": {"uri": "a:d", "blob": "AA=="}},
                {"type": "hologram"},
            ],
            "structuredContent": {"a": 1},
        });
        assert_eq!(
            text(&result, Reader::Program),
            "one\ntwo\n[image: image/png, about 3 bytes]\n[resource: a:b]\ninside\n[resource: a:d]\n[hologram]"
        );
    }

    #[test]
    fn without_text_the_structure_is_shown() {
        assert_eq!(
            text(&json!({"content": [], "structuredContent": {"a": 1}}), Reader::Program),
            "{\n  \"a\": 1\n}"
        );
        assert_eq!(text(&json!({}), Reader::Program), "");
    }

    #[test]
    fn a_terminal_is_not_steered() {
        let result = json!({"content": [{"type": "text", "text": "\u{1b}]0;x\u{7}"}]});
        assert_eq!(text(&result, Reader::Terminal), "\u{fffd}]0;x\u{fffd}");
        assert_eq!(text(&result, Reader::Program), "\u{1b}]0;x\u{7}");
    }

    #[test]
    fn progress_and_log_messages_have_a_line() {
        let progress = |params: Value| line(&json!({"method": "notifications/progress", "params": params}));
        let shown = |line: &str, passing| Some((line.to_owned(), passing));
        assert_eq!(
            progress(json!({"progress": 3, "total": 10, "message": "a\nb"})),
            shown("progress 3 of 10: a b", true)
        );
        assert_eq!(progress(json!({"progress": 0.5})), shown("progress 0.5", true));
        let logged =
            json!({"method": "notifications/message", "params": {"level": "warning", "data": {"a": 1}}});
        assert_eq!(line(&logged), shown("warning: {\"a\":1}", false));
        assert_eq!(line(&json!({"method": "notifications/tools/list_changed"})), None);
    }
}
