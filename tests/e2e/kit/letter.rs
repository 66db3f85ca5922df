//! One HTTP request of a client, free in every part, and its answer, read piece by piece.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::AbortHandle;

use super::deadline::{SOON, within};
use super::events::{Blocks, Event};
use super::text;

/// A request about to be sent, on a connection of its own.
pub struct Letter {
    pub(super) address: SocketAddr,
    pub(super) verb: String,
    pub(super) path: String,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Bytes,
    pub(super) patience: Duration,
    pub(super) second: bool,
}

impl Letter {
    pub fn new(address: SocketAddr, verb: &str, path: &str) -> Self {
        Letter {
            address,
            verb: verb.into(),
            path: path.into(),
            headers: vec![("host".into(), address.to_string().into_bytes())],
            body: Bytes::new(),
            patience: SOON,
            second: false,
        }
    }

    /// Sets a header, in place of any line it had.
    pub fn header(self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.without(name).and_header(name, value)
    }

    /// Adds a line of a header.
    pub fn and_header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.into(), value.as_ref().to_vec()));
        self
    }

    pub fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    pub fn path(mut self, path: &str) -> Self {
        self.path = path.into();
        self
    }

    pub fn body(mut self, body: impl Into<Bytes>) -> Self {
        self.body = body.into();
        self
    }

    /// How long each wait for this answer may take.
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Speaks HTTP/2 without TLS, from the first byte.
    pub fn over_http2(mut self) -> Self {
        self.second = true;
        self
    }

    /// Sends it and waits for the head of the answer.
    pub async fn send(self) -> Answer {
        let what = format!("an answer to {} {}", self.verb, self.path);
        let patience = self.patience;
        within(patience, &what, self.try_send()).await.unwrap_or_else(|why| panic!("no {what}: {why}"))
    }

    /// As [`Letter::send`], but a connection that is refused or ends early is an outcome.
    pub async fn try_send(self) -> Result<Answer, String> {
        let stream = TcpStream::connect(self.address).await.map_err(|why| why.to_string())?;
        stream.set_nodelay(true).unwrap();
        let socket: std::net::TcpStream = SockRef::from(&stream).try_clone().unwrap().into();
        let mut request = Request::builder().method(self.verb.as_str());
        for (name, value) in &self.headers {
            if !(self.second && name == "host") {
                request = request.header(name, value.as_slice());
            }
        }
        let body = Full::new(self.body);
        let (response, connection) = if self.second {
            let request = request.uri(format!("http://{}{}", self.address, self.path)).body(body).unwrap();
            let io = TokioIo::new(stream);
            let (mut sender, connection) = hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .map_err(|why| why.to_string())?;
            let connection = tokio::spawn(async { drop(connection.await) });
            (sender.send_request(request).await, connection.abort_handle())
        } else {
            let request = request.uri(&self.path).body(body).unwrap();
            let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
                .await
                .map_err(|why| why.to_string())?;
            let connection = tokio::spawn(async { drop(connection.await) });
            (sender.send_request(request).await, connection.abort_handle())
        };
        let (head, body) = response.map_err(|why| format!("{why:?}"))?.into_parts();
        Ok(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            patience: self.patience,
            body,
            blocks: Blocks::default(),
            socket: Some(socket),
            connection,
        })
    }
}

/// The answer to a [`Letter`]; its body is read as it comes.
///
/// *On drop.* The connection closes.
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    patience: Duration,
    body: Incoming,
    blocks: Blocks,
    socket: Option<std::net::TcpStream>,
    connection: AbortHandle,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// True for an event stream.
    pub fn is_stream(&self) -> bool {
        self.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// Waits longer, or less long, for what is still to come.
    pub fn patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// The next piece of the body; `Ok(None)` at its end, an error where it is cut.
    pub async fn piece(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            match within(self.patience, "the next piece of a body", self.body.frame()).await {
                None => return Ok(None),
                Some(Err(why)) => return Err(why.to_string()),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
            }
        }
    }

    /// The whole body, or what is left of it.
    pub async fn bytes(&mut self) -> Vec<u8> {
        let mut whole = Vec::new();
        while let Some(piece) = self.piece().await.unwrap_or_else(|why| panic!("a body is cut: {why}")) {
            whole.extend(piece);
        }
        whole
    }

    pub async fn text(&mut self) -> String {
        String::from_utf8(self.bytes().await).expect("a body is UTF-8")
    }

    pub async fn tree(&mut self) -> Value {
        text::tree(&self.text().await)
    }

    /// The next block of an event stream; `None` at its end.
    pub async fn event(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.blocks.next() {
                return Some(event);
            }
            let piece = self.piece().await.unwrap_or_else(|why| panic!("an event stream is cut: {why}"))?;
            self.blocks.feed(&piece);
        }
    }

    /// The next message of an event stream as text; keep-alives and empty events are passed over.
    pub async fn message(&mut self) -> Option<String> {
        loop {
            if let Some(message) = self.event().await?.message() {
                return Some(message.to_owned());
            }
        }
    }

    /// Ends the connection with a reset.
    pub fn reset(mut self) {
        let socket = self.socket.take().unwrap();
        SockRef::from(&socket).set_linger(Some(Duration::ZERO)).unwrap();
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.connection.abort();
    }
}
