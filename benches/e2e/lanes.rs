//! A lane: one target in front of one fleet of upstreams, started and found to work.
//!
//! *On drop*: its processes end and its folder is removed.

use std::{
    fs::{OpenOptions, Permissions},
    io::Write as _,
    net::TcpListener,
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Error, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time;

use crate::{
    client::Endpoint,
    load::{first_call, single_threaded},
    measure::Tree,
    part::{self, Part, Role},
    proxy, upstream,
    upstream::Fleet,
    wire,
    work::namespace,
};

/// What stands between load and upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Nothing.
    Direct,
    /// The minimal reverse proxy on hyper.
    Proxy,
    /// nginx, one worker, nothing buffered.
    Nginx,
    /// Portcullis.
    Gateway,
}

/// The programs from outside.
pub struct Programs {
    pub gateway: PathBuf,
    /// Where nginx is installed.
    pub nginx: Option<PathBuf>,
}

impl Programs {
    /// This gateway, and nginx if the machine has it.
    pub fn find(gateway: PathBuf) -> Self {
        let nginx = ["nginx", "/usr/sbin/nginx"].into_iter().find(|name| {
            let version = Command::new(name).arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status();
            version.is_ok_and(|status| status.success())
        });
        Self { gateway, nginx: nginx.map(PathBuf::from) }
    }
}

/// Upstreams that run.
pub struct Upstreams {
    _part: Part,
    pub origins: Vec<String>,
    pub fleet: Fleet,
}

impl Upstreams {
    /// Starts a fleet.
    pub fn start(fleet: Fleet) -> Result<Self> {
        let (part, ready) = Part::serving::<upstream::Ready>(Role::Upstream, &fleet)?;
        Ok(Self { _part: part, origins: ready.origins, fleet })
    }

    /// Asks the bench's own door of one upstream.
    pub fn knock(&self, number: usize, path: &str) -> Result<String> {
        single_threaded()?.block_on(wire::fetch(self.origin(number)?, path))
    }

    /// Where one upstream listens.
    pub fn origin(&self, number: usize) -> Result<&str> {
        Ok(self.origins.get(number).context("no such upstream")?)
    }
}

/// What a lane leads to.
#[derive(Clone, Copy)]
pub enum Behind<'a> {
    Http(&'a Upstreams),
    /// One child with so many tools, which all sessions share.
    Stdio(usize),
}

/// A running target.
pub struct Lane {
    part: Option<Part>,
    _folder: TempDir,
    /// Where it listens.
    pub origin: String,
    /// From its start to its first correct call.
    pub first_call: Duration,
    /// MiB that were resident soon after.
    pub resident_mib: f64,
}

/// More sessions than any row opens.
const SESSION_CAP: usize = 10_000;

/// How long a target may take until its first correct call.
const START_LIMIT: Duration = Duration::from_secs(30);

/// Between two looks at a port that is not open yet; small against what is measured.
const LOOK: Duration = Duration::from_micros(200);

/// What a target gets to come to rest before its memory is read.
const REST: Duration = Duration::from_millis(500);

impl Lane {
    /// Starts the target and waits for its first correct call.
    pub fn start(target: Target, behind: Behind<'_>, programs: &Programs) -> Result<Self> {
        let folder = TempDir::with_prefix("portcullis-bench-")?;
        let begun = Instant::now();
        let (mut part, origin) = start_target(target, behind, programs, folder.path())?;
        let endpoint = Arc::new(Endpoint::new(&origin)?);
        let waited =
            single_threaded()?.block_on(until_correct(&endpoint, tools(behind), part.as_mut(), begun));
        let first_call = waited.with_context(|| part::last_words(folder.path()))?;
        let mut lane = Self { part, _folder: folder, origin, first_call, resident_mib: f64::NAN };
        if let Some(pid) = lane.pid() {
            thread::sleep(REST);
            lane.resident_mib = Tree::without_fixtures(pid).usage().resident_kib as f64 / 1024.0;
        }
        Ok(lane)
    }

    /// The target's process, where it has one.
    pub fn pid(&self) -> Option<u32> {
        self.part.as_ref().map(Part::pid)
    }
}

fn tools(behind: Behind<'_>) -> usize {
    match behind {
        Behind::Http(upstreams) => upstreams.fleet.upstreams * upstreams.fleet.tools,
        Behind::Stdio(tools) => tools,
    }
}

async fn until_correct(
    endpoint: &Arc<Endpoint>,
    tools: usize,
    mut part: Option<&mut Part>,
    begun: Instant,
) -> Result<Duration> {
    loop {
        let outcome =
            time::timeout(START_LIMIT, first_call(endpoint, tools)).await.map_err(Error::from).flatten();
        let Err(error) = outcome else { return Ok(begun.elapsed()) };
        if part.as_mut().is_some_and(|part| part.has_ended()) {
            bail!("the target ended by itself");
        }
        if begun.elapsed() > START_LIMIT {
            return Err(error.context("no correct call in time"));
        }
        time::sleep(LOOK).await;
    }
}

