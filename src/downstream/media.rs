//! Media types: what a client accepts, and what it sends.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// Which forms of answer a client accepts (HTTP-06, F-011).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepts {
    /// `application/json`
    pub json: bool,
    /// `text/event-stream`
    pub events: bool,
    /// Events are wanted rather than JSON: by their weight, or named first where the weights are equal.
    pub events_first: bool,
}

impl Accepts {
    /// Reads all `Accept` lines; without any, everything is accepted.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let mut lines = headers.get_all(ACCEPT).iter().peekable();
        if lines.peek().is_none() {
            return Self { json: true, events: true, events_first: false };
        }
        let mut accepts = Self { json: false, events: false, events_first: false };
        // The heaviest range of each, and the place of the first one so heavy.
        let (mut json, mut events) = ((0, usize::MAX), (0, usize::MAX));
        for (place, range) in lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')).enumerate() {
            let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let media = parts.next().unwrap_or_default();
            let weight = parts.find_map(weight).unwrap_or(ONE);
            if weight == 0 {
                continue;
            }
            let any = media == b"*/*";
            if any || is(media, b"application/json") || is(media, b"application/*") {
                accepts.json = true;
                json = heavier(json, (weight, place));
            }
            if any || is(media, b"text/event-stream") || is(media, b"text/*") {
                accepts.events = true;
                events = heavier(events, (weight, place));
            }
        }
        accepts.events_first = accepts.events && heavier(json, events) == events && json != events;
        accepts
    }

    /// Whether nothing that we could answer is accepted.
    #[must_use]
    pub fn nothing(self) -> bool {
        !self.json && !self.events
    }
}

/// Whether the body is said to be JSON, in any case and with any parameters.
#[must_use]
pub fn is_json(headers: &HeaderMap) -> bool {
    let mut lines = headers.get_all(CONTENT_TYPE).iter();
    let (Some(line), None) = (lines.next(), lines.next()) else { return false };
    let media = line.as_bytes().split(|&byte| byte == b';').next().unwrap_or_default();
    is(media.trim_ascii(), b"application/json")
}

fn is(media: &[u8], wanted: &[u8]) -> bool {
    media.eq_ignore_ascii_case(wanted)
}

/// The weight of a range that names none, in thousandths.
const ONE: u16 = 1000;

/// The weight that a parameter gives, in thousandths; one that cannot be read gives none.
fn weight(parameter: &[u8]) -> Option<u16> {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))?;
    let weight: f32 = std::str::from_utf8(weight).ok()?.parse().ok()?;
    // Within 0 to 1000, which the type holds.
    (0.0..=1.0).contains(&weight).then(|| (weight * f32::from(ONE)).round() as u16)
}

/// The heavier of two ranges; of equal ones the one that stands first.
fn heavier(one: (u16, usize), other: (u16, usize)) -> (u16, usize) {
    if other.0 > one.0 || (other.0 == one.0 && other.1 < one.1) { other } else { one }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn accepts(lines: &[&'static str]) -> (bool, bool) {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(ACCEPT, HeaderValue::from_static(line));
        }
        let accepts = Accepts::of(&headers);
        (accepts.json, accepts.events)
    }

    /// HTTP-06, F-011
    #[test]
    fn accept_is_read_as_media_ranges() {
        assert_eq!(accepts(&[]), (true, true));
        assert_eq!(accepts(&["*/*"]), (true, true));
        assert_eq!(accepts(&["text/event-stream;q=0.9, APPLICATION/JSON"]), (true, true));
        assert_eq!(accepts(&["application/json", "text/event-stream"]), (true, true));
        assert_eq!(accepts(&["application/*"]), (true, false));
        assert_eq!(accepts(&["text/*; q=0.5"]), (false, true));
        assert_eq!(accepts(&["text/event-stream;q=0, application/json"]), (true, false));
        assert_eq!(accepts(&["text/html"]), (false, false));
        assert_eq!(accepts(&["application/jsonx"]), (false, false));
    }

    /// what a client would rather have, it gets.
    #[test]
    fn r_17_a_preference_for_events_is_seen() {
        let first = |line: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(line));
            Accepts::of(&headers).events_first
        };
        for line in [
            "text/event-stream, application/json",
            "application/json;q=0.5, text/event-stream;q=0.9",
            "text/event-stream",
        ] {
            assert!(first(line), "{line}");
        }
        for line in [
            "application/json, text/event-stream",
            "text/event-stream;q=0.9, application/json",
            "*/*",
            // Who takes anything has said nothing of events.
            "application/json;q=0.5, */*",
            "application/json",
            "text/event-stream;q=0, application/json",
            "text/html",
        ] {
            assert!(!first(line), "{line}");
        }
    }

    #[test]
    fn content_type_is_read_without_case_and_parameters() {
        let typed = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(value));
            is_json(&headers)
        };
        assert!(typed("application/json"));
        assert!(typed("Application/JSON ; charset=UTF-8"));
        assert!(!typed("text/plain"));
        assert!(!is_json(&HeaderMap::new()));
    }
}
