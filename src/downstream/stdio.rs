//! One client on standard streams: its lines become messages, what they lead to becomes lines (STDIO-01, STDIO-02).
//!
//! *Invariants.* Nothing but whole messages is written, one a line. Before `initialize` nothing but `ping` is served.
//! Whatever a line holds, the next one is read. A client that does not read what we write is not read either.
//! *On drop*: what is still to be written is lost, calls run on until their session is closed.
//! *Limits.* A line is as long and as deep as a body may be; the end takes `grace`, and a while for what is unread.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use crate::base::{clock, tasks};
use crate::call::{Endpoint, Fault, Principal};
use crate::downstream::duplex;
use crate::downstream::handshake::{self, Door, Opened, Unopened};
use crate::downstream::legacy::outbox::Reader;
use crate::downstream::legacy::session::Entry;
use crate::downstream::legacy::track::{Framing, Track};
use crate::downstream::rescue::Refusal;
use crate::downstream::shore::Shore;
use crate::framing::lines::Lines;
use crate::framing::oversized::Oversized;
use crate::jsonrpc::scan::{self, ScanError};
use crate::jsonrpc::{ErrorObject, Id, Kind, Message, batch, error};
use crate::telemetry::events::downstream::{ConnectionOpened, Refused};
use crate::telemetry::words::SessionEnd;

/// The two streams.
pub struct Streams<R, W> {
    /// What the client writes.
    pub input: R,
    /// What it reads.
    pub output: W,
}

/// What is asked before each `initialize`: nothing, or whether there is anything to open a session with.
pub type Greeting = Box<dyn Fn() -> BoxFuture<'static, Result<(), Fault>> + Send + Sync>;

/// How the client is served.
pub struct Terms {
    /// What it sees.
    pub endpoint: Endpoint,
    /// How long calls under way may take once the client says nothing more, or the process is told to stop.
    pub grace: Duration,
    /// See there.
    pub greeting: Greeting,
}

/// Why it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The client has closed its end.
    Input,
    /// Nobody reads what we write.
    Output,
    /// We were told to stop.
    Stopped,
}

/// How it went.
#[derive(Debug, Clone, Copy)]
pub struct Ended {
    /// Why it is over.
    pub end: End,
    /// Whether there ever was a session.
    pub opened: bool,
}

/// What the log calls this way in.
const WAY: &str = "stdio";

/// How long a client that has closed its end may leave unread what we still write (R-16).
const UNREAD: Duration = Duration::from_secs(60);

/// The same when we were told to stop, and how long calls that are ended get to be answered with an error.
const LAST: Duration = Duration::from_secs(2);

/// Serves the client until it leaves, or `stop` says so; what it began is over then.
pub async fn serve<R, W>(
    shore: Arc<Shore>,
    terms: Terms,
    streams: Streams<R, W>,
    stop: CancellationToken,
) -> Ended
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let _open = ConnectionOpened.emit();
    let Streams { input, mut output } = streams;
    let mut input = Input::new(input, shore.clone());
    let met = tokio::select! {
        biased;
        // Both are safe to cancel: it is over either way.
        () = stop.cancelled() => Err(End::Stopped),
        met = meet(&shore, &terms, &mut input, &mut output) => met,
    };
    let (id, entry) = match met {
        Ok(session) => session,
        Err(end) => return Ended { end, opened: false },
    };
    let reader = entry.outbox.attach(Framing::Lines);
    let track = reader.track().clone();
    let mut writing = tasks::spawn("standard output", write(shore.clone(), reader, output));
    let end = tokio::select! {
        biased;
        // All are safe to cancel: nothing is read after this.
        () = stop.cancelled() => End::Stopped,
        _ = &mut writing => End::Output,
        () = listen(&shore, &entry, &track, &mut input) => End::Input,
    };
    if end != End::Output {
        // A client that has left and has us stopped as well, in whichever order, waits for nothing.
        let both = async {
            match end {
                End::Input => stop.cancelled().await,
                _ => last_words(&shore, &entry, &track, &mut input).await,
            }
        };
        tokio::select! {
            biased;
            // All are safe to cancel: the session is closed next.
            () = both => {}
            _ = &mut writing => {}
            () = finish(&entry, &track, end, terms.grace) => {}
        }
    }
    shore.sessions.close(&id, SessionEnd::Drained);
    Ended { end, opened: true }
}

