//! Strings between JSON text and plain text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// The plain text of a JSON string literal (quotes included).
///
/// `None` when the text is no string literal or holds a lone surrogate, which has no plain form;
/// names and URIs that we route by never need one.
#[must_use]
pub fn unquote(literal: &[u8]) -> Option<Cow<'_, str>> {
    let inner = literal.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    if memchr::memchr(b'\\', inner).is_none() {
        return std::str::from_utf8(inner).ok().map(Cow::Borrowed);
    }
    serde_json::from_slice::<String>(literal).ok().map(Cow::Owned)
}

/// Whether a JSON string literal means `plain`.
#[must_use]
pub fn means(literal: &[u8], plain: &str) -> bool {
    match literal.get(1..literal.len().saturating_sub(1)) {
        Some(inner) if inner == plain.as_bytes() => true,
        Some(inner) if memchr::memchr(b'\\', inner).is_some() => {
            unquote(literal).is_some_and(|text| text == plain)
        }
        _ => false,
    }
}

/// Appends `plain` to `out` as a JSON string literal.
pub fn quote_into(out: &mut String, plain: &str) {
    out.push('"');
    let mut from = 0;
    for (at, byte) in plain.bytes().enumerate() {
        let escape = match byte {
            b'"' => "\\\"",
            b'\\' => "\\\\",
            b'\n' => "\\n",
            b'\r' => "\\r",
            b'\t' => "\\t",
            0..=0x1f => "",
            _ => continue,
        };
        out.push_str(&plain[from..at]);
        from = at + 1;
        if escape.is_empty() {
            // Writing into a string cannot fail.
            let _ = write!(out, "\\u{byte:04x}");
        } else {
            out.push_str(escape);
        }
    }
    out.push_str(&plain[from..]);
    out.push('"');
}

/// `plain` as a JSON string literal.
#[must_use]
pub fn quote(plain: &str) -> String {
    let mut out = String::with_capacity(plain.len() + 2);
    quote_into(&mut out, plain);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn escapes_do_not_hide_a_name() {
        assert!(means(br#""method""#, "method"));
        assert!(means(br#""m\u0065thod""#, "method"));
        assert!(!means(br#""methods""#, "method"));
        assert_eq!(unquote(br#""\ud800""#), None);
    }

    proptest! {
        #[test]
        fn quoting_round_trips(plain in any::<String>()) {
            let literal = quote(&plain);
            let back = unquote(literal.as_bytes());
            prop_assert_eq!(back.as_deref(), Some(plain.as_str()));
            prop_assert!(means(literal.as_bytes(), &plain));
        }
    }
}
