//! Where an upstream on the network is, taken apart once.

use std::sync::Arc;

use http::uri::PathAndQuery;
use http::{HeaderValue, Uri};
use url::{Host, Url};

/// Why a URL cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// Neither `http` nor `https`.
    #[error("only http and https addresses can be reached")]
    Scheme,
    /// Without a host, or with something HTTP cannot carry.
    #[error("the address cannot be used in HTTP requests")]
    Unusable,
}

/// The server of a URL: whom to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Whether to speak TLS.
    pub tls: bool,
    /// The name or address, without brackets.
    pub host: Arc<str>,
    /// The port, also when the URL leaves it out.
    pub port: u16,
    /// The value of `Host`.
    pub header: HeaderValue,
    /// The name to look up, or the address itself.
    pub target: Host<String>,
}

impl Origin {
    /// The origin of `url`.
    ///
    /// # Errors
    /// See [`AddressError`].
    pub fn of(url: &Url) -> Result<Self, AddressError> {
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(AddressError::Scheme),
        };
        let target = url.host().ok_or(AddressError::Unusable)?.to_owned();
        let port = url.port_or_known_default().ok_or(AddressError::Unusable)?;
        // A URL leaves out the port that its scheme implies, and so does the header.
        let header = match url.port() {
            Some(port) => format!("{target}:{port}"),
            None => target.to_string(),
        };
        let host = match &target {
            Host::Domain(name) => Arc::from(name.as_str()),
            Host::Ipv4(address) => Arc::from(address.to_string()),
            Host::Ipv6(address) => Arc::from(address.to_string()),
        };
        let header = HeaderValue::try_from(header).map_err(|_| AddressError::Unusable)?;
        Ok(Self { tls, host, port, header, target })
    }

    /// Whether it names this very machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match &self.target {
            Host::Domain(name) => name == "localhost" || name.ends_with(".localhost"),
            Host::Ipv4(address) => address.is_loopback(),
            Host::Ipv6(address) => address.is_loopback(),
        }
    }
}

/// The form of `url` that stands in a request line: its path, or the whole of it toward a proxy.
///
/// # Errors
/// `Unusable` for what HTTP cannot carry.
pub fn request_target(url: &Url, absolute: bool) -> Result<Uri, AddressError> {
    let path = match url.query() {
        Some(query) => format!("{}?{query}", url.path()),
        None => url.path().to_owned(),
    };
    let path = PathAndQuery::try_from(path).map_err(|_| AddressError::Unusable)?;
    if !absolute {
        return Ok(Uri::from(path));
    }
    let authority = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let whole = Uri::builder().scheme(url.scheme()).authority(authority).path_and_query(path);
    whole.build().map_err(|_| AddressError::Unusable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(text: &str) -> Origin {
        Origin::of(&Url::parse(text).unwrap()).unwrap()
    }

    #[test]
    fn hosts_and_ports_are_as_headers_want_them() {
        for (url, host, port, header) in [
            ("http://a.example/mcp", "a.example", 80, "a.example"),
            ("https://a.example:8443/", "a.example", 8443, "a.example:8443"),
            ("http://[::1]:9/mcp", "::1", 9, "[::1]:9"),
            ("http://u:p@127.0.0.1:80/", "127.0.0.1", 80, "127.0.0.1"),
        ] {
            let origin = origin(url);
            assert_eq!((&*origin.host, origin.port, origin.header.to_str().unwrap()), (host, port, header));
        }
        assert!(Origin::of(&Url::parse("ftp://a/").unwrap()).is_err());
        assert!(origin("http://localhost:1/").is_loopback() && origin("http://[::1]/").is_loopback());
        assert!(!origin("http://localhost.example/").is_loopback());
    }

    #[test]
    fn request_lines_hold_no_credentials_and_no_fragment() {
        let url = Url::parse("http://u:p@a.example:81/m?k=v#f").unwrap();
        assert_eq!(request_target(&url, false).unwrap(), "/m?k=v");
        assert_eq!(request_target(&url, true).unwrap(), "http://a.example:81/m?k=v");
    }
}
