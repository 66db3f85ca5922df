//! Thins out lines that a looping or hostile peer could cause without end (F-104).
//!
//! *Invariants*: what is left out is counted, and the count is logged when its window ends.
//!
//! *Limits*: 1,024 kinds of lines are told apart; beyond that the rest shares one budget.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::Level;

use super::line::{Line, Value};

/// Span over which lines alike are counted together.
const WINDOW: Duration = Duration::from_secs(10);

/// Lines of one kind in a window.
const LINES: u32 = 30;

/// Lines in a window with the very same content, one after the other.
const IDENTICAL: u32 = 3;

/// Lines of a child's standard error in a window: a stack trace must get through.
const CHILD_LINES: u32 = 200;

/// Kinds of lines that are told apart.
const KINDS: usize = 1024;

/// Target of lines about the gateway itself, which no peer can cause at will.
pub(in crate::telemetry) const UNLIMITED: &str = "portcullis::app";

/// Target of lines that children wrote.
pub(in crate::telemetry) const CHILD: &str = "portcullis::child";

/// Fields that differ between lines that say the same.
const VOLATILE: &[&str] =
    &["call", "request", "session", "connection", "pid", "milliseconds", "bytes", "count"];

/// Counts lines by kind.
#[derive(Default)]
pub(super) struct Repeats(Mutex<HashMap<u64, Window>>);

struct Window {
    started: Instant,
    shown: u32,
    content: u64,
    identical: u32,
    left_out: u64,
    sample: Line,
}

/// What is to be done with a line.
pub(super) enum Verdict {
    /// Write it, after the report on an earlier window if there is one.
    Show(Option<Line>),
    /// Leave it out.
    LeaveOut,
}

impl Repeats {
    /// Judges a line and remembers it.
    pub(super) fn judge(&self, line: &Line, now: Instant) -> Verdict {
        if line.level > Level::INFO || line.target == UNLIMITED {
            return Verdict::Show(None);
        }
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kind = kind_of(line);
        if !windows.contains_key(&kind) && windows.len() >= KINDS {
            windows.retain(|_, window| window.left_out > 0 || !window.is_over(now));
            if windows.len() >= KINDS {
                kind = 0;
            }
        }
        let content = content_of(line);
        let window = windows.entry(kind).or_insert_with(|| Window::open(line, now));
        let report = if window.is_over(now) {
            let report = window.report();
            *window = Window::open(line, now);
            report
        } else {
            None
        };
        window.identical = if window.content == content { window.identical + 1 } else { 1 };
        window.content = content;
        let budget = if line.target == CHILD { CHILD_LINES } else { LINES };
        if window.identical > IDENTICAL || window.shown >= budget {
            window.left_out += 1;
            return Verdict::LeaveOut;
        }
        window.shown += 1;
        Verdict::Show(report)
    }

    /// Ends the windows that are over and returns the reports on them.
    pub(super) fn sweep(&self, now: Instant) -> Vec<Line> {
        let mut windows = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut reports = Vec::new();
        windows.retain(|_, window| {
            if !window.is_over(now) {
                return true;
            }
            reports.extend(window.report());
            false
        });
        reports
    }
}

impl Window {
    fn open(line: &Line, now: Instant) -> Self {
        let mut sample = line.clone();
        sample.fields.retain(|(name, _)| matches!(*name, "upstream" | "why"));
        Self { started: now, shown: 0, content: 0, identical: 0, left_out: 0, sample }
    }

    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.started) >= WINDOW
    }

    fn report(&mut self) -> Option<Line> {
        let left_out = mem::take(&mut self.left_out);
        (left_out > 0).then(|| {
            let mut line = self.sample.clone();
            line.fields.push(("left_out", Value::Plain(left_out.to_string())));
            line
        })
    }
}

/// Lines are alike if they come from one event, about one upstream, for one reason of a closed set.
fn kind_of(line: &Line) -> u64 {
    let mut hasher = DefaultHasher::new();
    (line.target, line.level.as_str(), line.text("upstream"), line.text("why")).hash(&mut hasher);
    if line.target != CHILD {
        line.message.hash(&mut hasher);
    }
    hasher.finish()
}

fn content_of(line: &Line) -> u64 {
    let mut hasher = DefaultHasher::new();
    line.message.hash(&mut hasher);
    for (name, value) in &line.fields {
        if !VOLATILE.contains(name) {
            let (Value::Text(text) | Value::Plain(text)) = value;
            (name, text).hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(message: &str, fields: &[(&'static str, &str)]) -> Line {
        let fields = fields.iter().map(|(name, text)| (*name, Value::Text((*text).to_owned()))).collect();
        Line { level: Level::WARN, target: "portcullis::downstream", message: message.to_owned(), fields }
    }

    fn shown(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Show(_))
    }

    #[test]
    fn f_104_identical_lines_are_counted_not_written() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        let same = |n: u32| line("refused", &[("why", "malformed"), ("request", &n.to_string())]);
        assert_eq!((0..1000).filter(|n| shown(&repeats.judge(&same(*n), now))).count(), 3);
        assert!(repeats.sweep(now).is_empty(), "the window is not over");
        let reports = repeats.sweep(now + WINDOW);
        assert_eq!(reports.len(), 1);
        assert_eq!((reports[0].text("left_out"), reports[0].text("why")), (Some("997"), Some("malformed")));
        assert_eq!(reports[0].text("request"), None);
        assert!(shown(&repeats.judge(&same(1), now + WINDOW)));
    }

    #[test]
    fn f_104_varied_lines_share_a_budget() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        let shown_lines = (0..10_000)
            .filter(|n| shown(&repeats.judge(&line("refused", &[("detail", &n.to_string())]), now)));
        assert_eq!(shown_lines.count(), 30);
        // Another upstream, another reason: budgets of their own.
        assert!(shown(&repeats.judge(&line("refused", &[("upstream", "alpha")]), now)));
        assert!(shown(&repeats.judge(&line("refused", &[("why", "host")]), now)));
        // The report comes before the first line of the next window at the latest.
        let Verdict::Show(Some(report)) = repeats.judge(&line("refused", &[]), now + WINDOW) else {
            panic!("no report")
        };
        assert_eq!(report.text("left_out"), Some("9970"));
    }

    #[test]
    fn f_104_kinds_are_bounded() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        for n in 0..5000 {
            repeats.judge(&line(&format!("message {n}"), &[]), now);
        }
        assert!(repeats.0.lock().unwrap().len() <= KINDS + 1);
    }

    #[test]
    fn lines_about_the_gateway_and_details_are_never_left_out() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        let own = Line { target: UNLIMITED, ..line("config warning", &[]) };
        let detail = Line { level: Level::DEBUG, ..line("call done", &[]) };
        assert!((0..100).all(|_| shown(&repeats.judge(&own, now)) && shown(&repeats.judge(&detail, now))));
    }
}
