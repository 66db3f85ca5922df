//! The `endpoint` event: where messages go (LSSE-02, F-009).

use url::Url;

use crate::base::caps;
use crate::upstream::blame::Blame;
use crate::upstream::flight::Failure;
use crate::upstream::http::address::Origin;

/// Why the place that was named is not used. The text is for operators.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum EndpointError {
    /// It is no address.
    #[error("its `endpoint` event holds no address")]
    Unusable,
    /// It is on another server, which must not see what is meant for this one.
    #[error("its `endpoint` event names another server, {0}")]
    Foreign(String),
}

/// The place that `data` names, by the rules of URLs: relative to the address that the stream came from.
///
/// # Errors
/// See [`EndpointError`].
pub(super) fn resolve(from: &Url, data: &[u8], origin: &Origin) -> Result<Url, EndpointError> {
    let text = std::str::from_utf8(data).ok().map(str::trim);
    let text = text.filter(|text| !text.is_empty() && text.len() <= caps::URI_BYTES);
    let url = text.and_then(|text| from.join(text).ok()).ok_or(EndpointError::Unusable)?;
    match Origin::of(&url) {
        Ok(named) if named == *origin => Ok(url),
        // What follows the server in the address may be a secret.
        Ok(named) => Err(EndpointError::Foreign(format!("{}://{}", url.scheme(), shown(&named)))),
        Err(_) => Err(EndpointError::Unusable),
    }
}

fn shown(origin: &Origin) -> String {
    let mut host = String::from_utf8_lossy(origin.header.as_bytes()).into_owned();
    host.truncate(host.floor_char_boundary(200));
    host
}

/// What clients and operators are told.
pub(super) fn failure(error: &EndpointError, blame: &Blame) -> Failure {
    let told = match error {
        EndpointError::Unusable => "its `endpoint` event holds no address",
        EndpointError::Foreign(_) => "its `endpoint` event names another server",
    };
    Failure::detailed(blame.protocol(told), error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(from: &str, data: &str) -> Result<String, EndpointError> {
        let from = Url::parse(from).unwrap();
        resolve(&from, data.as_bytes(), &Origin::of(&from).unwrap()).map(|url| url.to_string())
    }

    /// F-009, LSSE-02: relative to the stream's own address, prefix and all.
    #[test]
    fn f_009_the_place_is_found_by_the_rules_of_urls() {
        let from = "https://a.example/tools/alpha/sse?key=1";
        for (data, wanted) in [
            ("/tools/alpha/messages?session_id=x", "https://a.example/tools/alpha/messages?session_id=x"),
            ("messages?session_id=x", "https://a.example/tools/alpha/messages?session_id=x"),
            ("../m", "https://a.example/tools/m"),
            ("?sessionId=x", "https://a.example/tools/alpha/sse?sessionId=x"),
            (" /m \n", "https://a.example/m"),
            ("//a.example/m", "https://a.example/m"),
            ("https://a.example:443/m", "https://a.example/m"),
            ("https://A.example/deep/m?q=%20", "https://a.example/deep/m?q=%20"),
        ] {
            assert_eq!(resolved(from, data).as_deref(), Ok(wanted), "{data}");
        }
    }

    /// F-009: another host, port or scheme would be shown what is meant for this one.
    #[test]
    fn f_009_another_server_is_refused() {
        let from = "https://a.example/sse";
        for data in [
            "http://a.example/m",
            "https://a.example:8443/m",
            "https://b.example/m",
            "//b.example/m",
            "https://a.example@b.example/m",
            "\\\\b.example\\m",
        ] {
            assert!(matches!(resolved(from, data), Err(EndpointError::Foreign(_))), "{data}");
        }
        let Err(error) = resolved(from, "https://u:p@b.example/m?token=secret") else { panic!() };
        assert_eq!(error.to_string(), "its `endpoint` event names another server, https://b.example");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = "x".repeat(caps::URI_BYTES + 1);
        for data in ["", " ", "http://", "file:///m", "mailto:a@b.example", &long] {
            assert_eq!(resolved("https://a.example/sse", data), Err(EndpointError::Unusable), "{data}");
        }
    }
}
