//! One validating pass over JSON text: where a value ends, and where an object's members lie.
//!
//! *Invariants.* Nothing is allocated for values that are skipped, and nothing recurses: nesting
//! is a bit stack, so hostile depth costs memory neither here nor on the thread's stack.
//!
//! *Limits.* Depth is at most [`MAX_DEPTH`] (RPC-24); deeper text is refused.

use std::ops::Range;

use crate::base::caps;

/// How deep arrays and objects may nest in a message that we look into.
pub const MAX_DEPTH: usize = caps::NESTING_DEPTH;

/// A stretch of the text, in bytes.
pub type Span = Range<usize>;

/// Why a text could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScanError {
    /// The text is not JSON.
    #[error("not valid JSON at byte {0}")]
    Syntax(usize),
    /// The text nests deeper than [`MAX_DEPTH`].
    #[error("nested deeper than {MAX_DEPTH} levels")]
    Depth,
    /// An object that we read has one name twice (RPC-23).
    #[error("a member name occurs twice at byte {0}")]
    Repeated(usize),
    /// An object was expected.
    #[error("not an object")]
    NotObject,
    /// An array was expected.
    #[error("not an array")]
    NotArray,
}

impl ScanError {
    /// Whether the text is no JSON at all, as against JSON of the wrong shape.
    #[must_use]
    pub fn is_syntax(self) -> bool {
        matches!(self, Self::Syntax(_))
    }
}

/// The place after any white space at `at`.
#[must_use]
pub fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = text.get(at) {
        at += 1;
    }
    at
}

/// The place after the string that opens at `at`.
///
/// # Errors
/// `Syntax` for control characters, wrong escapes and a missing end.
pub fn skip_string(text: &[u8], at: usize) -> Result<usize, ScanError> {
    if text.get(at) != Some(&b'"') {
        return Err(ScanError::Syntax(at));
    }
    let mut at = at + 1;
    loop {
        let rest = text.get(at..).ok_or(ScanError::Syntax(at))?;
        let run = memchr::memchr2(b'"', b'\\', rest).ok_or(ScanError::Syntax(text.len()))?;
        if let Some(bad) = first_control(&rest[..run]) {
            return Err(ScanError::Syntax(at + bad));
        }
        at += run;
        if text[at] == b'"' {
            return Ok(at + 1);
        }
        at = skip_escape(text, at)?;
    }
}

/// Where the first control character of `run` stands.
fn first_control(run: &[u8]) -> Option<usize> {
    // Folded without branches, so that the compiler uses vectors for the common case of none.
    if run.iter().fold(false, |any, &b| any | (b < 0x20)) { run.iter().position(|&b| b < 0x20) } else { None }
}

fn skip_escape(text: &[u8], at: usize) -> Result<usize, ScanError> {
    match text.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match text.get(at + 2..at + 6) {
            Some(hex) if hex.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            _ => Err(ScanError::Syntax(at)),
        },
        _ => Err(ScanError::Syntax(at)),
    }
}

fn skip_number(text: &[u8], start: usize) -> Result<usize, ScanError> {
    let mut at = start;
    let digits = |mut at: usize| {
        let from = at;
        while text.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        if at == from { Err(ScanError::Syntax(at)) } else { Ok(at) }
    };
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    at = if text.get(at) == Some(&b'0') { at + 1 } else { digits(at)? };
    if text.get(at) == Some(&b'.') {
        at = digits(at + 1)?;
    }
    if let Some(b'e' | b'E') = text.get(at) {
        at += 1;
        if let Some(b'+' | b'-') = text.get(at) {
            at += 1;
        }
        at = digits(at)?;
    }
    Ok(at)
}

fn skip_scalar(text: &[u8], at: usize) -> Result<usize, ScanError> {
    let word = |word: &[u8]| {
        if text[at..].starts_with(word) { Ok(at + word.len()) } else { Err(ScanError::Syntax(at)) }
    };
    match text.get(at) {
        Some(b'"') => skip_string(text, at),
        Some(b'-' | b'0'..=b'9') => skip_number(text, at),
        Some(b't') => word(b"true"),
        Some(b'f') => word(b"false"),
        Some(b'n') => word(b"null"),
        _ => Err(ScanError::Syntax(at)),
    }
}

/// Which containers are open: one bit each, set for an object.
#[derive(Default)]
struct Open {
    bits: [u64; MAX_DEPTH.div_ceil(64)],
    depth: usize,
}

impl Open {
    fn push(&mut self, object: u8) -> Result<(), ScanError> {
        if self.depth == MAX_DEPTH {
            return Err(ScanError::Depth);
        }
        let (word, bit) = (self.depth / 64, self.depth % 64);
        self.bits[word] = self.bits[word] & !(1 << bit) | u64::from(object == b'{') << bit;
        self.depth += 1;
        Ok(())
    }

    fn in_object(&self) -> bool {
        let top = self.depth - 1;
        self.bits[top / 64] >> (top % 64) & 1 == 1
    }
}

/// The place after the value that starts at `at` (no white space before it).
///
/// # Errors
/// `Syntax` when it is no value, `Depth` when it nests too deep.
pub fn skip_value(text: &[u8], at: usize) -> Result<usize, ScanError> {
    let mut open = Open::default();
    let mut at = at;
    loop {
        // Here a value starts.
        at = match text.get(at) {
            Some(&bracket @ (b'{' | b'[')) => {
                open.push(bracket)?;
                let inner = skip_space(text, at + 1);
                let close = if bracket == b'{' { b'}' } else { b']' };
                if text.get(inner) != Some(&close) {
                    at = if bracket == b'{' { skip_key(text, inner)? } else { inner };
                    continue;
                }
                open.depth -= 1;
                inner + 1
            }
            _ => skip_scalar(text, at)?,
        };
        // Here a value has ended: close what closes, then go on behind a comma.
        loop {
            if open.depth == 0 {
                return Ok(at);
            }
            at = skip_space(text, at);
            match (text.get(at), open.in_object()) {
                (Some(b','), true) => {
                    at = skip_key(text, skip_space(text, at + 1))?;
                    break;
                }
                (Some(b','), false) => {
                    at = skip_space(text, at + 1);
                    break;
                }
                (Some(b'}'), true) | (Some(b']'), false) => {
                    open.depth -= 1;
                    at += 1;
                }
                _ => return Err(ScanError::Syntax(at)),
            }
        }
    }
}

