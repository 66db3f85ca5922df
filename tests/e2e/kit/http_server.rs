//! A scripted Streamable HTTP server on loopback: its port, its connections, its GET streams.
//!
//! *On drop.* The port closes and every connection ends.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use socket2::{Domain, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::gateway::Entry;
use super::http_answers::answer;
use super::peer::Peer;
use super::script::Server;
use super::text;

/// Settings of the transport.
#[derive(Clone, Default)]
pub struct Http {
    pub(super) sessionless: bool,
    pub(super) streamless: bool,
    pub(super) events: bool,
    ipv6: bool,
}

impl Server<Http> {
    /// Issues no session ids.
    pub fn without_sessions(mut self) -> Self {
        self.transport.sessionless = true;
        self
    }

    /// Answers GET with 405.
    pub fn without_stream(mut self) -> Self {
        self.transport.streamless = true;
        self
    }

    /// Answers every request with an event stream, also where nothing precedes the answer.
    pub fn with_events(mut self) -> Self {
        self.transport.events = true;
        self
    }

    /// Listens on `::1`.
    pub fn on_ipv6(mut self) -> Self {
        self.transport.ipv6 = true;
        self
    }

    /// Opens the port.
    pub fn start(self) -> HttpServer {
        HttpServer::start(self)
    }
}

/// What all connections of a server share.
pub(super) struct Shared {
    pub(super) peer: Arc<Peer>,
    pub(super) settings: Http,
    pub(super) links: Mutex<HashMap<u64, Link>>,
    pub(super) streams: Mutex<Vec<Stream>>,
    pub(super) issued: AtomicU64,
    connections: AtomicU64,
}

/// A second handle on an open connection, for what HTTP has no words for.
pub(super) struct Link {
    pub(super) socket: std::net::TcpStream,
    /// Ends the connection at once.
    pub(super) end: CancellationToken,
}

/// An open GET stream.
pub(super) struct Stream {
    pub(super) session: Option<String>,
    pub(super) out: mpsc::UnboundedSender<Bytes>,
}

/// A scripted HTTP server that runs.
pub struct HttpServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: Mutex<Option<JoinHandle<()>>>,
    /// Holds the port while nobody listens, so that connects are refused and nobody else takes it.
    reserved: Mutex<Option<Socket>>,
}

impl Deref for HttpServer {
    type Target = Peer;
    fn deref(&self) -> &Peer {
        &self.shared.peer
    }
}

impl HttpServer {
    fn start(server: Server<Http>) -> Self {
        let loopback: IpAddr =
            if server.transport.ipv6 { Ipv6Addr::LOCALHOST.into() } else { Ipv4Addr::LOCALHOST.into() };
        let socket = bound((loopback, 0).into());
        let address = socket.local_addr().unwrap().as_socket().unwrap();
        let shared = Arc::new(Shared {
            peer: Peer::new(server.script),
            settings: server.transport,
            links: Mutex::default(),
            streams: Mutex::default(),
            issued: AtomicU64::new(0),
            connections: AtomicU64::new(0),
        });
        let server =
            HttpServer { shared, address, accepting: Mutex::default(), reserved: Mutex::new(Some(socket)) };
        server.start_again();
        server
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// Its entry in a configuration.
    pub fn entry(&self) -> Value {
        json!({"type": "http", "url": self.url()})
    }

    /// Its entry with something under `portcullis`.
    pub fn with(&self, ours: Value) -> Entry {
        Entry::from(self).with(ours)
    }

    /// Closes the port and all connections; connects are refused from now on. Sessions are kept.
    pub async fn stop(&self) {
        let Some(accepting) = self.accepting.lock().unwrap().take() else {
            return;
        };
        accepting.abort();
        let _aborted = accepting.await;
        self.drop_streams();
        self.cut_connections();
        // Each closes in a task of its own; whoever calls next must find them closed.
        while self.open_connections() > 0 {
            tokio::task::yield_now().await;
        }
        *self.reserved.lock().unwrap() = Some(bound(self.address));
    }

    /// Opens the same port again.
    pub fn start_again(&self) {
        let Some(socket) = self.reserved.lock().unwrap().take() else {
            return;
        };
        socket.listen(1024).unwrap();
        let listener = TcpListener::from_std(socket.into()).unwrap();
        let shared = Arc::clone(&self.shared);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(Arc::clone(&shared), stream));
            }
        });
        *self.accepting.lock().unwrap() = Some(accepting);
    }

    /// How many connections were ever accepted.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.shared.links.lock().unwrap().len()
    }

    /// Closes every open connection, in use or idle.
    pub fn cut_connections(&self) {
        for link in self.shared.links.lock().unwrap().values() {
            link.end.cancel();
        }
    }

    /// How many GET streams are open.
    pub fn streams(&self) -> usize {
        let mut streams = self.shared.streams.lock().unwrap();
        streams.retain(|stream| !stream.out.is_closed());
        streams.len()
    }

    /// Waits until `count` GET streams are open.
    pub async fn wait_for_streams(&self, count: usize) {
        self.until(format!("{count} GET streams at the server"), || (self.streams() >= count).then_some(()))
            .await;
    }

    /// Sends a notification on every open GET stream; tells on how many.
    pub fn push(&self, method: &str, params: Value) -> usize {
        self.push_bytes(text::event(&text::notification(method, &params.to_string())))
    }

    /// Sends a notification on the GET streams of one session; tells on how many.
    pub fn push_to(&self, session: &str, method: &str, params: Value) -> usize {
        let bytes = Bytes::from(text::event(&text::notification(method, &params.to_string())));
        let streams = self.shared.streams.lock().unwrap();
        let its = streams.iter().filter(|stream| stream.session.as_deref() == Some(session));
        its.filter(|stream| stream.out.send(bytes.clone()).is_ok()).count()
    }

    /// Sends bytes on every open GET stream.
    pub fn push_bytes(&self, bytes: impl Into<Bytes>) -> usize {
        let bytes = bytes.into();
        let streams = self.shared.streams.lock().unwrap();
        streams.iter().filter(|stream| stream.out.send(bytes.clone()).is_ok()).count()
    }

    /// Ends every GET stream in order.
    pub fn drop_streams(&self) {
        self.shared.streams.lock().unwrap().clear();
        self.bell.ring();
    }

    /// Forgets its sessions and ends their streams, as a restart would.
    pub fn forget(&self) {
        self.forget_sessions();
        self.drop_streams();
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        if let Some(accepting) = self.accepting.lock().unwrap().take() {
            accepting.abort();
        }
        self.cut_connections();
    }
}

/// A socket that holds a port but does not listen yet.
pub fn bound(address: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.bind(&address.into()).unwrap();
    socket
}

async fn serve(shared: Arc<Shared>, stream: TcpStream) {
    stream.set_nodelay(true).unwrap();
    let connection = shared.connections.fetch_add(1, Ordering::SeqCst) + 1;
    let end = CancellationToken::new();
    let socket = SockRef::from(&stream).try_clone().unwrap().into();
    shared.links.lock().unwrap().insert(connection, Link { socket, end: end.clone() });
    let answers = service_fn(|request| answer(Arc::clone(&shared), connection, request));
    let talk = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answers);
    tokio::select! {
        // Peers that leave in the middle are part of the tests.
        _ended = talk => {}
        () = end.cancelled() => {}
    }
    shared.links.lock().unwrap().remove(&connection);
    shared.peer.bell.ring();
}
