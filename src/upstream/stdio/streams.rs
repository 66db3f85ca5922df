//! Gives the three streams of a new child their tasks.

use std::io;
use std::process;
use std::sync::Arc;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::fact::Sink;
use super::pipe::{self, Ended, FRAMES, Frame, Input, Noise};
use super::stderr::{self, Tail};
use crate::base::tasks::{Task, spawn};

/// Our ends of a child's streams.
pub(super) struct Pipes {
    stdin: process::ChildStdin,
    stdout: process::ChildStdout,
    stderr: process::ChildStderr,
}

impl Pipes {
    /// Takes the pipes of a process that was started with three.
    pub(super) fn take(process: &mut process::Child) -> Option<Self> {
        Some(Self {
            stdin: process.stdin.take()?,
            stdout: process.stdout.take()?,
            stderr: process.stderr.take()?,
        })
    }
}

/// Which child something is about, and who is told.
#[derive(Clone)]
pub(super) struct Subject {
    pub upstream: Arc<str>,
    pub pid: u32,
    pub sink: Arc<dyn Sink>,
}

/// The holder's side of the streams.
pub(super) struct Talk {
    pub input: Input,
    pub frames: mpsc::Receiver<Frame>,
    pub noise: Arc<Noise>,
}

/// The keeper's side of the streams.
pub(super) struct Streams {
    /// Tells of pipes that cannot be used any more.
    pub ends: mpsc::Receiver<PipeEnd>,
    /// Closes stdin once what is queued is written.
    pub close_input: CancellationToken,
    /// Its end closes stdin at once.
    pub writer: Option<Task<()>>,
    /// To be told when the family is gone.
    pub ended: Ended,
    /// Ends when all of stderr was read.
    pub stderr: Task<()>,
    /// The last lines of stderr.
    pub tail: Tail,
}

/// A pipe of the child that cannot be used any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PipeEnd {
    /// A write to stdin was cut.
    Input,
    /// Stdout was closed.
    Output,
}

/// Starts the tasks, in the run time this is called in.
pub(super) fn open(pipes: Pipes, subject: &Subject, max_message: usize) -> io::Result<(Streams, Talk)> {
    let stdin = ChildStdin::from_std(pipes.stdin)?;
    let stdout = ChildStdout::from_std(pipes.stdout)?;
    let stderr = ChildStderr::from_std(pipes.stderr)?;
    let (ended, tail, close_input) = (Ended::default(), Tail::default(), CancellationToken::new());
    let (end, ends) = mpsc::channel(2);
    let (input, queue) = pipe::input();
    let writer = {
        let (close_input, end) = (close_input.clone(), end.clone());
        spawn("child-stdin", async move {
            if pipe::write_lines(stdin, queue, close_input).await.is_err() {
                // An error means that the keeper is done.
                let _ = end.send(PipeEnd::Input).await;
            }
        })
    };
    let noise = Arc::new(Noise::new(subject.clone()));
    let (frame, frames) = mpsc::channel(FRAMES);
    {
        let (ended, noise) = (ended.clone(), Arc::clone(&noise));
        // Ends by itself: with the pipe, or soon after the process.
        spawn("child-stdout", async move {
            pipe::read_frames(stdout, max_message, &ended, frame, &noise).await;
            // An error means that the keeper is done.
            let _ = end.send(PipeEnd::Output).await;
        })
        .detach();
    }
    let tell = stderr::teller(subject.clone());
    let stderr = spawn("child-stderr", stderr::drain(stderr, ended.clone(), tail.clone(), tell));
    let streams = Streams { ends, close_input, writer: Some(writer), ended, stderr, tail };
    Ok((streams, Talk { input, frames, noise }))
}
