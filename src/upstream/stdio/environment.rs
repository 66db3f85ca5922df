//! What a child may see of the gateway's environment: an allow-list, then what the operator names.
//!
//! *Invariants:* pure; nothing is read from the process. A name that looks like a secret never comes through a pattern of
//! the list, only by being named. What the operator sets or names is never filtered (F-030).

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

type Variables = BTreeMap<OsString, OsString>;

/// The environment of one child, ready to be handed to the operating system.
///
/// `Debug` shows names only: values may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ChildEnvironment(Variables);

impl ChildEnvironment {
    /// Builds a child's environment: the allow-listed part of `captured`, the captured variables named in `pass` as they
    /// are, and on top what the entry sets.
    #[must_use]
    pub fn compile<'a>(
        captured: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
        pass: impl IntoIterator<Item = &'a str>,
        entry: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    ) -> Self {
        let captured: Variables =
            captured.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        let mut environment = Self::default();
        for (name, value) in &captured {
            if let Some(admission) = name.to_str().and_then(admission) {
                environment.set(name, &admission.apply(value));
            }
        }
        for wanted in pass {
            if let Some((name, value)) = captured.get_key_value(OsStr::new(wanted)) {
                environment.set(name, value);
            }
        }
        for (name, value) in entry {
            environment.set(name, value);
        }
        environment
    }

    /// The value of `name`.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str)
    }

    /// Sets a variable, replacing the one of the same name.
    pub fn set(&mut self, name: &OsStr, value: &OsStr) {
        self.0.insert(name.to_owned(), value.to_owned());
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

impl fmt::Debug for ChildEnvironment {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.0.keys()).finish()
    }
}

/// How an allowed variable is handed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admission {
    AsIs,
    /// A proxy address: everything up to the last `@` is userinfo, since nothing meaningful follows the host.
    ProxyWithoutUser,
    /// An address with a path: the userinfo is in the authority.
    AddressWithoutUser,
}

impl Admission {
    fn apply(self, value: &OsStr) -> OsString {
        let Some(text) = value.to_str() else {
            // A value we cannot read we cannot strip; an address is ASCII anyway.
            return match self {
                Self::AsIs => value.to_owned(),
                Self::ProxyWithoutUser | Self::AddressWithoutUser => OsString::new(),
            };
        };
        match self {
            Self::AsIs => text.into(),
            Self::ProxyWithoutUser => without_userinfo(text, text.len()).into(),
            Self::AddressWithoutUser => without_userinfo(text, authority_end(text)).into(),
        }
    }
}

const NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "LANG",
    "TZ",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "npm_config_cache",
    "npm_config_prefix",
    "UV_CACHE_DIR",
];

/// Programs look for these in lower case, some in upper case.
const PROXY_NAMES: &[&str] = &["http_proxy", "https_proxy", "ftp_proxy", "all_proxy"];

const ADDRESS_NAMES: &[&str] = &["UV_INDEX_URL", "npm_config_registry"];

const PREFIXES: &[&str] = &["LC_", "XDG_"];

const SECRET_ENDINGS: &[&str] = &["_TOKEN", "_KEY", "_SECRET"];

fn admission(name: &str) -> Option<Admission> {
    let lower = name.to_ascii_lowercase();
    if PROXY_NAMES.contains(&lower.as_str()) {
        Some(Admission::ProxyWithoutUser)
    } else if ADDRESS_NAMES.contains(&name) {
        Some(Admission::AddressWithoutUser)
    } else if lower == "no_proxy" || NAMES.contains(&name) || matches_prefix(name) {
        Some(Admission::AsIs)
    } else {
        None
    }
}

fn matches_prefix(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        && !SECRET_ENDINGS.iter().any(|ending| upper.ends_with(ending))
}

/// Where the authority of an address ends: at the first `/`, `?`, `#` or `\` behind the scheme.
fn authority_end(address: &str) -> usize {
    let start = authority_start(address);
    address[start..].find(['/', '?', '#', '\\']).map_or(address.len(), |offset| start + offset)
}

fn authority_start(address: &str) -> usize {
    address.find("://").map_or(0, |at| at + "://".len())
}

/// `address` without what stands between its scheme and the last `@` before `end`.
fn without_userinfo(address: &str, end: usize) -> String {
    let start = authority_start(address).min(end);
    match address[start..end].rfind('@') {
        Some(at) => [&address[..start], &address[start + at + 1..]].concat(),
        None => address.to_owned(),
    }
}

#[cfg(test)]
mod tests;
