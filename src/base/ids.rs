//! Random bytes and ids nobody can guess, and short hashes to name a secret thing in a log.
//!
//! *Invariants:* an id never prints itself; `Debug` shows its hash.

use std::fmt;

use aws_lc_rs::{digest, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// 128 random bits from the system's generator: too many to guess, too many to meet twice (SEC-11).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RandomId([u8; 16]);

impl RandomId {
    /// A new id.
    #[must_use]
    pub fn random() -> Self {
        Self(random_bytes())
    }

    /// The bytes, for sealing and storing.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// 22 characters of base64url, for headers and URLs.
    #[must_use]
    pub fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(self.0)
    }

    /// 32 hexadecimal digits.
    #[must_use]
    pub fn hex(&self) -> String {
        hex(&self.0)
    }
}

impl fmt::Debug for RandomId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RandomId({})", short_hash(&self.0))
    }
}

/// Random bytes from the system's generator.
#[must_use]
pub fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the generator ends the process rather than run dry");
    bytes
}

/// Eight hexadecimal digits that stand for a value in logs and names: the same everywhere, telling nothing about it as
/// long as it cannot be guessed.
#[must_use]
pub fn short_hash(value: &[u8]) -> String {
    let mut text = sha256_hex(value);
    text.truncate(8);
    text
}

/// SHA-256 as 64 hexadecimal digits.
#[must_use]
pub fn sha256_hex(value: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, value).as_ref())
}

/// The first 64 bits of HMAC-SHA256: with a secret key, nobody else can tell the value for a text.
#[must_use]
pub fn keyed_hash(key: &[u8], text: &[u8]) -> u64 {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    tag.as_ref().iter().take(8).fold(0, |sum, byte| sum << 8 | u64::from(*byte))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|nibble| char::from(DIGITS[usize::from(nibble)]))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// SEC-11
    #[test]
    fn ids_differ_and_print_in_two_forms() {
        let ids: HashSet<_> = (0..1000).map(|_| RandomId::random().text()).collect();
        assert_eq!(ids.len(), 1000);
        let id = RandomId([0xff; 16]);
        assert_eq!(id.hex(), "f".repeat(32));
        assert_eq!(id.text(), "_____________________w");
    }

    /// SEC-24
    #[test]
    fn debug_does_not_show_the_id() {
        let id = RandomId::random();
        let shown = format!("{id:?}");
        assert!(!shown.contains(&id.hex()) && !shown.contains(&id.text()));
    }

    #[test]
    fn hashes_are_those_of_sha_256() {
        assert_eq!(short_hash(b"abc"), "ba7816bf");
        // RFC 4231, case 2.
        assert_eq!(keyed_hash(b"Jefe", b"what do ya want for nothing?"), 0x5bdc_c146_bf60_754e);
        assert_eq!(sha256_hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
