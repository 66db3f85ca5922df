//! A scripted server of HTTP+SSE (2024-11-05) on loopback: one stream for each session, and POSTs beside it.
//!
//! *On drop.* The port closes and every connection ends.

use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;

use super::exchange::{Outlet, Seen};
use super::gateway::Entry;
use super::http_server::bound;
use super::peer::Peer;
use super::reply::Reply;
use super::script::Server;
use super::text;

type Body = UnsyncBoxBody<Bytes, io::Error>;

/// The first bytes of a stream, for the session of this id at this address.
type Opening = Arc<dyn Fn(SocketAddr, &str) -> String + Send + Sync>;

/// Settings of the transport.
#[derive(Clone)]
pub struct Sse {
    path: String,
    opening: Opening,
    late: bool,
}

impl Default for Sse {
    fn default() -> Self {
        let opening = |_, id: &str| named(&format!("/messages?session_id={id}"));
        Sse { path: "/sse".into(), opening: Arc::new(opening), late: false }
    }
}

/// The event that names the place for messages.
pub fn named(place: &str) -> String {
    format!("event: endpoint\ndata: {place}\n\n")
}

impl Server<Sse> {
    /// Opens its streams at this path, with these first bytes.
    pub fn at(
        mut self,
        path: &str,
        opening: impl Fn(SocketAddr, &str) -> String + Send + Sync + 'static,
    ) -> Self {
        self.transport.path = path.into();
        self.transport.opening = Arc::new(opening);
        self
    }

    /// Names the place for messages only when the test says [`Peer::release`].
    pub fn late(mut self) -> Self {
        self.transport.late = true;
        self
    }

    /// Opens the port.
    pub fn start(self) -> SseServer {
        let socket = bound((Ipv4Addr::LOCALHOST, 0).into());
        socket.listen(1024).unwrap();
        let listener = TcpListener::from_std(socket.into()).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            peer: Peer::new(self.script),
            settings: self.transport,
            address,
            streams: Mutex::default(),
            issued: AtomicU64::new(0),
            end: CancellationToken::new(),
        });
        let serving = Arc::clone(&shared);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let shared = Arc::clone(&serving);
                tokio::spawn(async move {
                    let end = shared.end.clone();
                    let answers = service_fn(move |request| answer(Arc::clone(&shared), request));
                    let talk = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), answers);
                    // Peers that leave in the middle are part of the tests.
                    let _ended = end.run_until_cancelled(talk).await;
                });
            }
        });
        SseServer { shared, accepting: accepting.abort_handle() }
    }
}

struct Shared {
    peer: Arc<Peer>,
    settings: Sse,
    address: SocketAddr,
    streams: Mutex<Vec<Stream>>,
    issued: AtomicU64,
    end: CancellationToken,
}

/// An open stream.
struct Stream {
    id: String,
    out: mpsc::UnboundedSender<Bytes>,
    end: CancellationToken,
}

/// A scripted server of HTTP+SSE that runs.
pub struct SseServer {
    shared: Arc<Shared>,
    accepting: AbortHandle,
}

impl Deref for SseServer {
    type Target = Peer;
    fn deref(&self) -> &Peer {
        &self.shared.peer
    }
}

impl SseServer {
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    pub fn url(&self) -> String {
        format!("http://{}{}", self.shared.address, self.shared.settings.path)
    }

    /// Its entry in a configuration.
    pub fn entry(&self) -> Value {
        json!({"type": "sse", "url": self.url()})
    }

    /// Its entry with something under `portcullis`.
    pub fn with(&self, ours: Value) -> Entry {
        Entry::from(self).with(ours)
    }

    /// How many streams are open.
    pub fn streams(&self) -> usize {
        self.shared.streams.lock().unwrap().len()
    }

    /// Sends bytes on every open stream.
    pub fn push(&self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        for stream in self.shared.streams.lock().unwrap().iter() {
            // A stream that has just ended is no fault.
            let _ended = stream.out.send(bytes.clone());
        }
    }

    /// Ends every stream in order, and with it its session.
    pub fn drop_streams(&self) {
        self.shared.streams.lock().unwrap().drain(..).for_each(|stream| stream.end.cancel());
    }
}

impl Drop for SseServer {
    fn drop(&mut self) {
        self.accepting.abort();
        self.shared.end.cancel();
    }
}

