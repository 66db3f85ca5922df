//! A session and an upstream that has something for it: how the one appears to the other.

use std::sync::Arc;

use crate::call::{Endpoint, Session, UpstreamId};
use crate::config::snapshot::Upstream;
use crate::jsonrpc::rewrite::UriMap;
use crate::relay::exchange::open::Exchange;
use crate::relay::route::Relay;
use crate::telemetry::events::relay::NoticeDropped;
use crate::telemetry::words::NoticeLoss;

/// Who has something for whom.
#[derive(Clone, Copy)]
pub struct Pair<'a> {
    /// Where both are known.
    pub relay: &'a Relay,
    /// For whom.
    pub session: &'a Arc<Session>,
    /// From whom.
    pub upstream: UpstreamId,
}

impl<'a> Pair<'a> {
    /// The upstream's entry in the configuration.
    #[must_use]
    pub fn entry(self) -> &'a Upstream {
        &self.relay.config.upstreams[self.upstream.index()]
    }

    /// The namespace under which the session sees the upstream, if it sees one.
    #[must_use]
    pub fn namespace(self) -> Option<&'a str> {
        self.is_merged().then(|| self.entry().namespace.as_deref()).flatten()
    }

    /// How the upstream's URIs become those that the session sees; none where they stay.
    #[must_use]
    pub fn uris(self) -> Option<&'a UriMap> {
        self.is_merged().then(|| self.relay.uris[self.upstream.index()].as_ref()).flatten()
    }

    /// What stands before a text for people that does not say by itself who wrote it; none where there is only one that
    /// could have (R-45, ELIC-06).
    #[must_use]
    pub fn origin(self) -> Option<String> {
        let several = self.is_merged() && self.relay.config.upstreams.len() > 1;
        several.then(|| format!("[{}] ", self.entry().title))
    }

    /// What both have open with each other; none when the session has ended.
    #[must_use]
    pub fn exchange(self) -> Option<Arc<Exchange>> {
        self.relay.exchanges.of(self.session)
    }

    /// States that a notification was dropped.
    pub fn dropped(self, reason: NoticeLoss) {
        NoticeDropped { upstream: &self.entry().name, reason }.emit();
    }

    fn is_merged(self) -> bool {
        matches!(self.session.endpoint, Endpoint::Merged)
    }
}
