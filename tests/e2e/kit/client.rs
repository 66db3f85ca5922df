//! A raw MCP client over Streamable HTTP: every revision, every header, every byte of the answers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use super::deadline::{SOON, secs, soon};
use super::letter::{Answer, Letter};
use super::listener::Listener;
use super::outcome::Outcome;
use super::script::NEWEST;
use super::text;

/// What a client accepts on POST, unless a test says otherwise.
pub const BOTH: &str = "application/json, text/event-stream";

/// A client; [`Client::connect`] makes its session.
#[derive(Clone)]
pub struct Client {
    pub address: SocketAddr,
    pub path: String,
    pub session: Option<String>,
    /// The revision agreed on, sent in `MCP-Protocol-Version`.
    pub revision: Option<String>,
    /// The result of `initialize`.
    pub hello: Value,
    asked: String,
    name: String,
    capabilities: Value,
    headers: Vec<(String, String)>,
    patience: Duration,
    ids: Arc<AtomicU64>,
}

impl Client {
    /// A client of `http://address/path` that has not said anything yet.
    pub fn new(address: SocketAddr, path: &str) -> Self {
        Client {
            address,
            path: path.into(),
            session: None,
            revision: None,
            hello: Value::Null,
            asked: NEWEST.into(),
            name: "kit".into(),
            capabilities: everything(),
            headers: Vec::new(),
            patience: SOON,
            ids: Arc::new(AtomicU64::new(1)),
        }
    }

    pub fn asking_for(mut self, revision: &str) -> Self {
        self.asked = revision.into();
        self
    }

    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub fn capable_of(mut self, capabilities: Value) -> Self {
        self.capabilities = capabilities;
        self
    }

    /// A header on every request.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// The `initialize` request of this client.
    pub fn greeting(&self) -> String {
        let params = json!({
            "protocolVersion": self.asked,
            "capabilities": self.capabilities,
            "clientInfo": {"name": self.name, "version": "1.0.0"},
        });
        text::request("0", "initialize", &params.to_string())
    }

    /// Sends `initialize` and reads its answer, without the notification that follows.
    pub async fn initialize(&mut self) -> Outcome {
        let outcome = self.ask(self.post(&self.greeting()), "0").await;
        self.session = outcome.header("mcp-session-id").map(String::from);
        self.hello = outcome.tree["result"].clone();
        self.revision = self.hello["protocolVersion"].as_str().map(String::from);
        outcome
    }

    /// Makes the session.
    pub async fn connect(mut self) -> Self {
        self.initialize().await.result();
        let status = self.notify("notifications/initialized", json!({})).await;
        assert_eq!(status, 202, "notifications/initialized");
        self
    }

    // Requests.

    /// A POST of this body with the client's headers.
    pub fn post(&self, body: &str) -> Letter {
        self.letter("POST")
            .header("accept", BOTH)
            .header("content-type", "application/json")
            .body(body.to_owned())
    }

    pub fn get(&self) -> Letter {
        self.letter("GET").header("accept", "text/event-stream")
    }

    pub fn delete(&self) -> Letter {
        self.letter("DELETE")
    }

    /// A request of this verb with what the session and the client add to each.
    pub fn letter(&self, verb: &str) -> Letter {
        let mut letter = Letter::new(self.address, verb, &self.path).patience(self.patience);
        if let Some(session) = &self.session {
            letter = letter.header("mcp-session-id", session);
        }
        if let Some(revision) = &self.revision {
            letter = letter.header("mcp-protocol-version", revision);
        }
        for (name, value) in &self.headers {
            letter = letter.and_header(name, value);
        }
        letter
    }

