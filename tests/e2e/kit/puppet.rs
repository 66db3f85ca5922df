//! The child of a scripted stdio server: this very test program, started again with one test named.
//!
//! It has no mind of its own. What comes on standard input goes to the stage (a socket of the test
//! process), and the stage says what to write, when to exit, what to start. So one script serves
//! both transports, and a test sees and steers every child.
//!
//! *On drop.* A puppet ends with its stage: no test leaves one behind.
//!
//! Frames in both directions: one byte of kind, four of length, the bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio, exit};
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, watch};

/// Names the stage's address to the child.
const STAGE: &str = "E2E_STAGE";

/// From the puppet: its [`Arrival`], input, end of input, the pid of a grandchild.
pub const HELLO: u8 = b'h';
pub const INPUT: u8 = b'i';
pub const INPUT_ENDED: u8 = b'z';
pub const GRANDCHILD: u8 = b'g';

/// To the puppet: write to standard output or error, close standard output, exit, die, start a
/// grandchild near (in its group, holding its output) or far (in a group of its own, holding none).
const STDOUT: u8 = b'o';
const STDERR: u8 = b'e';
const CLOSE: u8 = b'c';
const EXIT: u8 = b'x';
const KILL: u8 = b'k';
const START_NEAR: u8 = b'n';
const START_FAR: u8 = b'f';

/// What a puppet tells of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Arrival {
    pub pid: u32,
    pub environment: BTreeMap<String, String>,
    pub folder: String,
}

/// The shell words that become a puppet: `sh -c WORDS program stage`. Standard output is kept
/// for the puppet as descriptor 3, because the test harness writes to the first.
pub fn words(stubborn: bool) -> String {
    let ears = if stubborn { "trap '' TERM INT HUP; " } else { "" };
    format!(
        r#"{ears}{STAGE}="$1" exec "$0" --exact kit::puppet::plays_when_a_stage_is_named --nocapture --test-threads=1 3>&1 >/dev/null"#
    )
}

/// A puppet when the environment names a stage; nothing to do when it is run as a test.
#[test]
fn plays_when_a_stage_is_named() {
    if let Ok(stage) = std::env::var(STAGE) {
        // Whatever goes wrong here means that the stage is gone.
        let _stage_gone = play(&stage);
        exit(0);
    }
}

fn play(stage: &str) -> io::Result<()> {
    let mut stage = TcpStream::connect(stage)?;
    stage.set_nodelay(true)?;
    let hello = Arrival {
        pid: std::process::id(),
        environment: std::env::vars().filter(|(name, _)| name != STAGE).collect(),
        folder: std::env::current_dir()?.display().to_string(),
    };
    write_frame(&mut stage, HELLO, &serde_json::to_vec(&hello)?)?;
    let mut ears = stage.try_clone()?;
    thread::spawn(move || {
        let mut input = [0; 65536];
        loop {
            match io::stdin().read(&mut input) {
                Ok(0) | Err(_) => return write_frame(&mut ears, INPUT_ENDED, b""),
                Ok(count) => write_frame(&mut ears, INPUT, &input[..count])?,
            }
        }
    });
    // SAFETY: the shell words open descriptor 3 for this process, and nothing else here owns it.
    let mut output = Some(File::from(unsafe { OwnedFd::from_raw_fd(3) }));
    rustix::io::fcntl_setfd(output.as_ref().unwrap(), rustix::io::FdFlags::CLOEXEC)?;
    loop {
        let (kind, bytes) = read_frame(&mut stage)?;
        match kind {
            STDOUT => {
                if let Some(output) = &mut output {
                    // A reader that left is the test's affair.
                    let _reader_gone = output.write_all(&bytes);
                }
            }
            STDERR => io::stderr().write_all(&bytes)?,
            CLOSE => output = None,
            EXIT => exit(i32::from(bytes[0])),
            KILL => rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?,
            START_NEAR | START_FAR => {
                let mut sleep = Command::new("sleep");
                sleep.arg("600").stdin(Stdio::null()).stdout(Stdio::null());
                match &output {
                    Some(output) if kind == START_NEAR => sleep.stdout(output.try_clone()?),
                    _ => sleep.process_group(0),
                };
                // Its end is the test's question; the puppet never waits for it.
                let pid = sleep.spawn()?.id();
                write_frame(&mut stage, GRANDCHILD, pid.to_string().as_bytes())?;
            }
            other => panic!("no such command: {other}"),
        }
    }
}

