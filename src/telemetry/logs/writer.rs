//! Writes lines from a thread of its own, so that a reader that stopped blocks nobody (F-025).
//!
//! *Limits*: what waits is bounded in bytes and lines; beyond that new lines are lost, counted, and
//! reported once writing goes on.
//!
//! *On drop* of the last handle the thread writes what waits and ends.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Most bytes that wait to be written.
const WAITING_BYTES: usize = 512 * 1024;

/// Most lines that wait to be written.
const WAITING_LINES: usize = 2048;

/// Most bytes that are put into one write.
const BATCH_BYTES: usize = 64 * 1024;

/// Takes lines and never waits.
pub(super) struct Writer {
    lines: SyncSender<String>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: AtomicUsize,
    lost: AtomicU64,
    flushed: Condvar,
    gate: Mutex<()>,
}

impl Writer {
    /// Starts the thread. `report` makes the line that tells how many were lost.
    ///
    /// # Errors
    ///
    /// If the system gives no thread.
    pub(super) fn start<W: Write + Send + 'static>(sink: W, report: fn(u64) -> String) -> io::Result<Self> {
        let (lines, receiver) = sync_channel(WAITING_LINES);
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        thread::Builder::new()
            .name("log-writer".to_owned())
            .spawn(move || drain(&receiver, sink, &theirs, report))?;
        Ok(Self { lines, shared })
    }

    /// Hands a line over, or counts it as lost. Returns whether it was taken.
    pub(super) fn write(&self, line: String) -> Taken {
        let length = line.len();
        let before = self.shared.waiting.fetch_add(length, Ordering::AcqRel);
        if before + length > WAITING_BYTES || self.lines.try_send(line).is_err() {
            self.shared.done(length);
            self.shared.lost.fetch_add(1, Ordering::Relaxed);
            return Taken::No;
        }
        Taken::Yes
    }

    /// Waits until all lines taken so far are written, or the time is over.
    pub(super) fn flush(&self, limit: Duration) {
        let gate = self.shared.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = |(): &mut ()| self.shared.waiting.load(Ordering::Acquire) > 0;
        drop(self.shared.flushed.wait_timeout_while(gate, limit, waiting));
    }
}

/// Whether a line will be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Yes,
    No,
}

impl Shared {
    fn done(&self, bytes: usize) {
        if self.waiting.fetch_sub(bytes, Ordering::AcqRel) == bytes {
            let _gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
            self.flushed.notify_all();
        }
    }
}

fn drain(lines: &Receiver<String>, mut sink: impl Write, shared: &Shared, report: fn(u64) -> String) {
    let mut batch = String::new();
    while let Ok(line) = lines.recv() {
        batch.clear();
        batch.push_str(&line);
        while batch.len() < BATCH_BYTES
            && let Ok(line) = lines.try_recv()
        {
            batch.push_str(&line);
        }
        let taken = batch.len();
        let lost = shared.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            batch.push_str(&report(lost));
        }
        // A sink that fails has nobody to tell; the next line is another try.
        let _ = sink.write_all(batch.as_bytes()).and_then(|()| sink.flush());
        shared.done(taken);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// A sink that writes only when it is let.
    struct Stuck {
        go: mpsc::Receiver<()>,
        seen: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.go.recv().map_err(io::Error::other)?;
            self.seen.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn report(lost: u64) -> String {
        format!("lost {lost}\n")
    }

    #[test]
    fn f_025_a_reader_that_stopped_costs_lines_not_time() {
        let (go, going) = mpsc::channel();
        let (seen, written) = mpsc::channel();
        let writer = Writer::start(Stuck { go: going, seen }, report).unwrap();
        let taken = (0..100_000).filter(|_| writer.write("x".repeat(1023) + "\n") == Taken::Yes).count();
        assert!(taken <= WAITING_BYTES / 1024, "{taken} lines wait");
        assert!(writer.shared.waiting.load(Ordering::Acquire) <= WAITING_BYTES);
        writer.flush(Duration::from_millis(1));
        // The reader comes back: what waited is written, and the loss is told.
        (0..1000).for_each(|_| go.send(()).unwrap());
        writer.flush(Duration::from_secs(30));
        assert_eq!(writer.shared.waiting.load(Ordering::Acquire), 0);
        drop(writer);
        let text = String::from_utf8(written.iter().flatten().collect()).unwrap();
        let lost = text.lines().filter_map(|line| line.strip_prefix("lost ")?.parse::<usize>().ok());
        assert_eq!(lost.sum::<usize>(), 100_000 - taken);
        assert_eq!(text.matches('x').count(), taken * 1023);
    }

    #[test]
    fn a_sink_that_fails_does_not_end_the_thread() {
        let (go, going) = mpsc::channel::<()>();
        let (seen, _written) = mpsc::channel();
        drop(go);
        let writer = Writer::start(Stuck { go: going, seen }, report).unwrap();
        for _ in 0..3 {
            assert_eq!(writer.write("line\n".to_owned()), Taken::Yes);
            writer.flush(Duration::from_secs(30));
            assert_eq!(writer.shared.waiting.load(Ordering::Acquire), 0);
        }
    }
}
