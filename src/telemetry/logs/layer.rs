//! The end of the log's way inside the process: from a `tracing` event to a line in the queue.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use ::metrics::Counter;
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::fmt::format::Writer as TimeWriter;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::layer::Context;

use super::Redactor;
use super::line::{Form, Line};
use super::repeats::{Repeats, Verdict};
use super::writer::{Taken, Writer};
use crate::base::clock;

/// Everything that writing a line needs; shared by the layer and the handle.
pub(super) struct Output {
    form: Form,
    writer: Writer,
    repeats: Repeats,
    redactor: RwLock<Arc<Redactor>>,
    lost: Counter,
    left_out: Counter,
}

impl Output {
    pub(super) fn new(form: Form, writer: Writer, lost: Counter, left_out: Counter) -> Self {
        Self { form, writer, repeats: Repeats::default(), redactor: RwLock::default(), lost, left_out }
    }

    pub(super) fn conceal(&self, redactor: Redactor) {
        *self.redactor.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(redactor);
    }

    /// Writes the reports on windows that are over.
    pub(super) fn sweep(&self, now: Instant) {
        for report in self.repeats.sweep(now) {
            self.write(&report);
        }
    }

    pub(super) fn writer(&self) -> &Writer {
        &self.writer
    }

    fn accept(&self, event: &Event<'_>) {
        let redactor = Arc::clone(&self.redactor.read().unwrap_or_else(PoisonError::into_inner));
        let line = Line::collect(event, &redactor);
        match self.repeats.judge(&line, clock::now()) {
            Verdict::LeaveOut => self.left_out.increment(1),
            Verdict::Show(report) => {
                if let Some(report) = report {
                    self.write(&report);
                }
                self.write(&line);
            }
        }
    }

    fn write(&self, line: &Line) {
        let mut text = String::with_capacity(256);
        line.write(self.form, &timestamp(), &mut text);
        if self.writer.write(text) == Taken::No {
            self.lost.increment(1);
        }
    }
}

/// Puts events into an [`Output`].
pub(super) struct LogLayer(pub(super) Arc<Output>);

impl<S: Subscriber> Layer<S> for LogLayer {
    fn on_event(&self, event: &Event<'_>, _context: Context<'_, S>) {
        self.0.accept(event);
    }
}

/// The present time in UTC, as RFC 3339 writes it.
pub(super) fn timestamp() -> String {
    let mut time = String::with_capacity(32);
    // Writing into a string does not fail.
    let _ = SystemTime.format_time(&mut TimeWriter::new(&mut time));
    time
}
