//! One message at a scripted server: what was received, and the ways to speak before the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::{mpsc, watch};

use super::peer::Peer;
use super::puppet::Strings;
use super::reply::Reply;
use super::text;

/// Something a scripted server received.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    /// `POST`, `GET`, `DELETE`, or `stdio`.
    pub verb: String,
    pub path: String,
    pub headers: http::HeaderMap,
    /// The message as it came.
    pub body: String,
    pub method: Option<String>,
    /// The request id as JSON text.
    pub id: Option<String>,
    /// The session id it carried; of a child, its process id.
    pub session: Option<String>,
    /// Counts the connections of this server, from 1.
    pub connection: u64,
}

impl Seen {
    pub fn new(verb: &str, body: String) -> Self {
        Seen {
            at: Instant::now(),
            verb: verb.into(),
            path: String::new(),
            headers: http::HeaderMap::new(),
            method: text::string(&body, &["method"]),
            id: text::member(&body, &["id"]).map(String::from),
            body,
            session: None,
            connection: 0,
        }
    }

    /// The text of a member of the message.
    pub fn member(&self, path: &[&str]) -> Option<&str> {
        text::member(&self.body, path)
    }

    /// The arguments of a tool call, byte for byte.
    pub fn arguments(&self) -> &str {
        self.member(&["params", "arguments"]).unwrap_or("")
    }

    pub fn params(&self) -> Value {
        self.member(&["params"]).map_or(Value::Null, text::tree)
    }

    /// A header's value, all its lines joined.
    pub fn header(&self, name: &str) -> Option<String> {
        let lines: Vec<_> =
            self.headers.get_all(name).iter().map(|line| String::from_utf8_lossy(line.as_bytes())).collect();
        if lines.is_empty() { None } else { Some(lines.join(", ")) }
    }
}

/// A session as the server knows it.
#[derive(Debug)]
pub struct Session {
    pub id: String,
    pub revision: String,
    /// The params of its `initialize`.
    pub hello: Value,
    pub counter: AtomicI64,
}

impl Session {
    /// Adds to the session's own counter and tells its value: the state that must not be shared.
    pub fn count(&self, step: i64) -> i64 {
        self.counter.fetch_add(step, Ordering::SeqCst) + step
    }
}

/// What goes out for one request.
pub enum Out {
    /// Bytes of an event stream, before the end.
    Piece(Bytes),
    Last(Reply),
}

/// Where the words of one request go.
#[derive(Clone)]
pub enum Outlet {
    Http(mpsc::Sender<Out>),
    Sse(mpsc::UnboundedSender<Bytes>),
    Stdio(Strings),
}

/// One request while it is handled.
#[derive(Clone)]
pub struct Exchange {
    pub peer: Arc<Peer>,
    pub seen: Seen,
    pub session: Option<Arc<Session>>,
    pub(super) outlet: Outlet,
    pub(super) cancel: watch::Receiver<bool>,
}

impl Exchange {
    /// The request id as JSON text.
    pub fn id(&self) -> &str {
        self.seen.id.as_deref().unwrap_or("null")
    }

    pub fn params(&self) -> Value {
        self.seen.params()
    }

    /// An argument of a tool call.
    pub fn argument(&self, name: &str) -> Value {
        self.params()["arguments"][name].clone()
    }

    /// The progress token as JSON text.
    pub fn token(&self) -> Option<&str> {
        self.seen.member(&["params", "_meta", "progressToken"])
    }

    /// The session's own counter after adding `step`; 0 where there is no session.
    pub fn count(&self, step: i64) -> i64 {
        self.session.as_ref().map_or(0, |session| session.count(step))
    }

    /// Sends bytes as they are: into the event stream, or to standard output.
    pub async fn write(&self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        match &self.outlet {
            // A peer that left is no fault of the server: the words are lost, as they would be.
            Outlet::Http(out) => drop(out.send(Out::Piece(bytes)).await),
            Outlet::Sse(out) => drop(out.send(bytes)),
            Outlet::Stdio(strings) => strings.stdout(bytes),
        }
    }

    /// Writes to standard error. stdio only.
    pub fn stderr(&self, bytes: impl Into<Bytes>) {
        match &self.outlet {
            Outlet::Stdio(strings) => strings.stderr(bytes),
            Outlet::Http(_) | Outlet::Sse(_) => panic!("an HTTP server has no standard error here"),
        }
    }

    /// Sends one message, given as JSON text, before the answer.
    pub async fn send(&self, message: &str) {
        match &self.outlet {
            Outlet::Http(_) | Outlet::Sse(_) => self.write(text::event(message)).await,
            Outlet::Stdio(_) => self.write(format!("{message}\n")).await,
        }
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.send(&text::notification(method, &params.to_string())).await;
    }

    /// Reports progress where the request carries a token.
    pub async fn progress(&self, progress: i64, total: i64) {
        if let Some(token) = self.token() {
            let params = format!(r#"{{"progressToken":{token},"progress":{progress},"total":{total}}}"#);
            self.send(&text::notification("notifications/progress", &params)).await;
        }
    }

    /// Asks the client of the other side, before the answer, and waits for what it says; `None` if it never will.
    pub async fn ask(&self, id: &str, method: &str, params: Value) -> Option<Seen> {
        let answer = self.peer.expect(self.seen.session.clone(), id);
        self.send(&text::request(id, method, &params.to_string())).await;
        answer.await.ok()
    }

    /// Answers now although the handler goes on; end it with [`Reply::Done`] or [`Reply::Hang`].
    pub async fn answer(&self, result: Value) {
        self.send(&text::response(self.id(), &result.to_string())).await;
    }

    /// Waits until the test says [`Peer::release`].
    pub async fn released(&self) {
        self.peer.released().await;
    }

    /// Waits until the peer cancels this request.
    pub async fn cancelled(&self) {
        let mut cancel = self.cancel.clone();
        if cancel.wait_for(|cancelled| *cancelled).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the peer closes the connection of this request. Of a child: until it is gone.
    pub async fn gone(&self) {
        match &self.outlet {
            Outlet::Http(out) => out.closed().await,
            Outlet::Sse(out) => out.closed().await,
            Outlet::Stdio(strings) => strings.gone().await,
        }
    }

    /// The ordinary result of `initialize`.
    pub fn hello(&self) -> Value {
        let asked = self.params()["protocolVersion"].as_str().unwrap_or_default().to_owned();
        let script = self.peer.script();
        let revision = script.revisions.iter().find(|known| **known == asked).unwrap_or(&script.revisions[0]);
        let mut hello = json!({
            "protocolVersion": revision,
            "capabilities": script.declared(),
            "serverInfo": {"name": script.name, "version": "1.0.0"},
        });
        if let Some(instructions) = &script.instructions {
            hello["instructions"] = json!(instructions);
        }
        hello
    }
}
