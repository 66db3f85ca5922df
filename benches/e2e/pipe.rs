//! The load that drives a stdio upstream itself, over its pipes: the limit for whoever stands between.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdin, ChildStdout, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::{
    client::Message,
    figures::{Outcome, Tally},
    load::{Span, Window},
    work::{self, text},
};

/// A load over pipes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    pub command: Vec<String>,
    /// Calls in flight.
    pub connections: usize,
    pub window: Span,
}

/// Runs the load; what cannot even begin comes out as an error of the outcome.
pub fn run(job: &Job) -> Outcome {
    let mut tally = Tally::default();
    let window = Window::from_now(job.window);
    if let Err(error) = drive(job, window, &mut tally) {
        tally.outcome.complain(&error);
    }
    tally.close(job.window.seconds)
}

fn drive(job: &Job, window: Window, tally: &mut Tally) -> Result<()> {
    let (program, arguments) = job.command.split_first().context("no command")?;
    let mut child =
        Command::new(program).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let input = child.stdin.take().context("no input")?;
    let output = child.stdout.take().context("no output")?;
    let mut pipe = Pipe::new(input, output);
    let outcome = pipe.shake_hands().and_then(|()| pipe.keep_busy(job.connections, window, tally));
    // Its input ends here, and with it the child.
    drop(pipe);
    child.wait()?;
    outcome
}

struct Pipe {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
    unsent: Vec<u8>,
    next: u64,
}

impl Pipe {
    fn new(input: ChildStdin, output: ChildStdout) -> Self {
        let output = BufReader::with_capacity(1 << 16, output);
        Self { input, output, line: Vec::new(), unsent: Vec::new(), next: 1 }
    }

    fn shake_hands(&mut self) -> Result<()> {
        self.input.write_all(
            concat!(
                r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
                r#""capabilities":{},"clientInfo":{"name":"bench","version":"1.0.0"}}}"#,
                "\n",
                r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
                "\n"
            )
            .as_bytes(),
        )?;
        self.read()?.outcome(0)?;
        Ok(())
    }

    fn keep_busy(&mut self, calls: usize, window: Window, tally: &mut Tally) -> Result<()> {
        let mut begun = HashMap::new();
        for _ in 0..calls {
            begun.insert(self.call(), Instant::now());
        }
        while !begun.is_empty() {
            // Calls wait for each other only while answers are at hand.
            if self.output.buffer().is_empty() {
                self.input.write_all(&self.unsent)?;
                self.unsent.clear();
            }
            let message = self.read()?;
            let id = message.id.context("an answer without an id")?;
            work::check(&message.outcome(id)?.content, 0, &text(id as usize))?;
            let since: Instant = begun.remove(&id).context("an answer that nobody waits for")?;
            let now = Instant::now();
            if since >= window.begin && now <= window.end {
                tally.took(nanoseconds(now - since));
            }
            if now < window.end {
                begun.insert(self.call(), now);
            }
        }
        Ok(())
    }

    /// Puts a call among the unsent and gives its id.
    fn call(&mut self) -> u64 {
        let id = self.next;
        self.next += 1;
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{}"}}}}}}"#,
            text(id as usize)
        );
        self.unsent.extend_from_slice(call.as_bytes());
        self.unsent.push(b'\n');
        id
    }

    fn read(&mut self) -> Result<Message<'_>> {
        self.line.clear();
        ensure!(self.output.read_until(b'\n', &mut self.line)? > 0, "the child ended its output");
        Ok(serde_json::from_slice(&self.line)?)
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
