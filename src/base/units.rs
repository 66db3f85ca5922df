//! Byte sizes and durations as configuration writes them: `"16MiB"`, `"30s"`, or a plain number.
//!
//! The values themselves are ordinary `usize` and `Duration`; [`ByteSize`] and [`Period`] are how they
//! are written, usable with `#[serde(with = "Period")]`, which also gives the field its JSON schema.
//!
//! *Invariants*: what is displayed parses back to the same value (durations to the millisecond).

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error as _, Visitor};
use serde::ser::Serializer;

/// How a number of bytes is written: `"64KiB"`, `"16MiB"`, `"1GB"`, or a plain number of bytes.
pub struct ByteSize;

/// How a duration is written: `"250ms"`, `"30s"`, `"1h30m"`, or a plain number of seconds.
pub struct Period;

/// Why a text is not a size or a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// No number where one has to stand.
    #[error("a number is missing")]
    NoNumber,
    /// A unit that is not in the list.
    #[error("unknown unit `{0}`")]
    Unit(String),
    /// More than the type can hold.
    #[error("the value is too large")]
    TooLarge,
    /// A fraction of a byte.
    #[error("not a whole number of bytes")]
    Fraction,
}

/// Binary units first, so that displaying picks them; factors in bytes.
const SIZE_UNITS: [(&str, u64); 7] = [
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("B", 1),
];

/// Factors in milliseconds, largest first.
const PERIOD_UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl ByteSize {
    /// What may be written, for error messages.
    pub const ALLOWED: &str =
        "a number of bytes, alone or with B, kB, MB, GB, KiB, MiB or GiB, such as \"16MiB\"";

    /// Reads a size; units are accepted in any case.
    ///
    /// # Errors
    /// [`UnitError`] when the text is not a whole number of bytes with a known unit.
    pub fn parse(text: &str) -> Result<usize, UnitError> {
        let (number, unit, rest) = quantity(text.trim())?;
        if !rest.is_empty() {
            return Err(UnitError::Unit(rest.to_owned()));
        }
        let factor = match unit {
            "" => 1,
            unit => SIZE_UNITS
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(unit))
                .map(|(_, factor)| *factor)
                .ok_or_else(|| UnitError::Unit(unit.to_owned()))?,
        };
        let bytes = number.times(factor).ok_or(UnitError::TooLarge)?;
        let bytes = bytes.whole().ok_or(UnitError::Fraction)?;
        usize::try_from(bytes).map_err(|_| UnitError::TooLarge)
    }

    /// Writes a size with the largest binary unit that divides it.
    pub fn display(bytes: usize) -> String {
        let bytes = bytes as u64;
        SIZE_UNITS
            .iter()
            .take(3)
            .find(|(_, factor)| bytes >= *factor && bytes.is_multiple_of(*factor))
            .map_or_else(|| bytes.to_string(), |(unit, factor)| format!("{}{unit}", bytes / factor))
    }

    /// For `#[serde(with = "ByteSize")]`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(bytes: &usize, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&Self::display(*bytes))
    }

    /// For `#[serde(with = "ByteSize")]`.
    ///
    /// # Errors
    /// A message that says what is allowed.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
        let text = deserializer.deserialize_any(Written(Self::ALLOWED))?;
        Self::parse(&text).map_err(|error| D::Error::custom(format!("{error}; {}", Self::ALLOWED)))
    }
}

impl Period {
    /// What may be written, for error messages.
    pub const ALLOWED: &str =
        "a number of seconds, or a number with ms, s, m, h or d, such as \"30s\" or \"1h30m\"";

    /// Reads a duration.
    ///
    /// # Errors
    /// [`UnitError`] when the text is not a sequence of numbers with known units.
    pub fn parse(text: &str) -> Result<Duration, UnitError> {
        let mut rest = text.trim();
        let mut total: u64 = 0;
        let mut parts = 0;
        loop {
            let (number, unit, after) = quantity(rest)?;
            let factor = match unit {
                "" if parts == 0 => 1_000,
                unit => PERIOD_UNITS
                    .iter()
                    .find(|(name, _)| *name == unit)
                    .map(|(_, factor)| *factor)
                    .ok_or_else(|| UnitError::Unit(unit.to_owned()))?,
            };
            let part = number.times(factor).ok_or(UnitError::TooLarge)?.floor();
            total = total.checked_add(part).ok_or(UnitError::TooLarge)?;
            parts += 1;
            rest = after;
            if rest.is_empty() {
                return Ok(Duration::from_millis(total));
            }
        }
    }

    /// Writes a duration with the units it needs, exact to the millisecond.
    pub fn display(duration: Duration) -> String {
        let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        if left == 0 {
            return "0s".to_owned();
        }
        let mut text = String::new();
        for (unit, factor) in PERIOD_UNITS {
            if left >= factor {
                text.push_str(&format!("{}{unit}", left / factor));
                left %= factor;
            }
        }
        text
    }

    /// For `#[serde(with = "Period")]`.
    ///
    /// # Errors
    /// Those of the serializer.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&Self::display(*duration))
    }

    /// For `#[serde(with = "Period")]`.
    ///
    /// # Errors
    /// A message that says what is allowed.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        let text = deserializer.deserialize_any(Written(Self::ALLOWED))?;
        Self::parse(&text).map_err(|error| D::Error::custom(format!("{error}; {}", Self::ALLOWED)))
    }
}

