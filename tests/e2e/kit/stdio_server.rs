//! A scripted stdio server: the stage on which its children play.
//!
//! Each child that the gateway starts connects here (see [`super::puppet`]), and the script
//! answers for it. A child is a session of its own, named by its process id.
//!
//! *On drop.* The stage closes, and with it every child; grandchildren are killed.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::deadline::SOON;
use super::exchange::{Outlet, Seen};
use super::gateway::Entry;
use super::peer::Peer;
use super::process;
use super::puppet::{self, Place, Strings};
use super::reply::Reply;
use super::script::Server;
use super::text;

/// Settings of the transport.
#[derive(Clone, Default)]
pub struct Pipe {
    stubborn: bool,
    banner: Bytes,
}

impl Server<Pipe> {
    /// Its children ignore end of input, SIGTERM and SIGINT.
    pub fn stubborn(mut self) -> Self {
        self.transport.stubborn = true;
        self
    }

    /// What each child writes to standard output before anything else.
    pub fn banner(mut self, bytes: impl Into<Bytes>) -> Self {
        self.transport.banner = bytes.into();
        self
    }

    /// Opens the stage; children come when somebody runs the entry's command.
    pub fn start(self) -> StdioServer {
        StdioServer::start(self)
    }
}

struct Shared {
    peer: Arc<Peer>,
    settings: Pipe,
    children: Mutex<Vec<Strings>>,
    grandchildren: Mutex<Vec<u32>>,
    ended_input: Mutex<Vec<u32>>,
}

/// A scripted stdio server whose stage is open.
pub struct StdioServer {
    shared: Arc<Shared>,
    stage: String,
    accepting: AbortHandle,
}

impl Deref for StdioServer {
    type Target = Peer;
    fn deref(&self) -> &Peer {
        &self.shared.peer
    }
}

impl StdioServer {
    fn start(server: Server<Pipe>) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        let stage = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            peer: Peer::new(server.script),
            settings: server.transport,
            children: Mutex::default(),
            grandchildren: Mutex::default(),
            ended_input: Mutex::default(),
        });
        let listener = TcpListener::from_std(listener).unwrap();
        let watched = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            // The children's tasks end with this one.
            let mut children = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                children.spawn(attend(Arc::clone(&watched), stream));
            }
        });
        StdioServer { shared, stage, accepting: accepting.abort_handle() }
    }

    /// The command that becomes a child, and its arguments.
    pub fn command(&self) -> (String, Vec<String>) {
        let program = std::env::current_exe().unwrap().display().to_string();
        (
            "sh".into(),
            vec!["-c".into(), puppet::words(self.shared.settings.stubborn), program, self.stage.clone()],
        )
    }

    /// Its entry in a configuration.
    pub fn entry(&self) -> Value {
        let (command, arguments) = self.command();
        json!({"command": command, "args": arguments})
    }

    /// Its entry with something under `portcullis`.
    pub fn with(&self, ours: Value) -> Entry {
        Entry::from(self).with(ours)
    }

    /// Every child that ever came, in order.
    pub fn children(&self) -> Vec<Strings> {
        self.shared.children.lock().unwrap().clone()
    }

    /// The children that run.
    pub fn running(&self) -> Vec<Strings> {
        self.children().into_iter().filter(|child| !child.is_gone()).collect()
    }

    /// Waits until `count` children came, and gives them.
    pub async fn wait_for_children(&self, count: usize) -> Vec<Strings> {
        self.until(format!("{count} children"), || Some(self.children()).filter(|come| come.len() >= count))
            .await
    }

    /// Waits until no child runs.
    pub async fn wait_until_empty(&self) {
        self.until("no child runs", || self.running().is_empty().then_some(())).await;
    }

    /// The pids of the children whose input was closed before they ended.
    pub fn ended_input(&self) -> Vec<u32> {
        self.shared.ended_input.lock().unwrap().clone()
    }

    /// Lets a child start a sleeping process, and gives its pid.
    pub async fn grandchild(&self, of: &Strings, place: Place) -> u32 {
        let before = self.shared.grandchildren.lock().unwrap().len();
        of.start(place);
        let found = || self.shared.grandchildren.lock().unwrap().get(before).copied();
        self.bell.until(SOON, "a grandchild", found).await
    }
}

impl Drop for StdioServer {
    fn drop(&mut self) {
        self.accepting.abort();
        for pid in self.shared.grandchildren.lock().unwrap().iter() {
            process::kill(*pid);
        }
    }
}

/// Plays one child from its arrival to its end.
async fn attend(shared: Arc<Shared>, stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let (mut ears, mouth) = stream.into_split();
    let Ok((puppet::HELLO, hello)) = puppet::hear(&mut ears).await else {
        return;
    };
    let (ended, gone) = watch::channel(false);
    let (child, commands) = Strings::new(serde_json::from_slice(&hello).unwrap(), gone);
    shared.children.lock().unwrap().push(child.clone());
    shared.peer.bell.ring();
    if !shared.settings.banner.is_empty() {
        child.stdout(shared.settings.banner.clone());
    }
    tokio::select! {
        () = listen(&shared, &child, &mut ears) => {}
        _gone = puppet::command(mouth, commands) => {}
    }
    ended.send_replace(true);
    shared.peer.end_session(&child.pid().to_string());
}

async fn listen(shared: &Arc<Shared>, child: &Strings, ears: &mut OwnedReadHalf) {
    let mut rest = Vec::new();
    while let Ok((kind, bytes)) = puppet::hear(ears).await {
        match kind {
            puppet::INPUT => {
                rest.extend(bytes);
                while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                    let line: Vec<u8> = rest.drain(..=end).collect();
                    handle(shared, child, String::from_utf8_lossy(&line[..end]).into_owned());
                }
            }
            puppet::INPUT_ENDED => {
                shared.ended_input.lock().unwrap().push(child.pid());
                if !shared.settings.stubborn {
                    child.exit(0);
                }
            }
            puppet::GRANDCHILD => {
                let pid = String::from_utf8_lossy(&bytes).parse().unwrap();
                shared.grandchildren.lock().unwrap().push(pid);
            }
            other => panic!("a puppet says {other}"),
        }
        shared.peer.bell.ring();
    }
}

fn handle(shared: &Arc<Shared>, child: &Strings, line: String) {
    let mut seen = Seen::new("stdio", line);
    let pid = child.pid().to_string();
    seen.session = Some(pid.clone());
    if seen.method.as_deref() == Some("initialize") {
        shared.peer.open_session(pid.clone(), seen.params());
    }
    shared.peer.record(seen.clone());
    if seen.method.is_none() || seen.id.is_none() {
        shared.peer.hear(&seen);
        return;
    }
    let (peer, child) = (Arc::clone(&shared.peer), child.clone());
    tokio::spawn(async move {
        let id = seen.id.clone().unwrap_or_default();
        let session = peer.session(Some(&pid));
        let line = match peer.answer(seen, session, Outlet::Stdio(child.clone())).await {
            Reply::Result(result) => text::response(&id, &result),
            Reply::Error(error) => text::failure(&id, &error),
            Reply::Bytes(bytes) => return child.stdout(bytes),
            Reply::Exit(code) => return child.exit(code),
            Reply::Killed => return child.die(),
            Reply::Cut => return child.close_stdout(),
            Reply::Done | Reply::Hang => return,
            other => panic!("no answer for a child: {other:?}"),
        };
        child.stdout(format!("{line}\n"));
    });
}
