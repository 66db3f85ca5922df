//! What the other stations tell the relay unasked: news of upstreams, and of clients' sessions.

use std::sync::Arc;

use crate::call::{Attendant, Observer, Question, Session, UpstreamId};
use crate::jsonrpc::Message;
use crate::mcp::methods::ItemKind;
use crate::relay::route::Relay;

impl Observer for Relay {
    fn list_changed(&self, upstream: UpstreamId, kind: ItemKind) {
        self.catalog.list_changed(upstream, kind);
    }

    fn connection_lost(&self, upstream: UpstreamId) {
        self.catalog.doubt(upstream);
    }

    fn reconnected(&self, upstream: UpstreamId) {
        self.catalog.doubt(upstream);
    }

    fn told(&self, _upstream: UpstreamId, _session: &Arc<Session>, _notification: Message) {}

    fn asked(&self, _session: &Arc<Session>, _question: Question) {}
}

impl Attendant for Relay {
    fn roots_changed(&self, session: &Arc<Session>) {
        self.upstreams.roots_changed(session);
    }

    fn ended(&self, session: &Arc<Session>) {
        self.upstreams.release(session);
    }
}
