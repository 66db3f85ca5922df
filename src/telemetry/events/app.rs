//! Facts about the gateway as a whole; their lines are never left out as repetitions.

use std::fmt::Display;
use std::panic::PanicHookInfo;
use std::time::Duration;

use crate::telemetry::logs::UNLIMITED as TARGET;
use crate::telemetry::metrics;

/// Side on which the gateway listens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shore {
    /// Clients connect here.
    Clients,
    /// The operator's port.
    Operator,
}

impl Shore {
    /// The word in the log.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Operator => "operator",
        }
    }
}

/// The gateway starts with this configuration.
pub struct Started<'a> {
    /// Where the configuration came from; none if the command line is all there is.
    pub config: Option<&'a dyn Display>,
    /// Number of upstreams in it.
    pub upstreams: usize,
}

impl Started<'_> {
    /// States it.
    pub fn emit(self) {
        tracing::info!(
            target: TARGET,
            version = env!("CARGO_PKG_VERSION"),
            config = self.config.map(display),
            upstreams = self.upstreams,
            "started"
        );
    }
}

/// A listener is bound; the address is the real one, also where port 0 was asked for.
pub struct Listening<'a> {
    /// Who connects there.
    pub shore: Shore,
    /// Address and port, or the path of a Unix socket.
    pub address: &'a dyn Display,
}

impl Listening<'_> {
    /// States it.
    pub fn emit(self) {
        tracing::info!(target: TARGET, shore = self.shore.word(), address = %self.address, "listening");
    }
}

/// Something in the configuration works but should be looked at.
pub struct ConfigWarning<'a> {
    /// What and where, without secrets.
    pub warning: &'a dyn Display,
}

impl ConfigWarning<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::CONFIG_WARNINGS.counter(&[]).increment(1);
        tracing::warn!(target: TARGET, warning = %self.warning, "config warning");
    }
}

/// The key that seals handles lasts only as long as the process, or was just made.
pub struct SealKeyMade<'a> {
    /// Where it is kept; none if it is forgotten at the end.
    pub kept: Option<&'a dyn Display>,
}

impl SealKeyMade<'_> {
    /// States it.
    pub fn emit(self) {
        let lasts = if self.kept.is_some() { "until removed" } else { "until the process ends" };
        tracing::info!(target: TARGET, lasts, kept = self.kept.map(display), "seal key made");
    }
}

/// The gateway takes no new work and lets the old end.
pub struct DrainStarted<'a> {
    /// What asked for it, such as the name of a signal.
    pub cause: &'a str,
    /// How long calls may go on.
    pub grace: Duration,
}

impl DrainStarted<'_> {
    /// States it.
    pub fn emit(self) {
        metrics::DRAINING.gauge(&[]).set(1.0);
        tracing::info!(target: TARGET, cause = self.cause, grace = ?self.grace, "drain started");
    }
}

/// All work has ended or was cut off.
pub struct DrainDone {
    /// How long it took.
    pub took: Duration,
    /// Calls that were cut off because the grace period was over.
    pub cut_off: usize,
}

impl DrainDone {
    /// States it.
    pub fn emit(self) {
        tracing::info!(target: TARGET, took = ?self.took, cut_off = self.cut_off, "drain done");
    }
}

/// A thread panicked. Its message is logged only if it is a literal of the source: a formatted one
/// could hold what a peer sent (F-103).
pub struct Panicked<'a> {
    /// File, line and column.
    pub place: Option<&'a dyn Display>,
    /// The literal message.
    pub message: Option<&'static str>,
}

impl<'a> From<&'a PanicHookInfo<'_>> for Panicked<'a> {
    fn from(panic: &'a PanicHookInfo<'_>) -> Self {
        Self {
            place: panic.location().map(|place| place as &dyn Display),
            message: panic.payload().downcast_ref::<&'static str>().copied(),
        }
    }
}

impl Panicked<'_> {
    /// States it.
    pub fn emit(self) {
        let thread = std::thread::current();
        tracing::error!(
            target: "portcullis::panic",
            place = self.place.map(display),
            cause = self.message.unwrap_or("(withheld: may hold data)"),
            thread = thread.name(),
            "panicked"
        );
    }
}

/// A task panicked; the line of [`Panicked`] says where.
pub struct TaskPanicked {
    /// Name of the task.
    pub task: &'static str,
}

impl TaskPanicked {
    /// States it.
    pub fn emit(self) {
        metrics::TASK_PANICS.counter(&[]).increment(1);
        tracing::error!(target: "portcullis::panic", task = self.task, "task panicked");
    }
}
