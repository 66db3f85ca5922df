//! The table of all metrics: name, kind, labels, buckets and help of each.
//!
//! *Invariants*: every name starts with `portcullis_`; every label is a [`WordSet`] or an
//! upstream's name (OPS-06, F-101); a metric that is not in [`ALL`] cannot be written, because only
//! the constants here are ever registered. `docs/metrics.md` is made from this table.

use ::metrics::{Counter, Gauge, Histogram};

use super::registry;
use super::words::{
    Attempt, AuthOutcome, Direction, DropReason, ExitCause, Failure, FindingKind, ITEM_KINDS, Label, METHODS,
    NoticeLoss, OUTCOMES, REVISIONS, Rule, SessionEnd, StreamKind, UPSTREAM, UpstreamCondition, WordSet,
};

/// What a metric's value does over time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Counts whole things, from 0 at the start.
    Counter,
    /// Only grows, but is read somewhere and need not be whole.
    Total,
    /// Goes up and down.
    Gauge,
    /// Counts observations by size; holds the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

/// One metric, as it is registered and documented.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in the exposition, prefix and unit included.
    pub name: &'static str,
    /// Kind, and buckets if it has any.
    pub kind: Kind,
    /// Closed sets of its labels, the upstream first.
    pub labels: &'static [WordSet],
    /// One sentence for the page and the docs.
    pub help: &'static str,
}

