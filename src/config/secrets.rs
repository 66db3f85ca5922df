//! Texts that must not be shown, and the places in argument lists where such texts usually stand.
//!
//! *Invariants*: neither `Debug`, `Display` nor `Serialize` of these types shows a secret; the only way
//! to the text is `reveal`.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use secrecy::{ExposeSecret, SecretString};
use serde::{Serialize, Serializer};
use zeroize::Zeroizing;

/// What is shown in place of a secret.
pub const MASK: &str = "***";

/// A text that is never shown. Wiped from memory when dropped.
#[derive(Clone)]
pub struct Secret {
    text: SecretString,
    outside: bool,
}

/// A text out of the file. It is secret when it came, in part or whole, out of a variable or a file.
#[derive(Clone)]
pub struct Text {
    value: Secret,
    secret: bool,
}

/// A 256-bit key that seals handles. Wiped from memory when dropped.
#[derive(Clone)]
pub struct SealKey(Arc<Zeroizing<[u8; SealKey::SIZE]>>);

// === impl Secret ===

impl Secret {
    /// The text itself. Ask for it only where it is used.
    pub fn reveal(&self) -> &str {
        self.text.expose_secret()
    }

    /// Whether a part of it came from elsewhere than the configuration's own text.
    pub fn is_from_outside(&self) -> bool {
        self.outside
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self { text: text.into(), outside: true }
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.reveal() == other.reveal()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

// === impl Text ===

impl Text {
    /// A text as it stands in the file.
    pub fn plain(text: impl Into<String>) -> Self {
        Self { value: text.into().into(), secret: false }
    }

    /// A text with a part that came from elsewhere.
    pub fn hidden(text: impl Into<String>) -> Self {
        Self { value: text.into().into(), secret: true }
    }

    /// The text itself. Ask for it only where it is used.
    pub fn reveal(&self) -> &str {
        self.value.reveal()
    }

    /// Whether a part of it came out of a variable or a file.
    pub fn is_secret(&self) -> bool {
        self.secret
    }

    /// The text as a value that is never shown, wherever it came from.
    pub fn into_secret(self) -> Secret {
        Secret { outside: self.secret, ..self.value }
    }

    /// The text, or the mask where it is secret.
    pub fn shown(&self) -> &str {
        if self.secret { MASK } else { self.reveal() }
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value && self.secret == other.secret
    }
}

impl Eq for Text {}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.shown())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.secret { f.write_str(MASK) } else { fmt::Debug::fmt(self.reveal(), f) }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

impl JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }

    fn inline_schema() -> bool {
        true
    }
}

// === impl SealKey ===

impl SealKey {
    /// Bytes in a key.
    pub const SIZE: usize = 32;

    /// A key of these bytes.
    pub fn new(bytes: [u8; Self::SIZE]) -> Self {
        Self(Arc::new(Zeroizing::new(bytes)))
    }

    /// The key itself, to be put into a ring.
    pub fn reveal(&self) -> &[u8; Self::SIZE] {
        &self.0
    }
}

impl PartialEq for SealKey {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for SealKey {}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

/// Words in the name of an option whose value is a secret.
const SECRET_WORDS: [&str; 10] = [
    "token",
    "secret",
    "password",
    "passwd",
    "apikey",
    "api-key",
    "api_key",
    "access-key",
    "credential",
    "bearer",
];

/// Beginnings of tokens that services hand out.
const SECRET_PREFIXES: [&str; 12] =
    ["sk-", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "xoxp-", "AKIA", "eyJ", "hf_", "npm_"];

/// An argument shorter than this is no token, whatever it begins with.
const SHORTEST_TOKEN: usize = 16;

/// The arguments as they may be shown: what came from elsewhere, and what looks like a secret, is masked.
pub fn masked_arguments(arguments: &[Text]) -> Vec<String> {
    let mut shown = Vec::with_capacity(arguments.len());
    for (index, argument) in arguments.iter().enumerate() {
        let before = index.checked_sub(1).map(|index| arguments[index].reveal());
        shown.push(match visible_part(before, argument.reveal()) {
            _ if argument.is_secret() => MASK.to_owned(),
            Some(kept) => format!("{kept}{MASK}"),
            None => argument.reveal().to_owned(),
        });
    }
    shown
}

/// Whether an argument, seen after the one before it, holds what looks like a secret: then the part of
/// it that may still be shown.
pub fn visible_part<'a>(before: Option<&str>, argument: &'a str) -> Option<&'a str> {
    if let Some((option, value)) = argument.split_once('=')
        && names_secret(option)
        && !value.is_empty()
    {
        return Some(&argument[..=option.len()]);
    }
    // A header alone, or as the value of an option.
    let option = argument.split_once('=').filter(|(option, _)| option.starts_with('-'));
    let before_header = option.map_or(0, |(option, _)| option.len() + 1);
    if let Some((header, value)) = argument[before_header..].split_once(':')
        && !value.starts_with("//")
        && (header.eq_ignore_ascii_case("authorization") || names_secret(header))
        && !header.contains(char::is_whitespace)
        && !value.trim().is_empty()
    {
        return Some(&argument[..=before_header + header.len()]);
    }
    let follows =
        before.is_some_and(|option| option.starts_with('-') && !option.contains('=') && names_secret(option));
    if follows && !argument.starts_with('-') {
        return Some("");
    }
    let token =
        argument.len() >= SHORTEST_TOKEN && SECRET_PREFIXES.iter().any(|prefix| argument.starts_with(prefix));
    token.then_some("")
}

/// Whether an option, variable or header of this name holds a secret.
pub(super) fn names_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // `--token-file` and the like name where the secret is, which is the right way.
    let names_place = ["file", "path", "env", "var"].iter().any(|end| name.ends_with(end));
    !names_place && SECRET_WORDS.iter().any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_printed() {
        let text = Text::hidden("hunter2");
        let secret = Secret::from("hunter2".to_owned());
        let key = SealKey::new([0x61; 32]);
        let printed = format!("{text} {text:?} {secret:?} {key:?}");
        assert_eq!(printed, "*** *** *** ***");
        assert_eq!(serde_json::to_string(&text).unwrap(), r#""***""#);
        assert_eq!(format!("{:?}", Text::plain("a")), r#""a""#);
    }

    /// R-28
    #[test]
    fn secrets_in_arguments_are_found() {
        let cases: [(&[&str], &[&str]); 9] = [
            (&["--token", "abc"], &["--token", "***"]),
            (&["--api-key=abc"], &["--api-key=***"]),
            (&["--token-file", "/run/t"], &["--token-file", "/run/t"]),
            (&["--header", "Authorization: Bearer abc"], &["--header", "Authorization:***"]),
            (&["--header=Authorization: Bearer abc"], &["--header=Authorization:***"]),
            (&["ghp_0123456789abcdef"], &["***"]),
            (&["https://token.example/x"], &["https://token.example/x"]),
            (&["-e", "GITHUB_TOKEN=abc"], &["-e", "GITHUB_TOKEN=***"]),
            (&["--token", "--verbose"], &["--token", "--verbose"]),
        ];
        for (arguments, shown) in cases {
            let arguments: Vec<Text> = arguments.iter().map(|a| Text::plain(*a)).collect();
            assert_eq!(masked_arguments(&arguments), shown);
        }
        assert_eq!(masked_arguments(&[Text::hidden("x")]), ["***"]);
    }
}
