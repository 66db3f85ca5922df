//! The fast upstream: the fixture over Streamable HTTP, one port for each upstream played, or over stdio.
//!
//! Besides the endpoint, every port answers the bench itself: `/lists` tells how many lists all ports
//! together were asked for, `/hang` and `/release` stop and resume that one upstream, `/change` changes its list of tools
//! and announces it on every open stream.

use std::{
    convert::Infallible,
    io::{self, BufRead as _, BufReader, BufWriter, Write as _},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use anyhow::Result;
use bytes::{BufMut as _, Bytes, BytesMut};
use dashmap::DashSet;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use http_body_util::{Either, Full, StreamBody};
use hyper::{
    HeaderMap, Method, Request, Response, StatusCode,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HeaderName, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use crate::{
    answers::{Answer, Asked, Fixture},
    part, wire,
};

/// How many upstreams a process plays, and how long their lists are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    pub upstreams: usize,
    pub tools: usize,
}

/// What the process says once all ports are open, in the order of the upstreams' numbers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    pub origins: Vec<String>,
}

type Stream = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;
type Reply = Response<Either<Full<Bytes>, Stream>>;

/// What all ports of the process share.
#[derive(Default)]
struct House {
    sessions: DashSet<String>,
    opened: AtomicU64,
    lists: AtomicU64,
}

struct Door {
    house: Arc<House>,
    /// Its list as it is, and with one tool more.
    fixtures: [Fixture; 2],
    /// How often the list has changed.
    changes: watch::Sender<usize>,
    hung: watch::Sender<bool>,
}

/// Serves a fleet until the process is ended.
pub async fn serve(fleet: Fleet) -> Result<()> {
    let house = Arc::new(House::default());
    let mut origins = Vec::with_capacity(fleet.upstreams);
    for number in 0..fleet.upstreams {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        origins.push(format!("http://{}", listener.local_addr()?));
        let fixtures = [0, 1].map(|more| Fixture::new(number, fleet.tools + more));
        let (changes, hung) = (watch::Sender::new(0), watch::Sender::new(false));
        let door = Arc::new(Door { house: house.clone(), fixtures, changes, hung });
        tokio::spawn(accept(listener, door));
    }
    part::announce(&Ready { origins })?;
    std::future::pending().await
}

/// Serves one upstream over standard input and output until the input ends.
pub fn serve_stdio(tools: usize) -> Result<()> {
    let fixture = Fixture::new(0, tools);
    let mut input = BufReader::with_capacity(1 << 16, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        match fixture.answer(&line).answer {
            Answer::Taken => {}
            Answer::One(message) => write_line(&mut output, &message)?,
            Answer::Many(messages) => {
                messages.iter().try_for_each(|message| write_line(&mut output, message))?
            }
        }
        // Answers wait for each other only while the next request is already here, whole.
        if memchr::memchr(b'\n', input.buffer()).is_none() {
            output.flush()?;
        }
    }
}

fn write_line(output: &mut impl io::Write, message: &[u8]) -> io::Result<()> {
    output.write_all(message)?;
    output.write_all(b"\n")
}

async fn accept(listener: TcpListener, door: Arc<Door>) {
    loop {
        // A failed accept is one client's trouble; the next may fare better.
        let Ok((socket, _)) = listener.accept().await else { continue };
        tokio::spawn(converse(socket, door.clone()));
    }
}