/// Forgets a stream when its body is gone.
struct Open {
    shared: Arc<Shared>,
    id: String,
    heard: mpsc::UnboundedReceiver<Bytes>,
    end: CancellationToken,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.streams.lock().unwrap().retain(|stream| stream.id != self.id);
        self.shared.peer.end_session(&self.id);
    }
}

async fn answer(shared: Arc<Shared>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut seen = Seen::new(head.method.as_str(), String::from_utf8_lossy(&body).into_owned());
    seen.path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    seen.session = seen.path.split_once("session_id=").map(|(_, id)| id.to_owned());
    seen.headers = head.headers;
    shared.peer.record(seen.clone());
    let guard = shared.peer.script().guard.clone();
    if let Some(reply) = guard.and_then(|look| look(&seen)) {
        return Ok(page(reply).await);
    }
    Ok(match seen.verb.as_str() {
        "GET" if head.uri.path() == shared.settings.path => open(&shared),
        "POST" if seen.session.is_some() => post(&shared, seen),
        "GET" | "POST" if head.uri.path() != shared.settings.path => plain(404, "Not Found"),
        _ => plain(405, "Method Not Allowed"),
    })
}

fn open(shared: &Arc<Shared>) -> Response<Body> {
    let count = shared.issued.fetch_add(1, Ordering::SeqCst) + 1;
    let id = format!("{}-{count}", shared.peer.script().name);
    let (out, heard) = mpsc::unbounded_channel();
    let end = CancellationToken::new();
    out.send(Bytes::from_static(b": open\n\n")).unwrap();
    let opening = (shared.settings.opening)(shared.address, &id);
    if shared.settings.late {
        let (out, peer) = (out.clone(), Arc::clone(&shared.peer));
        tokio::spawn(async move {
            peer.released().await;
            // Whoever did not wait is gone.
            let _gone = out.send(opening.into());
        });
    } else {
        out.send(opening.into()).unwrap();
    }
    shared.streams.lock().unwrap().push(Stream { id: id.clone(), out, end: end.clone() });
    shared.peer.bell.ring();
    let open = Open { shared: Arc::clone(shared), id, heard, end };
    let pieces = stream::unfold(open, |mut open| async move {
        let bytes = tokio::select! {
            () = open.end.cancelled() => None,
            bytes = open.heard.recv() => bytes,
        };
        Some((Ok(Frame::data(bytes?)), open))
    });
    let response = Response::builder().header("content-type", "text/event-stream");
    response.body(StreamBody::new(pieces).boxed_unsync()).unwrap()
}

fn post(shared: &Arc<Shared>, seen: Seen) -> Response<Body> {
    let id = seen.session.clone().unwrap_or_default();
    let found = shared.streams.lock().unwrap().iter().find(|stream| stream.id == id).map(|stream| {
        let Stream { out, end, .. } = stream;
        (out.clone(), end.clone())
    });
    let Some((out, end)) = found else { return plain(404, "Could not find session") };
    if seen.method.is_none() || seen.id.is_none() {
        shared.peer.hear(&seen);
        return plain(202, "Accepted");
    }
    let session = match seen.method.as_deref() {
        Some("initialize") => Some(shared.peer.open_session(id.clone(), seen.params())),
        _ => shared.peer.session(Some(&id)),
    };
    let peer = Arc::clone(&shared.peer);
    tokio::spawn(async move {
        let number = seen.id.clone().unwrap_or_default();
        let message = match peer.answer(seen, session, Outlet::Sse(out.clone())).await {
            Reply::Result(result) => text::response(&number, &result),
            Reply::Error(error) => text::failure(&number, &error),
            Reply::Done | Reply::Hang => return,
            Reply::Cut => return end.cancel(),
            other => panic!("no answer over HTTP+SSE: {other:?}"),
        };
        // A peer that left hears no answer.
        let _gone = out.send(text::event(&message).into());
    });
    plain(202, "Accepted")
}

/// A reply to an HTTP request itself.
async fn page(reply: Reply) -> Response<Body> {
    let Reply::Http(page) = reply else {
        assert!(matches!(reply, Reply::Hang), "no HTTP answer: {reply:?}");
        return std::future::pending().await;
    };
    let mut response = plain(page.status, page.pieces.concat());
    for (name, value) in &page.headers {
        response.headers_mut().insert(http::HeaderName::try_from(name).unwrap(), value.parse().unwrap());
    }
    response
}

fn plain(status: u16, body: impl Into<Bytes>) -> Response<Body> {
    let body = Full::new(body.into()).map_err(|never| match never {}).boxed_unsync();
    Response::builder().status(status).body(body).unwrap()
}
