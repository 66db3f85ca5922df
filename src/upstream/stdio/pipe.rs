//! The two pipes that carry messages: one writer and one reader per child.
//!
//! *Invariants:* lines are written whole and in the order they were sent, by one task (STDIO-07); a write that is cut is
//! told to the keeper, and the child is not used any more (F-031). Frames come out as bytes, whatever the reads were
//! (F-032, F-033); what cannot be a message is skipped, counted and sampled (F-034). A frame does not hold on to the memory
//! of much longer ones.
//!
//! *On drop:* when the receiver of frames is dropped, the reader goes on and throws away, so that the child does not block.
//!
//! *Limits:* [`caps::CHILD_QUEUE`] lines and [`QUEUED_BYTES`] wait for stdin (one line may
//! exceed that alone); [`FRAMES`] frames wait for whoever reads them, fewer if they are large, then the child's own pipe
//! fills.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use super::fact::Fact;
use super::printable::printable;
use super::streams::Subject;
use super::trickle::Trickle;
use crate::base::{caps, clock};
use crate::framing::lines::Lines;
use crate::framing::oversized::Oversized;

/// Bytes that wait for one child's stdin.
pub const QUEUED_BYTES: usize = 4 << 20;

/// Frames read and not yet taken.
pub const FRAMES: usize = 32;

/// What a child wrote to its stdout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A line that looks like a JSON object or a batch of them. Not yet checked, not even for UTF-8.
    Message(Bytes),
    /// A line above the limit: its size and both its ends (F-035).
    Oversized(Oversized),
}

// === stdin ===

/// The child takes no more lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the process takes no more messages")]
pub struct Closed;

/// Why a line was not taken at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// The queue is full.
    #[error("the process does not keep up with its messages")]
    Full,
    /// The child takes no more lines.
    #[error(transparent)]
    Closed(#[from] Closed),
}

/// Sends lines to a child. Clones share one queue.
#[derive(Debug, Clone)]
pub struct Input {
    queue: mpsc::Sender<Queued>,
    room: Arc<Semaphore>,
}

#[derive(Debug)]
struct Queued {
    line: Bytes,
    _room: OwnedSemaphorePermit,
}

impl Input {
    /// Queues a message as one line; waits while the queue is full. The newline is added, and line breaks inside, which in
    /// JSON can only be space between tokens, become spaces (STDIO-01).
    ///
    /// Safe to cancel: a line is sent whole or not at all. Success means queued, not read.
    ///
    /// # Errors
    /// [`Closed`] if the child has ended, is being stopped, or closed its stdin.
    pub async fn send(&self, message: Bytes) -> Result<(), Closed> {
        let line = one_line(message);
        let room = Arc::clone(&self.room);
        let room = room.acquire_many_owned(weight(&line)).await.map_err(|_| Closed)?;
        self.queue.send(Queued { line, _room: room }).await.map_err(|_| Closed)
    }

    /// Queues a message if there is room now; for places that cannot wait, such as a drop.
    ///
    /// # Errors
    /// [`NotTaken`]
    pub fn offer(&self, message: Bytes) -> Result<(), NotTaken> {
        let line = one_line(message);
        let room = Arc::clone(&self.room);
        if room.is_closed() {
            return Err(Closed.into());
        }
        let room = room.try_acquire_many_owned(weight(&line)).map_err(|_| NotTaken::Full)?;
        self.queue.try_send(Queued { line, _room: room }).map_err(|refused| match refused {
            mpsc::error::TrySendError::Full(_) => NotTaken::Full,
            mpsc::error::TrySendError::Closed(_) => Closed.into(),
        })
    }
}

/// The writer's end of an [`Input`].
pub(super) struct Queue {
    lines: mpsc::Receiver<Queued>,
    room: Arc<Semaphore>,
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.room.close();
    }
}

/// A queue of lines.
pub(super) fn input() -> (Input, Queue) {
    let (queue, lines) = mpsc::channel(caps::CHILD_QUEUE);
    let room = Arc::new(Semaphore::new(QUEUED_BYTES));
    (Input { queue, room: Arc::clone(&room) }, Queue { lines, room })
}

/// A line that is larger than the whole room waits until the room is empty.
fn weight(line: &Bytes) -> u32 {
    u32::try_from(line.len().min(QUEUED_BYTES)).unwrap_or(u32::MAX)
}

fn one_line(message: Bytes) -> Bytes {
    if memchr::memchr2(b'\n', b'\r', &message).is_none() {
        return message;
    }
    let space = |byte: &u8| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte };
    message.iter().map(space).collect()
}

/// Lines up to this size are copied together and written at once.
const GATHERED_BYTES: usize = 16 * 1024;

/// Writes lines until `close` is called (then what is queued already, and no more) or nobody can send any more. Dropping
/// `stdin` at the end is what tells the child to stop.
///
/// # Errors
/// A write was cut, or the child has closed its stdin.
pub(super) async fn write_lines(
    mut stdin: impl AsyncWrite + Unpin,
    mut queue: Queue,
    close: CancellationToken,
) -> Result<(), std::io::Error> {
    let mut batch = Vec::with_capacity(caps::CHILD_QUEUE);
    let mut gathered = BytesMut::new();
    loop {
        let taken = tokio::select! {
            // Both are safe to cancel.
            biased;
            () = close.cancelled(), if !queue.lines.is_closed() => {
                queue.lines.close();
                continue;
            }
            taken = queue.lines.recv_many(&mut batch, caps::CHILD_QUEUE) => taken,
        };
        if taken == 0 {
            return Ok(());
        }
        for queued in batch.drain(..) {
            if queued.line.len() > GATHERED_BYTES {
                stdin.write_all_buf(&mut gathered).await?;
                stdin.write_all(&queued.line).await?;
            } else {
                gathered.extend_from_slice(&queued.line);
            }
            gathered.extend_from_slice(b"\n");
            if gathered.len() >= GATHERED_BYTES {
                stdin.write_all_buf(&mut gathered).await?;
            }
        }
        stdin.write_all_buf(&mut gathered).await?;
    }
}