async fn converse(socket: TcpStream, door: Arc<Door>) {
    if socket.set_nodelay(true).is_err() {
        return;
    }
    let service = service_fn(move |request| {
        let door = door.clone();
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    // An error here is the peer that left; there is nobody to tell.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}

impl Door {
    async fn answer(&self, request: Request<Incoming>) -> Reply {
        match request.uri().path() {
            wire::PATH => self.endpoint(request).await,
            "/lists" => json(self.house.lists.load(Relaxed).to_string().into()),
            "/hang" => self.hang(true),
            "/release" => self.hang(false),
            "/change" => self.change(),
            _ => bare(StatusCode::NOT_FOUND),
        }
    }

    fn hang(&self, hang: bool) -> Reply {
        self.hung.send_replace(hang);
        bare(StatusCode::OK)
    }

    fn change(&self) -> Reply {
        self.changes.send_modify(|changes| *changes += 1);
        bare(StatusCode::OK)
    }

    async fn endpoint(&self, request: Request<Incoming>) -> Reply {
        if *self.hung.borrow() {
            // The sender lives in `self`, so waiting ends only with the release.
            let _ = self.hung.subscribe().wait_for(|hung| !hung).await;
        }
        let (head, body) = request.into_parts();
        match head.method {
            Method::POST => self.post(&head.headers, body).await,
            Method::GET => self.known(&head.headers).map_or_else(bare, |_| news(self.changes.subscribe())),
            Method::DELETE => self.known(&head.headers).map_or_else(bare, |session| {
                self.house.sessions.remove(session);
                bare(StatusCode::NO_CONTENT)
            }),
            _ => bare(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    async fn post(&self, headers: &HeaderMap, body: Incoming) -> Reply {
        let Ok(message) = wire::read_all(body).await else {
            return bare(StatusCode::BAD_REQUEST);
        };
        let answered = self.fixtures[*self.changes.borrow() % 2].answer(&message);
        if answered.asked == Asked::Initialize {
            return self.open(answered.answer);
        }
        if let Err(status) = self.known(headers) {
            return bare(status);
        }
        if answered.asked == Asked::List {
            self.house.lists.fetch_add(1, Relaxed);
        }
        reply(answered.answer)
    }

    fn open(&self, answer: Answer) -> Reply {
        let session = format!("fixture-{:016x}", self.house.opened.fetch_add(1, Relaxed));
        let mut response = reply(answer);
        if let Ok(value) = HeaderValue::try_from(&session) {
            response.headers_mut().insert(HeaderName::from_static(wire::SESSION), value);
        }
        self.house.sessions.insert(session);
        response
    }

    fn known<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, StatusCode> {
        let session = headers.get(wire::SESSION).and_then(|value| value.to_str().ok());
        let session = session.ok_or(StatusCode::BAD_REQUEST)?;
        if self.house.sessions.contains(session) { Ok(session) } else { Err(StatusCode::NOT_FOUND) }
    }
}

fn reply(answer: Answer) -> Reply {
    match answer {
        Answer::Taken => bare(StatusCode::ACCEPTED),
        Answer::One(message) => json(message),
        Answer::Many(messages) => events(stream::iter(messages.into_iter().map(event)).boxed()),
    }
}

fn bare(status: StatusCode) -> Reply {
    let mut response = Response::new(Either::Left(Full::default()));
    *response.status_mut() = status;
    response
}

fn json(body: Bytes) -> Reply {
    let mut response = Response::new(Either::Left(Full::new(body)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(wire::JSON));
    response
}

fn events(events: BoxStream<'static, Bytes>) -> Reply {
    let frames = events.map(|event| Ok(Frame::data(event))).boxed();
    let mut response = Response::new(Either::Right(StreamBody::new(frames)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(wire::EVENTS));
    response
}

/// A stream that announces changes of lists, past a first comment that shows it is open.
fn news(changes: watch::Receiver<usize>) -> Reply {
    const CHANGED: &[u8] = br#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let told = stream::unfold(changes, async |mut changes| {
        changes.changed().await.ok()?;
        Some((event(Bytes::from_static(CHANGED)), changes))
    });
    events(stream::once(async { Bytes::from_static(b": open\n\n") }).chain(told).boxed())
}

fn event(message: Bytes) -> Bytes {
    let mut event = BytesMut::with_capacity(message.len() + 24);
    event.put_slice(b"event: message\ndata: ");
    event.put_slice(&message);
    event.put_slice(b"\n\n");
    event.freeze()
}
