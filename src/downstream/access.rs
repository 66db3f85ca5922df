//! `Host` and `Origin`: against pages that drive a local gateway through a browser (HTTP-02, HTTP-03, SEC-09, F-090).

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::request::Parts;

use crate::config::snapshot::Snapshot;
use crate::downstream::rescue::Refusal;

/// Which hosts and origins may call.
#[derive(Debug)]
pub struct Access {
    /// Whether only loopback names and configured ones are hosts of ours.
    strict: bool,
    loopback: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Access {
    /// The rules of a configuration.
    #[must_use]
    pub fn new(config: &Snapshot) -> Self {
        let loopback = config.listen.ip().is_loopback();
        let mut hosts: Vec<String> =
            config.http.allowed_hosts.iter().map(|host| host.to_ascii_lowercase()).collect();
        let mut origins: Vec<String> =
            config.http.allowed_origins.iter().map(|origin| normal(origin)).collect();
        if let Some(url) = &config.http.public_url {
            hosts.extend(url.host_str().map(str::to_ascii_lowercase));
            origins.push(url.origin().ascii_serialization());
        }
        Self { strict: loopback || !hosts.is_empty(), loopback, hosts, origins }
    }

    /// Checks a request, before anything else is done with it. Names are rebound to addresses: who has none, at the Unix
    /// socket, may name any host.
    ///
    /// # Errors
    /// `Origin` or `Host`, naming the value.
    pub fn check(&self, request: &Parts, peer: Option<IpAddr>) -> Result<(), Refusal> {
        for origin in request.headers.get_all(ORIGIN) {
            let text = String::from_utf8_lossy(origin.as_bytes());
            if !self.allows_origin(&text) {
                return Err(Refusal::Origin(shown(&text)));
            }
        }
        if !self.strict || peer.is_none() {
            return Ok(());
        }
        // HTTP/2 carries the host in the target instead.
        let host = request.headers.get(HOST).map(http::HeaderValue::as_bytes);
        let host = host.or_else(|| request.uri.authority().map(|authority| authority.as_str().as_bytes()));
        let text = String::from_utf8_lossy(host.unwrap_or_default());
        if self.allows_host(&text) { Ok(()) } else { Err(Refusal::Host(shown(&text))) }
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let origin = normal(origin);
        if self.origins.contains(&origin) {
            return true;
        }
        // A page that was itself served from this machine; a rebound name never looks like one.
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        self.loopback && host.is_some_and(|host| is_loopback(without_port(host)))
    }

    fn allows_host(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let name = without_port(&host);
        let listed = |allowed: &String| {
            *allowed == host
                || allowed == name
                || allowed.strip_prefix("*.").is_some_and(|end| {
                    name.strip_suffix(end).is_some_and(|start| start.ends_with('.') && start.len() > 1)
                })
        };
        self.loopback && is_loopback(name) || self.hosts.iter().any(listed)
    }
}

fn normal(origin: &str) -> String {
    origin.trim_end_matches('/').to_ascii_lowercase()
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => {
            if name.contains(':') && !name.ends_with(']') { host } else { name }
        }
        _ => host,
    }
}

fn is_loopback(name: &str) -> bool {
    let address = name.trim_start_matches('[').trim_end_matches(']');
    name == "localhost"
        || name.ends_with(".localhost")
        || address.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// A value of a client, fit for an error and a log.
fn shown(value: &str) -> String {
    value.chars().filter(|c| !c.is_control()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(loopback: bool, hosts: &[&str], origins: &[&str]) -> Access {
        let owned = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        Access {
            strict: loopback || !hosts.is_empty(),
            loopback,
            hosts: owned(hosts),
            origins: owned(origins),
        }
    }

    fn check(access: &Access, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        let mut request = http::Request::builder().uri("/mcp");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        access.check(&request.body(()).unwrap().into_parts().0, Some(IpAddr::from([192, 0, 2, 1])))
    }

    /// HTTP-02, HTTP-03, F-090
    #[test]
    fn a_loopback_bind_is_strict() {
        let access = access(true, &[], &["https://app.example"]);
        for host in
            ["localhost:7420", "127.0.0.1", "[::1]:7420", "127.8.9.1:1", "LOCALHOST", "gw.localhost:80"]
        {
            assert_eq!(check(&access, &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.test", "localhost.evil.test", "127.0.0.1.evil.test", "", "10.0.0.1:7420", "::1.x"]
        {
            assert!(matches!(check(&access, &[("host", host)]), Err(Refusal::Host(_))), "{host}");
        }
        let from = |origin| check(&access, &[("host", "localhost"), ("origin", origin)]);
        for origin in
            ["http://localhost:6274", "http://127.0.0.1", "https://app.example", "https://APP.example/"]
        {
            assert_eq!(from(origin), Ok(()), "{origin}");
        }
        for origin in [
            "http://evil.test",
            "null",
            "",
            "https://app.example:444",
            "http://localhost.evil.test",
            "file://",
        ] {
            assert!(matches!(from(origin), Err(Refusal::Origin(_))), "{origin}");
        }
    }

    /// R-27, F-091
    #[test]
    fn other_binds_are_strict_once_told() {
        assert_eq!(check(&access(false, &[], &[]), &[("host", "gw.team-a.svc.cluster.local:8080")]), Ok(()));
        let told = access(false, &["gw.example", "*.corp.example", "x.example:8443"], &[]);
        for host in ["gw.example", "gw.example:8080", "a.corp.example", "x.example:8443"] {
            assert_eq!(check(&told, &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["corp.example", "x.example:1", "localhost"] {
            assert!(check(&told, &[("host", host)]).is_err(), "{host}");
        }
        assert!(check(&told, &[("host", "gw.example"), ("origin", "http://localhost:1")]).is_err());
    }
}
