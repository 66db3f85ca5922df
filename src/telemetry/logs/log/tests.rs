//! Events as lines: their shape, and what hostile peers cannot do to them.

use std::sync::mpsc::{self, Receiver};

use serde_json::Value as Json;
use tracing::subscriber::with_default;

use super::*;
use crate::mcp::revision::Revision;
use crate::telemetry::events::{app, downstream, upstream};
use crate::telemetry::registry::tests::local;
use crate::telemetry::words::{Rule, UpstreamCondition};

struct Pipe(mpsc::Sender<Vec<u8>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn text_of(written: &Receiver<Vec<u8>>) -> String {
    String::from_utf8(written.try_iter().flatten().collect()).unwrap()
}

/// Runs with a log of its own and returns what it wrote.
fn logged(level: LogLevel, form: Form, work: impl FnOnce(&Log)) -> String {
    let (sink, written) = mpsc::channel();
    let (log, subscriber) = Log::new(level, form, Pipe(sink)).unwrap();
    with_default(subscriber, || work(&log));
    log.flush(Duration::from_secs(30));
    text_of(&written)
}

fn json(level: LogLevel, work: impl FnOnce(&Log)) -> Vec<Json> {
    logged(level, Form::Json, work).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const TEXT: Form = Form::Text(Colour::Off);

#[test]
fn the_line_that_tools_wait_for() {
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 7420));
    let lines =
        json(LogLevel::Info, |_| app::Listening { shore: app::Shore::Clients, address: &address }.emit());
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["message"], "listening");
    assert_eq!(lines[0]["level"], "INFO");
    assert_eq!(lines[0]["shore"], "clients");
    assert_eq!(lines[0]["address"], "127.0.0.1:7420");
    let time = lines[0]["timestamp"].as_str().unwrap();
    assert!(time.ends_with('Z') && time.as_bytes()[10] == b'T', "{time}");
}

#[test]
fn text_for_people() {
    let state = || upstream::UpstreamState {
        upstream: "alpha",
        state: UpstreamCondition::Down,
        reason: &"connection refused",
    };
    let text = logged(LogLevel::Info, TEXT, |_| state().emit());
    assert!(
        text.ends_with("  WARN upstream state upstream=alpha state=down reason=\"connection refused\"\n"),
        "{text:?}"
    );
    let text = logged(LogLevel::Info, Form::Text(Colour::On), |_| state().emit());
    assert!(text.contains("\u{1b}[33m WARN\u{1b}[0m upstream state"), "{text:?}");
}

/// F-104: no peer can forge a line or drive the terminal.
#[test]
fn f_104_hostile_text_stays_in_its_field() {
    let hostile = "x\n{\"level\":\"error\"}\u{1b}[31m\r\u{9b}31m\u{202e}\u{e0041}\u{7f}\"\\";
    let state = || {
        let session = downstream::SessionOpened {
            revision: Revision::LATEST,
            client: hostile,
            client_version: "1",
            endpoint: "/mcp",
        };
        drop(session.emit());
    };
    let lines = json(LogLevel::Debug, |_| state());
    assert_eq!(lines.len(), 2, "opened and closed");
    assert_eq!(lines[0]["client"], hostile);
    for form in [Form::Json, TEXT] {
        let text = logged(LogLevel::Debug, form, |_| state());
        assert_eq!(text.lines().count(), 2, "{text:?}");
        let bad: Vec<_> = text
            .chars()
            .filter(|c| *c != '\n' && (c.is_control() || *c == '\u{202e}' || *c > '\u{e0000}'))
            .collect();
        assert!(bad.is_empty(), "{bad:?} in {text:?}");
    }
}

/// F-104: fields are cut, also those that would never end.
#[test]
fn f_104_long_fields_are_cut() {
    struct Endless;
    impl std::fmt::Display for Endless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            loop {
                f.write_str("äöü")?;
            }
        }
    }
    let lines = json(LogLevel::Info, |_| {
        upstream::StderrLine { upstream: "alpha", pid: 7, line: Some(&"y".repeat(5_000_000)), unshown: 0 }
            .emit();
        upstream::HandshakeFailed { upstream: "alpha", error: &Endless, again: false }.emit();
    });
    assert_eq!(lines[0]["line"].as_str().unwrap(), "y".repeat(1024) + "…");
    assert!(lines[1]["error"].as_str().unwrap().len() <= 1024 + '…'.len_utf8());
}

/// F-104: a flood of refusals is a few lines with a count.
#[test]
fn f_104_a_flood_is_a_few_lines() {
    let registry = local();
    let lines = json(LogLevel::Info, |log| {
        for n in 0..3000 {
            let request = format!("r{n}");
            downstream::Refused {
                why: Rule::Malformed,
                detail: "line 1",
                request: Some(&request),
                peer: None,
            }
            .emit();
        }
        log.sweep(crate::base::clock::now() + Duration::from_secs(11));
    });
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[3]["left_out"], 2997);
    assert_eq!(lines[3]["message"], "refused");
    assert!(registry.page().contains("\nportcullis_log_lines_left_out_total 2997\n"));
    assert!(
        registry.page().contains("\nportcullis_refusals_total{why=\"malformed\"} 3000\n"),
        "all are counted"
    );
}

/// F-103: secrets of the configuration are masked in what children and peers write.
#[test]
fn f_103_secrets_are_masked_in_every_field() {
    let text = logged(LogLevel::Info, Form::Json, |log| {
        log.conceal(Redactor::new(["tok-SECRET-4711".into()]));
        upstream::StderrLine {
            upstream: "alpha",
            pid: 7,
            line: Some("env TOKEN=tok-SECRET-4711 loaded"),
            unshown: 0,
        }
        .emit();
        let long = format!("{}tok-SECRET-4711", "z".repeat(1017));
        upstream::NoiseLine { upstream: "alpha", pid: 7, sample: Some(&long), unshown: 2 }.emit();
    });
    assert_eq!(text.lines().count(), 2);
    assert!(text.contains("TOKEN=[secret] loaded"), "{text}");
    assert!(!text.contains("tok-"), "{text}");
}

/// F-103: at the finest level other crates still only warn.
#[test]
fn f_103_other_crates_stay_silent_below_warnings() {
    let lines = json(LogLevel::Trace, |_| {
        tracing::trace!(target: "h2::codec", header = "Bearer tok", "frame");
        tracing::info!(target: "hyper", "info");
        tracing::warn!(target: "rustls", "bad record");
    });
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["target"], "rustls");
    assert!(json(LogLevel::Error, |_| app::ConfigWarning { warning: &"w" }.emit()).is_empty());
}

/// F-103: a panic's formatted message may hold data and is withheld; its place is logged.
#[test]
fn f_103_panics_are_logged_without_data() {
    let lines =
        json(LogLevel::Info, |_| app::Panicked { place: Some(&"src/x.rs:1:2"), message: None }.emit());
    assert_eq!(lines[0]["place"], "src/x.rs:1:2");
    assert_eq!(lines[0]["cause"], "(withheld: may hold data)");
}
