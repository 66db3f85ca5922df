//! The running side of a scripted server: its lists, its sessions, and all that it received.

use std::collections::HashMap;
use std::fmt::Display;
use std::future::Future;
use std::sync::atomic::AtomicI64;
use std::sync::{Arc, Mutex, MutexGuard};

use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::deadline::{Bell, SOON};
use super::exchange::{Exchange, Outlet, Seen, Session};
use super::reply::Reply;
use super::script::{Script, handler, tool};
use super::text;

/// Session and request id, as they came.
type RequestKey = (Option<String>, String);

/// A scripted server while it runs; both transports deref to it.
pub struct Peer {
    script: Mutex<Script>,
    seen: Mutex<Vec<Seen>>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// Session ids that ended by the peer's wish: DELETE, or end of input.
    ended: Mutex<Vec<String>>,
    /// Requests that are handled, with the way to tell their handlers of a cancellation.
    running: Mutex<HashMap<RequestKey, watch::Sender<bool>>>,
    /// Handlers that wait for the answer to a request of theirs.
    asking: Mutex<HashMap<RequestKey, oneshot::Sender<Seen>>>,
    /// What handlers wrote down.
    notes: Mutex<Vec<String>>,
    gate: watch::Sender<bool>,
    pub(super) bell: Bell,
}

impl Peer {
    pub(super) fn new(script: Script) -> Arc<Self> {
        Arc::new(Peer {
            script: Mutex::new(script),
            seen: Mutex::default(),
            sessions: Mutex::default(),
            ended: Mutex::default(),
            running: Mutex::default(),
            asking: Mutex::default(),
            notes: Mutex::default(),
            gate: watch::Sender::new(false),
            bell: Bell::new(),
        })
    }

    pub(super) fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    // What it received.

    pub(super) fn record(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
        self.bell.ring();
    }

    /// All that came, in order.
    pub fn received(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The messages of one method.
    pub fn seen(&self, method: &str) -> Vec<Seen> {
        self.received().into_iter().filter(|seen| seen.method.as_deref() == Some(method)).collect()
    }

    /// The requests of one HTTP verb.
    pub fn verbs(&self, verb: &str) -> Vec<Seen> {
        self.received().into_iter().filter(|seen| seen.verb == verb).collect()
    }

    /// Waits until `count` messages of a method came, and gives them.
    pub async fn wait_for(&self, method: &str, count: usize) -> Vec<Seen> {
        let what = format!("{count} × {method} at the server");
        self.until(what, || Some(self.seen(method)).filter(|seen| seen.len() >= count)).await
    }

    /// Waits for anything about this server.
    pub async fn until<T>(&self, what: impl Display, look: impl FnMut() -> Option<T>) -> T {
        self.bell.until(SOON, what, look).await
    }

    /// Writes something down for the test.
    pub fn note(&self, what: &str) {
        self.notes.lock().unwrap().push(what.into());
        self.bell.ring();
    }

    /// What handlers wrote down, in order.
    pub fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    /// Waits until a handler wrote this down.
    pub async fn wait_for_note(&self, what: &str) {
        let found = || self.notes().iter().any(|note| note == what).then_some(());
        self.until(format!("the note {what:?}"), found).await;
    }

    /// Lets every handler go on that waits in [`Exchange::released`], now and from now on.
    pub fn release(&self) {
        self.gate.send_replace(true);
    }

    pub(super) async fn released(&self) {
        // The sender lives as long as this peer.
        let mut gate = self.gate.subscribe();
        let _open = gate.wait_for(|open| *open).await;
    }

    // Its sessions.

    pub(super) fn open_session(&self, id: String, hello: Value) -> Arc<Session> {
        let revision = hello["protocolVersion"].as_str().unwrap_or_default().into();
        let session = Arc::new(Session { id: id.clone(), revision, hello, counter: AtomicI64::new(0) });
        self.sessions.lock().unwrap().insert(id, Arc::clone(&session));
        self.bell.ring();
        session
    }

    pub(super) fn session(&self, id: Option<&str>) -> Option<Arc<Session>> {
        self.sessions.lock().unwrap().get(id?).cloned()
    }

    pub(super) fn end_session(&self, id: &str) -> bool {
        let known = self.sessions.lock().unwrap().remove(id).is_some();
        self.ended.lock().unwrap().push(id.into());
        self.bell.ring();
        known
    }

    /// The sessions that are open, by id.
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        self.sessions.lock().unwrap().values().cloned().collect()
    }

    /// The ids of sessions that were ended in order.
    pub fn ended(&self) -> Vec<String> {
        self.ended.lock().unwrap().clone()
    }

    /// Forgets all sessions, as a restart would; their ids are unknown from now on.
    pub fn forget_sessions(&self) {
        self.sessions.lock().unwrap().clear();
        self.bell.ring();
    }

    // Changes while it runs.

    pub fn add_tool(&self, name: &str) {
        self.script().tools.push(tool(name).to_string());
    }

    pub fn remove_tool(&self, name: &str) {
        self.script().tools.retain(|text| text::string(text, &["name"]).as_deref() != Some(name));
    }

