//! Lines in, frames out, over pipes in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncWrite, DuplexStream, ReadBuf, duplex};

use super::*;
use crate::base::tasks::{Task, spawn};

const MAX: usize = 1 << 20;

struct Reading {
    frames: mpsc::Receiver<Frame>,
    noise: Arc<Noise>,
    samples: Arc<Mutex<Vec<String>>>,
    _task: Task<()>,
}

/// Reads frames from a child's end of a pipe.
fn reading(stdout: impl AsyncRead + Unpin + Send + 'static, max: usize) -> Reading {
    let samples = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let samples = Arc::clone(&samples);
        move |fact: Fact<'_>| {
            if let Fact::Noise { sample: Some(sample), .. } = fact {
                samples.lock().unwrap().push(sample.to_owned());
            }
        }
    };
    let noise = Arc::new(Noise::new(Subject { upstream: "alpha".into(), pid: 1, sink: Arc::new(sink) }));
    let (frame, frames) = mpsc::channel(FRAMES);
    let task = {
        let noise = Arc::clone(&noise);
        spawn("reader", async move { read_frames(stdout, max, &Ended::default(), frame, &noise).await })
    };
    Reading { frames, noise, samples, _task: task }
}

async fn all(mut reading: Reading) -> (Vec<Frame>, u64, Vec<String>) {
    let mut frames = Vec::new();
    while let Some(frame) = reading.frames.recv().await {
        frames.push(frame);
    }
    let samples = reading.samples.lock().unwrap().clone();
    (frames, reading.noise.count(), samples)
}

fn message(text: &str) -> Frame {
    Frame::Message(Bytes::copy_from_slice(text.as_bytes()))
}

/// F-034, as written there: three lines skipped, the blank one not counted.
#[tokio::test]
async fn f_034_noise_on_stdout_is_skipped_and_counted() {
    let (mut child, stdout) = duplex(64);
    let reading = reading(stdout, MAX);
    let text =
        "\u{feff}Server v1 🚀\r\n\r\n[INFO] ready\n{\"half\": 1\n[1,2]\nnull\n{\"id\":1}\r\n[ {\"id\":2}]\n";
    child.write_all(text.as_bytes()).await.unwrap();
    drop(child);
    let (frames, count, samples) = all(reading).await;
    assert_eq!(frames, [message("{\"id\":1}"), message("[ {\"id\":2}]")]);
    assert_eq!(count, 5);
    assert_eq!(samples, ["Server v1 🚀", "[INFO] ready", "{\"half\": 1", "[1,2]", "null"]);
}

#[tokio::test]
async fn f_034_a_flood_of_noise_is_counted_and_sampled() {
    let (mut child, stdout) = duplex(1 << 16);
    let reading = reading(stdout, MAX);
    child.write_all("noise\n".repeat(1000).as_bytes()).await.unwrap();
    drop(child);
    let (frames, count, samples) = all(reading).await;
    assert_eq!((frames.len(), count), (0, 1000));
    assert!(samples.len() < 100, "{} samples", samples.len());
}

/// F-035: the stream goes on behind a line that is too long.
#[tokio::test]
async fn f_035_an_oversized_line_is_told_with_its_ends() {
    let (mut child, stdout) = duplex(64);
    let reading = reading(stdout, 100);
    let long = format!("{{\"id\":7,\"result\":\"{}\"}}", "x".repeat(1000));
    child.write_all(format!("{long}\n{{\"id\":8}}\n").as_bytes()).await.unwrap();
    drop(child);
    let (frames, _, _) = all(reading).await;
    let Frame::Oversized(oversized) = &frames[0] else { panic!("{frames:?}") };
    assert_eq!(oversized.bytes, long.len() as u64);
    assert!(oversized.head.starts_with(b"{\"id\":7"));
    assert_eq!(frames[1], message("{\"id\":8}"));
}

/// A frame that is kept must not keep its neighbours.
#[tokio::test]
async fn a_small_frame_does_not_hold_the_chunk_it_came_in() {
    let (mut child, stdout) = duplex(1 << 20);
    let reading = reading(stdout, MAX);
    let big = format!("{{\"big\":\"{}\"}}\n{{\"small\":1}}\n", "x".repeat(100_000));
    child.write_all(big.as_bytes()).await.unwrap();
    drop(child);
    let (frames, _, _) = all(reading).await;
    let Frame::Message(small) = frames.into_iter().nth(1).unwrap() else { panic!("no message") };
    let alone = small.try_into_mut().unwrap();
    assert!(alone.capacity() < 100, "{} bytes held", alone.capacity());
}

/// The reader outlives whoever took its frames, so that the child is never blocked.
#[tokio::test]
async fn frames_that_nobody_takes_are_thrown_away() {
    let (mut child, stdout) = duplex(64);
    let reading = reading(stdout, MAX);
    drop(reading.frames);
    child.write_all("{\"id\":1}\n".repeat(10_000).as_bytes()).await.unwrap();
}

