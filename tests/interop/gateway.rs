//! A gateway under test: the built program with a file of its own.
//!
//! *On drop*: asked to end, then killed; what it left behind is killed too.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    plan::Target,
    process::{Program, Running},
    rust_client::RustClient,
};

/// How long the gateway may take to end, its upstreams included.
const END: Duration = Duration::from_secs(20);
/// How long all upstreams may take until their tools are listed.
const READY: Duration = Duration::from_secs(180);
/// Given to every child; by it we know afterwards whose a process is.
const MARK: &str = "PORTCULLIS_INTEROP";

pub struct Gateway {
    address: String,
    mark: String,
    running: Running,
    stopped: bool,
    _home: TempDir,
}

impl Gateway {
    /// In front of these upstreams, each under its name.
    pub async fn merged(upstreams: &[(&str, Target)]) -> Self {
        let gateway = Self::start(upstreams, json!({})).await;
        let namespaces = upstreams.iter().map(|(name, _)| format!("{name}__"));
        gateway.ready(namespaces.collect()).await;
        gateway
    }

    /// In front of one upstream, which keeps its names.
    pub async fn alone(upstream: Target) -> Self {
        let gateway = Self::start(&[("only", upstream)], json!({ "namespace": "none" })).await;
        gateway.ready(vec!["test_simple_text".to_owned()]).await;
        gateway
    }

    /// The endpoint that shows all upstreams as one server.
    pub fn endpoint(&self) -> Target {
        Target::Url(format!("http://{}/mcp", self.address))
    }

    /// The same for clients of HTTP+SSE, the older transport.
    pub fn older_endpoint(&self) -> Target {
        Target::Url(format!("http://{}/sse", self.address))
    }

    /// The endpoint of one upstream.
    pub fn endpoint_of(&self, name: &str) -> Target {
        Target::Url(format!("http://{}/mcp/{name}", self.address))
    }

    /// Ends it as an operator would: it must go in order and leave no process behind.
    pub async fn stop(mut self) {
        let status = self.running.terminate(END).await;
        self.stopped = true;
        let said = self.running.said();
        let status = status.unwrap_or_else(|| panic!("the gateway did not end in {END:?}:\n{said}"));
        assert!(status.success(), "the gateway ended with {status}:\n{said}");
        let end = Instant::now() + END;
        while !leftovers(&self.mark).is_empty() {
            assert!(Instant::now() < end, "the gateway left {:?} behind:\n{said}", leftovers(&self.mark));
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn start(upstreams: &[(&str, Target)], settings: Value) -> Self {
        let home = tempfile::tempdir().expect("a folder for the gateway");
        let mark = home.path().display().to_string();
        let entries: serde_json::Map<_, _> = upstreams
            .iter()
            .map(|(name, target)| ((*name).to_owned(), entry(target, &mark, &settings)))
            .collect();
        let file = home.path().join("portcullis.json");
        let config = json!({
            "mcpServers": entries,
            "portcullis": {
                "listen": "127.0.0.1:0", "admin": { "listen": "127.0.0.1:0" }, "http": { "sse": true },
            },
        });
        fs::write(&file, config.to_string()).expect("the file can be written");
        let running = Program::new(env!("CARGO_BIN_EXE_portcullis"))
            .args(["serve".into(), "-c".into(), file.into_os_string()])
            .env("HOME", home.path())
            .env("XDG_STATE_HOME", home.path().join("state"))
            .env("XDG_CONFIG_HOME", home.path().join("config"))
            .env("XDG_CACHE_HOME", home.path().join("cache"))
            .spawn();
        let address = running.line("its address", clients_address).await;
        Self { address, mark, running, stopped: false, _home: home }
    }

    /// Waits until a tool of each of these beginnings is listed: upstreams are found in the background.
    async fn ready(&self, beginnings: Vec<String>) {
        let end = Instant::now() + READY;
        let client = RustClient::connect(&self.endpoint()).await;
        loop {
            let names = client.tool_names().await;
            let lacking: Vec<_> = beginnings
                .iter()
                .filter(|beginning| !names.iter().any(|name| name.starts_with(*beginning)))
                .collect();
            if lacking.is_empty() {
                break;
            }
            assert!(
                Instant::now() < end,
                "no tools of {lacking:?} in {READY:?}, but {names:?}:\n{}",
                self.running.said()
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        client.close().await;
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        if !self.stopped {
            self.running.terminate_now(END);
            eprintln!("--- the gateway said:\n{}", self.running.said());
        }
        for pid in leftovers(&self.mark) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

fn entry(target: &Target, mark: &str, settings: &Value) -> Value {
    let mut entry = match target {
        Target::Url(url) if url.ends_with("/sse") => json!({ "type": "sse", "url": url }),
        Target::Url(url) => json!({ "type": "http", "url": url }),
        Target::Stdio { command, args, env } => {
            let mut env = env.clone();
            env.insert(MARK.to_owned(), json!(mark));
            json!({ "command": command, "args": args, "env": env })
        }
    };
    if settings.as_object().is_some_and(|settings| !settings.is_empty()) {
        entry["portcullis"] = settings.clone();
    }
    entry
}

/// The address of the clients' shore, from the log line that tells it.
fn clients_address(line: &str) -> Option<String> {
    let line: Value = serde_json::from_str(line).ok()?;
    let found = line["message"] == "listening" && line["shore"] == "clients";
    line["address"].as_str().filter(|_| found).map(str::to_owned)
}

/// Processes that carry the mark of a gateway's children.
#[cfg(target_os = "linux")]
fn leftovers(mark: &str) -> Vec<rustix::process::Pid> {
    let sought = format!("{MARK}={mark}");
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes
        .filter_map(|process| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            let environment = fs::read(process.path().join("environ")).ok()?;
            let marked = environment.split(|&byte| byte == 0).any(|variable| variable == sought.as_bytes());
            marked.then(|| rustix::process::Pid::from_raw(pid)).flatten()
        })
        .collect()
}

/// Elsewhere a process does not show its environment to others.
#[cfg(not(target_os = "linux"))]
fn leftovers(_mark: &str) -> Vec<rustix::process::Pid> {
    Vec::new()
}