/// Answers what may come before a session, until there is one.
async fn meet<R, W>(
    shore: &Arc<Shore>,
    terms: &Terms,
    input: &mut Input<R>,
    output: &mut W,
) -> Result<(Box<str>, Arc<Entry>), End>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    while let Some(line) = input.next().await {
        let (answer, session) = match open(shore, terms, line).await {
            Ok(Some(Opened { id, answer })) => {
                let entry = shore.sessions.find(&id, &Principal::anonymous(), terms.endpoint);
                (Vec::from(answer).concat().into(), entry.map(|entry| (id, entry)))
            }
            Ok(None) => continue,
            Err(answer) => (answer, None),
        };
        put(shore, output, &[&answer[..], b"\n"].concat()).await.map_err(|_| End::Output)?;
        if let Some(session) = session {
            return Ok(session);
        }
    }
    Err(End::Input)
}

/// Opens a session, if this line asks for one. An error is the text of an answer.
async fn open(
    shore: &Arc<Shore>,
    terms: &Terms,
    line: Result<Bytes, Oversized>,
) -> Result<Option<Opened>, Bytes> {
    let refused = |refusal: Refusal| refuse(&refusal);
    let text = line.map_err(|oversized| refused(too_long(shore, &oversized)))?;
    let first = "the first request must be `initialize`";
    if batch::is_batch(&text) {
        return Err(refused(Refusal::Invalid { what: first, id: None }));
    }
    let message = read(shore, text).map_err(refused)?;
    // There is nothing yet that others could mean.
    let Some(id) = message.id().filter(|_| message.kind() == Kind::Request) else { return Ok(None) };
    match &*message.method() {
        "initialize" => {}
        "ping" => return Err(pong(&id)),
        _ => return Err(refused(Refusal::Invalid { what: first, id: Some(id) })),
    }
    (terms.greeting)().await.map_err(|fault| fault.to_error().answer(Some(&id)))?;
    let who = Arc::new(Principal::anonymous());
    let door = Door { shore, who, endpoint: terms.endpoint, path: WAY, is_local: true };
    handshake::open(door, message).await.map(Some).map_err(|unopened| match unopened {
        Unopened::Refused(refusal) => refused(refusal),
        Unopened::Failed(fault, id) => fault.to_error().answer(Some(&id)),
    })
}

/// Takes what the client says until it has closed its end.
async fn listen<R: AsyncRead + Unpin>(
    shore: &Arc<Shore>,
    entry: &Entry,
    track: &Track,
    input: &mut Input<R>,
) {
    while let Some(line) = input.next().await {
        // Whoever asks without reading the answers has to wait.
        track.room().await;
        if let Err(refusal) = take(shore, entry, line) {
            duplex::say(entry, &refuse(&refusal));
        }
    }
}

/// Takes what calls under way still need, answers and cancellations, after the process was told to stop; requests are
/// refused (F-098). Done when the client has closed its end.
async fn last_words<R: AsyncRead + Unpin>(
    shore: &Arc<Shore>,
    entry: &Entry,
    track: &Track,
    input: &mut Input<R>,
) {
    while let Some(line) = input.next().await {
        track.room().await;
        let Some(message) = line.ok().and_then(|text| read(shore, text).ok()) else { continue };
        match message.id().filter(|_| message.kind() == Kind::Request) {
            Some(id) => duplex::say(entry, &Fault::Stopping.to_error().answer(Some(&id))),
            // It is no request, and nothing else is refused.
            None => drop(duplex::take(shore, entry, message)),
        }
    }
}

/// Takes one line of a session.
fn take(shore: &Arc<Shore>, entry: &Entry, line: Result<Bytes, Oversized>) -> Result<(), Refusal> {
    let text = match line {
        Ok(text) => text,
        Err(oversized) => {
            let refusal = too_long(shore, &oversized);
            return match member_id(&oversized) {
                // An answer of the client: who asked has to know.
                Some(id) if !is_request(&oversized) => {
                    let text =
                        ErrorObject::new(error::INVALID_REQUEST, refusal.to_string()).answer(Some(&id));
                    entry.outbox.answered(Message::parse(text)?);
                    Ok(())
                }
                _ => Err(refusal),
            };
        }
    };
    if batch::is_batch(&text) {
        check_depth(shore, &text)?;
        return duplex::take_batch(shore, entry, &text);
    }
    let message = read(shore, text)?;
    if message.kind() == Kind::Request && message.method() == "initialize" {
        // LIFE-18
        let what = "the session is initialized already";
        return Err(Refusal::Invalid { what, id: message.id() });
    }
    duplex::take(shore, entry, message)
}