fn writing(
    stdin: impl AsyncWrite + Unpin + Send + 'static,
) -> (Input, CancellationToken, Task<io::Result<()>>) {
    let (input, queue) = input();
    let close = CancellationToken::new();
    let task = spawn("writer", write_lines(stdin, queue, close.clone()));
    (input, close, task)
}

async fn read_all(mut pipe: DuplexStream) -> String {
    let mut text = String::new();
    pipe.read_to_string(&mut text).await.unwrap();
    text
}

/// STDIO-01: no newline inside a line.
#[tokio::test]
async fn stdio_01_a_pretty_message_is_sent_as_one_line() {
    let (stdin, child) = duplex(1 << 16);
    let (input, _, _task) = writing(stdin);
    input.send(Bytes::from_static(b"{\r\n  \"id\": 1,\n \"s\": \"a\\nb\"}")).await.unwrap();
    input.send(Bytes::from_static(b"{}")).await.unwrap();
    drop(input);
    assert_eq!(read_all(child).await, "{    \"id\": 1,  \"s\": \"a\\nb\"}\n{}\n");
}

/// STDIO-07: lines of any size, from many senders, whole and in order of sending.
#[tokio::test]
async fn stdio_07_lines_are_never_interleaved() {
    let (stdin, child) = duplex(100);
    let (input, _, _task) = writing(stdin);
    let senders: Vec<_> = (0..10)
        .map(|sender| {
            let input = input.clone();
            spawn("sender", async move {
                for (nth, size) in [0, 10, 20_000, 1, 70_000].into_iter().enumerate() {
                    let line = format!("{sender}:{nth}:{}", "x".repeat(size));
                    input.send(line.into()).await.unwrap();
                }
            })
        })
        .collect();
    drop(input);
    let text = read_all(child).await;
    for sender in senders {
        sender.await.unwrap();
    }
    let mut seen = [0; 10];
    for line in text.lines() {
        let mut parts = line.split(':');
        let sender: usize = parts.next().unwrap().parse().unwrap();
        let nth: usize = parts.next().unwrap().parse().unwrap();
        assert_eq!(nth, seen[sender], "in order");
        assert!(parts.next().unwrap().bytes().all(|byte| byte == b'x'));
        seen[sender] += 1;
    }
    assert_eq!(seen, [5; 10]);
}

/// STDIO-04: what is queued is still written when the input is to be closed; later lines are refused.
#[tokio::test]
async fn stdio_04_closing_writes_what_is_queued() {
    let (stdin, child) = duplex(8);
    let (input, close, task) = writing(stdin);
    for _ in 0..5 {
        input.send(Bytes::from_static(b"0123456789")).await.unwrap();
    }
    close.cancel();
    let text = read_all(child).await;
    assert_eq!(text, "0123456789\n".repeat(5));
    assert!(task.await.unwrap().is_ok());
    assert_eq!(input.send(Bytes::from_static(b"late")).await, Err(Closed));
    assert_eq!(input.offer(Bytes::from_static(b"late")), Err(NotTaken::Closed(Closed)));
}

/// STDIO-07: the queue is bounded in lines and in bytes; who cannot wait is told.
#[tokio::test]
async fn stdio_07_the_queue_is_bounded() {
    let (input, queue) = input();
    for _ in 0..caps::CHILD_QUEUE {
        input.offer(Bytes::from_static(b"{}")).unwrap();
    }
    assert_eq!(input.offer(Bytes::from_static(b"{}")), Err(NotTaken::Full));
    drop(queue);

    let (input, queue) = super::input();
    let huge = Bytes::from(vec![b'x'; QUEUED_BYTES + 1]);
    input.offer(huge.clone()).unwrap();
    assert_eq!(input.offer(Bytes::from_static(b"{}")), Err(NotTaken::Full));
    let waiting = {
        let input = input.clone();
        spawn("sender", async move { input.send(huge).await })
    };
    tokio::task::yield_now().await;
    assert!(!waiting.is_finished());
    drop(queue);
    assert_eq!(waiting.await.unwrap(), Err(Closed), "a dead child frees who waits");
}

/// A pipe that takes ten bytes and breaks.
struct Breaks(usize);

impl AsyncWrite for Breaks {
    fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if self.0 == 0 {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// F-031
#[tokio::test]
async fn f_031_a_cut_write_ends_the_writer() {
    let (input, _close, task) = writing(Breaks(10));
    input.send(Bytes::from_static(b"0123456789abcdef")).await.unwrap();
    assert!(task.await.unwrap().is_err());
    assert_eq!(input.send(Bytes::from_static(b"{}")).await, Err(Closed));
}

/// A pipe that a stranger holds open and that says nothing.
struct Silent;

impl AsyncRead for Silent {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

/// a pipe that someone else holds does not hold us.
#[tokio::test]
async fn r_13_a_silent_pipe_of_a_dead_child_is_given_up() {
    let ended = Ended::default();
    ended.set();
    let mut silent = Silent;
    assert!(ended.or(silent.read_u8()).await.is_none());
}
