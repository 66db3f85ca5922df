//! Messages that came on a stream and belong to no call of that stream.

use std::sync::Arc;

use crate::jsonrpc::Message;
use crate::upstream::http::session::HttpConnection;
use crate::upstream::inbound::Inbound;
use crate::upstream::patron::Bound;
use crate::upstream::progress;
use crate::upstream::report::Dropped;

/// A message that came on a stream and belongs to no call of that stream, or to this one.
pub(super) fn take(connection: &Arc<HttpConnection>, message: Message, bound: Bound<'_>) {
    let report = &connection.way.unbound.report;
    match Inbound::of(message) {
        Inbound::Aside(message) => connection.patron.take(connection, message, bound),
        Inbound::Progress(message) => {
            let sides = connection.sides();
            let side = progress::request_of(&message).and_then(|id| sides.get(&id));
            match side.and_then(|side| Some((side, side.progress.readdress(&message)?))) {
                Some((side, notice)) => side.notices.add(notice),
                None => report.dropped(Dropped::Progress),
            }
        }
        Inbound::Answer(_) => report.dropped(Dropped::Late),
    }
}
