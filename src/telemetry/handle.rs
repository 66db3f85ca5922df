//! The handle of telemetry as a whole: start, upkeep, page, end.

use std::io;
use std::panic;
use std::sync::Arc;
use std::time::Duration;

use super::events::app::{Panicked, TaskPanicked};
use super::logs::{Colour, Log, Redactor};
use super::metrics;
use super::process;
use super::registry::Registry;
use super::words::Label;
use crate::base::{clock, tasks};
use crate::config::snapshot::Snapshot;

/// How often [`Telemetry::upkeep`] is wanted: observations wait in memory until then.
pub const UPKEEP_EVERY: Duration = Duration::from_secs(1);

/// How long the end of the process waits for the log's reader.
const FLUSH: Duration = Duration::from_millis(500);

/// Telemetry could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It runs already in this process.
    #[error("telemetry is already running")]
    Running,
    /// Standard error or the log's thread could not be had.
    #[error("the log cannot be written")]
    Log(#[source] io::Error),
}

/// Running telemetry of the process; clones are the same.
#[derive(Clone)]
pub struct Telemetry {
    registry: Arc<Registry>,
    log: Log,
}

impl Telemetry {
    /// Starts counting and logging for the whole process; events before this are lost, so `main`'s
    /// command calls it first. What is secret in the configuration is kept out of every line, and panics go to the
    /// log without their values (F-103).
    ///
    /// # Errors
    ///
    /// If it runs already, or the log cannot be written.
    pub fn start(config: &Snapshot, colour: Colour) -> Result<Self, StartError> {
        let registry = Arc::new(Registry::new());
        if !registry.install() {
            return Err(StartError::Running);
        }
        let (log, subscriber) = Log::on_stderr(&config.log, colour).map_err(StartError::Log)?;
        log.conceal(Redactor::new(config.secrets()));
        tracing::subscriber::set_global_default(subscriber).map_err(|_| StartError::Running)?;
        panic::set_hook(Box::new(|panic| Panicked::from(panic).emit()));
        tasks::on_panic(|panicked| TaskPanicked { task: panicked.task }.emit());
        started();
        Ok(Self { registry, log })
    }

    /// Does what must be done again and again; see [`UPKEEP_EVERY`].
    pub fn upkeep(&self) {
        self.registry.upkeep();
        self.log.sweep(clock::now());
    }

    /// The metrics page in Prometheus' text format.
    #[must_use]
    pub fn page(&self) -> String {
        process::measure();
        self.registry.page()
    }

    /// Writes what is still to be written; the last thing before the process ends.
    pub fn finish(&self) {
        self.log.flush(FLUSH);
    }
}

fn started() {
    let version = Label { name: "version", value: env!("CARGO_PKG_VERSION") };
    metrics::BUILD.gauge(&[version]).set(1.0);
    metrics::STARTED.gauge(&[]).set(clock::unix_millis() as f64 / 1000.0);
    metrics::DRAINING.gauge(&[]).set(0.0);
}

#[cfg(test)]
impl Telemetry {
    /// Telemetry of one test: it counts for this thread and logs nowhere.
    pub(crate) fn detached() -> Self {
        let registry = super::registry::tests::local();
        started();
        Self { registry, log: Log::nowhere() }
    }
}
