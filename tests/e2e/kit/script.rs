//! What a scripted server offers and how it behaves, the same for both transports.
//!
//! [`http_server`] and [`stdio_server`] begin one: `http_server().tool("echo").start()`.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Value, json};

use super::exchange::{Exchange, Seen};
use super::http_server::Http;
use super::reply::Reply;
use super::sse_server::Sse;
use super::stdio_server::Pipe;

/// The session revisions, newest first.
pub const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// The newest session revision.
pub const NEWEST: &str = REVISIONS[0];

/// What a server does with a request.
pub type Handler = Arc<dyn Fn(Exchange) -> Pin<Box<dyn Future<Output = Reply> + Send>> + Send + Sync>;

/// What a server does with an HTTP request before anything else; `None` goes on as usual.
pub type Guard = Arc<dyn Fn(&Seen) -> Option<Reply> + Send + Sync>;

/// Any async closure that gives something like a reply.
pub fn handler<F, Work, R>(act: F) -> Handler
where
    F: Fn(Exchange) -> Work + Send + Sync + 'static,
    Work: Future<Output = R> + Send + 'static,
    R: Into<Reply>,
{
    Arc::new(move |exchange| {
        let work = act(exchange);
        Box::pin(async move { work.await.into() })
    })
}

/// Lists (as JSON texts), answers and claims of a scripted server.
#[derive(Clone, Default)]
pub struct Script {
    pub name: String,
    pub revisions: Vec<String>,
    pub capabilities: Option<Value>,
    pub instructions: Option<String>,
    pub tools: Vec<String>,
    pub resources: Vec<String>,
    pub templates: Vec<String>,
    pub prompts: Vec<String>,
    /// By JSON-RPC method; replaces what the server would do itself.
    pub on: HashMap<String, Handler>,
    /// By name of a tool.
    pub calls: HashMap<String, Handler>,
    pub guard: Option<Guard>,
}

impl Script {
    /// What the server declares: its own claim, else what its lists suggest.
    pub fn declared(&self) -> Value {
        if let Some(claim) = &self.capabilities {
            return claim.clone();
        }
        let mut claim = json!({"tools": {"listChanged": true}});
        if !self.resources.is_empty() || !self.templates.is_empty() {
            claim["resources"] = json!({"listChanged": true});
        }
        if !self.prompts.is_empty() {
            claim["prompts"] = json!({"listChanged": true});
        }
        claim
    }
}

/// A tool definition with an object schema.
pub fn tool(name: &str) -> Value {
    json!({"name": name, "description": name, "inputSchema": {"type": "object"}})
}

/// A server about to be started; `T` holds the settings of its transport.
pub struct Server<T> {
    pub(super) script: Script,
    pub(super) transport: T,
}

/// A Streamable HTTP server on loopback.
pub fn http_server() -> Server<Http> {
    Server::new(Http::default())
}

/// A server of HTTP+SSE on loopback.
pub fn sse_server() -> Server<Sse> {
    Server::new(Sse::default())
}

/// A server that is started as a child, once for each connection.
pub fn stdio_server() -> Server<Pipe> {
    Server::new(Pipe::default())
}

impl<T> Server<T> {
    fn new(transport: T) -> Self {
        let revisions = REVISIONS.map(String::from).to_vec();
        Server { script: Script { name: "scripted".into(), revisions, ..Script::default() }, transport }
    }

    /// The name the server gives itself, and begins its session ids with.
    pub fn named(mut self, name: &str) -> Self {
        self.script.name = name.into();
        self
    }

    /// The revisions it speaks, the preferred one first.
    pub fn revisions(mut self, revisions: &[&str]) -> Self {
        self.script.revisions = revisions.iter().map(|revision| (*revision).into()).collect();
        self
    }

    /// A tool that does what the kit does for every tool without a handler: it tells its
    /// arguments back as structured content.
    pub fn tool(self, name: &str) -> Self {
        self.tool_text(&tool(name).to_string())
    }

    /// A tool by its whole definition, kept byte for byte.
    pub fn tool_text(mut self, definition: &str) -> Self {
        self.script.tools.push(definition.into());
        self
    }

    /// A tool with a behaviour of its own.
    pub fn call<F, Work, R>(self, name: &str, act: F) -> Self
    where
        F: Fn(Exchange) -> Work + Send + Sync + 'static,
        Work: Future<Output = R> + Send + 'static,
        R: Into<Reply>,
    {
        let definition = tool(name).to_string();
        self.tool_text(&definition).behaves(name, act)
    }

    /// The behaviour of a tool that is listed already, or not at all.
    pub fn behaves<F, Work, R>(mut self, name: &str, act: F) -> Self
    where
        F: Fn(Exchange) -> Work + Send + Sync + 'static,
        Work: Future<Output = R> + Send + 'static,
        R: Into<Reply>,
    {
        self.script.calls.insert(name.into(), handler(act));
        self
    }

    /// What is done with a method, in place of the ordinary.
    pub fn on<F, Work, R>(mut self, method: &str, act: F) -> Self
    where
        F: Fn(Exchange) -> Work + Send + Sync + 'static,
        Work: Future<Output = R> + Send + 'static,
        R: Into<Reply>,
    {
        self.script.on.insert(method.into(), handler(act));
        self
    }

    pub fn resource(mut self, definition: Value) -> Self {
        self.script.resources.push(definition.to_string());
        self
    }

    pub fn template(mut self, definition: Value) -> Self {
        self.script.templates.push(definition.to_string());
        self
    }

    pub fn prompt(mut self, definition: Value) -> Self {
        self.script.prompts.push(definition.to_string());
        self
    }

    pub fn capabilities(mut self, claim: Value) -> Self {
        self.script.capabilities = Some(claim);
        self
    }

    pub fn instructions(mut self, text: &str) -> Self {
        self.script.instructions = Some(text.into());
        self
    }
}
