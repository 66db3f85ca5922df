//! Scripted HTTP servers, and a server shore before them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use portcullis::base::{clock, tasks};
use portcullis::call::{
    Answer, Body, Endpoint, Fault, Item, Observer, OutCall, OutService, Params, Principal, Purpose, Question,
    Reply, Session, SessionKey, UpstreamId,
};
use portcullis::config::environment::Environment;
use portcullis::config::{Format, parse};
use portcullis::jsonrpc::view::object_at;
use portcullis::jsonrpc::{Edits, Id, Message, Object};
use portcullis::mcp::capabilities::ClientCapabilities;
use portcullis::mcp::methods::{self, ItemKind};
use portcullis::mcp::questions::QuestionKind;
use portcullis::mcp::revision::Revision;
use portcullis::telemetry::meters::UpstreamMeter;
use portcullis::upstream::ServerShore;
use portcullis::upstream::stdio::guardian::Reexec;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tower::ServiceExt;

/// No test waits longer for anything.
pub const PATIENCE: Duration = Duration::from_secs(20);

// === The server ===

/// A request as a scripted server sees it.
#[derive(Debug, Clone)]
pub struct Seen {
    pub verb: String,
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: String,
    /// Which connection it came on, from 0.
    pub connection: usize,
}

impl Seen {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The method of the message; the verb for requests without one.
    pub fn method(&self) -> String {
        Message::parse(Bytes::from(self.body.clone()))
            .map_or_else(|_| self.verb.clone(), |message| message.method().into_owned())
    }

    pub fn id(&self) -> String {
        let message = Message::parse(Bytes::from(self.body.clone())).unwrap();
        message.id().map_or_else(|| "null".into(), |id| String::from_utf8_lossy(id.text()).into_owned())
    }
}

/// What a scripted server does with a request.
pub enum Act {
    /// Writes these bytes and waits for the next request.
    Answer(Vec<u8>),
    /// Writes these bytes and closes the connection.
    Last(Vec<u8>),
    /// Writes a head, then each text as a chunk, then the end; the sender is held by the script.
    Stream(Vec<u8>, mpsc::UnboundedReceiver<String>),
    /// Never says anything.
    Hang,
}

/// `200` with JSON.
pub fn json(body: impl AsRef<str>) -> Act {
    status("200 OK", "Content-Type: application/json\r\n", body)
}

/// `200` with JSON and a session id.
pub fn json_in(session: &str, body: impl AsRef<str>) -> Act {
    status("200 OK", &format!("Content-Type: application/json\r\nMcp-Session-Id: {session}\r\n"), body)
}

pub fn status(status: &str, headers: &str, body: impl AsRef<str>) -> Act {
    let body = body.as_ref();
    Act::Answer(
        format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes(),
    )
}

/// `200` with events that are all there at once.
pub fn events(events: &[String]) -> Act {
    let (send, receive) = mpsc::unbounded_channel();
    for event in events {
        send.send(event.clone()).unwrap();
    }
    Act::Stream(event_head(), receive)
}

/// `200` with events that the script sends.
pub fn live_events() -> (mpsc::UnboundedSender<String>, Act) {
    let (send, receive) = mpsc::unbounded_channel();
    (send, Act::Stream(event_head(), receive))
}

pub fn event_head() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec()
}

/// An event with this data.
pub fn event(data: impl AsRef<str>) -> String {
    format!("event: message\ndata: {}\n\n", data.as_ref())
}

pub fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The answer of a common server to what every test begins with; `None` for anything else.
pub fn greeting(seen: &Seen, session: Option<&str>) -> Option<Act> {
    let answer = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"scripted","version":"1"}}"#;
    Some(match seen.method().as_str() {
        "initialize" => match session {
            Some(session) => json_in(session, result(&seen.id(), answer)),
            None => json(result(&seen.id(), answer)),
        },
        "GET" => status("405 Method Not Allowed", "", ""),
        "DELETE" => status("200 OK", "", ""),
        method if method.starts_with("notifications/") => status("202 Accepted", "", ""),
        _ => return None,
    })
}

pub type Script = dyn Fn(&Seen) -> Act + Send + Sync;

/// A server that does what its script says.
pub struct Server {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    told: mpsc::UnboundedReceiver<()>,
    _task: tasks::Task<()>,
}

