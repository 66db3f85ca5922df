//! One client: a session over one kept connection, every answer checked.
//!
//! *On drop*: the connection closes; the session stays at the server unless [`Session::close`] was called.

use std::{borrow::Cow, net::SocketAddr, sync::Arc};

use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri,
    header::{ACCEPT, CONTENT_TYPE, HOST},
};
use http_body_util::Full;
use hyper::{body::Incoming, client::conn::http1};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use tokio::net::TcpStream;

use crate::wire;

const REVISION: &str = "2025-11-25";

/// Where a target listens.
#[derive(Clone, Debug)]
pub struct Endpoint {
    address: SocketAddr,
    host: HeaderValue,
}

/// An open session.
pub struct Session {
    endpoint: Arc<Endpoint>,
    connection: http1::SendRequest<Full<Bytes>>,
    id: Option<HeaderValue>,
    next: u64,
}

/// The messages that answered one request: notices in their order, then the answer.
pub struct Answers {
    body: Bytes,
    streamed: bool,
    id: u64,
}

/// What is read of a message; the rest is skipped.
#[derive(Deserialize)]
pub struct Message<'a> {
    pub id: Option<u64>,
    #[serde(borrow)]
    result: Option<Outcome<'a>>,
    #[serde(borrow)]
    error: Option<Refusal<'a>>,
    params: Option<Progress>,
}

#[derive(Deserialize)]
struct Refusal<'a> {
    #[serde(borrow)]
    message: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Progress {
    progress_token: Option<u64>,
    progress: Option<u64>,
}

/// The parts of a result that are checked.
#[derive(Deserialize)]
pub struct Outcome<'a> {
    #[serde(borrow, default)]
    pub content: Vec<Content<'a>>,
    #[serde(borrow, default)]
    pub tools: Vec<Tool<'a>>,
}

/// A block of a tool's answer.
#[derive(Deserialize)]
pub struct Content<'a> {
    #[serde(borrow, default)]
    pub text: Cow<'a, str>,
}

/// An entry of a list.
#[derive(Deserialize)]
pub struct Tool<'a> {
    #[serde(borrow)]
    pub name: Cow<'a, str>,
}

impl Endpoint {
    /// The endpoint under `http://address:port`.
    pub fn new(origin: &str) -> Result<Self> {
        let uri: Uri = origin.parse()?;
        let authority = uri.authority().with_context(|| format!("{origin} names no host"))?;
        let address: SocketAddr = authority.as_str().parse()?;
        ensure!(address.ip().is_loopback(), "{origin} is not on this machine");
        Ok(Self { address, host: HeaderValue::try_from(authority.as_str())? })
    }
}

impl Session {
    /// Connects and shakes hands.
    pub async fn open(endpoint: &Arc<Endpoint>) -> Result<Self> {
        let socket = TcpStream::connect(endpoint.address).await.context("connect")?;
        socket.set_nodelay(true)?;
        let (connection, driver) = http1::handshake(TokioIo::new(socket)).await?;
        // The driver ends with the connection; its error comes out at the request that suffers from it.
        tokio::spawn(driver);
        let mut session = Self { endpoint: endpoint.clone(), connection, id: None, next: 0 };
        session.shake_hands().await?;
        Ok(session)
    }

