//! `portcullis.log`: what is logged, and in which form.

use schemars::JsonSchema;
use serde::Serialize;

use crate::config::decode::Table;

/// What is logged to standard error, and in which form.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(deny_unknown_fields)]
pub struct Log {
    /// The form of a line.
    pub format: LogFormat,
    /// The least important events that are logged.
    pub level: LogLevel,
}

/// The form of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// Text for people.
    Text,
    /// A JSON object for each event.
    Json,
}

/// How important an event is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum LogLevel {
    /// `info`, and `warn` where one client is served on standard streams: it shows its users what is logged.
    #[default]
    Auto,
    /// Only what needs a person.
    Error,
    /// And what may soon.
    Warn,
    /// And what happens to connections and upstreams.
    Info,
    /// And every call.
    Debug,
    /// The same as `debug` today.
    Trace,
}

impl Log {
    pub(in crate::config) fn decode(table: &mut Table<'_, '_>) -> Self {
        Self {
            format: table.read("format", |field| field.choice(&LogFormat::WORDS)).unwrap_or_default(),
            level: table.read("level", |field| field.choice(&LogLevel::WORDS)).unwrap_or_default(),
        }
    }
}

impl LogFormat {
    const WORDS: [(&str, Self); 3] = [("auto", Self::Auto), ("text", Self::Text), ("json", Self::Json)];
}

impl LogLevel {
    const WORDS: [(&str, Self); 6] = [
        ("auto", Self::Auto),
        ("error", Self::Error),
        ("warn", Self::Warn),
        ("info", Self::Info),
        ("debug", Self::Debug),
        ("trace", Self::Trace),
    ];
}