impl Server {
    pub async fn start(script: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, script)
    }

    pub fn on(listener: TcpListener, script: impl Fn(&Seen) -> Act + Send + Sync + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let script: Arc<Script> = Arc::new(script);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (tell, told) = mpsc::unbounded_channel();
        let list = Arc::clone(&seen);
        let task = tasks::spawn("scripted server", async move {
            let (connections, mut running) = (AtomicUsize::new(0), Vec::new());
            while let Ok((stream, _)) = listener.accept().await {
                let number = connections.fetch_add(1, Ordering::Relaxed);
                let (script, list, tell) = (Arc::clone(&script), Arc::clone(&list), tell.clone());
                running.push(tasks::spawn("scripted connection", async move {
                    serve(stream, number, &*script, |seen| {
                        list.lock().unwrap().push(seen);
                        let _ = tell.send(());
                    })
                    .await;
                }));
            }
        });
        Self { address, seen, told, _task: task }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub fn count(&self, method: &str) -> usize {
        self.seen().iter().filter(|seen| seen.method() == method).count()
    }

    /// Waits for the first request that fits.
    pub async fn wait_for(&mut self, fits: impl Fn(&Seen) -> bool) -> Seen {
        clock::within(PATIENCE, async {
            loop {
                if let Some(seen) = self.seen().into_iter().find(|seen| fits(seen)) {
                    return seen;
                }
                self.told.recv().await.unwrap();
            }
        })
        .await
        .expect("the request has come")
    }
}

pub async fn serve<S: AsyncRead + AsyncWrite>(
    stream: S,
    connection: usize,
    script: &Script,
    tell: impl Fn(Seen),
) {
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(read);
    while let Some(seen) = request(&mut read, connection).await {
        let act = script(&seen);
        tell(seen);
        let done = match act {
            Act::Answer(bytes) => write.write_all(&bytes).await,
            Act::Last(bytes) => {
                let _ = write.write_all(&bytes).await;
                return;
            }
            Act::Hang => std::future::pending().await,
            Act::Stream(head, mut parts) => {
                let mut done = write.write_all(&head).await;
                while let Some(part) = parts.recv().await {
                    done = write.write_all(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes()).await;
                    if done.is_err() {
                        return;
                    }
                }
                if done.is_ok() { write.write_all(b"0\r\n\r\n").await } else { done }
            }
        };
        if done.is_err() {
            return;
        }
    }
}

async fn request<R: AsyncRead + Unpin>(read: &mut BufReader<R>, connection: usize) -> Option<Seen> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(read.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next()?.split(' ');
    let (verb, path) = (first.next()?.to_owned(), first.next()?.to_owned());
    let headers: HashMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    read.read_exact(&mut body).await.ok()?;
    Some(Seen { verb, path, headers, body: String::from_utf8(body).unwrap(), connection })
}

// === The shore ===

/// What the relay is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    Changed(ItemKind),
    Lost,
    Reconnected,
    /// A session's notification, as the upstream wrote it.
    Told(SessionKey, String),
    /// A session's client was asked.
    Asked(SessionKey, QuestionKind),
}

struct Listening(mpsc::UnboundedSender<News>);

impl Observer for Listening {
    fn list_changed(&self, _: UpstreamId, kind: ItemKind, _: portcullis::call::News<'_>) {
        let _ = self.0.send(News::Changed(kind));
    }

    fn connection_lost(&self, _: UpstreamId) {
        let _ = self.0.send(News::Lost);
    }

    fn reconnected(&self, _: UpstreamId) {
        let _ = self.0.send(News::Reconnected);
    }

    fn told(&self, _: UpstreamId, session: &Arc<Session>, notification: Message) {
        let _ =
            self.0.send(News::Told(session.key, String::from_utf8_lossy(notification.text()).into_owned()));
    }

    fn asked(&self, session: &Arc<Session>, question: Question) {
        let _ = self.0.send(News::Asked(session.key, question.kind));
        // Nobody answers here.
        drop(question);
    }
}

/// A server shore and what comes of it.
pub struct Rig {
    pub shore: Arc<ServerShore>,
    pub out: OutService,
    news: mpsc::UnboundedReceiver<News>,
}

/// The first upstream of every rig.
pub const ALPHA: UpstreamId = UpstreamId(0);

