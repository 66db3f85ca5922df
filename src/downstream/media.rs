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
}

impl Accepts {
    /// Reads all `Accept` lines; without any, everything is accepted.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let mut lines = headers.get_all(ACCEPT).iter().peekable();
        if lines.peek().is_none() {
            return Self { json: true, events: true };
        }
        let mut accepts = Self { json: false, events: false };
        for range in lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')) {
            let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
            let media = parts.next().unwrap_or_default();
            if parts.any(refuses) {
                continue;
            }
            let any = media == b"*/*";
            accepts.json |= any || is(media, b"application/json") || is(media, b"application/*");
            accepts.events |= any || is(media, b"text/event-stream") || is(media, b"text/*");
        }
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

/// Whether a parameter is a weight of zero.
fn refuses(parameter: &[u8]) -> bool {
    let weight = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="));
    weight.is_some_and(|weight| !weight.is_empty() && weight.iter().all(|byte| matches!(byte, b'0' | b'.')))
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
