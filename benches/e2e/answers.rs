//! What the fixture upstream answers, whatever carries it: a few tools whose answers can be checked.
//!
//! Every answer of a tool begins with the number of the upstream that gave it, so that an answer
//! from the wrong one is noticed.

use std::{borrow::Cow, fmt::Write as _};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

/// The text that answers a `large` call, for whoever has to compare it.
pub fn large_text(bytes: usize) -> String {
    const LINE: &str = "Over the moat lies the bridge, behind the bridge hangs the gate. ";
    LINE.chars().cycle().take(bytes).collect()
}

/// Bytes of a `large` answer's text.
pub const LARGE_BYTES: usize = 1 << 20;

/// Notifications before a `steps` answer.
pub const STEPS: usize = 10;

/// One of the upstreams that a process plays.
pub struct Fixture {
    number: usize,
    tools: String,
    large: String,
}

/// What is to be sent for one message.
pub enum Answer {
    /// Nothing; the message asked for none.
    Taken,
    /// One message.
    One(Bytes),
    /// Notifications, then the answer.
    Many(Vec<Bytes>),
}

/// A message together with what the transport must know of it.
pub struct Answered {
    pub answer: Answer,
    pub asked: Asked,
}

/// The kinds of messages that the transport treats apart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Initialize,
    List,
    Other,
}

#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Params<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    protocol_version: Cow<'a, str>,
    #[serde(borrow, default)]
    arguments: Arguments<'a>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Meta<'a>,
}

#[derive(Default, Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta<'a> {
    #[serde(borrow)]
    progress_token: Option<&'a RawValue>,
}

impl Fixture {
    /// The upstream of this number, with so many tools in its list.
    pub fn new(number: usize, tools: usize) -> Self {
        let names = ["echo", "large", "steps"].into_iter().map(str::to_owned);
        let list: Vec<String> =
            names.chain((3..tools).map(|index| format!("ledger_{index}"))).map(|name| tool(&name)).collect();
        Self { number, tools: list.join(","), large: large_text(LARGE_BYTES) }
    }

    /// Answers one message.
    pub fn answer(&self, message: &[u8]) -> Answered {
        let Ok(request) = serde_json::from_slice::<Request<'_>>(message) else {
            return Answered { answer: error("null", -32700, "parse error"), asked: Asked::Other };
        };
        let Some(id) = request.id.map(RawValue::get) else {
            return Answered { answer: Answer::Taken, asked: Asked::Other };
        };
        match request.method.as_ref() {
            "initialize" => {
                let answer = result(id, &self.introduction(&request.params.protocol_version));
                Answered { answer, asked: Asked::Initialize }
            }
            "tools/list" => {
                let answer = result(id, &format!(r#"{{"tools":[{}]}}"#, self.tools));
                Answered { answer, asked: Asked::List }
            }
            "tools/call" => Answered { answer: self.call(id, &request.params), asked: Asked::Other },
            "ping" => Answered { answer: result(id, "{}"), asked: Asked::Other },
            _ => Answered { answer: error(id, -32601, "method not found"), asked: Asked::Other },
        }
    }

    fn introduction(&self, wanted: &str) -> String {
        let version = match wanted {
            "2024-11-05" | "2025-03-26" | "2025-06-18" => wanted,
            _ => "2025-11-25",
        };
        format!(
            r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"fixture-{}","version":"1.0.0"}}}}"#,
            self.number
        )
    }

    fn call(&self, id: &str, params: &Params<'_>) -> Answer {
        // The text goes back as it is written, quotes off.
        let text = params
            .arguments
            .text
            .and_then(|raw| raw.get().strip_prefix('"')?.strip_suffix('"'))
            .unwrap_or_default();
        match params.name.as_ref() {
            "echo" => Answer::One(self.text(id, text)),
            "large" => Answer::One(self.text(id, &self.large)),
            "steps" => {
                let mut messages = params.meta.progress_token.map_or_else(Vec::new, progress);
                messages.push(self.text(id, text));
                Answer::Many(messages)
            }
            _ => error(id, -32602, "unknown tool"),
        }
    }

    fn text(&self, id: &str, text: &str) -> Bytes {
        let mut message = String::with_capacity(text.len() + 128);
        // Writing to a string cannot fail.
        let _ = write!(
            message,
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"{}:{text}"}}],"isError":false}}}}"#,
            self.number
        );
        message.into()
    }
}

fn progress(token: &RawValue) -> Vec<Bytes> {
    (1..=STEPS)
        .map(|step| {
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{},"progress":{step},"total":{STEPS},"message":"{step} done"}}}}"#,
                token.get()
            )
            .into()
        })
        .collect()
}

fn result(id: &str, result: &str) -> Answer {
    Answer::One(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into())
}

fn error(id: &str, code: i32, message: &str) -> Answer {
    Answer::One(
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#).into(),
    )
}

/// A definition of the size that tools of real servers have, about half a kilobyte.
fn tool(name: &str) -> String {
    format!(
        concat!(
            r#"{{"name":"{0}","title":"{0}","description":"Looks the entry up in the ledger and gives back what it "#,
            r#"holds; an entry that is not there is an error of the tool.","inputSchema":{{"type":"object","properties":{{"#,
            r#""text":{{"type":"string","description":"What to look for"}},"#,
            r#""limit":{{"type":"integer","minimum":1,"maximum":1000,"description":"How many at most"}},"#,
            r#""order":{{"type":"string","enum":["oldest","newest"],"description":"Which come first"}}}},"#,
            r#""required":["text"]}},"annotations":{{"readOnlyHint":true}}}}"#
        ),
        name
    )
}
