//! Every event counts as the table says, and nothing else appears on the page.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::{app, downstream, gate, relay, upstream};
use crate::call::Outcome;
use crate::mcp::methods::{Class, ItemKind};
use crate::mcp::questions::QuestionKind;
use crate::mcp::revision::Revision;
use crate::telemetry::meters::{CallMeter, ClientMeter, UpstreamMeter};
use crate::telemetry::metrics::{ALL, Kind};
use crate::telemetry::registry::Registry;
use crate::telemetry::registry::tests::local;
use crate::telemetry::words::{
    AuthOutcome, DropReason, ExitCause, Failure, FindingKind, NoticeLoss, Rule, SessionEnd, StreamKind,
    UpstreamCondition,
};

/// Value of one series on the page.
fn value(registry: &Registry, series: &str) -> Option<f64> {
    registry.page().lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok())
}

/// F-102: one call of each kind gives eight outcomes, each 1, and nothing stays in flight.
#[test]
fn f_102_outcomes_are_those_of_json_rpc() {
    let registry = local();
    let alpha = UpstreamMeter::new("alpha");
    for outcome in Outcome::ALL {
        let mut call = gate::CallStarted { method: Class::ToolsCall, meter: &CallMeter::gateway() }.emit();
        call.route(alpha.calls());
        assert_eq!(value(&registry, "portcullis_calls_in_flight"), Some(1.0));
        call.finish(outcome);
    }
    for outcome in Outcome::ALL {
        let labels = format!("{{upstream=\"alpha\",method=\"tools/call\",outcome=\"{}\"}}", outcome.label());
        assert_eq!(value(&registry, &format!("portcullis_calls_total{labels}")), Some(1.0), "{outcome:?}");
        assert_eq!(value(&registry, &format!("portcullis_call_duration_seconds_count{labels}")), Some(1.0));
    }
    assert_eq!(value(&registry, "portcullis_calls_in_flight"), Some(0.0));
}

/// F-102: a call whose future is dropped was cancelled, and is not in flight any more.
#[test]
fn f_102_a_dropped_call_is_cancelled() {
    let registry = local();
    let meter = CallMeter::gateway();
    drop(gate::CallStarted { method: Class::Ping, meter: &meter }.emit());
    let series = "portcullis_calls_total{upstream=\"-\",method=\"ping\",outcome=\"cancelled\"}";
    assert_eq!(value(&registry, series), Some(1.0));
    assert_eq!(value(&registry, "portcullis_calls_in_flight"), Some(0.0));
}

/// F-101: whatever clients send, the number of series stays.
#[test]
fn f_101_what_peers_send_makes_no_series() {
    let registry = local();
    let meter = CallMeter::gateway();
    let probe = |n: usize| {
        let client = format!("client {n}");
        let session = downstream::SessionOpened {
            revision: Revision::LATEST,
            client: &client,
            client_version: &client,
            endpoint: "/mcp",
        };
        drop(session.emit());
        gate::CallStarted { method: Class::Other, meter: &meter }.emit().finish(Outcome::RpcError);
        downstream::Refused { why: Rule::Path, detail: &client, request: None, peer: None }.emit();
        upstream::LateAnswer { upstream: &client }.emit();
    };
    probe(0);
    let lines = registry.page().lines().count();
    (1..2000).for_each(probe);
    assert_eq!(registry.page().lines().count(), lines);
    assert!(registry.page().len() < 200_000);
}

#[test]
fn guards_count_down() {
    let registry = local();
    let session = downstream::SessionOpened {
        revision: Revision::LATEST,
        client: "c",
        client_version: "1",
        endpoint: "/mcp",
    }
    .emit();
    let stream = downstream::StreamOpened { kind: StreamKind::Standalone }.emit();
    let connection = downstream::ConnectionOpened.emit();
    assert_eq!(value(&registry, "portcullis_sessions{revision=\"2025-11-25\"}"), Some(1.0));
    assert_eq!(value(&registry, "portcullis_client_streams{stream=\"standalone\"}"), Some(1.0));
    assert_eq!(value(&registry, "portcullis_client_connections"), Some(1.0));
    session.close(SessionEnd::Deleted);
    drop((stream, connection));
    assert_eq!(value(&registry, "portcullis_sessions{revision=\"2025-11-25\"}"), Some(0.0));
    assert_eq!(value(&registry, "portcullis_sessions_closed_total{reason=\"deleted\"}"), Some(1.0));
    assert_eq!(value(&registry, "portcullis_client_streams{stream=\"standalone\"}"), Some(0.0));
    assert_eq!(value(&registry, "portcullis_client_connections"), Some(0.0));
}

/// Exactly one state of an upstream is 1.
#[test]
fn an_upstream_has_one_state() {
    let registry = local();
    let _alpha = UpstreamMeter::new("alpha");
    for state in [UpstreamCondition::Starting, UpstreamCondition::Ready, UpstreamCondition::Open] {
        upstream::UpstreamState { upstream: "alpha", state, reason: &"" }.emit();
    }
    let page = registry.page();
    let states: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("portcullis_upstream_state{") && line.ends_with(" 1"))
        .collect();
    assert_eq!(states, ["portcullis_upstream_state{upstream=\"alpha\",state=\"open\"} 1"]);
}

