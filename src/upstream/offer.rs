//! What an upstream is told of a client: the revision it is offered, and what the client can be asked for (LIFE-14).

use std::net::IpAddr;

use crate::call::Session;
use crate::config::snapshot::{Asks, Isolation, Remote, Transport, Upstream};
use crate::mcp::capabilities::ClientCapabilities;
use crate::mcp::revision::Revision;

/// What a connection is opened with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offer {
    /// The newest revision that the upstream may answer with.
    pub revision: Revision,
    /// What it may ask for.
    pub capabilities: ClientCapabilities,
}

/// What one upstream may ask clients for, by its configuration and by how it is reached.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    allowed: ClientCapabilities,
    roots: Roots,
    /// It runs under a credential of the gateway's, so that it cannot know which person a page is for (ELIC-15, R-45).
    has_credential: bool,
}

/// Whose roots an upstream is shown (ROOT-05, R-45).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Roots {
    /// Those of every client.
    All,
    /// Those of clients on this machine: paths mean the same to both.
    Local,
}

impl Policy {
    /// The policy of a configured upstream.
    #[must_use]
    pub fn of(upstream: &Upstream) -> Self {
        let named = |ask| upstream.questions.as_ref().is_none_or(|asks| asks.contains(&ask));
        let mut allowed = ClientCapabilities::ALL;
        if !named(Asks::Sampling) {
            (allowed.sampling, allowed.sampling_tools, allowed.sampling_context) = (false, false, false);
        }
        if !named(Asks::Elicitation) {
            (allowed.form, allowed.form_named, allowed.url) = (false, false, false);
        }
        if !named(Asks::Roots) {
            (allowed.roots, allowed.roots_changed) = (false, false);
        }
        let is_child = matches!(upstream.transport, Transport::Stdio(_));
        let roots = if is_child && upstream.questions.is_none() { Roots::Local } else { Roots::All };
        let has_credential = match &upstream.transport {
            Transport::Stdio(entry) => entry.env.iter().any(|(name, _)| names_a_credential(name)),
            Transport::Remote(remote) => credential(remote),
        };
        Self { allowed, roots, has_credential }
    }

    /// What it may ask this session's client for.
    #[must_use]
    pub fn toward(&self, session: &Session) -> ClientCapabilities {
        let mut offered = session.capabilities.and(self.allowed);
        if self.roots == Roots::Local && !session.is_local {
            (offered.roots, offered.roots_changed) = (false, false);
        }
        if !self.is_bound(session) {
            offered.url = false;
        }
        offered
    }

    /// What it may ask some client for: its lists are read as the most able client sees them, since servers offer some
    /// tools only to clients that can be asked.
    #[must_use]
    pub fn toward_any(&self) -> ClientCapabilities {
        self.allowed
    }

    /// Whether a connection of this session's runs for one person, whom the upstream can send to a page: it has no
    /// credential of the gateway's, or it is that person's own (ELIC-15, STDIO-05, R-45).
    #[must_use]
    pub fn is_bound(&self, session: &Session) -> bool {
        !self.has_credential || session.is_local
    }
}

/// What the connections of an isolation are offered: attribution has to be certain (D7, LIFE-15).
#[must_use]
pub fn of_catalog(isolation: Isolation, policy: &Policy) -> Offer {
    let capabilities = match isolation {
        Isolation::Session => policy.toward_any(),
        // Calls of several sessions share it, or those that do are told of nothing.
        Isolation::Caller | Isolation::Tenant | Isolation::Shared => ClientCapabilities::default(),
    };
    Offer { revision: Revision::LATEST, capabilities }
}

/// Whether an address is one of this machine.
#[must_use]
pub fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn credential(remote: &Remote) -> bool {
    remote.headers.iter().any(|(name, _)| names_a_credential(name))
}

/// Whether what has this name is likely to be a credential.
fn names_a_credential(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["auth", "token", "key", "secret", "cookie", "password", "credential"]
        .iter()
        .any(|word| name.contains(word))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::call::{Endpoint, Principal, SessionKey};
    use crate::config::environment::Environment;
    use crate::config::{Format, parse};

    fn policy(entry: &str) -> Policy {
        let file = format!(r#"{{"mcpServers": {{"alpha": {entry}}}}}"#);
        let config = parse(&file, Format::Json, "test.json", &Environment::default()).unwrap();
        Policy::of(&config.upstreams[0])
    }

    fn session(is_local: bool) -> Session {
        let who = Arc::new(Principal::anonymous());
        let mut session = Session::new(SessionKey([1; 16]), Revision::LATEST, who, Endpoint::Merged);
        (session.capabilities, session.is_local) = (ClientCapabilities::ALL, is_local);
        session
    }

    /// LIFE-14, ROOT-05, ELIC-15, R-45
    #[test]
    fn life_14_an_upstream_is_told_what_it_may_use() {
        let remote = policy(r#"{"url": "http://127.0.0.1:1/"}"#);
        assert_eq!(remote.toward(&session(false)), ClientCapabilities::ALL);
        let keyed = policy(r#"{"url": "http://127.0.0.1:1/", "headers": {"X-Api-Key": "k"}}"#);
        assert!(!keyed.toward(&session(false)).url && keyed.toward(&session(false)).form);
        assert!(keyed.toward(&session(true)).url, "the person at this machine is the one whose key it is");
        let child = policy(r#"{"command": "p"}"#);
        assert!(child.toward(&session(true)).roots && !child.toward(&session(false)).roots);
        assert!(child.toward_any().roots);
        let told = policy(r#"{"command": "p", "portcullis": {"questions": ["roots"]}}"#);
        let offered = told.toward(&session(false));
        assert!(
            offered.roots && !offered.sampling && !offered.sampling_tools && !offered.form && !offered.url
        );
        let nothing = policy(r#"{"command": "p", "portcullis": {"questions": []}}"#);
        assert_eq!(nothing.toward(&session(true)), ClientCapabilities::default());
    }

    /// LIFE-15, D7
    #[test]
    fn life_15_what_is_shared_is_told_of_nothing() {
        let policy = policy(r#"{"url": "http://127.0.0.1:1/"}"#);
        for isolation in [Isolation::Caller, Isolation::Tenant, Isolation::Shared] {
            assert_eq!(of_catalog(isolation, &policy).capabilities, ClientCapabilities::default());
        }
        assert_eq!(of_catalog(Isolation::Session, &policy).capabilities, ClientCapabilities::ALL);
    }
}
