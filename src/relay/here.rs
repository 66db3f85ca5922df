//! What the gateway answers by itself: `initialize`, `ping`, `logging/setLevel`.

use std::time::Duration;

use crate::base::clock;
use crate::call::{Answer, Call, Endpoint, Fault, LogLevel, Reply};
use crate::config::snapshot::Upstream;
use crate::jsonrpc::text;
use crate::mcp::capabilities::ServerCapabilities;
use crate::relay::catalog::instructions::{capped, shown};
use crate::relay::catalog::view::View;
use crate::relay::logs;
use crate::relay::route::Relay;

/// How long a session that opens right after the start waits for the upstreams' first answers, whose
/// capabilities and instructions it shows for all its life (LIFE-13, F-083). Later ones never wait (LIFE-17).
const FIRST: Duration = Duration::from_secs(1);

/// How long a session that sets its log level waits until its upstreams know it, so that what it calls next is
/// reported by it already.
const LEVEL: Duration = Duration::from_secs(1);

/// Answers a call that concerns the gateway alone.
///
/// # Errors
/// Never for the methods of the table.
pub async fn answer(relay: &Relay, call: &Call) -> Result<Reply, Fault> {
    match call.method.name {
        "initialize" => {
            relay.catalog.settled(FIRST.min(relay.config.catalog.start_budget)).await;
            Ok(Reply::Done(Answer::result(initialize(relay, call))))
        }
        _ => Ok(Reply::empty()),
    }
}

/// Keeps the session's log level, and passes it on to its upstreams; none of them can fail it (LOG-02).
///
/// # Errors
/// `InvalidParams` for an unknown level.
pub async fn set_level(relay: &Relay, call: &Call) -> Result<Reply, Fault> {
    let level = call.param("level").and_then(|name| LogLevel::parse(&name));
    let Some(level) = level else {
        return Err(Fault::InvalidParams("`level` is missing or unknown".into()));
    };
    call.session.set_log_level(level);
    logs::follow(relay, &call.session);
    // Whoever is slow learns it later, and fails nobody's request.
    let _ = clock::within(LEVEL, relay.upstreams.set_log_level(&call.session)).await;
    Ok(Reply::empty())
}

/// The result of `initialize` (LIFE-06).
fn initialize(relay: &Relay, call: &Call) -> String {
    let session = &call.session;
    let view = relay.catalog.board(session.endpoint).current();
    let mut out = format!(
        r#"{{"protocolVersion":"{}","capabilities":{},"serverInfo":{{"name":"portcullis","title":"Portcullis","version":"{}"}}"#,
        session.revision,
        declared(&view).to_json(session.revision),
        env!("CARGO_PKG_VERSION"),
    );
    if let Some(instructions) = instructions(relay, session.endpoint) {
        out.push_str(r#","instructions":"#);
        text::quote_into(&mut out, &instructions);
    }
    out.push('}');
    out
}

/// Capabilities freeze with the answer, while upstreams come and go: what some upstream may have is declared (LIFE-13).
fn declared(view: &View) -> ServerCapabilities {
    ServerCapabilities {
        tools: true,
        prompts: true,
        resources: true,
        subscribe: view.capabilities.subscribe || view.incomplete,
        logging: true,
        completions: view.capabilities.completions || view.incomplete,
        ..ServerCapabilities::default()
    }
}

/// The instructions of all upstreams of an endpoint, a headed block each (LIFE-19).
fn instructions(relay: &Relay, endpoint: Endpoint) -> Option<String> {
    let (members, limits) = (relay.catalog.members(), &relay.config.catalog);
    if let Endpoint::Upstream(id) = endpoint {
        return shown(&members[id.index()], limits);
    }
    if let [only] = members
        && only.upstream.namespace.is_none()
    {
        return shown(only, limits);
    }
    let blocks: Vec<_> =
        members.iter().filter_map(|member| Some(block(&member.upstream, &shown(member, limits)?))).collect();
    (!blocks.is_empty()).then(|| capped(&blocks.join("\n\n"), limits.max_merged_instructions))
}

fn block(upstream: &Upstream, text: &str) -> String {
    match &upstream.namespace {
        Some(namespace) => format!("# {} (names begin with `{namespace}__`)\n\n{text}", upstream.title),
        None => format!("# {}\n\n{text}", upstream.title),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::revision::Revision;

    /// LIFE-13, RES-01, VER-06: subscriptions are declared while some upstream may have them, and only then.
    #[test]
    fn life_13_what_some_upstream_may_have_is_declared() {
        let has = |incomplete, subscribe| {
            let capabilities = ServerCapabilities { subscribe, ..ServerCapabilities::default() };
            let mut view = View::default();
            (view.incomplete, view.capabilities) = (incomplete, capabilities);
            declared(&view).to_json(Revision::V2024_11_05).contains(r#""subscribe":true"#)
        };
        assert!(has(true, false) && has(false, true));
        assert!(!has(false, false));
    }
}
