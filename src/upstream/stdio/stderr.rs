//! A child's stderr: always drained, whatever becomes of what is read (STDIO-03, F-025).
//!
//! *Limits:* lines are cut at [`caps::STDERR_LINE_BYTES`] and the rest thrown away as
//! it comes; the last [`TAIL_LINES`] lines, cut further, are kept to explain an exit; so many lines per second are told.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::fact::Fact;
use super::pipe::Ended;
use super::printable::printable;
use super::streams::Subject;
use super::trickle::Trickle;
use crate::base::{caps, clock};

/// Lines kept for the exit.
pub const TAIL_LINES: usize = 20;

/// Bytes kept of each of them: a stack trace is read by its first words.
const TAIL_LINE_BYTES: usize = 512;

/// Lines told at once, and then one per [`SHOWN_EVERY`].
const SHOWN_AT_ONCE: u32 = 100;
const SHOWN_EVERY: Duration = Duration::from_millis(50);

/// Bytes read at once.
const CHUNK_BYTES: usize = 8 * 1024;

/// The last lines of a child's stderr.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    fn push(&self, line: &[u8]) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == TAIL_LINES {
            lines.pop_front();
        }
        lines.push_back(printable(line, TAIL_LINE_BYTES));
    }

    /// The lines so far, oldest first.
    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }
}

/// Reads `stderr` to its end, or until the process is gone and whoever still holds the pipe says nothing.
pub(super) async fn drain(
    mut stderr: impl AsyncRead + Unpin,
    ended: Ended,
    tail: Tail,
    mut tell: impl FnMut(Option<&str>, u64),
) {
    let mut cutter = Cutter::new(caps::STDERR_LINE_BYTES);
    let mut trickle = Trickle::new(SHOWN_AT_ONCE, SHOWN_EVERY);
    let mut line_done = |line: &[u8]| {
        tail.push(line);
        match trickle.admit(clock::now()) {
            Some(unshown) => tell(Some(&printable(line, caps::STDERR_LINE_BYTES)), unshown),
            None => tell(None, 0),
        }
    };
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Some(Ok(count @ 1..)) = ended.or(stderr.read(&mut chunk)).await {
        cutter.push(&chunk[..count], &mut line_done);
    }
    cutter.finish(&mut line_done);
}

/// Tells the sink of a line, or that there was one.
pub(super) fn teller(subject: Subject) -> impl FnMut(Option<&str>, u64) + Send {
    move |line, unshown| {
        let Subject { upstream, pid, sink } = &subject;
        sink.tell(Fact::StderrLine { upstream, pid: *pid, line, unshown });
    }
}

/// Cuts a byte stream into lines of bounded length; blank lines are left out.
struct Cutter {
    max: usize,
    line: Vec<u8>,
}

impl Cutter {
    fn new(max: usize) -> Self {
        Self { max, line: Vec::new() }
    }

    fn push(&mut self, mut bytes: &[u8], done: &mut impl FnMut(&[u8])) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.keep(&bytes[..end]);
            self.finish(done);
            bytes = &bytes[end + 1..];
        }
        self.keep(bytes);
    }

    fn finish(&mut self, done: &mut impl FnMut(&[u8])) {
        if !self.line.iter().all(u8::is_ascii_whitespace) {
            done(&self.line);
        }
        self.line.clear();
    }

    /// Keeps one byte more than allowed, so that a line that was cut is seen to be.
    fn keep(&mut self, piece: &[u8]) {
        let room = (self.max + 1).saturating_sub(self.line.len());
        self.line.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(chunks: &[&[u8]], max: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut done = |line: &[u8]| lines.push(printable(line, max));
        let mut cutter = Cutter::new(max);
        for chunk in chunks {
            cutter.push(chunk, &mut done);
        }
        cutter.finish(&mut done);
        lines
    }

    /// F-025
    #[test]
    fn f_025_lines_are_cut_and_memory_is_bounded() {
        assert_eq!(cut(&[b"one\ntw", b"o\r\n\n  \nthree"], 100), ["one", "two", "three"]);
        assert_eq!(cut(&[b"abcdef", b"ghi\nok\n"], 4), ["abcd…", "ok"]);
        assert_eq!(cut(&[b"abcd\n"], 4), ["abcd"]);
        let mut cutter = Cutter::new(10);
        for _ in 0..1000 {
            cutter.push(&[b'z'; 5000], &mut |_| panic!("no line end"));
        }
        assert!(cutter.line.capacity() < 100);
    }

    #[test]
    fn f_026_the_tail_keeps_the_last_lines() {
        let tail = Tail::default();
        for nth in 0..100 {
            tail.push(format!("line {nth}").as_bytes());
        }
        tail.push(&[b'x'; 10_000]);
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (TAIL_LINES, "line 81"));
        assert!(lines[TAIL_LINES - 1].len() < 600);
    }
}
