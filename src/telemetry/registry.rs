//! Where series live: one recorder for the process and one for each upstream, rendered as one page.
//!
//! *Invariants*: the series of an upstream exist as long as its [`Scope`] is held and not a moment
//! longer, so a removed upstream leaves the page at once and frees its memory (F-101); a name that
//! nobody opened a scope for counts nowhere.
//!
//! *Limits*: histograms keep every observation until [`Registry::upkeep`] or a page folds it into
//! its bucket; 16 bytes each.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

use ::metrics::{Counter, Gauge, Histogram, Key, Level, Metadata, Recorder};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusRecorder};

use super::metrics::{ALL, Kind, Metric};
use super::words::{Label, NO_UPSTREAM, UPSTREAM};

/// The series of one upstream; dropping the last handle forgets them.
pub(super) struct Scope(PrometheusRecorder);

/// All series of the process.
pub(super) struct Registry {
    process: PrometheusRecorder,
    upstreams: RwLock<HashMap<Arc<str>, Weak<Scope>>>,
}

/// The one registry of the process; nothing is counted before it is installed.
static INSTALLED: OnceLock<Arc<Registry>> = OnceLock::new();

const METADATA: Metadata<'static> = Metadata::new("portcullis", Level::INFO, None);

impl Registry {
    pub(super) fn new() -> Self {
        Self { process: recorder(), upstreams: RwLock::new(HashMap::new()) }
    }

    /// Makes this the registry of the process. False if there is one already.
    pub(super) fn install(self: &Arc<Self>) -> bool {
        INSTALLED.set(Arc::clone(self)).is_ok()
    }

    /// The scope of an upstream, shared by all who ask for the same name while one of them holds it.
    pub(super) fn scope(&self, upstream: &str) -> Arc<Scope> {
        let mut upstreams = self.upstreams.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(scope) = upstreams.get(upstream).and_then(Weak::upgrade) {
            return scope;
        }
        upstreams.retain(|_, scope| scope.strong_count() > 0);
        let scope = Arc::new(Scope(recorder()));
        upstreams.insert(upstream.into(), Arc::downgrade(&scope));
        scope
    }

    /// Folds waiting observations into their buckets; wanted every second or so.
    pub(super) fn upkeep(&self) {
        self.process.handle().run_upkeep();
        for scope in self.scopes() {
            scope.0.handle().run_upkeep();
        }
    }

    /// The page in Prometheus' text format, families in the order of the table, series sorted.
    pub(super) fn page(&self) -> String {
        let mut parts = vec![self.process.handle().render()];
        parts.extend(self.scopes().iter().map(|scope| scope.0.handle().render()));
        let mut families: HashMap<&str, Vec<&str>> = HashMap::new();
        for part in &parts {
            sort_into_families(part, &mut families);
        }
        let mut page = String::with_capacity(parts.iter().map(String::len).sum());
        for metric in ALL {
            let Some(lines) = families.get_mut(metric.name) else { continue };
            // Series of one histogram stay together and its buckets in order: the sort is stable
            // and looks only at the labels that name the series.
            lines.sort_by_key(|line| series_of(line));
            let _ = writeln!(page, "# HELP {} {}", metric.name, metric.help);
            let _ = writeln!(page, "# TYPE {} {}", metric.name, type_word(metric));
            for line in lines {
                page.push_str(line);
                page.push('\n');
            }
        }
        page
    }

    fn scopes(&self) -> Vec<Arc<Scope>> {
        let upstreams = self.upstreams.read().unwrap_or_else(PoisonError::into_inner);
        upstreams.values().filter_map(Weak::upgrade).collect()
    }

    fn on_recorder<T>(
        &self,
        labels: &[Label<'_>],
        register: impl FnOnce(&PrometheusRecorder) -> T,
    ) -> Option<T> {
        let upstream = labels.iter().find(|label| label.name == UPSTREAM && label.value != NO_UPSTREAM);
        let Some(upstream) = upstream else {
            return Some(register(&self.process));
        };
        let scope = {
            let upstreams = self.upstreams.read().unwrap_or_else(PoisonError::into_inner);
            upstreams.get(upstream.value).and_then(Weak::upgrade)
        };
        scope.map(|scope| register(&scope.0))
    }
}

/// The scope of an upstream in the registry of the process, if there is one.
pub(super) fn scope(upstream: &str) -> Option<Arc<Scope>> {
    current().map(|registry| registry.scope(upstream))
}

pub(super) fn counter(name: &'static str, labels: &[Label<'_>]) -> Counter {
    let register = |recorder: &PrometheusRecorder| recorder.register_counter(&key(name, labels), &METADATA);
    current().and_then(|registry| registry.on_recorder(labels, register)).unwrap_or(Counter::noop())
}

pub(super) fn gauge(name: &'static str, labels: &[Label<'_>]) -> Gauge {
    let register = |recorder: &PrometheusRecorder| recorder.register_gauge(&key(name, labels), &METADATA);
    current().and_then(|registry| registry.on_recorder(labels, register)).unwrap_or(Gauge::noop())
}

pub(super) fn histogram(name: &'static str, labels: &[Label<'_>]) -> Histogram {
    let register = |recorder: &PrometheusRecorder| recorder.register_histogram(&key(name, labels), &METADATA);
    current().and_then(|registry| registry.on_recorder(labels, register)).unwrap_or(Histogram::noop())
}