/// Whether valid JSON text nests deeper than `limit` levels, where that is less than [`MAX_DEPTH`].
#[must_use]
pub fn nests_deeper(text: &[u8], limit: usize) -> bool {
    let (mut at, mut depth) = (0, 0_usize);
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => match skip_string(text, at) {
                Ok(end) => {
                    at = end;
                    continue;
                }
                Err(_) => return false,
            },
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limit {
            return true;
        }
        at += 1;
    }
    false
}

/// The place where the value behind the key at `at` starts.
fn skip_key(text: &[u8], at: usize) -> Result<usize, ScanError> {
    let at = skip_space(text, skip_string(text, at)?);
    if text.get(at) != Some(&b':') {
        return Err(ScanError::Syntax(at));
    }
    Ok(skip_space(text, at + 1))
}

/// Calls `visit` with the spans of each key (quotes included) and value of the object at `at`,
/// and gives the place after it.
///
/// # Errors
/// `NotObject` when no object opens there; what `visit` and the values report otherwise.
pub fn members(
    text: &[u8],
    at: usize,
    mut visit: impl FnMut(Span, Span) -> Result<(), ScanError>,
) -> Result<usize, ScanError> {
    if text.get(at) != Some(&b'{') {
        return Err(ScanError::NotObject);
    }
    let mut at = skip_space(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        let key = at..skip_string(text, at)?;
        let start = skip_key(text, at)?;
        let end = skip_value(text, start)?;
        visit(key, start..end)?;
        at = skip_space(text, end);
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b'}') => return Ok(at + 1),
            _ => return Err(ScanError::Syntax(at)),
        }
    }
}

/// Calls `visit` with the span of each element of the array at `at`, and gives the place after it.
///
/// # Errors
/// `NotArray` when no array opens there; what `visit` and the values report otherwise.
pub fn elements(
    text: &[u8],
    at: usize,
    mut visit: impl FnMut(Span) -> Result<(), ScanError>,
) -> Result<usize, ScanError> {
    if text.get(at) != Some(&b'[') {
        return Err(ScanError::NotArray);
    }
    let mut at = skip_space(text, at + 1);
    if text.get(at) == Some(&b']') {
        return Ok(at + 1);
    }
    loop {
        let end = skip_value(text, at)?;
        visit(at..end)?;
        at = skip_space(text, end);
        match text.get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b']') => return Ok(at + 1),
            _ => return Err(ScanError::Syntax(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::value::RawValue;

    use super::*;

    fn whole(text: &[u8]) -> Result<(), ScanError> {
        let end = skip_value(text, skip_space(text, 0))?;
        if skip_space(text, end) == text.len() { Ok(()) } else { Err(ScanError::Syntax(end)) }
    }

    #[test]
    fn accepts_and_refuses_what_the_grammar_does() {
        for good in [
            "{}",
            "[]",
            "0",
            "-0",
            "1.5e+10",
            "1e400",
            r#""\u0000 \ud800 \\n""#,
            r#"{"a":[{},[],{"b":null}]}"#,
            " [ 1 , 2 ] ",
            r#"{"a" : true , "b":false}"#,
        ] {
            assert_eq!(whole(good.as_bytes()), Ok(()), "{good}");
        }
        for bad in [
            "",
            "{",
            "[1,]",
            "{,}",
            "01",
            "1.",
            ".5",
            "-",
            "1e",
            "tru",
            r#""\x""#,
            r#""\u12g4""#,
            "\"a\nb\"",
            "[1 2]",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{a:1}"#,
            "{]",
            "[}",
            r#"{"a":1,}"#,
        ] {
            assert!(whole(bad.as_bytes()).is_err(), "{bad}");
        }
    }

    /// RPC-24
    #[test]
    fn depth_is_limited() {
        let nest = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert_eq!(whole(nest(MAX_DEPTH).as_bytes()), Ok(()));
        assert_eq!(whole(nest(MAX_DEPTH + 1).as_bytes()), Err(ScanError::Depth));
        assert_eq!(whole("[".repeat(100_000).as_bytes()), Err(ScanError::Depth));
    }

    /// RPC-24
    #[test]
    fn a_lower_limit_can_be_asked_for() {
        assert!(nests_deeper(br#"{"a":[{}]}"#, 2));
        assert!(!nests_deeper(br#"{"a":[{}],"b":"[[[["}"#, 3));
    }

    proptest! {
        /// What we accept is what the reference parser accepts, for any text that looks like JSON.
        #[test]
        fn agrees_with_the_reference(text in r#"[\[\]{},:"0-9a-z\\ .eE+\-]{0,40}"#) {
            let reference = serde_json::from_str::<&RawValue>(&text).is_ok();
            prop_assert_eq!(whole(text.as_bytes()).is_ok(), reference);
        }

        #[test]
        fn any_bytes_are_survived(text in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = whole(&text);
            let _ = members(&text, 0, |_, _| Ok(()));
            let _ = elements(&text, 0, |_| Ok(()));
        }
    }
}
