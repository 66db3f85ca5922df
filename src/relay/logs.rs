//! Log messages of upstreams, as a session wants them: of its level, named, without secrets, and not too many; and
//! those of the gateway itself.
//!
//! *Limits.* 200 at once and 50 a second from each upstream to each session (LOG-05). When they are spent, a second's
//! worth is gathered before messages pass again, after one that says how many were lost.

mod budget;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use smallvec::smallvec;

use crate::base::{clock, tasks};
use crate::call::{Endpoint, LogLevel, Push, Session, UpstreamId};
use crate::jsonrpc::message::compose;
use crate::jsonrpc::scan::{self, Span};
use crate::jsonrpc::{Edits, Message, Object, text};
use crate::relay::catalog::refresh::Turn;
use crate::relay::exchange::open::Exchange;
use crate::relay::notices::Notices;
use crate::relay::pair::Pair;
use crate::relay::route::Relay;
use crate::telemetry::logs::Redactor;
use crate::telemetry::words::NoticeLoss;

pub use self::budget::Budgets;
use self::budget::{PAUSE, Verdict};

/// The method of log messages.
pub const METHOD: &str = "notifications/message";

/// When a loss is told beside all calls, because no message came with which it could have been: later than one would.
const TELL_AFTER: Duration = PAUSE.saturating_mul(2);

/// What the client gets for a log message with these `params`.
#[must_use]
pub fn ready(pair: Pair<'_>, message: &Message, params: &Object) -> Notices {
    let text = message.text();
    let level = params.string(text, "level").and_then(|name| LogLevel::parse(&name));
    let (Some(level), Some(data)) = (level, params.find(text, "data")) else {
        pair.dropped(NoticeLoss::Malformed);
        return Notices::new();
    };
    let member = &pair.relay.catalog.members()[pair.upstream.index()];
    // LOG-01: of one that is not known yet nobody can say.
    if member.handshake().is_some_and(|known| !known.capabilities.logging) {
        pair.dropped(NoticeLoss::Undeclared);
        return Notices::new();
    }
    // LOG-02: a connection may be another session's as well, or its server may not filter.
    if !is_wanted(pair.session, level) {
        return Notices::new();
    }
    let Some(exchange) = pair.exchange() else { return Notices::new() };
    let verdict = exchange.budgets().spend(pair.upstream, clock::now());
    let lost = match verdict {
        Verdict::Pass { lost } => lost,
        Verdict::Lost { is_first } => {
            pair.dropped(NoticeLoss::TooMany);
            if is_first {
                tell_later(pair, exchange);
            }
            return Notices::new();
        }
    };
    let mut edits = Edits::new();
    mask(&pair.relay.secrets, text, data, &mut edits);
    name(pair, text, params, &mut edits);
    let notice = message.readdress(None, METHOD, &edits);
    match loss(pair.session, &pair.entry().name, lost) {
        Some(loss) => smallvec![loss, notice],
        None => smallvec![notice],
    }
}

/// What tells of messages that were lost and not told of yet: the last word before an answer (LOG-05).
#[must_use]
pub fn untold(pair: Pair<'_>) -> Option<Bytes> {
    let exchange = pair.relay.exchanges.known(pair.session)?;
    let lost = exchange.budgets().untold(pair.upstream);
    loss(pair.session, &pair.entry().name, lost)
}

/// Lets a session that has set its level hear what the gateway itself has to say (LOG-06).
pub fn follow(relay: &Relay, session: &Arc<Session>) {
    if let Some(exchange) = relay.exchanges.of(session) {
        exchange.listener.get_or_init(|| Arc::downgrade(session));
    }
}

/// Tells those who see an upstream, and have set their level, what has become of it (LOG-06).
pub fn turned(relay: &Relay, upstream: UpstreamId, turn: Turn) {
    let name = &relay.config.upstreams[upstream.index()].name;
    let (level, said) = match turn {
        Turn::Away => (LogLevel::Warning, format!("upstream `{name}` is not available")),
        Turn::Back => (LogLevel::Notice, format!("upstream `{name}` is available again")),
    };
    let notice = own(level, &said);
    let sees = |session: &Session| match session.endpoint {
        Endpoint::Merged => true,
        Endpoint::Upstream(only) => only == upstream,
    };
    for session in relay.exchanges.listeners() {
        if sees(&session) && is_wanted(&session, level) {
            session.client.push(Push::Notice(notice.clone()));
        }
    }
}

/// Tells of a loss when nothing more comes with which it could be told.
fn tell_later(pair: Pair<'_>, exchange: Arc<Exchange>) {
    let (session, upstream) = (Arc::clone(pair.session), pair.upstream);
    let name = Arc::clone(&pair.entry().name);
    let tell = async move {
        clock::sleep(TELL_AFTER).await;
        let lost = exchange.budgets().untold(upstream);
        if let Some(notice) = loss(&session, &name, lost) {
            session.client.push(Push::Notice(notice));
        }
    };
    tasks::spawn("log loss", tell).detach();
}

/// What says how many of an upstream's messages were lost; none when none were, or the
/// session does not want to know.
fn loss(session: &Session, upstream: &str, lost: u64) -> Option<Bytes> {
    (lost > 0 && is_wanted(session, LogLevel::Notice))
        .then(|| own(LogLevel::Notice, &format!("{lost} messages dropped, from `{upstream}`")))
}

/// A message of the gateway itself (LOG-06).
fn own(level: LogLevel, said: &str) -> Bytes {
    let (level, data) = (level.name(), text::quote(said));
    compose(None, METHOD, &format!(r#"{{"level":"{level}","logger":"gateway","data":{data}}}"#))
}

fn is_wanted(session: &Session, level: LogLevel) -> bool {
    session.log_level().is_none_or(|least| level >= least)
}

/// The logger gets the upstream's namespace, where the session sees namespaces (LOG-03).
fn name(pair: Pair<'_>, text: &[u8], params: &Object, edits: &mut Edits) {
    let span = params.find(text, "logger");
    let own = span.clone().and_then(|span| text::unquote(&text[span]));
    let masked = own.as_deref().and_then(|own| pair.relay.secrets.masked(own));
    let logger = match (pair.namespace(), masked.as_deref().or(own.as_deref())) {
        (Some(namespace), Some(own)) => format!("{namespace}/{own}"),
        (Some(namespace), None) => namespace.to_owned(),
        (None, Some(own)) if masked.is_some() => own.to_owned(),
        (None, _) => return,
    };
    match span {
        Some(span) => edits.replace(span, text::quote(&logger)),
        None => {
            let end = params.end() - 1;
            edits.replace(end..end, format!(r#","logger":{}"#, text::quote(&logger)));
        }
    }
}

/// Masks what is secret in the strings of the value at `span` (LOG-05).
fn mask(secrets: &Redactor, text: &[u8], span: Span, edits: &mut Edits) {
    let mut at = span.start;
    while let Some(run) = text.get(at..span.end).and_then(|rest| memchr::memchr(b'"', rest)) {
        let start = at + run;
        // The text was scanned before, so every string has an end.
        let Ok(end) = scan::skip_string(text, start) else { return };
        if let Some(masked) = text::unquote(&text[start..end]).and_then(|plain| secrets.masked(&plain)) {
            edits.replace(start..end, text::quote(&masked));
        }
        at = end;
    }
}

#[cfg(test)]
mod tests;
