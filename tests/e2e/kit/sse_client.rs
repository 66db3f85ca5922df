//! A raw MCP client over HTTP+SSE of 2024-11-05: one stream, and POSTs to where its first event says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use url::Url;

use super::client::everything;
use super::deadline::secs;
use super::letter::Letter;
use super::listener::Listener;
use super::text;

/// A client with an open stream.
///
/// *On drop.* The stream closes.
pub struct SseClient {
    address: SocketAddr,
    headers: Vec<(String, String)>,
    /// Where to POST messages to, resolved against the address of the stream as clients do.
    pub target: Url,
    /// The data of the first event.
    pub endpoint: String,
    pub stream: Listener,
    /// The result of `initialize`.
    pub hello: Value,
    ids: AtomicU64,
}

impl SseClient {
    /// The request that opens a stream.
    pub fn get(address: SocketAddr, path: &str) -> Letter {
        Letter::new(address, "GET", path).header("accept", "text/event-stream").patience(secs(120))
    }

    /// Opens a stream and reads where to POST messages to.
    pub async fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Self {
        let mut letter = Self::get(address, path);
        for (name, value) in headers {
            letter = letter.header(name, value);
        }
        let mut answer = letter.send().await;
        assert_eq!(answer.status, 200, "GET {path}");
        let first = answer.event().await.expect("the first event");
        assert_eq!((first.name.as_deref(), first.id), (Some("endpoint"), None));
        let endpoint = first.data.expect("where to POST");
        let target = Url::parse(&format!("http://{address}{path}")).unwrap().join(&endpoint).unwrap();
        Self {
            address,
            headers: headers.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            target,
            endpoint,
            stream: Listener::start(answer),
            hello: Value::Null,
            ids: AtomicU64::new(1),
        }
    }

    /// Makes the session.
    pub async fn connect(address: SocketAddr, path: &str, revision: &str) -> Self {
        Self::open(address, path, &[]).await.initialized(revision).await
    }

    pub async fn initialized(mut self, revision: &str) -> Self {
        let answer = self.request("initialize", greeting(revision)).await;
        self.hello = answer["result"].clone();
        assert!(self.hello.is_object(), "{answer}");
        self.notify("notifications/initialized", json!({})).await;
        self
    }

    /// A POST of this body.
    pub fn post(&self, body: &str) -> Letter {
        let path = format!("{}?{}", self.target.path(), self.target.query().unwrap_or_default());
        let mut letter = Letter::new(self.address, "POST", &path).header("content-type", "application/json");
        for (name, value) in &self.headers {
            letter = letter.header(name, value);
        }
        letter.body(body.to_owned())
    }

    /// Sends a message that is taken.
    pub async fn say(&self, message: &str) {
        let mut answer = self.post(message).send().await;
        let body = answer.text().await;
        assert_eq!((answer.status, body.as_str()), (202, ""), "{message}");
    }

    pub async fn notify(&self, method: &str, params: Value) {
        self.say(&text::notification(method, &params.to_string())).await;
    }

    /// Sends a request and gives its id.
    pub async fn begin(&self, method: &str, params: Value) -> Value {
        let id = self.ids.fetch_add(1, Ordering::SeqCst);
        self.say(&text::request(&id.to_string(), method, &params.to_string())).await;
        json!(id)
    }

    /// Sends a request and waits for its answer on the stream.
    pub async fn request(&self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params).await;
        self.stream.wait_for_answer(&id).await
    }

    pub async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({"name": tool, "arguments": arguments})).await
    }
}

/// The params of `initialize`.
pub fn greeting(revision: &str) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": everything(),
        "clientInfo": {"name": "kit", "version": "1.0.0"},
    })
}