impl Rig {
    /// A shore before one upstream, whose entry has these members.
    pub fn new(entry: &str) -> Self {
        Self::of(&format!(r#"{{"mcpServers": {{"alpha": {{{entry}}}}}}}"#), &Environment::capture())
    }

    /// A shore before the upstreams of a file.
    pub fn of(file: &str, environment: &Environment) -> Self {
        let config = parse(file, Format::Json, "test", environment).unwrap();
        assert!(config.failed.is_empty(), "{:?}", config.failed);
        let meters: Vec<_> = config.upstreams.iter().map(|one| UpstreamMeter::new(&one.name)).collect();
        // A guardian that ends at once: this program cannot be one, and the tests end their own children.
        let reexec = Reexec { program: "/bin/false".into(), arguments: Vec::new() };
        let shore = Arc::new(ServerShore::guarded(Arc::new(config), &meters, reexec).unwrap());
        let (tell, news) = mpsc::unbounded_channel();
        shore.observe(Arc::new(Listening(tell)));
        Self { out: shore.service(), shore, news }
    }

    pub async fn connect(&self) -> Result<Arc<portcullis::call::Handshake>, Fault> {
        use portcullis::call::Upstreams;
        clock::within(PATIENCE, self.shore.connect(ALPHA)).await.expect("an outcome")
    }

    /// A call of `tools/call` for a session.
    pub async fn call(&self, session: &Arc<Session>, params: &str) -> Result<Reply, Fault> {
        self.send(out_call(Purpose::Session(Arc::clone(session)), "tools/call", params)).await
    }

    /// The catalog's `tools/list`.
    pub async fn list(&self) -> Result<Reply, Fault> {
        self.send(out_call(Purpose::Catalog, "tools/list", "{}")).await
    }

    pub async fn send(&self, call: OutCall) -> Result<Reply, Fault> {
        clock::within(PATIENCE, self.out.clone().oneshot(call)).await.expect("a reply or a fault")
    }

    pub async fn news(&mut self) -> News {
        clock::within(PATIENCE, self.news.recv()).await.expect("news").unwrap()
    }
}

pub fn out_call(purpose: Purpose, method: &str, params: &str) -> OutCall {
    let text = format!(r#"{{"jsonrpc":"2.0","id":"client's","method":"{method}","params":{params}}}"#);
    let message = Message::parse(Bytes::from(text)).unwrap();
    let object = Object::scan(message.text(), message.params().unwrap().start).unwrap();
    let meta = object_at(message.text(), object.find(message.text(), "_meta")).unwrap();
    let span = meta.and_then(|meta| meta.find(message.text(), "progressToken"));
    let progress = span.map(|span| (span.clone(), Id::parse(message.slice(span)).unwrap()));
    let tool = object.string(message.text(), "name").map(|name| Arc::from(&*name));
    OutCall {
        upstream: ALPHA,
        purpose,
        method: methods::find(method).unwrap(),
        params: Params::Edited(message, Edits::new()),
        progress,
        tool,
        course: Arc::default(),
    }
}

/// A session of its own.
pub fn session(number: u8) -> Arc<Session> {
    session_of(number, Revision::LATEST)
}

pub fn session_of(number: u8, revision: Revision) -> Arc<Session> {
    let who = Arc::new(Principal::anonymous());
    let mut session = Session::new(SessionKey([number; 16]), revision, who, Endpoint::Merged);
    // Whatever the catalog is read with, so that a session can take over its connection (R-11).
    (session.capabilities, session.is_local) = (ClientCapabilities::ALL, true);
    Arc::new(session)
}

/// The text of an answer, however it comes.
pub async fn text(answer: Answer) -> Result<String, Fault> {
    Ok(match answer.body {
        Body::Result(result) => String::from_utf8_lossy(&result).into_owned(),
        Body::Message(message) => String::from_utf8_lossy(message.text()).into_owned(),
        Body::Stream(mut chunks) => {
            let mut text = Vec::new();
            while let Some(chunk) = clock::within(PATIENCE, chunks.next()).await.expect("the next part") {
                text.extend_from_slice(&chunk?);
            }
            String::from_utf8(text).unwrap()
        }
    })
}

/// The answer that came without progress before it. Nobody answers questions here.
pub async fn done(reply: Result<Reply, Fault>) -> String {
    let mut items = match reply.unwrap() {
        Reply::Done(answer) => return text(answer).await.unwrap(),
        Reply::Items(items) => items,
    };
    loop {
        match clock::within(PATIENCE, items.next()).await.expect("the next item") {
            Some(Item::Done(answer)) => return text(answer).await.unwrap(),
            Some(Item::Raw(_) | Item::Ask(_) | Item::Pause(_)) => {}
            other => panic!("no answer: {other:?}"),
        }
    }
}

/// All that came, each as text; faults by their message.
pub async fn all(reply: Result<Reply, Fault>) -> Vec<String> {
    let mut items = match reply.unwrap() {
        Reply::Done(answer) => return vec![text(answer).await.unwrap()],
        Reply::Items(items) => items,
    };
    let mut out = Vec::new();
    while let Some(item) = clock::within(PATIENCE, items.next()).await.expect("the next item") {
        out.push(match item {
            Item::Notice(text) => String::from_utf8_lossy(&text).into_owned(),
            Item::Raw(message) => String::from_utf8_lossy(message.text()).into_owned(),
            Item::Ask(question) => format!("{question:?}"),
            Item::Pause(retry) => format!("pause {retry:?}"),
            Item::Done(answer) => text(answer).await.unwrap(),
            Item::Failed(fault) => fault.to_string(),
        });
    }
    out
}
