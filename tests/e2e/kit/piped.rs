//! The program as a child that speaks on its standard streams: `portcullis stdio` and `portcullis connect`.
//!
//! *On drop.* It is killed; in a failing test what it wrote to standard error is printed.

use std::any::Any;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::task::JoinHandle;

use super::deadline::{Bell, SOON, soon, within};
use super::gateway::{Plan, dies_with_its_test};
use super::process;
use super::script::NEWEST;
use super::text;

impl Plan {
    /// Starts it for one client on standard streams; `more` are further arguments.
    pub fn pipe(self, more: &[&str]) -> Piped {
        self.file_for(|file| {
            let mut arguments = vec!["stdio", "-c", file];
            arguments.extend(more);
            Piped::start(&arguments, &[])
        })
    }
}

/// A program that runs.
pub struct Piped {
    child: Child,
    pid: u32,
    input: AsyncMutex<Option<ChildStdin>>,
    heard: Arc<Mutex<Heard>>,
    bell: Bell,
    hears: watch::Sender<bool>,
    readers: Vec<JoinHandle<()>>,
    ids: AtomicU64,
    /// The answer to `initialize`.
    pub hello: Value,
    pub keeps: Vec<Box<dyn Any + Send>>,
}

#[derive(Default)]
struct Heard {
    output: Vec<String>,
    errors: Vec<String>,
}

impl Piped {
    /// Starts the program with these arguments and variables.
    pub fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.args(arguments).current_dir(folder.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.path());
        command.envs(variables.iter().copied());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        dies_with_its_test(&mut command);
        let mut child = command.process_group(0).kill_on_drop(true).spawn().unwrap();
        let (heard, bell, hears) = (Arc::default(), Bell::new(), watch::Sender::new(true));
        let output = child.stdout.take().unwrap();
        let errors = child.stderr.take().unwrap();
        let readers = vec![
            tokio::spawn(read(output, Arc::clone(&heard), bell.clone(), hears.subscribe(), true)),
            tokio::spawn(read(errors, Arc::clone(&heard), bell.clone(), hears.subscribe(), false)),
        ];
        Piped {
            pid: child.id().unwrap(),
            input: AsyncMutex::new(child.stdin.take()),
            child,
            heard,
            bell,
            hears,
            readers,
            ids: AtomicU64::new(1),
            hello: Value::Null,
            keeps: vec![Box::new(folder)],
        }
    }

    pub fn pid(&self) -> u32 {
        self.pid
    }

    // What is said to it.

    /// Writes bytes as they are; a program that has ended does not hear them.
    pub async fn write(&self, bytes: impl AsRef<[u8]>) {
        if let Some(input) = self.input.lock().await.as_mut() {
            let _ended = input.write_all(bytes.as_ref()).await;
        }
    }

    /// Writes a line.
    pub async fn say(&self, line: &str) {
        self.write(format!("{line}\n")).await;
    }

    /// Closes its input.
    pub async fn close(&self) {
        *self.input.lock().await = None;
    }

    /// Reads nothing from now on, beyond what is read already.
    pub fn turn_deaf(&self) {
        self.hears.send_replace(false);
    }

    pub fn listen_again(&self) {
        self.hears.send_replace(true);
    }

    /// Closes the reading end of its output.
    pub async fn stop_reading(&mut self) {
        let reader = self.readers.remove(0);
        reader.abort();
        let _aborted = reader.await;
    }

    /// Opens a session of the newest revision.
    pub async fn connect(self) -> Self {
        self.connect_as(NEWEST, json!({})).await
    }

    /// Opens a session of this revision, as a client that declares this.
    pub async fn connect_as(mut self, revision: &str, capabilities: Value) -> Self {
        self.hello = self.greet(revision, capabilities).await;
        assert_eq!(self.hello["result"]["protocolVersion"], revision, "{}", self.hello);
        self.notify("notifications/initialized", json!({})).await;
        self
    }

    /// Sends `initialize` and gives its answer, whatever it is.
    pub async fn greet(&self, revision: &str, capabilities: Value) -> Value {
        let client = json!({"name": "kit", "version": "1"});
        let hello = json!({"protocolVersion": revision, "capabilities": capabilities, "clientInfo": client});
        self.request("initialize", hello).await
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.say(&text::notification(method, &params.to_string())).await;
    }

    /// Sends a request and gives its id.
    pub async fn begin(&self, method: &str, params: Value) -> u64 {
        let id = self.ids.fetch_add(1, Ordering::SeqCst);
        self.say(&text::request(&id.to_string(), method, &params.to_string())).await;
        id
    }

    /// Sends a request and waits for its answer.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.answer(json!(id)).await
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }

    pub async fn tool_names(&self) -> Vec<String> {
        let answer = self.request("tools/list", json!({})).await;
        super::names(answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}")))
    }

    // What it says.

    /// All lines of its output.
    pub fn output(&self) -> Vec<String> {
        self.heard.lock().unwrap().output.clone()
    }

    /// All messages of its output.
    pub fn messages(&self) -> Vec<Value> {
        self.output().iter().map(|line| text::tree(line)).collect()
    }

    /// All that it wrote to standard error.
    pub fn errors(&self) -> String {
        self.heard.lock().unwrap().errors.join("\n")
    }

    /// Waits for a message that is as wanted.
    pub async fn message(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.message_after(0, what, wanted).await
    }

    /// Waits for a message behind the first `lines`.
    pub async fn message_after(&self, lines: usize, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let mut from = lines;
        let look = || {
            let heard = self.heard.lock().unwrap();
            let lines = heard.output.iter().skip(from);
            let found = lines.map(|line| text::tree(line)).find(|message| wanted(message));
            from = heard.output.len();
            found
        };
        self.bell.until(SOON, what, look).await
    }

    /// Waits for the response with this id.
    pub async fn answer(&self, id: Value) -> Value {
        let what = format!("the answer to {id}");
        self.message(&what, |message| message["id"] == id && message["method"].is_null()).await
    }

    /// Waits for a request or notification of this method.
    pub async fn hears(&self, method: &str) -> Value {
        self.message(method, |message| message["method"] == method).await
    }

    // Its end.

    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid, signal);
    }

    /// Waits for its end and its last words; every line of its output is a message.
    pub async fn exit(&mut self, limit: Duration) -> ExitStatus {
        let status = within(limit, "the end of the program", self.child.wait()).await.unwrap();
        for reader in &mut self.readers {
            // Only it had the other end.
            soon("the end of its streams", reader).await.unwrap();
        }
        for line in self.output() {
            let message = text::tree(&line);
            assert!(message.is_object() || message.is_array(), "no message: {line}");
        }
        status
    }

    /// Closes its input and waits for a good end.
    pub async fn leave(&mut self) {
        self.close().await;
        let status = self.exit(SOON).await;
        assert_eq!(status.code(), Some(0), "{}", self.errors());
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- its output\n{}\n--- its errors\n{}\n---", self.output().join("\n"), self.errors());
        }
    }
}

async fn read(
    from: impl AsyncRead + Unpin,
    heard: Arc<Mutex<Heard>>,
    bell: Bell,
    mut hears: watch::Receiver<bool>,
    is_output: bool,
) {
    let mut lines = BufReader::new(from).lines();
    loop {
        if is_output && hears.wait_for(|hears| *hears).await.is_err() {
            return;
        }
        let Ok(Some(line)) = lines.next_line().await else { return };
        let mut heard = heard.lock().unwrap();
        if is_output {
            heard.output.push(line);
        } else {
            heard.errors.push(line);
        }
        drop(heard);
        bell.ring();
    }
}
