//! Which proxy, if any, leads to an upstream: the usual variables, read once (F-095).

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::HeaderValue;
use url::{Host, Url};

use crate::config::environment::Environment;
use crate::upstream::http::address::Origin;

/// A proxy on the way.
#[derive(Debug, Clone)]
pub struct Proxy {
    /// Where it is.
    pub origin: Origin,
    /// Its credentials, as a header value; marked sensitive.
    pub credentials: Option<HeaderValue>,
}

/// Why a proxy cannot be used. The variable's value may hold a password and is not shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the proxy in {variable} is no `http://host:port` address")]
pub struct ProxyError {
    /// The variable.
    pub variable: &'static str,
}

/// The proxy for `origin` by the variables of `environment`; none for loopback and for what `NO_PROXY` names.
///
/// # Errors
/// When a variable that applies cannot be used.
pub fn proxy_for(environment: &Environment, origin: &Origin) -> Result<Option<Proxy>, ProxyError> {
    if origin.is_loopback() {
        return Ok(None);
    }
    let value = |names: &[&'static str]| {
        names.iter().find_map(|name| {
            environment
                .text(name)
                .map(str::trim)
                .filter(|value| !value.is_empty())
                .map(|value| (*name, value))
        })
    };
    if value(&["no_proxy", "NO_PROXY"]).is_some_and(|(_, list)| is_exempt(list, origin)) {
        return Ok(None);
    }
    let names: &[&'static str] = if origin.tls {
        &["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
    } else {
        &["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
    };
    let Some((variable, text)) = value(names) else { return Ok(None) };
    let text = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&text).map_err(|_| ProxyError { variable })?;
    let proxy = Origin::of(&url).ok().filter(|proxy| !proxy.tls).ok_or(ProxyError { variable })?;
    Ok(Some(Proxy { origin: proxy, credentials: credentials(&url) }))
}

fn credentials(url: &Url) -> Option<HeaderValue> {
    let plain = |text: &str| percent_encoding::percent_decode_str(text).collect::<Vec<u8>>();
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let pair = [plain(url.username()), b":".to_vec(), plain(url.password().unwrap_or_default())].concat();
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair))).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Hosts, suffixes with or without a dot, addresses, networks, each with an optional port, and `*`.
fn is_exempt(list: &str, origin: &Origin) -> bool {
    list.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).any(|entry| {
        if entry == "*" {
            return true;
        }
        let (host, port) = split_port(entry);
        if port.is_some_and(|port| port != origin.port) {
            return false;
        }
        let address = match &origin.target {
            Host::Domain(name) => return is_within(name, host),
            Host::Ipv4(address) => IpAddr::V4(*address),
            Host::Ipv6(address) => IpAddr::V6(*address),
        };
        match host.split_once('/') {
            Some((network, bits)) => network
                .parse()
                .ok()
                .zip(bits.parse().ok())
                .is_some_and(|(net, bits)| covers(net, bits, address)),
            None => host.parse() == Ok(address),
        }
    })
}

fn is_within(name: &str, suffix: &str) -> bool {
    let suffix = suffix.trim_start_matches("*.").trim_start_matches('.').to_ascii_lowercase();
    let name = name.trim_end_matches('.');
    name == suffix || name.strip_suffix(&suffix).is_some_and(|rest| rest.ends_with('.'))
}

fn split_port(entry: &str) -> (&str, Option<u16>) {
    if let Some(rest) = entry.strip_prefix('[') {
        let Some((host, rest)) = rest.split_once(']') else { return (entry, None) };
        return (host, rest.strip_prefix(':').and_then(|port| port.parse().ok()));
    }
    match entry.rsplit_once(':') {
        // More than one colon is a bare IPv6 address.
        Some((host, port)) if !host.contains(':') => match port.parse() {
            Ok(port) => (host, Some(port)),
            Err(_) => (entry, None),
        },
        _ => (entry, None),
    }
}

fn covers(network: IpAddr, bits: u32, address: IpAddr) -> bool {
    let (network, address, width) = match (network, address) {
        (IpAddr::V4(n), IpAddr::V4(a)) => (u128::from(n.to_bits()), u128::from(a.to_bits()), 32),
        (IpAddr::V6(n), IpAddr::V6(a)) => (n.to_bits(), a.to_bits(), 128),
        _ => return false,
    };
    bits <= width && (bits == 0 || (network ^ address) >> (width - bits) == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way(variables: &[(&str, &str)], url: &str) -> Option<String> {
        let environment: Environment = variables.iter().copied().collect();
        let origin = Origin::of(&Url::parse(url).unwrap()).unwrap();
        proxy_for(&environment, &origin)
            .unwrap()
            .map(|proxy| format!("{}:{}", proxy.origin.host, proxy.origin.port))
    }

    /// F-095
    #[test]
    fn f_095_the_usual_variables_decide() {
        let set = [
            ("HTTPS_PROXY", "http://p:3128"),
            ("http_proxy", "q:8080"),
            ("NO_PROXY", "localhost,127.0.0.1,::1,.svc,10.0.0.0/8,[fd00::1]:8,only.example:81"),
        ];
        for (url, wanted) in [
            ("http://[::1]:9/mcp", None),
            ("http://localhost:9/mcp", None),
            ("http://a.svc/", None),
            ("https://a.b.svc:1/", None),
            ("https://10.2.3.4/", None),
            ("https://11.2.3.4/", Some("p:3128")),
            ("https://ext.example/", Some("p:3128")),
            ("https://asvc/", Some("p:3128")),
            ("http://ext.example/", Some("q:8080")),
            ("http://only.example:81/", None),
            ("http://only.example:82/", Some("q:8080")),
            ("http://[fd00::1]:8/", None),
            ("http://[fd00::1]:7/", Some("q:8080")),
        ] {
            assert_eq!(way(&set, url).as_deref(), wanted, "{url}");
        }
        assert_eq!(way(&[("ALL_PROXY", "http://p"), ("NO_PROXY", "*")], "http://a.example/"), None);
        assert_eq!(way(&[("HTTPS_PROXY", " ")], "https://a.example/"), None);
    }

    /// F-095, SEC-24
    #[test]
    fn f_095_credentials_are_sent_and_not_shown() {
        let environment: Environment = [("HTTPS_PROXY", "http://u:p%40ss@p:1")].into_iter().collect();
        let origin = Origin::of(&Url::parse("https://a.example/").unwrap()).unwrap();
        let proxy = proxy_for(&environment, &origin).unwrap().unwrap();
        assert_eq!(proxy.credentials.as_ref().unwrap(), &format!("Basic {}", STANDARD.encode("u:p@ss")));
        assert!(!format!("{proxy:?}").contains("Basic"));
        let bad: Environment = [("HTTPS_PROXY", "socks5://u:secret@p:1")].into_iter().collect();
        let error = proxy_for(&bad, &origin).unwrap_err().to_string();
        assert!(error.contains("HTTPS_PROXY") && !error.contains("secret"));
    }
}