#[cfg(not(test))]
fn current() -> Option<Arc<Registry>> {
    INSTALLED.get().map(Arc::clone)
}

/// In unit tests each thread may have a registry of its own, so that they can run side by side.
#[cfg(test)]
fn current() -> Option<Arc<Registry>> {
    tests::LOCAL.with_borrow(Clone::clone).or_else(|| INSTALLED.get().map(Arc::clone))
}

fn key(name: &'static str, labels: &[Label<'_>]) -> Key {
    let labels: Vec<_> =
        labels.iter().map(|label| ::metrics::Label::new(label.name, label.value.to_owned())).collect();
    Key::from_parts(name, labels)
}

fn recorder() -> PrometheusRecorder {
    let mut builder = PrometheusBuilder::new();
    for metric in ALL {
        if let Kind::Histogram(buckets) = metric.kind {
            builder = builder
                .set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)
                .expect("every histogram of the table has buckets");
        }
    }
    builder.build_recorder()
}

/// Adds the lines of one recorder's page to the families that its headers name.
fn sort_into_families<'a>(page: &'a str, families: &mut HashMap<&'a str, Vec<&'a str>>) {
    let mut family = "";
    for line in page.lines() {
        if let Some(header) = line.strip_prefix("# TYPE ") {
            family = header.split(' ').next().unwrap_or_default();
        } else if !line.is_empty() && !line.starts_with('#') {
            families.entry(family).or_default().push(line);
        }
    }
}

/// The labels of a line without the bucket's bound, which the exporter writes last.
fn series_of(line: &str) -> &str {
    let labels = &line[line.find('{').unwrap_or(line.len())..];
    let end = labels.find(",le=\"").or_else(|| labels.rfind('}')).unwrap_or(labels.len());
    &labels[..end]
}

fn type_word(metric: &Metric) -> &'static str {
    match metric.kind {
        Kind::Counter | Kind::Total => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::call::Outcome;
    use crate::mcp::methods::Class;
    use crate::telemetry::metrics;
    use crate::telemetry::words::Direction;

    thread_local! {
        pub(super) static LOCAL: RefCell<Option<Arc<Registry>>> = const { RefCell::new(None) };
    }

    /// Gives this thread an empty registry of its own and returns it.
    pub(in crate::telemetry) fn local() -> Arc<Registry> {
        let registry = Arc::new(Registry::new());
        LOCAL.set(Some(Arc::clone(&registry)));
        registry
    }

    /// F-101: series of a removed upstream are dropped, at once and whole.
    #[test]
    fn f_101_a_removed_upstream_leaves_the_page() {
        let registry = local();
        let alpha = registry.scope("alpha");
        let beta = registry.scope("beta");
        for upstream in ["alpha", "beta"] {
            metrics::RESTARTS.counter(&[Label::upstream(upstream)]).increment(2);
            let labels = [Label::upstream(upstream), Class::ToolsCall.into(), Outcome::Ok.into()];
            metrics::CALL_DURATION.histogram(&labels).record(0.02);
        }
        assert_eq!(registry.page().matches("upstream=\"alpha\"").count(), 1 + 16 + 3);
        drop(alpha);
        let page = registry.page();
        assert!(!page.contains("alpha"), "{page}");
        assert!(page.contains("portcullis_upstream_restarts_total{upstream=\"beta\"} 2"), "{page}");
        // Late events of it count nowhere, and a new life starts at zero.
        metrics::RESTARTS.counter(&[Label::upstream("alpha")]).increment(1);
        assert!(!registry.page().contains("alpha"));
        let _alpha = registry.scope("alpha");
        metrics::RESTARTS.counter(&[Label::upstream("alpha")]).increment(1);
        assert!(registry.page().contains("portcullis_upstream_restarts_total{upstream=\"alpha\"} 1"));
        drop(beta);
    }

    /// F-101: ten thousand names that nobody configured make no series.
    #[test]
    fn f_101_unknown_upstreams_make_no_series() {
        let registry = local();
        for n in 0..10_000 {
            metrics::RESTARTS.counter(&[Label::upstream(&format!("u{n}"))]).increment(1);
        }
        assert_eq!(registry.page(), "");
    }

    #[test]
    fn a_family_has_one_header_and_ordered_buckets() {
        let registry = local();
        let _scopes = [registry.scope("beta"), registry.scope("alpha")];
        for upstream in ["beta", "alpha"] {
            let labels = [Label::upstream(upstream), Class::Ping.into(), Outcome::Ok.into()];
            metrics::CALL_DURATION.histogram(&labels).record(0.003);
        }
        metrics::CLIENT_BYTES.counter(&[Direction::In.into()]).increment(7);
        let page = registry.page();
        assert_eq!(page.matches("# TYPE portcullis_call_duration_seconds histogram\n").count(), 1, "{page}");
        let lines: Vec<_> = page.lines().filter(|line| line.contains("_bucket")).collect();
        assert_eq!(lines.len(), 2 * 17);
        assert!(
            lines[0].contains("upstream=\"alpha\"") && lines[0].ends_with("le=\"0.001\"} 0"),
            "{}",
            lines[0]
        );
        assert!(
            lines[16].contains("upstream=\"alpha\"") && lines[16].ends_with("le=\"+Inf\"} 1"),
            "{}",
            lines[16]
        );
        assert!(page.find("client_bytes") < page.find("call_duration"), "order of the table");
    }
}