    /// Replaces what is done with a method.
    pub fn on<F, Work, R>(&self, method: &str, act: F)
    where
        F: Fn(Exchange) -> Work + Send + Sync + 'static,
        Work: Future<Output = R> + Send + 'static,
        R: Into<Reply>,
    {
        self.script().on.insert(method.into(), handler(act));
    }

    /// Looks at every HTTP request first: a reply of this guard is the answer.
    pub fn guard(&self, look: impl Fn(&Seen) -> Option<Reply> + Send + Sync + 'static) {
        self.script().guard = Some(Arc::new(look));
    }

    /// Takes the guard away.
    pub fn unguard(&self) {
        self.script().guard = None;
    }

    // Answers.

    /// Waits for the answer to a request under this id, in this session.
    pub(super) fn expect(&self, session: Option<String>, id: &str) -> oneshot::Receiver<Seen> {
        let (sender, receiver) = oneshot::channel();
        self.asking.lock().unwrap().insert((session, id.into()), sender);
        receiver
    }

    /// Handles a notification or a response: cancellations, and answers that a handler waits for.
    pub(super) fn hear(&self, seen: &Seen) {
        if let (None, Some(id)) = (&seen.method, &seen.id)
            && let Some(asking) = self.asking.lock().unwrap().remove(&(seen.session.clone(), id.clone()))
        {
            // A handler that was ended waits no more.
            let _gone = asking.send(seen.clone());
        }
        if seen.method.as_deref() != Some("notifications/cancelled") {
            return;
        }
        let Some(id) = seen.member(&["params", "requestId"]) else {
            return;
        };
        if let Some(cancel) = self.running.lock().unwrap().get(&(seen.session.clone(), id.into())) {
            cancel.send_replace(true);
        }
    }

    /// Handles a request to its end.
    pub(super) async fn answer(
        self: Arc<Self>,
        seen: Seen,
        session: Option<Arc<Session>>,
        outlet: Outlet,
    ) -> Reply {
        let key = (seen.session.clone(), seen.id.clone().unwrap_or_default());
        let (sender, cancel) = watch::channel(false);
        self.running.lock().unwrap().insert(key.clone(), sender);
        let exchange = Exchange { peer: Arc::clone(&self), seen, session, outlet, cancel };
        let reply = self.act(exchange).await;
        self.running.lock().unwrap().remove(&key);
        reply
    }

    async fn act(&self, exchange: Exchange) -> Reply {
        let method = exchange.seen.method.clone().unwrap_or_default();
        let special = self.script().on.get(&method).cloned();
        if let Some(act) = special {
            return act(exchange).await;
        }
        match method.as_str() {
            "initialize" => exchange.hello().into(),
            "ping" | "logging/setLevel" => json!({}).into(),
            "tools/list" => listed("tools", &self.script().tools),
            "resources/list" => listed("resources", &self.script().resources),
            "resources/templates/list" => listed("resourceTemplates", &self.script().templates),
            "prompts/list" => listed("prompts", &self.script().prompts),
            "resources/read" => self.read(&exchange),
            "prompts/get" => self.prompt(&exchange),
            "tools/call" => self.call(exchange).await,
            _ => Reply::error(-32601, "Method not found"),
        }
    }

    async fn call(&self, exchange: Exchange) -> Reply {
        // Read as text: arguments may hold what no tree can.
        let name = text::string(&exchange.seen.body, &["params", "name"]).unwrap_or_default();
        let special = self.script().calls.get(&name).cloned();
        if let Some(act) = special {
            return act(exchange).await;
        }
        let known =
            self.script().tools.iter().any(|text| text::string(text, &["name"]).as_ref() == Some(&name));
        if !known {
            return Reply::error(-32602, &format!("Unknown tool: {name}"));
        }
        let arguments = match exchange.seen.arguments() {
            "" => "{}",
            arguments => arguments,
        };
        Reply::raw(format!(r#"{{"content":[],"structuredContent":{arguments}}}"#))
    }

    fn read(&self, exchange: &Exchange) -> Reply {
        let uri = exchange.params()["uri"].clone();
        let name = self.script().name.clone();
        let known = self.script().resources.iter().any(|text| text::tree(text)["uri"] == uri)
            || !self.script().templates.is_empty();
        if !known {
            return Reply::raw_error(
                json!({"code": -32002, "message": "Resource not found", "data": {"uri": uri}}).to_string(),
            );
        }
        let text = format!("{name} reads {}", uri.as_str().unwrap_or_default());
        json!({"contents": [{"uri": uri, "mimeType": "text/plain", "text": text}]}).into()
    }

    fn prompt(&self, exchange: &Exchange) -> Reply {
        let params = exchange.params();
        let known = self.script().prompts.iter().any(|text| text::tree(text)["name"] == params["name"]);
        if !known {
            return Reply::error(-32602, "Unknown prompt");
        }
        let text = format!("{} of {}", params["name"].as_str().unwrap_or_default(), self.script().name);
        json!({"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}).into()
    }
}

fn listed(kind: &str, items: &[String]) -> Reply {
    Reply::raw(format!(r#"{{"{kind}":[{}]}}"#, items.join(",")))
}
