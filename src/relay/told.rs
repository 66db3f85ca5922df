//! What the other stations tell the relay unasked: news of upstreams, and of clients' sessions.

use std::sync::Arc;

use crate::call::{Attendant, News, Observer, Push, Question, Session, UpstreamId};
use crate::jsonrpc::Message;
use crate::mcp::methods::ItemKind;
use crate::relay::exchange::question;
use crate::relay::exchange::roots::Way;
use crate::relay::notices;
use crate::relay::pair::Pair;
use crate::relay::route::Relay;

impl Observer for Relay {
    fn list_changed(&self, upstream: UpstreamId, kind: ItemKind, news: News<'_>) {
        self.catalog.announced(upstream, kind, news);
    }

    fn connection_lost(&self, upstream: UpstreamId) {
        self.catalog.doubt(upstream);
    }

    fn reconnected(&self, upstream: UpstreamId) {
        self.catalog.doubt(upstream);
    }

    fn told(&self, upstream: UpstreamId, session: &Arc<Session>, notification: Message) {
        for notice in notices::ready(Pair { relay: self, session, upstream }, &notification) {
            session.client.push(Push::Notice(notice));
        }
    }

    fn asked(&self, session: &Arc<Session>, question: Question) {
        let pair = Pair { relay: self, session, upstream: question.upstream };
        if let Some(question) = question::put(pair, question, || Way::Session(Arc::clone(session))) {
            session.client.push(Push::Ask(question));
        }
    }
}

impl Attendant for Relay {
    fn roots_changed(&self, session: &Arc<Session>) {
        if let Some(exchange) = self.exchanges.known(session) {
            exchange.roots.changed();
        }
        self.upstreams.roots_changed(session);
    }

    fn ended(&self, session: &Arc<Session>) {
        self.exchanges.ended(session);
        self.catalog.own.ended(session);
        self.upstreams.release(session);
    }
}