impl JsonSchema for ByteSize {
    fn schema_name() -> Cow<'static, str> {
        "ByteSize".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": Self::ALLOWED,
            "type": ["string", "integer"],
            "minimum": 0,
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*([bB]|[kKmMgG][iI]?[bB])?\s*$",
        })
    }
}

impl JsonSchema for Period {
    fn schema_name() -> Cow<'static, str> {
        "Period".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": Self::ALLOWED,
            "type": ["string", "number"],
            "minimum": 0,
            "pattern": r"^\s*[0-9]+(\.[0-9]+)?\s*((ms|s|m|h|d)\s*([0-9]+(\.[0-9]+)?\s*(ms|s|m|h|d)\s*)*)?$",
        })
    }
}

/// A decimal number, exact: `digits / 10^places`.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u64,
    places: u32,
}

impl Decimal {
    /// The most places after the point that are read: finer than any unit here can tell.
    const MAX_PLACES: usize = 9;

    fn times(self, factor: u64) -> Option<Self> {
        let digits = self.digits.checked_mul(factor)?;
        Some(Self { digits, ..self })
    }

    fn floor(self) -> u64 {
        self.digits / 10u64.pow(self.places)
    }

    fn whole(self) -> Option<u64> {
        let whole = self.floor();
        (whole * 10u64.pow(self.places) == self.digits).then_some(whole)
    }
}

/// Splits the first number and its unit off a text.
fn quantity(text: &str) -> Result<(Decimal, &str, &str), UnitError> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, rest) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.contains('.') {
        return Err(UnitError::NoNumber);
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > Decimal::MAX_PLACES {
        return Err(UnitError::TooLarge);
    }
    let digits = format!("{whole}{fraction}").parse().map_err(|_| UnitError::TooLarge)?;
    let decimal = Decimal { digits, places: fraction.len() as u32 };
    let rest = rest.trim_start();
    let end = rest.find(|c: char| !c.is_alphabetic()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    Ok((decimal, unit, rest.trim_start()))
}

/// Takes a text or a number as the text it would be written as.
struct Written(&'static str);

impl Visitor<'_> for Written {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }

    fn visit_u64<E>(self, number: u64) -> Result<String, E> {
        Ok(number.to_string())
    }

    fn visit_f64<E>(self, number: f64) -> Result<String, E> {
        Ok(number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_in_every_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("512", 512),
            ("16MiB", 16 << 20),
            ("16 mib", 16 << 20),
            ("1.5KiB", 1536),
            ("2kB", 2000),
            ("2KB", 2000),
            ("1GB", 1_000_000_000),
            ("7B", 7),
        ] {
            assert_eq!(ByteSize::parse(text), Ok(bytes), "{text}");
        }
        for text in ["", "MiB", "-1", "1.5", "16X", "1KiB2", "1..2", "99999999999GiB"] {
            assert!(ByteSize::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_read_in_every_unit() {
        for (text, millis) in [
            ("0", 0),
            ("30", 30_000),
            ("0.5", 500),
            ("250ms", 250),
            ("30s", 30_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("2d", 172_800_000),
        ] {
            assert_eq!(Period::parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5 minutes", "-3s", "1h30", "1h-", "99999999999999999d", "٣s"] {
            assert!(Period::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn both_are_displayed_briefly() {
        assert_eq!(ByteSize::display(16 << 20), "16MiB");
        assert_eq!(ByteSize::display(1000), "1000");
        assert_eq!(ByteSize::display(0), "0");
        assert_eq!(Period::display(Duration::from_secs(5400)), "1h30m");
        assert_eq!(Period::display(Duration::from_millis(1250)), "1s250ms");
        assert_eq!(Period::display(Duration::ZERO), "0s");
    }

    #[test]
    fn serde_takes_texts_and_numbers() {
        #[derive(serde::Serialize, serde::Deserialize)]
        struct Limits {
            #[serde(with = "ByteSize")]
            size: usize,
            #[serde(with = "Period")]
            wait: Duration,
        }
        let limits: Limits = serde_json::from_str(r#"{"size":"1MiB","wait":2.5}"#).unwrap();
        assert_eq!(limits.size, 1 << 20);
        assert_eq!(limits.wait, Duration::from_millis(2500));
        let text = serde_json::to_string(&limits).unwrap();
        assert_eq!(text, r#"{"size":"1MiB","wait":"2s500ms"}"#);
        let error = serde_json::from_str::<Limits>(r#"{"size":"1XB","wait":1}"#).err().unwrap();
        assert!(error.to_string().contains("unknown unit `XB`"), "{error}");
    }

    proptest! {
        #[test]
        fn any_size_reads_back(bytes: usize) {
            prop_assert_eq!(ByteSize::parse(&ByteSize::display(bytes)), Ok(bytes));
        }

        #[test]
        fn any_duration_reads_back(millis: u64) {
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(Period::parse(&Period::display(duration)), Ok(duration));
        }

        #[test]
        fn any_text_is_survived(text: String) {
            let _ = ByteSize::parse(&text);
            let _ = Period::parse(&text);
        }
    }
}
