//! Takes known secrets out of text that peers and children wrote (F-103).
//!
//! *Limits*: secrets shorter than six bytes are not looked for, since they would shred the log.

use memchr::memmem;
use secrecy::{ExposeSecret, SecretString};

/// What stands where a secret stood.
const MASK: &str = "[secret]";

/// Shortest secret that is looked for, in bytes.
const SHORTEST: usize = 6;

/// Whether a text ends where its writer ended it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum End {
    /// It does.
    #[default]
    Whole,
    /// It was cut short, perhaps within a secret.
    Cut,
}

/// The secrets of the configuration, to be kept out of every line.
#[derive(Debug, Default)]
pub struct Redactor {
    secrets: Vec<SecretString>,
    longest: usize,
}

impl Redactor {
    /// Knows these secrets.
    #[must_use]
    pub fn new(secrets: impl IntoIterator<Item = SecretString>) -> Self {
        let mut secrets: Vec<_> =
            secrets.into_iter().filter(|secret| secret.expose_secret().len() >= SHORTEST).collect();
        // Where one secret begins another, the longer one is to be found.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.expose_secret().len()));
        let longest = secrets.first().map_or(0, |secret| secret.expose_secret().len());
        Self { secrets, longest }
    }

    /// The text with each secret masked; none when there is no secret in it.
    #[must_use]
    pub fn masked(&self, text: &str) -> Option<String> {
        self.next(text, 0).map(|_| self.clean(text, End::Whole))
    }

    /// The text with each secret masked. Of a text that was cut short, the end is left out as far
    /// as it could hold the beginning of a secret.
    pub(super) fn clean(&self, text: &str, end: End) -> String {
        let end = match end {
            End::Whole => text.len(),
            End::Cut => text.floor_char_boundary(text.len().saturating_sub(self.longest)),
        };
        let mut clean = String::with_capacity(end);
        let mut from = 0;
        while let Some((start, length)) = self.next(text, from).filter(|(start, _)| *start < end) {
            clean.push_str(&text[from..start]);
            clean.push_str(MASK);
            from = start + length;
        }
        clean.push_str(text.get(from..end).unwrap_or_default());
        clean
    }

    /// Start and length of the first secret at or after `from`.
    fn next(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let rest = &text.as_bytes()[from..];
        self.secrets
            .iter()
            .filter_map(|secret| {
                let secret = secret.expose_secret();
                memmem::find(rest, secret.as_bytes()).map(|at| (from + at, secret.len()))
            })
            .min_by_key(|(start, length)| (*start, std::cmp::Reverse(*length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor(secrets: &[&str]) -> Redactor {
        Redactor::new(secrets.iter().map(|secret| SecretString::from(*secret)))
    }

    #[test]
    fn f_103_known_secrets_are_masked() {
        let redactor = redactor(&["hunter2", "hunter2-long", "tok-ü-4711", "abc"]);
        assert_eq!(
            redactor.clean("a hunter2 b hunter2-long c abc", End::Whole),
            "a [secret] b [secret] c abc"
        );
        assert_eq!(redactor.clean("tok-ü-4711tok-ü-4711", End::Whole), "[secret][secret]");
        assert_eq!(redactor.clean("", End::Whole), "");
        assert_eq!(redactor.masked("a hunter2").as_deref(), Some("a [secret]"));
        assert_eq!(redactor.masked("a hunter"), None);
        assert!(!format!("{redactor:?}").contains("hunter2"));
    }

    #[test]
    fn f_103_a_cut_leaves_no_piece_of_a_secret() {
        let redactor = redactor(&["0123456789"]);
        assert_eq!(redactor.clean("some text 01234567", End::Cut), "some tex");
        assert_eq!(redactor.clean("0123456789 tail tail", End::Cut), "[secret]");
        assert_eq!(redactor.clean("ü01234567", End::Cut), "");
    }
}
