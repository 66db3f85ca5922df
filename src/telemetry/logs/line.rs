//! One log line: the fields of an event, made harmless and written as text or JSON.
//!
//! *Invariants*: a line contains no line break and no control character but the final `\n`.
//!
//! *Limits*: each value is cut at 1 KiB.

use std::fmt::{self, Write as _};

use tracing::Level;
use tracing::field::{Field, Visit};

use super::redact::{End, Redactor};

/// Longest text of one field, in bytes.
pub(super) const FIELD_BYTES: usize = 1024;

/// How much of a value is looked at, so that secrets near the cut are still recognised.
const COLLECTED_BYTES: usize = 8 * 1024;

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// For people; with colours on the level if wanted.
    Text(Colour),
    /// One JSON object a line.
    Json,
}

/// Whether a terminal's colours are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// The level is coloured.
    On,
    /// No escape codes at all.
    Off,
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// Text, already without secrets and cut.
    Text(String),
    /// A number or a boolean as it is written in JSON.
    Plain(String),
}

/// An event, ready to be judged and written.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub level: Level,
    pub target: &'static str,
    pub message: String,
    pub fields: Vec<(&'static str, Value)>,
}

impl Line {
    /// Takes an event's fields, with known secrets taken out.
    pub(super) fn collect(event: &tracing::Event<'_>, redactor: &Redactor) -> Self {
        let metadata = event.metadata();
        let mut collector = Collector { message: String::new(), fields: Vec::new(), redactor };
        event.record(&mut collector);
        let Collector { message, fields, .. } = collector;
        Self { level: *metadata.level(), target: metadata.target(), message, fields }
    }

    /// The text of a field, if the line has it.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| *field == name).map(|(_, value)| match value {
            Value::Text(text) | Value::Plain(text) => text.as_str(),
        })
    }

    /// Appends the line, its end included.
    pub(super) fn write(&self, form: Form, time: &str, out: &mut String) {
        match form {
            Form::Json => self.write_json(time, out),
            Form::Text(colour) => self.write_text(colour, time, out),
        }
    }

    fn write_json(&self, time: &str, out: &mut String) {
        out.push_str("{\"timestamp\":");
        push_json(out, time);
        out.push_str(",\"level\":");
        push_json(out, self.level.as_str());
        out.push_str(",\"target\":");
        push_json(out, self.target);
        out.push_str(",\"message\":");
        push_json(out, &self.message);
        for (name, value) in &self.fields {
            out.push(',');
            push_json(out, name);
            out.push(':');
            match value {
                Value::Text(text) => push_json(out, text),
                Value::Plain(text) => out.push_str(text),
            }
        }
        out.push_str("}\n");
    }

    fn write_text(&self, colour: Colour, time: &str, out: &mut String) {
        let code = match self.level {
            Level::ERROR => "31",
            Level::WARN => "33",
            Level::INFO => "32",
            _ => "2",
        };
        let level = self.level.as_str();
        let _ = match colour {
            Colour::On => write!(out, "{time} \x1b[{code}m{level:>5}\x1b[0m "),
            Colour::Off => write!(out, "{time} {level:>5} "),
        };
        push_visible(out, &self.message);
        for (name, value) in &self.fields {
            let _ = write!(out, " {name}=");
            match value {
                Value::Text(text) if is_bare(text) => out.push_str(text),
                Value::Text(text) => {
                    out.push('"');
                    push_visible(out, text);
                    out.push('"');
                }
                Value::Plain(text) => out.push_str(text),
            }
        }
        out.push('\n');
    }
}

// === Collector ===

struct Collector<'a> {
    message: String,
    fields: Vec<(&'static str, Value)>,
    redactor: &'a Redactor,
}

impl Collector<'_> {
    fn push_text(&mut self, field: &Field, text: &Bounded) {
        let mut clean = self.redactor.clean(&text.kept, text.end);
        if clean.len() > FIELD_BYTES {
            clean.truncate(clean.floor_char_boundary(FIELD_BYTES));
            clean.push('…');
        }
        if field.name() == "message" {
            self.message = clean;
        } else {
            self.fields.push((field.name(), Value::Text(clean)));
        }
    }

    fn push_plain(&mut self, field: &Field, text: String) {
        self.fields.push((field.name(), Value::Plain(text)));
    }
}

impl Visit for Collector<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Bounded::default();
        // Fails once the text is full, which is how formatting of something endless stops.
        let _ = write!(text, "{value:?}");
        self.push_text(field, &text);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let mut text = Bounded::default();
        let _ = text.write_str(value);
        self.push_text(field, &text);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        let text = if value.is_finite() { format!("{value:.3}") } else { "null".to_owned() };
        self.push_plain(field, text);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.push_plain(field, value.to_string());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.push_plain(field, value.to_string());
    }

    fn record_i128(&mut self, field: &Field, value: i128) {
        self.push_plain(field, value.to_string());
    }

    fn record_u128(&mut self, field: &Field, value: u128) {
        self.push_plain(field, value.to_string());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.push_plain(field, value.to_string());
    }
}

/// Text that stops growing at a limit.
#[derive(Default)]
struct Bounded {
    kept: String,
    end: End,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = COLLECTED_BYTES - self.kept.len();
        if text.len() <= room {
            self.kept.push_str(text);
            return Ok(());
        }
        self.kept.push_str(&text[..text.floor_char_boundary(room)]);
        self.end = End::Cut;
        Err(fmt::Error)
    }
}

// === making text harmless ===

/// Characters that could forge a line, drive a terminal, or hide text.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

fn is_bare(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '='))
}

fn push_visible(out: &mut String, text: &str) {
    for c in text.chars() {
        if is_hostile(c) || matches!(c, '"' | '\\') {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
}

fn push_json(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            _ if is_hostile(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}
