//! A gateway that runs elsewhere, over Streamable HTTP: one session, one request at a time (R-32).
//!
//! *Limits*: [`LIMITS`]. A stream that breaks off is not resumed.
//!
//! *On drop*: the session stays open at the other side until it expires; [`Remote::close`] ends it.

use std::time::Duration;

use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use crate::cli::exit::{Because, Exit, Failure};
use crate::cli::output;
use crate::cli::way::Outcome;
use crate::config::secrets::Secret;
use crate::egress::http::{self, Answer, Limits, Method, Request};
use crate::framing::sse::Decoder;
use crate::jsonrpc::message::compose;
use crate::mcp::revision::Revision;

/// A session with a running gateway.
pub struct Remote {
    url: Url,
    /// The URL without what may be secret in it.
    shown: String,
    key: Option<String>,
    session: Option<String>,
    revision: String,
    requests: u64,
}

/// A call may be silent for as long as the gateway lets upstreams be.
const LIMITS: Limits =
    Limits { connect: Duration::from_secs(10), idle: Duration::from_secs(300), body: 256 << 20 };

/// The largest message within a stream.
const MESSAGE_BYTES: usize = 64 << 20;

/// How much of a refusal is shown.
const REFUSAL_CHARS: usize = 300;

/// What of an answer is looked at.
#[derive(Deserialize)]
struct Response {
    id: Option<Box<RawValue>>,
    method: Option<String>,
    result: Option<Box<RawValue>>,
    error: Option<Box<RawValue>>,
}

/// What of an `initialize` result is looked at.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hello {
    protocol_version: String,
}

impl Remote {
    /// Opens a session; `key` is sent as the bearer token.
    ///
    /// # Errors
    /// When nobody answers, or what answers speaks something else.
    pub async fn open(url: Url, key: Option<Secret>) -> Result<Self, Failure> {
        let key = key.map(|key| format!("Bearer {}", key.reveal().trim()));
        let shown = format!("{}{}", url.origin().ascii_serialization(), url.path());
        let revision = Revision::LATEST.name().to_owned();
        let mut remote = Self { url, shown, key, session: None, revision, requests: 0 };
        let hello = format!(
            r#"{{"protocolVersion":"{}","capabilities":{{}},"clientInfo":{{"name":"portcullis","version":"{}"}}}}"#,
            remote.revision,
            env!("CARGO_PKG_VERSION")
        );
        let result = match remote.call("initialize", &hello, |_| {}).await? {
            Outcome::Result(result) => result,
            Outcome::Error(error) => {
                let why = format!("{} refuses to begin: {}", remote.shown, output::harmless(&error.message));
                return Err(Failure::new(Exit::Failed, why));
            }
        };
        let hello: Hello = serde_json::from_str(result.get()).map_err(|_| remote.is_no_server())?;
        remote.revision = hello.protocol_version;
        let ready = compose(None, "notifications/initialized", "");
        let mut answer = remote.send(Method::Post, ready).await?;
        answer.text().await?;
        Ok(remote)
    }

    /// Makes a request; messages that come before its answer are handed to `notice`.
    ///
    /// # Errors
    /// When there is no answer.
    pub async fn call(
        &mut self,
        method: &str,
        params: &str,
        mut notice: impl FnMut(&[u8]),
    ) -> Result<Outcome, Failure> {
        self.requests += 1;
        let id = self.requests.to_string();
        let mut answer = self.send(Method::Post, compose(Some(self.requests), method, params)).await?;
        if let Some(session) = answer.header("mcp-session-id") {
            self.session = Some(session.to_owned());
        }
        let kind = answer.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if !kind.starts_with("text/event-stream") {
            let text = answer.text().await?;
            let response = serde_json::from_slice(&text).map_err(|_| self.is_no_server())?;
            return outcome(response).ok_or_else(|| self.is_no_server());
        }
        let mut events = Decoder::new(MESSAGE_BYTES);
        loop {
            let chunk = answer.chunk().await?;
            let ended = chunk.is_none();
            events.push(chunk.unwrap_or_default());
            while let Some(event) = if ended { events.finish() } else { events.next() } {
                let event = event?;
                let Ok(response) = serde_json::from_slice::<Response>(&event.data) else { continue };
                let is_ours = response.id.as_ref().is_some_and(|found| found.get() == id);
                if response.method.is_none() && is_ours {
                    return outcome(response).ok_or_else(|| self.is_no_server());
                }
                notice(&event.data);
            }
            if ended {
                let why = format!("{} ended the stream before the answer", self.shown);
                return Err(Failure::new(Exit::Failed, why));
            }
        }
    }

    /// Ends the session.
    pub async fn close(self) {
        if self.session.is_some() {
            // Then it expires by itself.
            let _ = self.send(Method::Delete, Bytes::new()).await;
        }
    }

    /// Sends a message; whatever is no success is a failure.
    async fn send(&self, method: Method, body: Bytes) -> Result<Answer, Failure> {
        let mut headers = vec![
            ("accept", "application/json, text/event-stream"),
            ("content-type", "application/json"),
            ("user-agent", concat!("portcullis/", env!("CARGO_PKG_VERSION"))),
        ];
        headers.extend(self.key.as_deref().map(|key| ("authorization", key)));
        if let Some(session) = self.session.as_deref() {
            headers.push(("mcp-session-id", session));
            headers.push(("mcp-protocol-version", &self.revision));
        }
        let request = Request { method, url: &self.url, headers: &headers, body };
        let mut answer = http::send(request, LIMITS).await.or_exit(Exit::Unavailable)?;
        if (200..300).contains(&answer.status()) {
            return Ok(answer);
        }
        // What an answer says helps, and is not worth another failure.
        let text = answer.text().await.unwrap_or_default();
        Err(self.refusal(&answer, &String::from_utf8_lossy(&text)))
    }

    fn refusal(&self, answer: &Answer, text: &str) -> Failure {
        let (exit, mend) = match answer.status() {
            401 | 403 => {
                (Exit::Refused, "\n    give a key with `--key-file FILE`, or in the variable PORTCULLIS_KEY")
            }
            404 => (Exit::Failed, "\n    a gateway's endpoints are /mcp and /mcp/SERVER"),
            500.. => (Exit::Unavailable, ""),
            _ => (Exit::Failed, ""),
        };
        let said = output::one_line(text, REFUSAL_CHARS);
        let colon = if said.is_empty() { "" } else { ": " };
        let why = format!("{} answers with {}{colon}{said}{mend}", self.shown, answer.status_line());
        Failure::new(exit, why)
    }

    fn is_no_server(&self) -> Failure {
        Failure::new(Exit::Failed, format!("{} does not speak MCP", self.shown))
    }
}

fn outcome(response: Response) -> Option<Outcome> {
    match (response.result, response.error) {
        (Some(result), None) => Some(Outcome::Result(result)),
        (None, Some(error)) => Some(Outcome::Error(serde_json::from_str(error.get()).ok()?)),
        _ => None,
    }
}