/// OPS-05, OPS-06: after every event has been stated once, the page holds every metric of the table,
/// with the labels and values of the table and no others.
#[test]
fn ops_05_every_event_is_in_the_inventory() {
    let registry = local();
    let alpha = UpstreamMeter::new("alpha");
    state_everything(&alpha);
    crate::telemetry::process::measure();
    let page = registry.page();
    // These four are set by the start and by the log itself.
    let elsewhere = [
        "portcullis_build_info",
        "portcullis_start_time_seconds",
        "portcullis_log_lines_lost_total",
        "portcullis_log_lines_left_out_total",
    ];
    for metric in ALL.iter().filter(|metric| !elsewhere.contains(&metric.name)) {
        let lines: Vec<_> =
            page.lines().filter(|line| line.starts_with(metric.name) && !line.starts_with('#')).collect();
        assert!(!lines.is_empty(), "{} is never written", metric.name);
        let wanted: BTreeSet<_> = metric.labels.iter().map(|set| set.label).collect();
        for line in lines {
            let name = line.split(['{', ' ']).next().unwrap_or_default();
            if name != metric.name && !matches!(metric.kind, Kind::Histogram(_)) {
                continue;
            }
            let labels = line
                .split_once('{')
                .and_then(|(_, rest)| rest.split_once('}'))
                .map_or("", |(labels, _)| labels);
            let names: BTreeSet<_> = labels
                .split(',')
                .filter_map(|pair| pair.split_once('='))
                .map(|(name, _)| name)
                .filter(|name| *name != "le")
                .collect();
            assert_eq!(names, wanted, "{line}");
        }
    }
}

fn state_everything(alpha: &Arc<UpstreamMeter>) {
    let upstream = alpha.name();
    let took = Duration::from_millis(3);
    app::Started { config: Some(&"portcullis.json"), upstreams: 1 }.emit();
    app::Listening { shore: app::Shore::Clients, address: &"127.0.0.1:7420" }.emit();
    app::ConfigWarning { warning: &"unpinned" }.emit();
    app::SealKeyMade { kept: None }.emit();
    app::DrainStarted { cause: "SIGTERM", grace: took }.emit();
    app::DrainDone { took, cut_off: 0 }.emit();
    app::TaskPanicked { task: "x" }.emit();
    app::Panicked { place: Some(&"src/x.rs:1:1"), message: Some("x") }.emit();

    let client = ClientMeter::new();
    client.received(10);
    client.sent(20);
    drop(downstream::ConnectionOpened.emit());
    downstream::AnswerDropped.emit();
    downstream::QuestionDropped { method: "roots/list" }.emit();
    downstream::AcceptFailed { error: &"no descriptors" }.emit();
    drop(
        downstream::SessionOpened {
            revision: Revision::V2025_03_26,
            client: "c",
            client_version: "1",
            endpoint: "/mcp",
        }
        .emit(),
    );
    drop(downstream::StreamOpened { kind: StreamKind::Answer }.emit());
    downstream::Refused { why: Rule::Malformed, detail: "", request: Some(&"r1"), peer: None }.emit();
    downstream::ClientGone { after: took }.emit();
    downstream::RequestFailed { request: &"r1", cause: Failure::Panic, detail: &"src/x.rs:1:1" }.emit();

    gate::Authenticated { outcome: AuthOutcome::Accepted, key: Some("laptop") }.emit();
    gate::CallStarted { method: Class::Ping, meter: alpha.calls() }.emit().finish(Outcome::Ok);

    relay::CatalogRefreshed { upstream, offered: [1, 2, 3, 4], dropped: 0, took }.emit();
    relay::CatalogFailed { upstream, error: &"gone", again: false }.emit();
    relay::ItemDropped { upstream, kind: ItemKind::Tool, item: "t", reason: DropReason::Clash, detail: &"" }
        .emit();
    relay::Finding { upstream, finding: FindingKind::Bidi, item: "t" }.emit();
    relay::NoticeDropped { upstream, reason: NoticeLoss::TooMany }.emit();
    relay::QuestionRefused { upstream, question: QuestionKind::Sampling, why: "no `maxTokens`" }.emit();
    relay::FanoutPartial { method: Class::ToolsList, missing: &"beta" }.emit();

    alpha.received(1);
    alpha.sent(2);
    drop(alpha.connection());
    upstream::UpstreamState { upstream, state: UpstreamCondition::Down, reason: &"refused" }.emit();
    drop(upstream::ChildSpawned { upstream, pid: 7, program: "npx" }.emit());
    upstream::ChildExited { upstream, pid: 7, cause: ExitCause::Exited, status: &"exit code 1" }.emit();
    upstream::ChildRestarting { upstream, failures: 1, after: took }.emit();
    upstream::StartFailed { upstream, failures: 2, pause: took, error: &"not found" }.emit();
    upstream::StraysEnded { upstream, pid: 7, count: 1 }.emit();
    upstream::GuardianLost { now: upstream::Guardian::Replaced }.emit();
    upstream::StderrLine { upstream, pid: 7, line: Some("starting"), unshown: 0 }.emit();
    upstream::NoiseLine { upstream, pid: 7, sample: None, unshown: 0 }.emit();
    upstream::HandshakeDone { upstream, revision: Revision::LATEST, server: "s", server_version: "1", took }
        .emit();
    upstream::HandshakeFailed { upstream, error: &"refused", again: true }.emit();
    upstream::SessionRenewed { upstream }.emit();
    upstream::Retried { upstream, error: &"reset" }.emit();
    upstream::RefusedByUpstream { upstream, status: 401, request: None }.emit();
    upstream::LateAnswer { upstream }.emit();
}
