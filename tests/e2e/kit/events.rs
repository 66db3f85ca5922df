//! Reading an event stream as it comes, with the raw bytes kept.
//!
//! The kit reads by itself, so that no fault of the gateway's own decoder can hide here.

use serde_json::Value;

use super::text;

/// One block of an event stream: an event, or only comments.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Event {
    /// All its bytes, the closing blank line included.
    pub raw: Vec<u8>,
    pub name: Option<String>,
    pub id: Option<String>,
    pub retry: Option<String>,
    /// The data lines joined; `None` where there is no data line.
    pub data: Option<String>,
    pub comments: Vec<String>,
}

impl Event {
    /// The message it carries, as text; comments and empty data carry none.
    pub fn message(&self) -> Option<&str> {
        self.data.as_deref().filter(|data| !data.is_empty())
    }

    pub fn tree(&self) -> Value {
        self.message().map_or(Value::Null, text::tree)
    }
}

/// Collects bytes and gives blocks.
#[derive(Default)]
pub struct Blocks {
    rest: Vec<u8>,
}

impl Blocks {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend(bytes);
    }

    /// The next whole block, if there is one.
    pub fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        let mut start = 0;
        while let Some(length) = self.rest[start..].iter().position(|byte| *byte == b'\n') {
            let line = self.rest[start..start + length]
                .strip_suffix(b"\r")
                .unwrap_or(&self.rest[start..start + length]);
            let line = String::from_utf8(line.to_vec()).expect("an event stream is UTF-8");
            start += length + 1;
            if line.is_empty() {
                event.raw = self.rest.drain(..start).collect();
                return Some(event);
            }
            read(&mut event, &line);
        }
        None
    }
}

fn read(event: &mut Event, line: &str) {
    let (field, value) = line.split_once(':').unwrap_or((line, ""));
    let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
    match field {
        "" => event.comments.push(value),
        "event" => event.name = Some(value),
        "id" => event.id = Some(value),
        "retry" => event.retry = Some(value),
        "data" => match &mut event.data {
            Some(data) => {
                data.push('\n');
                data.push_str(&value);
            }
            None => event.data = Some(value),
        },
        other => panic!("an event stream with a field {other:?}"),
    }
}
