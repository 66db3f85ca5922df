//! The gateway under test: the real program, its configuration, its log, its end.
//!
//! *On drop.* The gateway is killed; in a failing test its log is printed.

use std::any::Any;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::process::set_parent_process_death_signal;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use super::client::Client;
use super::deadline::{Bell, SOON, ms, pass, secs, soon, within};
use super::http_server::{Http, HttpServer};
use super::letter::Letter;
use super::metrics::Metrics;
use super::piped::Piped;
use super::process;
use super::script::Server;
use super::sse_server::{Sse, SseServer};
use super::stdio_server::{Pipe, StdioServer};

/// An entry of a configuration, and the server behind it where the gateway's test owns that.
pub struct Entry {
    json: Value,
    keeps: Option<Box<dyn Any + Send>>,
}

impl Entry {
    /// Adds members under `portcullis`.
    pub fn with(mut self, ours: Value) -> Self {
        merge(&mut self.json["portcullis"], ours);
        self
    }

    /// Adds members beside the ordinary ones.
    pub fn and(mut self, theirs: Value) -> Self {
        merge(&mut self.json, theirs);
        self
    }
}

impl From<Value> for Entry {
    fn from(json: Value) -> Self {
        Entry { json, keeps: None }
    }
}

impl From<&HttpServer> for Entry {
    fn from(server: &HttpServer) -> Self {
        server.entry().into()
    }
}

impl From<&StdioServer> for Entry {
    fn from(server: &StdioServer) -> Self {
        server.entry().into()
    }
}

impl From<&SseServer> for Entry {
    fn from(server: &SseServer) -> Self {
        server.entry().into()
    }
}

impl From<Server<Sse>> for Entry {
    fn from(server: Server<Sse>) -> Self {
        let server = server.start();
        Entry { json: server.entry(), keeps: Some(Box::new(server)) }
    }
}

impl From<Server<Http>> for Entry {
    fn from(server: Server<Http>) -> Self {
        let server = server.start();
        Entry { json: server.entry(), keeps: Some(Box::new(server)) }
    }
}

impl From<Server<Pipe>> for Entry {
    fn from(server: Server<Pipe>) -> Self {
        let server = server.start();
        Entry { json: server.entry(), keeps: Some(Box::new(server)) }
    }
}