    pub fn next_id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::SeqCst)
    }

    pub async fn request(&self, method: &str, params: Value) -> Outcome {
        let id = self.next_id().to_string();
        self.request_text(&id, method, &params.to_string()).await
    }

    /// A request whose id and params are JSON texts, sent byte for byte.
    pub async fn request_text(&self, id: &str, method: &str, params: &str) -> Outcome {
        self.ask(self.post(&text::request(id, method, params)), id).await
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Outcome {
        self.call_text(tool, &arguments.to_string()).await
    }

    /// A tool call whose arguments are JSON text, sent byte for byte.
    pub async fn call_text(&self, tool: &str, arguments: &str) -> Outcome {
        let id = self.next_id().to_string();
        let params = format!(r#"{{"name":{},"arguments":{arguments}}}"#, text::quoted(tool));
        self.request_text(&id, "tools/call", &params).await
    }

    /// A tool call that wants progress under this token, given as JSON text.
    pub async fn call_with_token(&self, tool: &str, arguments: Value, token: &str) -> Outcome {
        let id = self.next_id().to_string();
        self.request_text(&id, "tools/call", &progressing(tool, &arguments, token)).await
    }

    /// Sends a request and leaves the reading of its answer to the test.
    pub async fn begin(&self, id: &str, method: &str, params: Value) -> Answer {
        self.post(&text::request(id, method, &params.to_string())).send().await
    }

    /// Sends a notification; gives the HTTP status.
    pub async fn notify(&self, method: &str, params: Value) -> u16 {
        self.post(&text::notification(method, &params.to_string())).send().await.status
    }

    /// Reads one answer to its end.
    pub async fn ask(&self, letter: Letter, id: &str) -> Outcome {
        Outcome::read(letter.send().await, id).await
    }

    // Lists.

    /// All items of a list, by its cursors.
    pub async fn list(&self, method: &str, kind: &str) -> Vec<Value> {
        self.list_texts(method, kind).await.iter().map(|item| text::tree(item)).collect()
    }

    /// All items of a list as they stand in the answers.
    pub async fn list_texts(&self, method: &str, kind: &str) -> Vec<String> {
        let mut found = Vec::new();
        let mut params = json!({});
        for _page in 0..100 {
            let outcome = self.request(method, params).await;
            let result = outcome.result_text();
            let items = text::member(result, &[kind]).unwrap_or_else(|| panic!("no {kind} in {result}"));
            found.extend(text::items(items).into_iter().map(String::from));
            match &outcome.tree["result"]["nextCursor"] {
                Value::Null => return found,
                cursor => params = json!({"cursor": cursor}),
            }
        }
        panic!("{method} has no end");
    }

    pub async fn tools(&self) -> Vec<Value> {
        self.list("tools/list", "tools").await
    }

    pub async fn tool_names(&self) -> Vec<String> {
        names(&self.tools().await)
    }

    /// Waits until the list of tools is as wanted; asks again at each turn.
    pub async fn tools_until(&self, what: &str, mut wanted: impl FnMut(&[String]) -> bool) -> Vec<String> {
        soon(what, async {
            let mut turn = tokio::time::interval(Duration::from_millis(50));
            loop {
                turn.tick().await;
                let names = self.tool_names().await;
                if wanted(&names) {
                    return names;
                }
            }
        })
        .await
    }

    // Streams.

    /// Opens a GET stream and reads it in the background.
    pub async fn listen(&self) -> Listener {
        Listener::start(self.get().patience(secs(120)).send().await)
    }
}

/// The params of a tool call with a progress token.
pub fn progressing(tool: &str, arguments: &Value, token: &str) -> String {
    format!(
        r#"{{"name":{},"arguments":{arguments},"_meta":{{"progressToken":{token}}}}}"#,
        text::quoted(tool)
    )
}

/// The names of list items, in their order.
pub fn names(items: &[Value]) -> Vec<String> {
    items.iter().map(|item| item["name"].as_str().unwrap_or_default().to_owned()).collect()
}

/// Whatever a client can declare: such a client is met by the connection that read the lists, and needs no other.
pub fn everything() -> Value {
    json!({
        "sampling": {"tools": {}, "context": {}},
        "elicitation": {"form": {}, "url": {}},
        "roots": {"listChanged": true},
    })
}