fn write_frame(stage: &mut TcpStream, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let mut frame = vec![kind];
    frame.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    frame.extend(bytes);
    stage.write_all(&frame)
}

fn read_frame(stage: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut head = [0; 5];
    stage.read_exact(&mut head)?;
    let mut bytes = vec![0; u32::from_be_bytes(head[1..].try_into().unwrap()) as usize];
    stage.read_exact(&mut bytes)?;
    Ok((head[0], bytes))
}

/// Where a grandchild lives.
#[derive(Clone, Copy, PartialEq)]
pub enum Place {
    /// In the child's process group, and holding the child's standard output.
    Near,
    /// In a process group of its own.
    Far,
}

/// The stage's hold on one puppet.
#[derive(Clone)]
pub struct Strings {
    arrival: Arc<Arrival>,
    commands: mpsc::UnboundedSender<(u8, Bytes)>,
    gone: watch::Receiver<bool>,
}

impl Strings {
    /// The strings of a puppet that has just connected, and the commands to hand on to it.
    pub(super) fn new(arrival: Arrival, gone: watch::Receiver<bool>) -> (Self, Commands) {
        let (commands, heard) = mpsc::unbounded_channel();
        (Strings { arrival: Arc::new(arrival), commands, gone }, heard)
    }

    pub fn pid(&self) -> u32 {
        self.arrival.pid
    }

    /// The environment it was given.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.arrival.environment
    }

    /// The folder it was started in.
    pub fn folder(&self) -> &str {
        &self.arrival.folder
    }

    /// Writes to standard output, in one write.
    pub fn stdout(&self, bytes: impl Into<Bytes>) {
        self.tell(STDOUT, bytes);
    }

    pub fn stderr(&self, bytes: impl Into<Bytes>) {
        self.tell(STDERR, bytes);
    }

    pub fn close_stdout(&self) {
        self.tell(CLOSE, Bytes::new());
    }

    pub fn exit(&self, code: u8) {
        self.tell(EXIT, vec![code]);
    }

    /// Dies by SIGKILL.
    pub fn die(&self) {
        self.tell(KILL, Bytes::new());
    }

    /// Starts a sleeping process.
    pub(super) fn start(&self, place: Place) {
        self.tell(if place == Place::Far { START_FAR } else { START_NEAR }, Bytes::new());
    }

    pub fn is_gone(&self) -> bool {
        *self.gone.borrow()
    }

    /// Waits until the process has ended.
    pub async fn gone(&self) {
        let mut gone = self.gone.clone();
        let _stage_closed = gone.wait_for(|gone| *gone).await;
    }

    fn tell(&self, kind: u8, bytes: impl Into<Bytes>) {
        // A puppet that has ended cannot be told anything.
        let _gone = self.commands.send((kind, bytes.into()));
    }
}

/// Commands on their way to a puppet: kind and bytes.
pub(super) type Commands = mpsc::UnboundedReceiver<(u8, Bytes)>;

/// Writes commands to a puppet for as long as both are there.
pub(super) async fn command(mut stage: OwnedWriteHalf, mut heard: Commands) -> io::Result<()> {
    while let Some((kind, bytes)) = heard.recv().await {
        stage.write_u8(kind).await?;
        stage.write_u32(u32::try_from(bytes.len()).unwrap()).await?;
        stage.write_all(&bytes).await?;
    }
    Ok(())
}

/// Reads one frame of a puppet.
pub async fn hear(stage: &mut OwnedReadHalf) -> io::Result<(u8, Vec<u8>)> {
    let kind = stage.read_u8().await?;
    let length = stage.read_u32().await?;
    let mut bytes = vec![0; length as usize];
    stage.read_exact(&mut bytes).await?;
    Ok((kind, bytes))
}
