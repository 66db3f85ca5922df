//! JSON, with what people put into such files: comments, trailing commas, single quotes.

use std::borrow::Cow;
use std::collections::HashSet;

use jsonc_parser::ast;
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::{Member, Node, Source, Span, Value};
use crate::config::problem::Problem;

/// Reads a JSON text.
pub(super) fn read(source: &Source) -> Result<Node, Vec<Problem>> {
    let options = ParseOptions {
        // A forgotten comma is a mistake, and often a sign of a worse one.
        allow_missing_commas: false,
        // Neither has a meaning in a configuration.
        allow_non_finite_numbers: false,
        ..ParseOptions::default()
    };
    let parsed = parse_to_ast(source.text(), &CollectOptions::default(), &options);
    let parsed = parsed.map_err(|error| {
        let message = lower_first(&error.kind().to_string());
        vec![source.problem(&span(source, &error.range()), "", message)]
    })?;
    let Some(value) = parsed.value else {
        let span = source.span(0, 0);
        return Ok(Node { value: Value::Null, span });
    };
    let mut problems = Vec::new();
    let node = convert(source, value, &mut problems);
    if problems.is_empty() { Ok(node) } else { Err(problems) }
}

fn span(source: &Source, ranged: &impl Ranged) -> Span {
    source.span(ranged.start(), ranged.end())
}

fn convert(source: &Source, value: ast::Value<'_>, problems: &mut Vec<Problem>) -> Node {
    let span = span(source, &value);
    let value = match value {
        ast::Value::NullKeyword(_) => Value::Null,
        ast::Value::BooleanLit(literal) => Value::Bool(literal.value),
        ast::Value::NumberLit(literal) => Value::Number(decimal(literal.value).into_owned()),
        ast::Value::StringLit(literal) => Value::Text(literal.value.into_owned()),
        ast::Value::Array(array) => {
            let convert = |element| convert(source, element, problems);
            Value::List(array.elements.into_iter().map(convert).collect())
        }
        ast::Value::Object(object) => table(source, object, problems),
    };
    Node { value, span }
}

fn table(source: &Source, object: ast::Object<'_>, problems: &mut Vec<Problem>) -> Value {
    let mut seen = HashSet::new();
    let mut members = Vec::with_capacity(object.properties.len());
    for property in object.properties {
        let key_span = match &property.name {
            ast::ObjectPropName::String(name) => span(source, name),
            ast::ObjectPropName::Word(name) => span(source, name),
        };
        let key = property.name.into_string();
        if !seen.insert(key.clone()) {
            problems.push(source.problem(&key_span, &key, format!("`{key}` is here twice")));
        }
        let value = convert(source, property.value, problems);
        members.push(Member { key, key_span, value });
    }
    Value::Table(members)
}

/// A hexadecimal number as decimal digits; any other as it is.
fn decimal(written: &str) -> Cow<'_, str> {
    let (sign, digits) = match written.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", written.strip_prefix('+').unwrap_or(written)),
    };
    let hexadecimal = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"))
        .and_then(|digits| u64::from_str_radix(digits, 16).ok());
    match hexadecimal {
        Some(number) => format!("{sign}{number}").into(),
        None => written.strip_prefix('+').unwrap_or(written).into(),
    }
}

/// A message in the form that ours have.
fn lower_first(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
