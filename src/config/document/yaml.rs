//! YAML, within budgets: size, depth, nodes and what aliases may multiply.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::options::DuplicateKeyPolicy;
use serde_saphyr::{Location, MessageFormatter, Options, Spanned, UserMessageFormatter};

use super::{MAX_BYTES, Member, Node, Source, Span, Value};
use crate::config::problem::Problem;

/// How deep a document may be nested.
const MAX_DEPTH: usize = 48;
/// How many tables, lists and scalars a document may have, aliases resolved.
const MAX_NODES: usize = 100_000;
/// How many aliases a document may have.
const MAX_ALIASES: usize = 1_000;

/// Reads a YAML text.
pub(super) fn read(source: &Source) -> Result<Node, Vec<Problem>> {
    let raw: Spanned<Raw> =
        serde_saphyr::from_str_with_options(source.text(), options()).map_err(|error| {
            let error = error.without_snippet();
            let span = error.location().map_or(source.span(0, 0), |location| span(source, location));
            vec![source.problem(&span, "", UserMessageFormatter.format_message(error))]
        })?;
    Ok(convert(source, raw))
}

fn options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_reader_input_bytes: Some(MAX_BYTES),
            max_depth: MAX_DEPTH,
            flow_nesting_limit: MAX_DEPTH,
            max_nodes: MAX_NODES,
            max_events: 2 * MAX_NODES,
            max_aliases: MAX_ALIASES,
            max_anchors: MAX_ALIASES,
            max_documents: 1,
            max_merge_keys: MAX_ALIASES,
            max_total_scalar_bytes: MAX_BYTES,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: MAX_NODES,
            max_replay_stack_depth: 16,
            max_alias_expansions_per_anchor: MAX_ALIASES,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: true,
        with_snippet: false,
    }
}

/// A node as the library hands it over; a number is looked up in the text afterwards.
enum Raw {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Table(Vec<(Spanned<Raw>, Spanned<Raw>)>),
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Raw, E> {
        Ok(Raw::Number(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Raw, E> {
        Ok(Raw::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Raw, E> {
        Ok(Raw::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(element) = access.next_element()? {
            list.push(element);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut table = Vec::new();
        while let Some(entry) = access.next_entry()? {
            table.push(entry);
        }
        Ok(Raw::Table(table))
    }
}

fn convert(source: &Source, raw: Spanned<Raw>) -> Node {
    let span = span(source, raw.referenced);
    let value = match raw.value {
        Raw::Null => Value::Null,
        Raw::Bool(value) => Value::Bool(value),
        Raw::Number(read) => Value::Number(written(source, raw.defined).unwrap_or(read)),
        Raw::Text(text) => Value::Text(text),
        Raw::List(list) => {
            let convert = |element| convert(source, element);
            Value::List(list.into_iter().map(convert).collect())
        }
        Raw::Table(table) => {
            Value::Table(table.into_iter().map(|(key, value)| member(source, key, value)).collect())
        }
    };
    Node { value, span }
}

fn member(source: &Source, key: Spanned<Raw>, value: Spanned<Raw>) -> Member {
    let key_span = span(source, key.referenced);
    let key = match key.value {
        Raw::Text(text) => text,
        Raw::Bool(value) => value.to_string(),
        Raw::Number(read) => written(source, key.defined).unwrap_or(read),
        // No key of ours; whoever looks for unknown ones finds it under this name.
        Raw::Null => "null".to_owned(),
        Raw::List(_) | Raw::Table(_) => "?".to_owned(),
    };
    let value = convert(source, value);
    Member { key, key_span, value }
}

/// The text of a decimal number as it stands in the file, so that `1.10` stays `1.10`.
fn written(source: &Source, location: Location) -> Option<String> {
    let text = &source.text()[span(source, location)];
    let decimal = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | '+' | 'e' | 'E');
    (!text.is_empty() && text.chars().all(decimal)).then(|| text.to_owned())
}

fn span(source: &Source, location: Location) -> Span {
    let span = location.span();
    match (span.byte_offset(), span.byte_len()) {
        (Some(start), Some(length)) => {
            let start = usize::try_from(start).unwrap_or(usize::MAX);
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            source.span(start, start.saturating_add(length))
        }
        _ => source.span(0, 0),
    }
}
