//! Handles for what is counted on the way of a call: found once, then a few nanoseconds each.
//!
//! *On drop*: guards count down; the last meter of an upstream forgets its series.

use std::array;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ::metrics::{Counter, Gauge, Histogram};

use super::metrics;
use super::registry::{self, Scope};
use super::words::{Direction, Label, NO_UPSTREAM};
use crate::base::clock;
use crate::call::Outcome;
use crate::mcp::methods::Class;

/// What is counted at the client shore for every message.
#[derive(Debug)]
pub struct ClientMeter {
    received: Counter,
    sent: Counter,
}

impl ClientMeter {
    /// Finds the handles.
    #[must_use]
    pub fn new() -> Self {
        Self {
            received: metrics::CLIENT_BYTES.counter(&[Direction::In.into()]),
            sent: metrics::CLIENT_BYTES.counter(&[Direction::Out.into()]),
        }
    }

    /// Counts bytes of bodies that a client sent.
    pub fn received(&self, bytes: usize) {
        self.received.increment(bytes as u64);
    }

    /// Counts bytes of bodies that went to a client.
    pub fn sent(&self, bytes: usize) {
        self.sent.increment(bytes as u64);
    }
}

impl Default for ClientMeter {
    fn default() -> Self {
        Self::new()
    }
}

/// What is counted for one upstream; whoever speaks with it holds one.
///
/// Events that name an upstream only count while a meter of that name is held somewhere: `app` keeps
/// one for as long as the upstream is configured.
pub struct UpstreamMeter {
    calls: Arc<CallMeter>,
    received: Counter,
    sent: Counter,
    connections: Gauge,
    name: Arc<str>,
    // Last, so that the handles above go first.
    _scope: Option<Arc<Scope>>,
}

impl UpstreamMeter {
    /// Opens the series of an upstream under its name in the configuration, or joins those that are
    /// open already.
    #[must_use]
    pub fn new(upstream: &str) -> Arc<Self> {
        let scope = registry::scope(upstream);
        let name = Label::upstream(upstream);
        // Counters that rarely move exist from the start, so that their first step shows as one.
        for metric in [metrics::RESTARTS, metrics::LATE_ANSWERS, metrics::RENEWALS, metrics::RETRIES] {
            metric.counter(&[name]).increment(0);
        }
        Arc::new(Self {
            calls: CallMeter::of(upstream),
            received: metrics::UPSTREAM_BYTES.counter(&[name, Direction::In.into()]),
            sent: metrics::UPSTREAM_BYTES.counter(&[name, Direction::Out.into()]),
            connections: metrics::UPSTREAM_CONNECTIONS.gauge(&[name]),
            name: upstream.into(),
            _scope: scope,
        })
    }

    /// Name of the upstream in the configuration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The meter of calls that this upstream answers.
    #[must_use]
    pub fn calls(&self) -> &Arc<CallMeter> {
        &self.calls
    }

    /// Counts bytes that the upstream sent.
    pub fn received(&self, bytes: usize) {
        self.received.increment(bytes as u64);
    }

    /// Counts bytes that went to the upstream.
    pub fn sent(&self, bytes: usize) {
        self.sent.increment(bytes as u64);
    }

    /// Counts a connection to the upstream until the guard is dropped.
    pub fn connection(&self) -> Held {
        Held::new(self.connections.clone())
    }
}

/// Counts calls by method class and outcome, for one upstream or for those the gateway answers.
pub struct CallMeter {
    upstream: Arc<str>,
    /// One for all meters: which upstream answers is known only while the call is under way.
    in_flight: Gauge,
    // Made on first use: most pairs never happen, and a histogram is twenty lines of the page.
    done: [[OnceLock<Done>; Outcome::ALL.len()]; Class::ALL.len()],
}

struct Done {
    count: Counter,
    seconds: Histogram,
}

impl CallMeter {
    /// The meter of calls that the gateway answers itself, or refuses before an upstream is chosen.
    #[must_use]
    pub fn gateway() -> Arc<Self> {
        Self::of(NO_UPSTREAM)
    }

    fn of(upstream: &str) -> Arc<Self> {
        Arc::new(Self {
            upstream: upstream.into(),
            in_flight: metrics::CALLS_IN_FLIGHT.gauge(&[]),
            done: array::from_fn(|_| array::from_fn(|_| OnceLock::new())),
        })
    }

    /// Starts to count a call; see [`CallGuard`].
    pub fn begin(self: &Arc<Self>, method: Class) -> CallGuard {
        self.in_flight.increment(1.0);
        CallGuard { meter: Arc::clone(self), method, started: clock::now(), outcome: Outcome::Cancelled }
    }

    /// Name of the upstream, or [`NO_UPSTREAM`].
    #[must_use]
    pub fn upstream(&self) -> &str {
        &self.upstream
    }

    fn done(&self, method: Class, outcome: Outcome) -> &Done {
        self.done[method as usize][outcome as usize].get_or_init(|| {
            let labels = [Label::upstream(&self.upstream), method.into(), outcome.into()];
            Done {
                count: metrics::CALLS.counter(&labels),
                seconds: metrics::CALL_DURATION.histogram(&labels),
            }
        })
    }
}

/// A call that is under way (F-102).
///
/// *On drop*: counts the call with the outcome given to [`finish`](Self::finish); a call that is
/// dropped without one was cancelled.
#[must_use = "a dropped guard counts the call as cancelled"]
pub struct CallGuard {
    meter: Arc<CallMeter>,
    method: Class,
    started: Instant,
    outcome: Outcome,
}

impl CallGuard {
    /// Moves the call to the meter of the upstream that was chosen for it.
    pub fn route(&mut self, meter: &Arc<CallMeter>) {
        if !Arc::ptr_eq(&self.meter, meter) {
            self.meter = Arc::clone(meter);
        }
    }

    /// Ends the call with its outcome.
    pub fn finish(mut self, outcome: Outcome) {
        self.outcome = outcome;
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let took = clock::now().saturating_duration_since(self.started);
        self.meter.in_flight.decrement(1.0);
        let done = self.meter.done(self.method, self.outcome);
        done.count.increment(1);
        done.seconds.record(took.as_secs_f64());
        tracing::debug!(
            target: "portcullis::gate",
            upstream = &*self.meter.upstream,
            method = self.method.label(),
            outcome = self.outcome.label(),
            milliseconds = took.as_secs_f64() * 1000.0,
            "call done"
        );
    }
}

/// One more in a gauge for as long as it is held.
#[must_use = "a dropped guard counts down at once"]
#[derive(Debug)]
pub struct Held(Gauge);

impl Held {
    pub(super) fn new(gauge: Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}