/// Objects are merged, everything else is replaced.
fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (name, value) in more {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// A gateway about to be started.
pub struct Plan {
    document: Value,
    environment: Vec<(String, String)>,
    descriptors: Option<u64>,
    keeps: Vec<Box<dyn Any + Send>>,
}

/// What the first tries of upstreams may take before the gateway is ready without them, and some more.
const START: Duration = secs(6);

/// How often the operator's port is asked.
const GLANCE: Duration = ms(20);

/// Begins a gateway: `gateway().upstream("alpha", http_server().tool("echo")).start().await`.
pub fn gateway() -> Plan {
    let document = json!({
        "mcpServers": {},
        "portcullis": {"listen": "127.0.0.1:0", "admin": {"listen": "127.0.0.1:0"}},
    });
    Plan { document, environment: Vec::new(), descriptors: None, keeps: Vec::new() }
}

impl Plan {
    pub fn upstream(mut self, name: &str, entry: impl Into<Entry>) -> Self {
        let entry = entry.into();
        self.document["mcpServers"][name] = entry.json;
        self.keeps.extend(entry.keeps);
        self
    }

    /// Adds settings under the top-level `portcullis`.
    pub fn with(mut self, ours: Value) -> Self {
        merge(&mut self.document["portcullis"], ours);
        self
    }

    /// A variable of the gateway's own environment.
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    /// The soft limit of descriptors it is started with.
    pub fn descriptors(mut self, soft: u64) -> Self {
        self.descriptors = Some(soft);
        self
    }

    /// Starts it and waits until it says that it is ready, as whoever sends it traffic would; one
    /// that is not ready after all its waiting is handed over all the same.
    pub async fn start(self) -> Gateway {
        let gateway = self.start_at_once().await;
        let ready = async {
            while gateway.operator("/readyz").await.0 != 200 {
                pass(GLANCE).await;
            }
        };
        let _still_not = tokio::time::timeout(START, ready).await;
        gateway
    }

    /// Starts it and waits only until it answers at all: for tests of the start itself.
    pub async fn start_at_once(self) -> Gateway {
        let mut gateway = self.spawn().await;
        let (log, bell) = (Arc::clone(&gateway.log), gateway.bell.clone());
        let open = || {
            let log = log.lock().unwrap();
            Some((log.address_of("clients")?, log.address_of("operator")?))
        };
        tokio::select! {
            (clients, operator) = bell.until(SOON, "the gateway listens", open) => {
                gateway.clients = clients;
                gateway.operator = operator;
            }
            status = gateway.child.wait() => panic!("the gateway ended while starting: {status:?}"),
        }
        // Its ports are open before it serves them.
        assert_eq!(gateway.operator("/livez").await.0, 200);
        gateway
    }

    /// Starts it where it is to refuse, and waits for its end.
    pub async fn refused(self) -> (ExitStatus, String) {
        let mut gateway = self.spawn().await;
        let status = gateway.exit(SOON).await;
        (status, gateway.log())
    }

    /// Writes its file and starts a program with it that serves no port.
    pub(super) fn file_for(self, start: impl FnOnce(&str) -> Piped) -> Piped {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("portcullis.json");
        std::fs::write(&file, serde_json::to_vec_pretty(&self.document).unwrap()).unwrap();
        let mut piped = start(file.to_str().unwrap());
        piped.keeps.push(Box::new(folder));
        piped.keeps.extend(self.keeps);
        piped
    }

    async fn spawn(self) -> Gateway {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("portcullis.json");
        std::fs::write(&file, serde_json::to_vec_pretty(&self.document).unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_portcullis"));
        command.args(["serve", "-c"]).arg(&file).current_dir(folder.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", folder.path());
        command.envs(self.environment).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        dies_with_its_test(&mut command);
        if let Some(soft) = self.descriptors {
            limit_descriptors(&mut command, soft);
        }
        // A group of its own, so that a Ctrl-C at the terminal does not reach it first.
        let mut child = command.process_group(0).kill_on_drop(true).spawn().unwrap();
        let (log, bell) = (Arc::new(Mutex::new(Log::default())), Bell::new());
        let readers = [
            tokio::spawn(read(child.stderr.take().unwrap(), Arc::clone(&log), bell.clone())),
            tokio::spawn(read(child.stdout.take().unwrap(), Arc::clone(&log), bell.clone())),
        ];
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let pid = child.id().unwrap();
        Gateway {
            child,
            pid,
            clients: nowhere,
            operator: nowhere,
            log,
            bell,
            file,
            _folder: folder,
            readers,
            _keeps: self.keeps,
        }
    }
}

/// Ends the program with the thread that runs its test, also where that is killed and drops nothing.
pub(super) fn dies_with_its_test(command: &mut Command) {
    #[cfg(target_os = "linux")]
    // SAFETY: between fork and exec only this one system call is made; it allocates and locks nothing.
    unsafe {
        command.pre_exec(|| Ok(set_parent_process_death_signal(Some(Signal::KILL))?));
    }
    #[cfg(not(target_os = "linux"))]
    let _no_such_call = command;
}

/// Starts the gateway with this soft limit of descriptors.
fn limit_descriptors(command: &mut Command, soft: u64) {
    let limit = Rlimit { current: Some(soft), ..getrlimit(Resource::Nofile) };
    // SAFETY: between fork and exec only this one system call is made; it allocates and locks nothing.
    unsafe {
        command.pre_exec(move || Ok(setrlimit(Resource::Nofile, limit)?));
    }
}

#[derive(Default)]
struct Log {
    lines: Vec<String>,
}

impl Log {
    /// The address of the listener of this shore, once it was logged.
    fn address_of(&self, shore: &str) -> Option<SocketAddr> {
        let lines = self.lines.iter().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut open = lines.filter(|line| {
            field(line, "message") == Some("listening") && field(line, "shore") == Some(shore)
        });
        field(&open.next()?, "address")?.parse().ok()
    }
}

/// A field of a log line, wherever the format puts it.
fn field<'a>(line: &'a Value, name: &str) -> Option<&'a str> {
    line[name].as_str().or_else(|| line["fields"][name].as_str())
}

async fn read(from: impl AsyncRead + Unpin, log: Arc<Mutex<Log>>, bell: Bell) {
    let mut lines = BufReader::new(from).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        log.lock().unwrap().lines.push(line);
        bell.ring();
    }
}