/// Lets what is under way come to its end, and what is said be written.
async fn finish(entry: &Entry, track: &Track, end: End, grace: Duration) {
    if end == End::Input {
        // Nobody can answer them any more.
        entry.outbox.drop_questions();
    }
    if clock::within(grace, entry.in_flight.emptied()).await.is_err() {
        entry.in_flight.stop_all();
        // Who is not done by then has no answer to wait for.
        let _ = clock::within(LAST, entry.in_flight.emptied()).await;
    }
    // The writer ends when it has written what there is.
    track.end();
    clock::sleep(if end == End::Input { UNREAD } else { LAST }).await;
}

/// Writes what there is for the client, until the end or until it does not read any more.
async fn write<W: AsyncWrite + Unpin>(shore: Arc<Shore>, reader: Reader, mut output: W) {
    while let Some(Ok(part)) = reader.next().await {
        if put(&shore, &mut output, &part).await.is_err() {
            return;
        }
    }
}

async fn put<W: AsyncWrite + Unpin>(shore: &Shore, output: &mut W, text: &[u8]) -> std::io::Result<()> {
    output.write_all(text).await?;
    output.flush().await?;
    shore.meter.sent(text.len());
    Ok(())
}

/// One message, within the limits.
fn read(shore: &Shore, text: Bytes) -> Result<Message, Refusal> {
    check_depth(shore, &text)?;
    Ok(Message::parse(text)?)
}

fn check_depth(shore: &Shore, text: &[u8]) -> Result<(), Refusal> {
    if shore.is_too_deep(text) { Err(Refusal::Message(ScanError::Depth.into())) } else { Ok(()) }
}

/// The text of a refusal, which is counted here.
fn refuse(refusal: &Refusal) -> Bytes {
    let id = refusal.id().map(|id| String::from_utf8_lossy(id.text()));
    let request = id.as_ref().map(|id| id as &dyn std::fmt::Display);
    Refused { why: refusal.rule(), detail: &refusal.to_string(), request, peer: None }.emit();
    refusal.answer()
}

fn pong(id: &Id) -> Bytes {
    [br#"{"jsonrpc":"2.0","id":"#, &id.text()[..], br#","result":{}}"#].concat().into()
}

fn too_long(shore: &Shore, line: &Oversized) -> Refusal {
    let id = member_id(line).filter(|_| is_request(line));
    Refusal::TooLong { limit: shore.config.http.body_limit, id }
}

fn is_request(line: &Oversized) -> bool {
    line.members(br#""method""#).next().is_some()
}

/// The id of a message of which only the ends are known.
fn member_id(line: &Oversized) -> Option<Id> {
    line.members(br#""id""#).find_map(|rest| {
        let value = rest.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start();
        let end = scan::skip_value(value, 0).ok().filter(|end| *end < value.len())?;
        Id::parse(Bytes::copy_from_slice(&value[..end]))
    })
}

/// What the client writes, line by line.
struct Input<R> {
    from: R,
    shore: Arc<Shore>,
    lines: Lines,
    buffer: BytesMut,
    ended: bool,
}

/// So much is read at once.
const CHUNK: usize = 64 * 1024;

impl<R: AsyncRead + Unpin> Input<R> {
    fn new(from: R, shore: Arc<Shore>) -> Self {
        let lines = Lines::new(shore.config.http.body_limit);
        Self { from, shore, lines, buffer: BytesMut::new(), ended: false }
    }

    /// The next line; none at the end. Safe to cancel.
    async fn next(&mut self) -> Option<Result<Bytes, Oversized>> {
        loop {
            if let Some(line) = self.lines.next() {
                return Some(line);
            }
            if self.ended {
                return self.lines.finish();
            }
            if self.buffer.capacity() < CHUNK / 4 {
                self.buffer.reserve(CHUNK);
            }
            match self.from.read_buf(&mut self.buffer).await {
                // A stream that cannot be read has ended.
                Ok(0) | Err(_) => self.ended = true,
                Ok(count) => {
                    self.shore.meter.received(count);
                    self.lines.push(self.buffer.split().freeze());
                }
            }
        }
    }
}
