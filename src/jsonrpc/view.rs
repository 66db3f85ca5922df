//! A look into one object, one level down, without building a tree.

use bytes::Bytes;
use smallvec::SmallVec;

use crate::jsonrpc::scan::{self, ScanError, Span};
use crate::jsonrpc::text;

/// The members of one object as spans of the text it stands in.
///
/// *Invariants.* No two members have one name: an object with a repeated name is refused when it
/// is scanned (RPC-23), however the name is escaped.
#[derive(Debug, Clone, Default)]
pub struct Object {
    members: SmallVec<[(Span, Span); 6]>,
    end: usize,
}

/// Above this many members, repeated names are looked for by sorting instead of by pairs.
const PAIRWISE: usize = 16;

impl Object {
    /// Reads the object that opens at `at`.
    ///
    /// # Errors
    /// `NotObject`, `Repeated`, and what the scan reports.
    pub fn scan(text: &[u8], at: usize) -> Result<Self, ScanError> {
        let mut members: SmallVec<[(Span, Span); 6]> = SmallVec::new();
        let end = scan::members(text, at, |key, value| {
            if members.len() < PAIRWISE && members.iter().any(|(other, _)| same_name(text, other, &key)) {
                return Err(ScanError::Repeated(key.start));
            }
            members.push((key, value));
            Ok(())
        })?;
        if members.len() >= PAIRWISE {
            refuse_repeated(text, &members)?;
        }
        Ok(Self { members, end })
    }

    /// The span of the value called `name`.
    #[must_use]
    pub fn find(&self, text: &[u8], name: &str) -> Option<Span> {
        self.members
            .iter()
            .find(|(key, _)| text::means(&text[key.clone()], name))
            .map(|(_, value)| value.clone())
    }

    /// The text of the value called `name`.
    #[must_use]
    pub fn value<'t>(&self, text: &'t [u8], name: &str) -> Option<&'t [u8]> {
        self.find(text, name).map(|span| &text[span])
    }

    /// The plain text of the string called `name`; `None` when it is absent or no string.
    #[must_use]
    pub fn string<'t>(&self, text: &'t [u8], name: &str) -> Option<std::borrow::Cow<'t, str>> {
        self.value(text, name).and_then(text::unquote)
    }

    /// All members in their order, as spans of key and value.
    pub fn iter(&self) -> impl Iterator<Item = &(Span, Span)> {
        self.members.iter()
    }

    /// How many members there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The place after the closing brace.
    #[must_use]
    pub fn end(&self) -> usize {
        self.end
    }
}

/// Reads the value at `span` of `text` as an object, or `None` if it is something else.
///
/// # Errors
/// What [`Object::scan`] reports for objects.
pub fn object_at(text: &[u8], span: Option<Span>) -> Result<Option<Object>, ScanError> {
    match span {
        Some(span) if text.get(span.start) == Some(&b'{') => Object::scan(text, span.start).map(Some),
        _ => Ok(None),
    }
}

/// The elements of the array at `span` of `text`, sharing its memory; empty for anything else.
///
/// # Errors
/// What the scan reports.
pub fn elements_at(text: &Bytes, span: Option<Span>) -> Result<Vec<Bytes>, ScanError> {
    let mut out = Vec::new();
    if let Some(span) = span.filter(|span| text.get(span.start) == Some(&b'[')) {
        scan::elements(text, span.start, |element| {
            out.push(text.slice(element));
            Ok(())
        })?;
    }
    Ok(out)
}

fn same_name(text: &[u8], a: &Span, b: &Span) -> bool {
    let (a, b) = (&text[a.clone()], &text[b.clone()]);
    a == b
        || (memchr::memchr(b'\\', a).is_some() || memchr::memchr(b'\\', b).is_some()) && plain(a) == plain(b)
}

/// The name behind a key; keys without a plain form stand for themselves.
fn plain(key: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    match text::unquote(key) {
        Some(std::borrow::Cow::Borrowed(name)) => std::borrow::Cow::Borrowed(name.as_bytes()),
        Some(std::borrow::Cow::Owned(name)) => std::borrow::Cow::Owned(name.into_bytes()),
        None => std::borrow::Cow::Borrowed(key),
    }
}

fn refuse_repeated(text: &[u8], members: &[(Span, Span)]) -> Result<(), ScanError> {
    let mut names: Vec<_> = members.iter().map(|(key, _)| (plain(&text[key.clone()]), key.start)).collect();
    names.sort_unstable();
    match names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        Some(pair) => Err(ScanError::Repeated(pair[1].1)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RPC-23
    #[test]
    fn a_repeated_name_is_refused_however_it_is_written() {
        for bad in [r#"{"a":1,"a":2}"#, r#"{"name":1,"n\u0061me":2}"#] {
            assert!(matches!(Object::scan(bad.as_bytes(), 0), Err(ScanError::Repeated(_))), "{bad}");
        }
        let many: String = (0..40).map(|n| format!("\"k{n}\":1,")).collect();
        assert!(Object::scan(format!("{{{many}\"z\":1}}").as_bytes(), 0).is_ok());
        assert!(Object::scan(format!("{{{many}\"k7\":1}}").as_bytes(), 0).is_err());
        assert!(Object::scan(format!("{{{many}\"k\\u0037\":1}}").as_bytes(), 0).is_err());
    }

    #[test]
    fn finds_values_by_name() {
        let text = br#"{"name":"x","n":{"name":"y"}}"#;
        let object = Object::scan(text, 0).unwrap();
        assert_eq!(object.string(text, "name").unwrap(), "x");
        assert_eq!(object.value(text, "n").unwrap(), br#"{"name":"y"}"#);
        assert_eq!(object.find(text, "z"), None);
    }
}