/// A gateway that runs.
pub struct Gateway {
    child: Child,
    pid: u32,
    clients: SocketAddr,
    operator: SocketAddr,
    log: Arc<Mutex<Log>>,
    bell: Bell,
    readers: [JoinHandle<()>; 2],
    file: PathBuf,
    _folder: TempDir,
    _keeps: Vec<Box<dyn Any + Send>>,
}

impl Gateway {
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.clients
    }

    /// Its configuration file.
    pub fn file(&self) -> &PathBuf {
        &self.file
    }

    /// A client of the merged endpoint that has said nothing yet.
    pub fn visitor(&self) -> Client {
        Client::new(self.clients, "/mcp")
    }

    /// A client of one upstream's own endpoint that has said nothing yet.
    pub fn visitor_of(&self, upstream: &str) -> Client {
        Client::new(self.clients, &format!("/mcp/{upstream}"))
    }

    /// A client of the merged endpoint with a session.
    pub async fn client(&self) -> Client {
        self.visitor().connect().await
    }

    /// A client of one upstream's own endpoint with a session.
    pub async fn client_of(&self, upstream: &str) -> Client {
        self.visitor_of(upstream).connect().await
    }

    /// A bare connection to the clients' port.
    pub async fn socket(&self) -> TcpStream {
        let stream = TcpStream::connect(self.clients).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    // The operator's port.

    /// GET on the operator's port; gives status and body.
    pub async fn operator(&self, path: &str) -> (u16, String) {
        let mut answer = Letter::new(self.operator, "GET", path).send().await;
        (answer.status, answer.text().await)
    }

    pub async fn metrics(&self) -> Metrics {
        let (status, page) = self.operator("/metrics").await;
        assert_eq!(status, 200, "/metrics");
        Metrics::read(&page)
    }

    /// Waits until the metrics are as wanted.
    pub async fn metrics_until(&self, what: &str, mut wanted: impl FnMut(&Metrics) -> bool) -> Metrics {
        let mut metrics = self.metrics().await;
        let waiting = async {
            while !wanted(&metrics) {
                pass(GLANCE).await;
                metrics = self.metrics().await;
            }
        };
        let found = tokio::time::timeout(SOON, waiting).await.is_ok();
        assert!(found, "not within {SOON:?}: {what}, but\n{metrics}");
        metrics
    }

    // Its log.

    /// All it wrote so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().lines.join("\n")
    }

    pub fn log_lines(&self) -> Vec<String> {
        self.log.lock().unwrap().lines.clone()
    }

    /// Waits until a line of the log is as wanted.
    pub async fn logged(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let found = || self.log.lock().unwrap().lines.iter().find(|line| wanted(line)).cloned();
        self.bell.until(SOON, what, found).await
    }

    // Its end.

    pub fn signal(&self, signal: Signal) {
        process::signal(self.pid, signal);
    }

    /// Waits for its end, and for its last words.
    pub async fn exit(&mut self, limit: Duration) -> ExitStatus {
        let status = within(limit, "the end of the gateway", self.child.wait()).await.unwrap();
        for reader in self.readers.iter_mut().filter(|reader| !reader.is_finished()) {
            // A child that outlived it may still hold the pipe: that is for the tests of children.
            let _read_or_held = tokio::time::timeout(secs(1), reader).await;
        }
        status
    }

    /// Asks it to end and waits until it has.
    pub async fn terminate(&mut self) -> ExitStatus {
        self.signal(Signal::TERM);
        self.exit(secs(20)).await
    }

    /// Kills it and waits until it is gone.
    pub async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let status = self.exit(SOON).await;
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the gateway's log\n{}\n---", self.log());
        }
    }
}
