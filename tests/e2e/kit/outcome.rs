//! What came of one request: the answer, as text and as a tree, and what preceded it.

use http::HeaderMap;
use serde_json::Value;

use super::letter::Answer;
use super::text;

/// The outcome of one request, read to its end.
#[derive(Debug)]
pub struct Outcome {
    pub status: u16,
    pub headers: HeaderMap,
    /// True when it came as an event stream.
    pub streamed: bool,
    /// The messages before the answer, as text.
    pub before: Vec<String>,
    /// The answer as text; empty when none came.
    pub text: String,
    pub tree: Value,
}

impl Outcome {
    /// Reads an answer until the response to `id`; then the stream must end.
    pub async fn read(mut answer: Answer, id: &str) -> Self {
        let (mut before, mut found) = (Vec::new(), String::new());
        let streamed = answer.is_stream();
        if streamed {
            while let Some(message) = answer.message().await {
                let is_response = text::member(&message, &["method"]).is_none();
                if is_response && text::member(&message, &["id"]) == Some(id) {
                    found = message;
                    let more = answer.message().await;
                    assert_eq!(more, None, "a message after the answer");
                    break;
                }
                before.push(message);
            }
        } else {
            found = answer.text().await;
        }
        let tree = text::tree(&found);
        Outcome {
            status: answer.status,
            headers: answer.headers.clone(),
            streamed,
            before,
            text: found,
            tree,
        }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The result; anything else ends the test.
    pub fn result(&self) -> &Value {
        let result = &self.tree["result"];
        assert!(!result.is_null(), "no result: {self:?}");
        result
    }

    /// The result as it stands in the answer.
    pub fn result_text(&self) -> &str {
        text::member(&self.text, &["result"]).unwrap_or_else(|| panic!("no result: {self:?}"))
    }

    /// The text of a member of the result.
    pub fn member(&self, path: &[&str]) -> &str {
        text::member(self.result_text(), path).unwrap_or_else(|| panic!("no {path:?}: {self:?}"))
    }

    /// The text of the first content block.
    pub fn said(&self) -> &str {
        self.result()["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {self:?}"))
    }

    /// The error; anything else ends the test.
    pub fn error(&self) -> &Value {
        let error = &self.tree["error"];
        assert!(!error.is_null(), "no error: {self:?}");
        error
    }

    pub fn code(&self) -> i64 {
        self.error()["code"].as_i64().unwrap_or_else(|| panic!("no code: {self:?}"))
    }

    /// The gateway's own reason in an error.
    pub fn reason(&self) -> &str {
        self.error()["data"]["reason"].as_str().unwrap_or_else(|| panic!("no reason: {self:?}"))
    }

    pub fn is_result(&self) -> bool {
        !self.tree["result"].is_null()
    }

    /// The messages before the answer of one method.
    pub fn heard(&self, method: &str) -> Vec<Value> {
        self.before
            .iter()
            .map(|message| text::tree(message))
            .filter(|message| message["method"] == method)
            .collect()
    }
}