    async fn shake_hands(&mut self) -> Result<()> {
        let params = format!(
            r#"{{"protocolVersion":"{REVISION}","capabilities":{{}},"clientInfo":{{"name":"bench","version":"1.0.0"}}}}"#
        );
        let response = self.post(request_body(self.next, "initialize", &params)).await?;
        self.id = response.headers().get(wire::SESSION).cloned();
        Answers::read(response, self.next).await?.result()?;
        self.next += 1;
        let noted = self
            .post(Bytes::from_static(br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#))
            .await?;
        ensure!(noted.status() == StatusCode::ACCEPTED, "initialized: {}", noted.status());
        wire::read_all(noted.into_body()).await?;
        Ok(())
    }

    /// The id that the next request will have; it is also its progress token.
    pub fn next_id(&self) -> u64 {
        self.next
    }

    /// Sends one request and reads everything that answers it.
    pub async fn request(&mut self, method: &str, params: &str) -> Result<Answers> {
        let id = self.next;
        self.next += 1;
        let response = self.post(request_body(id, method, params)).await?;
        Answers::read(response, id).await
    }

    /// Opens the stream on which the server may speak first.
    pub async fn listen(&mut self) -> Result<Incoming> {
        let response = self.send(Method::GET, wire::EVENTS, Bytes::new()).await?;
        ensure!(response.status() == StatusCode::OK, "stream: {}", response.status());
        Ok(response.into_body())
    }

    /// Ends the session at the server.
    pub async fn close(mut self) -> Result<()> {
        if self.id.is_none() {
            return Ok(());
        }
        let response = self.send(Method::DELETE, wire::JSON, Bytes::new()).await?;
        ensure!(response.status().is_success(), "delete: {}", response.status());
        Ok(())
    }

    async fn post(&mut self, body: Bytes) -> Result<Response<Incoming>> {
        self.send(Method::POST, "application/json, text/event-stream", body).await
    }

    async fn send(
        &mut self,
        method: Method,
        accept: &'static str,
        body: Bytes,
    ) -> Result<Response<Incoming>> {
        let body_is_empty = body.is_empty();
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = Uri::from_static(wire::PATH);
        let headers = request.headers_mut();
        headers.insert(HOST, self.endpoint.host.clone());
        headers.insert(ACCEPT, HeaderValue::from_static(accept));
        if !body_is_empty {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(wire::JSON));
        }
        if let Some(id) = &self.id {
            headers.insert(wire::SESSION, id.clone());
            headers.insert(wire::REVISION, HeaderValue::from_static(REVISION));
        }
        self.connection.ready().await?;
        Ok(self.connection.send_request(request).await?)
    }
}

impl Answers {
    async fn read(response: Response<Incoming>, id: u64) -> Result<Self> {
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let body = wire::read_all(response.into_body()).await?;
        if status != StatusCode::OK {
            bail!("{status}: {}", String::from_utf8_lossy(&body[..body.len().min(200)]));
        }
        let kind = kind.as_ref().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        Ok(Self { streamed: kind.starts_with(wire::EVENTS), body, id })
    }

    /// The result, where nothing but the answer came and it bears the request's id.
    pub fn result(&self) -> Result<Outcome<'_>> {
        self.after_progress(0)
    }

    /// The result, where exactly so many notices of progress came before it, in order and with the right token.
    pub fn after_progress(&self, notices: u64) -> Result<Outcome<'_>> {
        if !self.streamed {
            ensure!(notices == 0, "no notices before the answer");
            return serde_json::from_slice::<Message<'_>>(&self.body)?.outcome(self.id);
        }
        let mut seen = 0;
        for data in events(&self.body) {
            let message: Message<'_> = serde_json::from_slice(data)?;
            let Some(params) = &message.params else {
                ensure!(seen == notices, "{seen} notices instead of {notices}");
                return message.outcome(self.id);
            };
            seen += 1;
            ensure!(params.progress_token == Some(self.id), "a notice with the wrong token");
            ensure!(params.progress == Some(seen), "a notice out of turn");
        }
        bail!("the stream ended without an answer")
    }
}

impl<'a> Message<'a> {
    /// The result, if this is the answer to the request of this id.
    pub fn outcome(self, id: u64) -> Result<Outcome<'a>> {
        if let Some(refusal) = self.error {
            bail!("refused: {}", refusal.message);
        }
        ensure!(self.id == Some(id), "an answer with the wrong id");
        self.result.context("an answer without a result")
    }
}

/// The data of each event that has any; the bench's messages are all on one line.
fn events(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_prefix(b"data:"))
        .map(|data| data.trim_ascii())
        .filter(|data| !data.is_empty())
}

fn request_body(id: u64, method: &str, params: &str) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#).into()
}