fn start_target(
    target: Target,
    behind: Behind<'_>,
    programs: &Programs,
    folder: &Path,
) -> Result<(Option<Part>, String)> {
    if target == Target::Gateway {
        return start_gateway(behind, programs, folder);
    }
    let Behind::Http(Upstreams { origins, .. }) = behind else { bail!("only the gateway speaks to a child") };
    let origin = origins.first().context("a fleet without upstreams")?;
    match target {
        Target::Direct | Target::Gateway => Ok((None, origin.clone())),
        Target::Proxy => {
            let route = proxy::Route { upstream: address(origin).to_owned() };
            let (part, ready) = Part::serving::<proxy::Ready>(Role::Proxy, &route)?;
            Ok((Some(part), ready.origin))
        }
        Target::Nginx => {
            let nginx = programs.nginx.as_ref().context("nginx is not installed")?;
            let port = free_port()?;
            write_private(&folder.join("nginx.conf"), &nginx_config(folder, port, address(origin)))?;
            let mut command = Command::new(nginx);
            command.arg("-p").arg(folder).arg("-c").arg(folder.join("nginx.conf"));
            Ok((Some(Part::outside(&mut command, folder)?), format!("http://127.0.0.1:{port}")))
        }
    }
}

fn start_gateway(behind: Behind<'_>, programs: &Programs, folder: &Path) -> Result<(Option<Part>, String)> {
    let port = free_port()?;
    let config = folder.join("portcullis.json");
    write_private(&config, &gateway_config(behind, port)?.to_string())?;
    let mut command = Command::new(&programs.gateway);
    command.arg("serve").arg("-c").arg(&config).env("HOME", folder);
    // What a user's own folders hold must not change what is measured.
    for home in ["CONFIG", "STATE", "DATA", "CACHE"] {
        command.env_remove(format!("XDG_{home}_HOME"));
    }
    Ok((Some(Part::outside(&mut command, folder)?), format!("http://127.0.0.1:{port}")))
}

fn gateway_config(behind: Behind<'_>, port: u16) -> Result<Value> {
    let mut servers = serde_json::Map::new();
    match behind {
        Behind::Http(upstreams) => {
            for (number, origin) in upstreams.origins.iter().enumerate() {
                let url = format!("{origin}{}", wire::PATH);
                let mut entry = json!({ "type": "http", "url": url });
                if upstreams.origins.len() == 1 {
                    entry["portcullis"] = json!({ "namespace": "none" });
                }
                servers.insert(namespace(number), entry);
            }
        }
        Behind::Stdio(tools) => {
            let (command, arguments) = stdio_command(tools)?;
            let ours = json!({ "namespace": "none", "isolation": "shared" });
            servers.insert(
                namespace(0),
                json!({ "type": "stdio", "command": command, "args": arguments, "portcullis": ours }),
            );
        }
    }
    Ok(json!({
        "mcpServers": servers,
        "portcullis": {
            "listen": format!("127.0.0.1:{port}"),
            "admin": { "listen": "127.0.0.1:0" },
            // All load comes from one caller; what sessions cost is measured, not where they end.
            "sessions": { "perPrincipal": SESSION_CAP },
            // What streams keep for replay has reached its level when a soak is a fifth over.
            "http": { "replayAge": "30s" },
        },
    }))
}

/// The command that runs the stdio upstream, and its arguments.
pub fn stdio_command(tools: usize) -> Result<(String, Vec<String>)> {
    let program = std::env::current_exe()?;
    let program = program.to_str().context("this program's path is not text")?.to_owned();
    Ok((program, vec![Role::StdioUpstream.word().to_owned(), tools.to_string()]))
}

/// Nothing but forwarding: connections kept on both sides, no log, no buffering of what passes.
fn nginx_config(folder: &Path, port: u16, upstream: &str) -> String {
    let folder = folder.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {folder}/{kind};\n"))
        .collect();
    format!(
        "daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/log error;
worker_rlimit_nofile 20000;
events {{ worker_connections 16384; }}
http {{
{temporary}  access_log off;
  keepalive_timeout 1h;
  keepalive_requests 1000000000;
  upstream fixture {{
    server {upstream};
    keepalive 2048;
    keepalive_timeout 1h;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    location / {{
      proxy_pass http://fixture;
      proxy_http_version 1.1;
      proxy_set_header Connection '';
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_buffer_size 64k;
      proxy_buffers 8 64k;
      proxy_busy_buffers_size 128k;
      proxy_read_timeout 1h;
    }}
  }}
}}
"
    )
}

fn address(origin: &str) -> &str {
    origin.trim_start_matches("http://")
}

/// A port that nobody listens on; the target takes it at once.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

fn write_private(path: &Path, text: &str) -> Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file.write_all(text.as_bytes())?)
}