// === stdout ===

/// How long a pipe may be silent once its process is gone. Some stranger holds it; what the child wrote has been read.
const SILENCE: Duration = Duration::from_secs(1);

/// Tells the readers of a child's pipes that the child and its family are gone.
#[derive(Debug, Clone, Default)]
pub(super) struct Ended(CancellationToken);

impl Ended {
    /// The child is gone.
    pub(super) fn set(&self) {
        self.0.cancel();
    }

    /// The outcome of a read, or none if the child is gone and the read takes too long.
    pub(super) async fn or<T>(&self, read: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            // A read that is given up is the last one.
            biased;
            done = read => Some(done),
            () = self.silence() => None,
        }
    }

    async fn silence(&self) {
        self.0.cancelled().await;
        clock::sleep(SILENCE).await;
    }
}

/// Bytes read at once: little for the many children that say little, more while they say much.
const SMALL_CHUNK: usize = 8 * 1024;
const LARGE_CHUNK: usize = 64 * 1024;

/// Frames up to this size are copied out of the chunk they came in, so as not to keep it alive.
const COPIED_BYTES: usize = 4 * 1024;

/// Reads frames until the pipe is closed, or the process is gone and whoever still holds the pipe says nothing.
pub(super) async fn read_frames(
    mut stdout: impl AsyncRead + Unpin,
    max_bytes: usize,
    ended: &Ended,
    frames: mpsc::Sender<Frame>,
    noise: &Noise,
) {
    let mut lines = Lines::new(max_bytes);
    let mut chunk = BytesMut::new();
    let mut wanted = SMALL_CHUNK;
    loop {
        chunk.reserve(wanted);
        let Some(Ok(count @ 1..)) = ended.or(stdout.read_buf(&mut chunk)).await else {
            break;
        };
        wanted = if count >= SMALL_CHUNK { LARGE_CHUNK } else { SMALL_CHUNK };
        lines.push(chunk.split().freeze());
        for line in lines.by_ref() {
            deliver(line, &frames, noise).await;
        }
    }
    while let Some(line) = lines.finish() {
        deliver(line, &frames, noise).await;
    }
}

/// A frame takes a place in the queue per so many bytes until it is in it, so that few large ones wait.
const BYTES_PER_PLACE: usize = 256 * 1024;

async fn deliver(line: Result<Bytes, Oversized>, frames: &mpsc::Sender<Frame>, noise: &Noise) {
    let frame = match line {
        Ok(line) if !may_be_message(&line) => return noise.skip(&line),
        Ok(line) if line.len() <= COPIED_BYTES => Frame::Message(Bytes::copy_from_slice(&line)),
        Ok(line) => Frame::Message(line),
        Err(oversized) => Frame::Oversized(oversized),
    };
    let bytes = if let Frame::Message(line) = &frame { line.len() } else { 0 };
    // An error means that nobody takes frames any more; the child is about to be stopped and may talk until then.
    if let Ok(mut places) = frames.reserve_many((bytes / BYTES_PER_PLACE + 1).min(FRAMES)).await
        && let Some(place) = places.next()
    {
        place.send(frame);
    }
}

/// Whether a line has the outline of an object, or of an array that begins with one (a batch).
fn may_be_message(line: &[u8]) -> bool {
    match line.trim_ascii() {
        [b'{', .., b'}'] => true,
        [b'[', inner @ .., b']'] => inner.trim_ascii_start().starts_with(b"{"),
        _ => false,
    }
}

// === Noise ===

/// Noise told at once, and then one line per [`NOISE_EVERY`].
const NOISE_AT_ONCE: u32 = 10;
const NOISE_EVERY: Duration = Duration::from_secs(1);

/// Bytes of a sample.
const SAMPLE_BYTES: usize = 200;

/// Counts what a child wrote to stdout that is no message (F-034).
pub struct Noise {
    subject: Subject,
    count: AtomicU64,
    trickle: Mutex<Trickle>,
}

impl Noise {
    pub(super) fn new(subject: Subject) -> Self {
        let trickle = Mutex::new(Trickle::new(NOISE_AT_ONCE, NOISE_EVERY));
        Self { subject, count: AtomicU64::new(0), trickle }
    }

    /// Counts a line. Also for whoever finds out later that a frame is no JSON-RPC message.
    pub fn skip(&self, line: &[u8]) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let admitted = self.trickle.lock().unwrap_or_else(PoisonError::into_inner).admit(clock::now());
        let sample = admitted.map(|_| printable(line, SAMPLE_BYTES));
        let Subject { upstream, pid, sink } = &self.subject;
        sink.tell(Fact::Noise {
            upstream,
            pid: *pid,
            sample: sample.as_deref(),
            unshown: admitted.unwrap_or(0),
        });
    }

    /// Lines skipped so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
