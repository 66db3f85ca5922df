//! The log as a whole: its start, and the handle that keeps it.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;

use super::layer::{LogLayer, Output, timestamp};
use super::line::{Form, Line, Value};
use super::writer::Writer;
use super::{Colour, Redactor};
use crate::config::snapshot::{self, LogFormat, LogLevel};
use crate::telemetry::metrics;

/// The running log.
///
/// *On drop*: nothing; the log lasts as long as the process. Call [`flush`](Self::flush) at its end.
#[derive(Clone)]
pub struct Log(Arc<Output>);

impl Log {
    /// A log on standard error, with the subscriber that feeds it.
    ///
    /// # Errors
    ///
    /// If standard error is closed or the system gives no thread.
    pub(in crate::telemetry) fn on_stderr(
        options: &snapshot::Log,
        colour: Colour,
    ) -> io::Result<(Self, impl tracing::Subscriber + Send + Sync + 'static)> {
        let stderr = io::stderr();
        let terminal = stderr.is_terminal();
        let colour = if terminal { colour } else { Colour::Off };
        let form = match options.format {
            LogFormat::Text => Form::Text(colour),
            LogFormat::Auto if terminal => Form::Text(colour),
            LogFormat::Json | LogFormat::Auto => Form::Json,
        };
        // A descriptor of our own: whoever holds the lock of `io::stderr` while it blocks must not
        // hold up the log, nor the log them.
        let sink = std::fs::File::from(stderr.as_fd().try_clone_to_owned()?);
        Self::new(options.level, form, sink)
    }

    fn new<W: Write + Send + 'static>(
        level: LogLevel,
        form: Form,
        sink: W,
    ) -> io::Result<(Self, impl tracing::Subscriber + Send + Sync + 'static)> {
        let report = match form {
            Form::Json => |lost| loss(lost, Form::Json),
            Form::Text(_) => |lost| loss(lost, Form::Text(Colour::Off)),
        };
        let writer = Writer::start(sink, report)?;
        let output = Arc::new(Output::new(
            form,
            writer,
            metrics::LINES_LOST.counter(&[]),
            metrics::LINES_LEFT_OUT.counter(&[]),
        ));
        // Other crates never log below warnings: what they print there we have not looked at, and
        // it may hold headers and bodies (F-103).
        let level = filter(level);
        let targets =
            Targets::new().with_target("portcullis", level).with_default(level.min(LevelFilter::WARN));
        let subscriber = tracing_subscriber::registry().with(targets).with(LogLayer(Arc::clone(&output)));
        Ok((Self(output), subscriber))
    }

    /// Keeps these secrets out of every line from now on.
    pub(in crate::telemetry) fn conceal(&self, secrets: Redactor) {
        self.0.conceal(secrets);
    }

    /// Waits until what was logged so far is written, or the time is over.
    pub fn flush(&self, limit: Duration) {
        self.0.writer().flush(limit);
    }

    /// Reports lines that were left out in spans that are over; wanted every second or so.
    pub(in crate::telemetry) fn sweep(&self, now: Instant) {
        self.0.sweep(now);
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Auto | LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// The line that tells of lines lost.
fn loss(lost: u64, form: Form) -> String {
    let line = Line {
        level: tracing::Level::WARN,
        target: "portcullis::app",
        message: "log lines lost".to_owned(),
        fields: vec![("count", Value::Plain(lost.to_string()))],
    };
    let mut text = String::new();
    line.write(form, &timestamp(), &mut text);
    text
}

#[cfg(test)]
impl Log {
    /// A log that nothing is written to.
    pub(in crate::telemetry) fn nowhere() -> Self {
        Self::new(LogLevel::Error, Form::Json, io::sink())
            .map(|(log, _)| log)
            .expect("the system gives a thread")
    }
}

#[cfg(test)]
mod tests;
