//! Resource URIs as clients see them: the namespace is written into the URI, so that also one that was never listed finds
//! its upstream (RES-04, F-044).
//!
//! | original | exposed |
//! |---|---|
//! | `file:///a%20b` | `<slug>+file:///a%20b` |
//! | `https://host/a` | the same: clients may fetch it themselves, the catalog knows its owner (RES-05, R-20) |
//! | `ui://authority/a` | `ui://<slug>.authority/a`: hosts test the scheme |
//! | no URI, such as `notes` or `file:///a b` | `<slug>+raw:notes`, `<slug>+raw:file:///a%20b`: percent-encoded |
//!
//! Templates (RFC 6570) follow the same table with their expressions untouched, so that what a client expands leads back
//! to what the upstream would have expanded.
//!
//! *Invariants:* what [`expose`] gives, [`split`] turns back byte for byte, percent-encoding and case included; apart from
//! `https:` and `ui:` it is always a valid URI.
//!
//! *Limits:* control characters and URIs beyond [`caps::URI_BYTES`] are refused both ways. In a template that is no URI,
//! percent-escapes that the *expansion* adds are decoded on the way back.

use std::borrow::Cow;
use std::fmt::Write as _;

use percent_encoding::percent_decode_str;

use crate::base::caps;

/// Scheme that marks a percent-encoded original.
const RAW: &str = "raw";

const UI: &str = "ui://";

/// Why a URI is not exposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UriFault {
    /// It has no characters.
    #[error("uri is empty")]
    Empty,
    /// As exposed it would be longer than [`caps::URI_BYTES`].
    #[error("uri is longer than {} bytes", caps::URI_BYTES)]
    TooLong,
    /// It holds a control character.
    #[error("uri holds a control character")]
    Control,
}

/// A namespace as it stands in URIs: schemes know no `_`, so each becomes `-`.
///
/// Takes a namespace that passed `check_namespace`; configuration makes sure that no two have one slug.
#[must_use]
pub fn scheme_slug(namespace: &str) -> Cow<'_, str> {
    if namespace.contains('_') { Cow::Owned(namespace.replace('_', "-")) } else { Cow::Borrowed(namespace) }
}

/// Whether a URI or a template can be shown and asked for at all (RES-08).
///
/// # Errors
///
/// [`UriFault`]: why not.
pub fn check(uri: &str) -> Result<(), UriFault> {
    if uri.is_empty() {
        Err(UriFault::Empty)
    } else if uri.len() > caps::URI_BYTES {
        Err(UriFault::TooLong)
    } else if has_control(uri) {
        Err(UriFault::Control)
    } else {
        Ok(())
    }
}

/// The URI under which clients see an upstream's `original`; `slug` comes from [`scheme_slug`].
///
/// # Errors
///
/// [`UriFault`]: the item that holds this URI cannot be shown.
pub fn expose<'a>(slug: &str, original: &'a str) -> Result<Cow<'a, str>, UriFault> {
    map(slug, original, Kind::Uri)
}

/// The template under which clients see an upstream's `template` (RFC 6570).
///
/// # Errors
///
/// [`UriFault`]: the item that holds this template cannot be shown.
pub fn expose_template<'a>(slug: &str, template: &'a str) -> Result<Cow<'a, str>, UriFault> {
    map(slug, template, Kind::Template)
}

/// Slug and original of an exposed URI. `None` if it carries no slug (such as `https:`) or could not have been exposed by
/// us; whether an upstream has that slug is for the caller to find out.
#[must_use]
pub fn split(exposed: &str) -> Option<(&str, Cow<'_, str>)> {
    check(exposed).ok()?;
    if let Some((scheme, rest)) = ui(exposed) {
        let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
        let (slug, _) = authority.split_once('.').filter(|(slug, _)| is_slug(slug))?;
        let original = format!("{scheme}{}", &rest[slug.len() + 1..]);
        return Some((slug, Cow::Owned(original)));
    }
    let (scheme, _) = exposed.split_once(':')?;
    let (slug, _) = scheme.split_once('+').filter(|(slug, _)| is_slug(slug))?;
    let original = &exposed[slug.len() + 1..];
    let (scheme, rest) = original.split_once(':')?;
    if scheme != RAW {
        return is_scheme(scheme).then_some((slug, Cow::Borrowed(original)));
    }
    let decoded = percent_decode_str(rest).decode_utf8().ok()?;
    (!decoded.is_empty() && !has_control(&decoded)).then_some((slug, decoded))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Uri,
    Template,
}

