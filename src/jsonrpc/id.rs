//! Request ids, kept as they were written.

use std::fmt;

use bytes::Bytes;

/// The JSON text of an id or a progress token: a string literal or an integer (RPC-02, RPC-08).
///
/// `1` and `"1"` differ, and integers of any size survive, because the text is what is kept.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Bytes);

impl Id {
    /// The id that `text` spells, or `None` for anything but a string or an integer.
    #[must_use]
    pub fn parse(text: Bytes) -> Option<Self> {
        let integer = |text: &[u8]| {
            let digits = text.strip_prefix(b"-").unwrap_or(text);
            !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
        };
        (text.first() == Some(&b'"') || integer(&text)).then_some(Self(text))
    }

    /// Our own id on a hop.
    #[must_use]
    pub fn number(number: u64) -> Self {
        let mut digits = [0; 20];
        Self(Bytes::copy_from_slice(decimal(number, &mut digits)))
    }

    /// The number, when the id is one that [`Id::number`] makes.
    #[must_use]
    pub fn as_number(&self) -> Option<u64> {
        number(&self.0)
    }

    /// The text as it stands in a message.
    #[must_use]
    pub fn text(&self) -> &Bytes {
        &self.0
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// The non-negative integer that `text` spells, if it is one and fits.
#[must_use]
pub fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, digit| sum.checked_mul(10)?.checked_add(u64::from(digit - b'0')))
}

/// Writes `number` at the end of `digits` and gives the part that was written.
#[must_use]
pub fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &digits[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RPC-02, F-039
    #[test]
    fn only_strings_and_integers_are_ids() {
        for good in ["0", "-1", "9007199254740993", "123456789012345678901234567890", r#""""#, r#""a-b""#] {
            assert!(Id::parse(Bytes::from(good)).is_some(), "{good}");
        }
        for bad in ["null", "1.5", "1e3", "{}", "[]", "true", "-", ""] {
            assert!(Id::parse(Bytes::from(bad)).is_none(), "{bad}");
        }
    }

    #[test]
    fn our_numbers_round_trip() {
        for n in [0, 7, 10, 1_234_567, u64::MAX] {
            assert_eq!(Id::number(n).as_number(), Some(n));
        }
        assert_eq!(number(b"18446744073709551616"), None);
        assert_eq!(Id::parse(Bytes::from(r#""1""#)).unwrap().as_number(), None);
    }
}
