//! TOML.

use serde_spanned::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Member, Node, Source, Span, Value};
use crate::config::problem::Problem;

/// Reads a TOML text.
pub(super) fn read(source: &Source) -> Result<Node, Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(source.text());
    if errors.is_empty() {
        let span = span(source, &table);
        return Ok(Node { value: convert_table(source, table.into_inner()), span });
    }
    let problem = |error: &toml::de::Error| {
        let range = error.span().unwrap_or_default();
        let span = source.span(range.start, range.end);
        source.problem(&span, "", error.message())
    };
    Err(errors.iter().map(problem).collect())
}

fn convert(source: &Source, value: Spanned<DeValue<'_>>) -> Node {
    let span = span(source, &value);
    let value = match value.into_inner() {
        DeValue::Boolean(value) => Value::Bool(value),
        DeValue::Integer(number) => Value::Number(
            i128::from_str_radix(number.as_str(), number.radix())
                .map_or_else(|_| number.to_string(), |number| number.to_string()),
        ),
        DeValue::Float(number) => Value::Number(number.as_str().to_owned()),
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Datetime(date) => Value::Text(date.to_string()),
        DeValue::Array(array) => {
            Value::List(array.into_iter().map(|element| convert(source, element)).collect())
        }
        DeValue::Table(table) => convert_table(source, table),
    };
    Node { value, span }
}

fn convert_table(source: &Source, table: DeTable<'_>) -> Value {
    let member = |(key, value): (Spanned<_>, _)| Member {
        key_span: span(source, &key),
        key: std::borrow::Cow::into_owned(key.into_inner()),
        value: convert(source, value),
    };
    Value::Table(table.into_iter().map(member).collect())
}

fn span<T>(source: &Source, spanned: &Spanned<T>) -> Span {
    let span = spanned.span();
    source.span(span.start, span.end)
}