fn map<'a>(slug: &str, original: &'a str, kind: Kind) -> Result<Cow<'a, str>, UriFault> {
    check(original)?;
    let scheme = original.split_once(':').map(|(scheme, _)| scheme).filter(|scheme| is_scheme(scheme));
    let exposed = if scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case("https")) {
        return Ok(Cow::Borrowed(original));
    } else if let Some((scheme, rest)) = ui(original) {
        format!("{scheme}{slug}.{rest}")
    } else if scheme.is_some_and(|scheme| !scheme.eq_ignore_ascii_case(RAW)) && is_legal(original, kind) {
        format!("{slug}+{original}")
    } else {
        raw(slug, original, kind)
    };
    if exposed.len() > caps::URI_BYTES {
        return Err(UriFault::TooLong);
    }
    Ok(Cow::Owned(exposed))
}

/// `ui://` as written, and what follows it.
fn ui(uri: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = uri.split_at_checked(UI.len())?;
    scheme.eq_ignore_ascii_case(UI).then_some((scheme, rest))
}

fn raw(slug: &str, original: &str, kind: Kind) -> String {
    let mut out = format!("{slug}+{RAW}:");
    for part in parts(original, kind) {
        match part {
            Part::Expression(expression) => out.push_str(expression),
            Part::Literal(literal) => {
                for byte in literal.bytes() {
                    if is_unescaped(byte) {
                        out.push(char::from(byte));
                    } else {
                        write!(out, "%{byte:02X}").expect("writing to a string does not fail");
                    }
                }
            }
        }
    }
    out
}

/// What percent-encoded originals keep: readable, and legal anywhere in a path.
fn is_unescaped(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~/:@!$&'()*+,;=".contains(&byte)
}

enum Part<'a> {
    Literal(&'a str),
    /// An expression of a template, braces included.
    Expression(&'a str),
}

/// The text cut at its expressions; braces that do not pair are literal.
fn parts(text: &str, kind: Kind) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let Some((start, end)) = expression(rest).filter(|_| kind == Kind::Template) else {
            return Some(Part::Literal(std::mem::take(&mut rest)));
        };
        let at = if start > 0 { start } else { end };
        let (part, after) = rest.split_at(at);
        rest = after;
        Some(if start > 0 { Part::Literal(part) } else { Part::Expression(part) })
    })
}

/// Where the first expression of a text begins and ends.
fn expression(text: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    while let Some(length) = text[from..].find('}') {
        let end = from + length + 1;
        if let Some(start) = text[from..end].rfind('{') {
            let start = from + start;
            if text[start + 1..end - 1].bytes().all(is_in_expression) && end - start > 2 {
                return Some((start, end));
            }
        }
        from = end;
    }
    None
}

/// Operators, variable names, modifiers.
fn is_in_expression(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+#./;?&=,!@|_%:*-".contains(&byte)
}

/// Whether a text consists of what RFC 3986 allows, expressions of a template aside.
fn is_legal(text: &str, kind: Kind) -> bool {
    parts(text, kind).all(|part| match part {
        Part::Expression(_) => true,
        Part::Literal(literal) => is_legal_literal(literal.as_bytes()),
    })
}

fn is_legal_literal(text: &[u8]) -> bool {
    let is_escape =
        |at: usize| text.get(at + 1..at + 3).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
    text.iter().enumerate().all(|(at, &byte)| match byte {
        b'%' => is_escape(at),
        _ => byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=".contains(&byte),
    })
}

/// `[a-z][a-z0-9-]*`: what a slug is, and what makes the first `+` or `.` its end.
fn is_slug(slug: &str) -> bool {
    slug.starts_with(|c: char| c.is_ascii_lowercase())
        && slug.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
}

fn is_scheme(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

#[cfg(test)]
mod tests;
