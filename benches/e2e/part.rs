//! A process that takes part: this program in another role, or a program from outside.
//!
//! *On drop*: the process is asked to end, then made to, and waited for; none is left behind.

use std::{
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    path::Path,
    process::{self, Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Serialize, de::DeserializeOwned};

/// The first argument of this program when it plays a part instead of running the bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Upstream,
    StdioUpstream,
    Proxy,
    Load,
}

impl Role {
    /// As it stands on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Upstream => "upstream",
            Self::StdioUpstream => "upstream-stdio",
            Self::Proxy => "proxy",
            Self::Load => "load",
        }
    }

    /// The role of this word, if it is one.
    pub fn of(word: &str) -> Option<Self> {
        [Self::Upstream, Self::StdioUpstream, Self::Proxy, Self::Load]
            .into_iter()
            .find(|role| role.word() == word)
    }
}

/// What a process gets to end by itself before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// A running process.
#[derive(Debug)]
pub struct Part {
    child: Child,
}

impl Part {
    /// Starts this program in a role that serves until it is dropped, and gives its first word.
    pub fn serving<W: DeserializeOwned>(role: Role, order: &impl Serialize) -> Result<(Self, W)> {
        let mut child =
            command(role, order)?.spawn().with_context(|| format!("cannot start {}", role.word()))?;
        let output = child.stdout.take().context("a part has no output")?;
        let part = Self { child };
        let mut line = String::new();
        BufReader::new(output).read_line(&mut line)?;
        let word = serde_json::from_str(&line).with_context(|| format!("{} did not come up", role.word()))?;
        Ok((part, word))
    }

    /// Starts a program from outside in a folder of its own, where its output is kept as `log`.
    pub fn outside(command: &mut Command, folder: &Path) -> Result<Self> {
        let log = File::create(folder.join("log"))?;
        let child = command
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().display()))?;
        Ok(Self { child })
    }

    /// The process's number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the process has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid.filter(|_| !self.has_ended()) {
            // An error means that it is gone already.
            let _ = kill_process(pid, Signal::TERM);
        }
        let deadline = Instant::now() + GRACE;
        while !self.has_ended() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs this program in a role that ends by itself, and gives its one word.
pub fn ask<W: DeserializeOwned>(role: Role, order: &impl Serialize) -> Result<W> {
    let (_ending, word) = Part::serving(role, order)?;
    Ok(word)
}

/// Says the one line that the starter of a part waits for.
pub fn announce(word: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(word)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    Ok(output.flush()?)
}

/// Ends this process when the one that started it is gone, however it went.
pub fn end_with_starter() {
    thread::spawn(|| {
        // Nothing is ever sent; the input ends when its other end does.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::exit(0)
    });
}

/// The end of what a program from outside has said, for a message about its failure.
pub fn last_words(folder: &Path) -> String {
    let said = fs::read_to_string(folder.join("log")).unwrap_or_default();
    let lines: Vec<&str> = said.lines().rev().take(3).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join(" | ")
}

fn command(role: Role, order: &impl Serialize) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(role.word()).arg(serde_json::to_string(order)?);
    // The input stays open as long as this process lives: see `end_with_starter`.
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}