impl Metric {
    /// The handle of one counter series. Getting it costs far more than counting: hot paths keep it.
    pub(super) fn counter(&self, labels: &[Label<'_>]) -> Counter {
        debug_assert!(self.fits(labels), "labels of {} are not those of the table", self.name);
        registry::counter(self.name, labels)
    }

    /// The handle of one series that is set: a gauge, or a total read elsewhere.
    pub(super) fn gauge(&self, labels: &[Label<'_>]) -> Gauge {
        debug_assert!(self.fits(labels), "labels of {} are not those of the table", self.name);
        registry::gauge(self.name, labels)
    }

    /// The handle of one histogram series.
    pub(super) fn histogram(&self, labels: &[Label<'_>]) -> Histogram {
        debug_assert!(self.fits(labels), "labels of {} are not those of the table", self.name);
        registry::histogram(self.name, labels)
    }

    fn fits(&self, labels: &[Label<'_>]) -> bool {
        labels.len() == self.labels.len()
            && labels.iter().zip(self.labels).all(|(have, want)| {
                have.name == want.label && (want.values.is_empty() || want.values.contains(&have.value))
            })
    }
}

/// The label whose values are the names of configured upstreams, or `-`.
pub const BY_UPSTREAM: WordSet = WordSet { label: UPSTREAM, values: &[] };

/// The version of this build.
const VERSION: WordSet = WordSet { label: "version", values: &[env!("CARGO_PKG_VERSION")] };

/// Upper bounds of call durations in seconds: fine where a gateway matters, coarse where people wait.
const CALL_SECONDS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0, 600.0];

/// Declares each metric as a constant, its doc comment being the help, and lists them all.
macro_rules! metrics {
    ($($(#[doc = $help:literal])+ $name:ident: $kind:expr, $text:literal, [$($label:expr),*];)+) => {
        $(
            $(#[doc = $help])+
            pub const $name: Metric = Metric {
                name: $text,
                kind: $kind,
                labels: &[$($label),*],
                help: concat!($($help),+).trim_ascii_start(),
            };
        )+
        /// Every metric, in the order of the page.
        pub const ALL: &[Metric] = &[$($name),+];
    };
}

metrics! {
    // --- the gateway itself ---
    /// Always 1; names the version that runs.
    BUILD: Kind::Gauge, "portcullis_build_info", [VERSION];
    /// When the process started, in seconds since 1970.
    STARTED: Kind::Gauge, "portcullis_start_time_seconds", [];
    /// 1 while the gateway is stopping and lets calls finish, else 0.
    DRAINING: Kind::Gauge, "portcullis_draining", [];
    /// Warnings that reading the configuration gave.
    CONFIG_WARNINGS: Kind::Counter, "portcullis_config_warnings_total", [];
    /// Resident memory of the gateway, without children.
    MEMORY: Kind::Gauge, "portcullis_process_resident_memory_bytes", [];
    /// File descriptors that the gateway has open.
    OPEN_FILES: Kind::Gauge, "portcullis_process_open_fds", [];
    /// File descriptors that the gateway may open.
    MAX_FILES: Kind::Gauge, "portcullis_process_max_fds", [];
    /// Threads of the gateway.
    THREADS: Kind::Gauge, "portcullis_process_threads", [];
    /// CPU time of the gateway, user and system, in seconds.
    CPU: Kind::Total, "portcullis_process_cpu_seconds_total", [];
    /// Tasks of the gateway that panicked.
    TASK_PANICS: Kind::Counter, "portcullis_task_panics_total", [];
    /// Log lines thrown away because standard error was not read fast enough.
    LINES_LOST: Kind::Counter, "portcullis_log_lines_lost_total", [];
    /// Log lines left out because too many alike came.
    LINES_LEFT_OUT: Kind::Counter, "portcullis_log_lines_left_out_total", [];

    // --- clients ---
    /// Connections that clients have open.
    CLIENT_CONNECTIONS: Kind::Gauge, "portcullis_client_connections", [];
    /// Bytes of message bodies read from (in) and written to (out) clients.
    CLIENT_BYTES: Kind::Counter, "portcullis_client_bytes_total", [Direction::SET];
    /// Connections that could not be accepted.
    ACCEPT_FAILURES: Kind::Counter, "portcullis_accept_failures_total", [];
    /// Requests whose client left before the answer was sent.
    CLIENTS_GONE: Kind::Counter, "portcullis_clients_gone_total", [];
    /// Sessions of clients that are open.
    SESSIONS: Kind::Gauge, "portcullis_sessions", [REVISIONS];
    /// Sessions of clients opened.
    SESSIONS_OPENED: Kind::Counter, "portcullis_sessions_opened_total", [REVISIONS];
    /// Sessions of clients that ended, by reason.
    SESSIONS_CLOSED: Kind::Counter, "portcullis_sessions_closed_total", [SessionEnd::SET];
    /// Event streams toward clients that are open.
    STREAMS: Kind::Gauge, "portcullis_client_streams", [StreamKind::SET];
    /// Answers of clients to questions that nobody asks any more, dropped.
    CLIENT_LATE_ANSWERS: Kind::Counter, "portcullis_client_late_answers_total", [];
    /// Questions of upstreams dropped because their session had too many open.
    QUESTIONS_DROPPED: Kind::Counter, "portcullis_client_questions_dropped_total", [];
    /// Requests that the gateway itself turned away.
    REFUSALS: Kind::Counter, "portcullis_refusals_total", [Rule::SET];
    /// Requests that failed through a fault of the gateway.
    FAILURES: Kind::Counter, "portcullis_request_failures_total", [Failure::SET];
    /// Looks at a client's credentials.
    AUTHENTICATIONS: Kind::Counter, "portcullis_authentications_total", [AuthOutcome::SET];

    // --- calls ---
    /// Requests of clients that came to an end.
    CALLS: Kind::Counter, "portcullis_calls_total", [BY_UPSTREAM, METHODS, OUTCOMES];
    /// Time from a request of a client to its final answer.
    CALL_DURATION: Kind::Histogram(CALL_SECONDS), "portcullis_call_duration_seconds", [BY_UPSTREAM, METHODS, OUTCOMES];
    /// Requests of clients that wait for their final answer.
    CALLS_IN_FLIGHT: Kind::Gauge, "portcullis_calls_in_flight", [];
    /// Answers over several upstreams that some of them did not contribute to.
    FANOUT_PARTIALS: Kind::Counter, "portcullis_fanout_partials_total", [METHODS];

    // --- upstreams ---
    /// 1 for the state that the upstream is in, 0 for the others.
    UPSTREAM_STATE: Kind::Gauge, "portcullis_upstream_state", [BY_UPSTREAM, UpstreamCondition::SET];
    /// Connections (initialized sessions) that the gateway holds to the upstream.
    UPSTREAM_CONNECTIONS: Kind::Gauge, "portcullis_upstream_connections", [BY_UPSTREAM];
    /// Handshakes with the upstream, by outcome.
    HANDSHAKES: Kind::Counter, "portcullis_upstream_handshakes_total", [BY_UPSTREAM, Attempt::SET];
    /// Connections made anew because the upstream no longer knew its session.
    RENEWALS: Kind::Counter, "portcullis_upstream_renewals_total", [BY_UPSTREAM];
    /// Requests sent again because the first try provably did not arrive, or may be repeated.
    RETRIES: Kind::Counter, "portcullis_upstream_retries_total", [BY_UPSTREAM];
    /// Bytes of messages read from (in) and written to (out) the upstream.
    UPSTREAM_BYTES: Kind::Counter, "portcullis_upstream_bytes_total", [BY_UPSTREAM, Direction::SET];
    /// Answers of the upstream that came after their call was over, and were dropped.
    LATE_ANSWERS: Kind::Counter, "portcullis_upstream_late_answers_total", [BY_UPSTREAM];
    /// Child processes of the upstream that run.
    CHILDREN: Kind::Gauge, "portcullis_upstream_children", [BY_UPSTREAM];
    /// Child processes of the upstream that ended.
    CHILD_EXITS: Kind::Counter, "portcullis_upstream_child_exits_total", [BY_UPSTREAM, ExitCause::SET];
    /// Starts of a child process of the upstream that failed.
    START_FAILURES: Kind::Counter, "portcullis_upstream_start_failures_total", [BY_UPSTREAM];
    /// Child processes of the upstream started anew after one ended by itself.
    RESTARTS: Kind::Counter, "portcullis_upstream_restarts_total", [BY_UPSTREAM];
    /// Lines on a child's standard output that are no messages, and were skipped.
    NOISE_LINES: Kind::Counter, "portcullis_upstream_noise_lines_total", [BY_UPSTREAM];
    /// Lines on a child's standard error.
    STDERR_LINES: Kind::Counter, "portcullis_upstream_stderr_lines_total", [BY_UPSTREAM];
    /// Notifications of the upstream that were not passed on to a client.
    NOTICES_DROPPED: Kind::Counter, "portcullis_upstream_notices_dropped_total", [BY_UPSTREAM, NoticeLoss::SET];

    // --- catalogs ---
    /// Items of the upstream that are offered.
    CATALOG_ITEMS: Kind::Gauge, "portcullis_catalog_items", [BY_UPSTREAM, ITEM_KINDS];
    /// Readings of the upstream's lists, by outcome.
    CATALOG_REFRESHES: Kind::Counter, "portcullis_catalog_refreshes_total", [BY_UPSTREAM, Attempt::SET];
    /// Items of the upstream that are not offered, each time its lists are read.
    ITEMS_DROPPED: Kind::Counter, "portcullis_catalog_items_dropped_total", [BY_UPSTREAM, ITEM_KINDS, DropReason::SET];
    /// Suspicious things in the upstream's definitions, each time its lists are read.
    FINDINGS: Kind::Counter, "portcullis_catalog_findings_total", [BY_UPSTREAM, FindingKind::SET];
}
