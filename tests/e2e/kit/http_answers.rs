//! The answers of a scripted HTTP server, the well-formed ones and the others.

use std::convert::Infallible;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream as Pieces};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use serde_json::json;
use socket2::SockRef;
use tokio::sync::mpsc;

use super::exchange::{Out, Outlet, Seen};
use super::http_server::{Shared, Stream};
use super::reply::{End, Page, Reply};
use super::text;

type Body = UnsyncBoxBody<Bytes, io::Error>;
type Piece = io::Result<Frame<Bytes>>;

/// Records a request and answers it by the script.
pub(super) async fn answer(
    shared: Arc<Shared>,
    connection: u64,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let mut seen = Seen::new(head.method.as_str(), String::from_utf8_lossy(&body).into_owned());
    seen.path = head.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    seen.session =
        head.headers.get("mcp-session-id").map(|id| String::from_utf8_lossy(id.as_bytes()).into_owned());
    seen.headers = head.headers;
    seen.connection = connection;
    shared.peer.record(seen.clone());
    let guard = shared.peer.script().guard.clone();
    let reply = match guard.and_then(|look| look(&seen)) {
        Some(reply) => reply,
        None => match seen.verb.as_str() {
            "POST" => return Ok(post(&shared, seen).await),
            "GET" => return Ok(get(&shared, seen).await),
            "DELETE" => delete(&shared, &seen),
            _ => Reply::status(405),
        },
    };
    Ok(render(&shared, &seen, reply, None).await)
}

async fn post(shared: &Arc<Shared>, mut seen: Seen) -> Response<Body> {
    let asked = seen.method.is_some() && seen.id.is_some();
    let mut issued = None;
    let session = if seen.method.as_deref() == Some("initialize") && !shared.settings.sessionless {
        let hello = seen.params();
        let id = fresh_id(shared);
        seen.session = Some(id.clone());
        issued = Some(id.clone());
        Some(shared.peer.open_session(id, hello))
    } else {
        shared.peer.session(seen.session.as_deref())
    };
    if session.is_none() && !shared.settings.sessionless {
        let (status, why) = match seen.session {
            Some(_) => (404, "Session not found"),
            None => (400, "No session id"),
        };
        return refuse(&seen, status, why);
    }
    if text::member(&seen.body, &["jsonrpc"]).is_none() {
        return refuse(&seen, 400, "No single message");
    }
    if !asked {
        shared.peer.hear(&seen);
        let special = seen.method.as_ref().and_then(|method| shared.peer.script().on.get(method).cloned());
        if special.is_none() {
            return plain(202, Bytes::new());
        }
    }
    let (out, mut heard) = mpsc::channel(64);
    let (peer, note) = (Arc::clone(&shared.peer), seen.clone());
    tokio::spawn(async move {
        let reply = peer.answer(note, session, Outlet::Http(out.clone())).await;
        // Nobody listens any more where the connection is gone.
        let _gone = out.send(Out::Last(reply)).await;
    });
    match heard.recv().await {
        Some(Out::Last(reply)) if !shared.settings.events => render(shared, &seen, reply, issued).await,
        Some(first) => streamed(shared, seen, first, heard, issued),
        None => refuse(&seen, 500, "The script gave no answer"),
    }
}

fn fresh_id(shared: &Shared) -> String {
    let count = shared.issued.fetch_add(1, Ordering::SeqCst) + 1;
    format!("{}-session-{count}-{:016x}", shared.peer.script().name, rand_bits())
}

/// Bits that differ from run to run, from the standard hasher's seed.
fn rand_bits() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// An event stream that begins with `first` and goes on with what the handler says.
fn streamed(
    shared: &Arc<Shared>,
    seen: Seen,
    first: Out,
    heard: mpsc::Receiver<Out>,
    issued: Option<String>,
) -> Response<Body> {
    let shared = Arc::clone(shared);
    let pieces = stream::unfold((Some(first), Some(heard)), move |(first, heard)| {
        let (shared, seen) = (Arc::clone(&shared), seen.clone());
        async move {
            let mut heard = heard?;
            let next = match first {
                Some(out) => out,
                None => heard.recv().await?,
            };
            let reply = match next {
                Out::Piece(bytes) => return Some((Ok(Frame::data(bytes)), (None, Some(heard)))),
                Out::Last(reply) => reply,
            };
            let last = match reply {
                Reply::Result(result) => {
                    Ok(text::event(&text::response(seen.id.as_deref().unwrap_or("null"), &result)).into())
                }
                Reply::Error(error) => {
                    Ok(text::event(&text::failure(seen.id.as_deref().unwrap_or("null"), &error)).into())
                }
                Reply::Done => return None,
                Reply::Hang => std::future::pending().await,
                Reply::Bytes(bytes) => Ok(bytes),
                other => {
                    end_badly(&shared, &seen, &other);
                    Err(io::Error::other("the script ends the connection"))
                }
            };
            Some((last.map(Frame::data), (None, None)))
        }
    });
    let mut response =
        Response::builder().header("content-type", "text/event-stream").header("cache-control", "no-cache");
    if let Some(id) = issued {
        response = response.header("mcp-session-id", id);
    }
    response.body(flowing(pieces)).unwrap()
}

/// A whole response for a reply.
async fn render(shared: &Shared, seen: &Seen, reply: Reply, issued: Option<String>) -> Response<Body> {
    let id = seen.id.as_deref().unwrap_or("null");
    let mut response = match reply {
        Reply::Result(result) => plain(200, text::response(id, &result).into()),
        Reply::Error(error) => plain(200, text::failure(id, &error).into()),
        Reply::Done => plain(202, Bytes::new()),
        Reply::Http(page) => rendered(*page),
        Reply::Hang => std::future::pending().await,
        other => {
            end_badly(shared, seen, &other);
            // The socket is closed under this request: nothing more is needed.
            std::future::pending().await
        }
    };
    if let Some(id) = issued {
        response.headers_mut().insert("mcp-session-id", id.parse().unwrap());
    }
    response
}

/// Ends the connection of a request in a way that HTTP has no words for.
fn end_badly(shared: &Shared, seen: &Seen, reply: &Reply) {
    let links = shared.links.lock().unwrap();
    let Some(link) = links.get(&seen.connection) else {
        return;
    };
    match reply {
        Reply::Bytes(bytes) => (&link.socket).write_all(bytes).unwrap(),
        Reply::Reset => SockRef::from(&link.socket).set_linger(Some(Duration::ZERO)).unwrap(),
        Reply::Cut => {}
        other => panic!("no HTTP answer: {other:?}"),
    }
    link.end.cancel();
}

fn flowing(pieces: impl Pieces<Item = Piece> + Send + 'static) -> Body {
    StreamBody::new(pieces).boxed_unsync()
}

fn rendered(page: Page) -> Response<Body> {
    let mut response = Response::builder().status(page.status);
    for (name, value) in &page.headers {
        response = response.header(name, value);
    }
    if page.end == End::Clean && page.pieces.len() < 2 {
        let whole = page.pieces.into_iter().next().unwrap_or_default();
        return response.body(Full::new(whole).map_err(|never| match never {}).boxed_unsync()).unwrap();
    }
    let (pace, end) = (page.pace, page.end);
    let pieces =
        stream::unfold((page.pieces.into_iter(), end, true), move |(mut left, end, first)| async move {
            if !first {
                tokio::time::sleep(pace).await;
            }
            let piece = match left.next() {
                Some(piece) => Ok(piece),
                None => match &end {
                    End::Clean => return None,
                    End::Hang => std::future::pending().await,
                    End::Cut => Err(io::Error::other("the script cuts the body")),
                    End::Flood(piece) => {
                        // At most a thousand pieces a second: a fault is shown, not a bandwidth.
                        tokio::time::sleep(Duration::from_millis(1)).await;
                        Ok(piece.clone())
                    }
                },
            };
            Some((piece.map(Frame::data), (left, end, false)))
        });
    response.body(flowing(pieces)).unwrap()
}

async fn get(shared: &Arc<Shared>, seen: Seen) -> Response<Body> {
    if shared.settings.streamless {
        let mut response = plain(405, Bytes::new());
        response.headers_mut().insert("allow", "POST, DELETE".parse().unwrap());
        return response;
    }
    if shared.peer.session(seen.session.as_deref()).is_none() && !shared.settings.sessionless {
        return refuse(&seen, 404, "Session not found");
    }
    let (out, heard) = mpsc::unbounded_channel();
    // The first bytes go out at once, so that the head does too.
    out.send(Bytes::from_static(b": open\n\n")).unwrap();
    shared.streams.lock().unwrap().push(Stream { session: seen.session, out });
    shared.peer.bell.ring();
    let pieces = stream::unfold(heard, |mut heard| async move {
        let bytes = heard.recv().await?;
        Some((Ok(Frame::data(bytes)), heard))
    });
    let response =
        Response::builder().header("content-type", "text/event-stream").header("cache-control", "no-cache");
    response.body(flowing(pieces)).unwrap()
}

fn delete(shared: &Shared, seen: &Seen) -> Reply {
    let Some(id) = &seen.session else {
        return Reply::status(400);
    };
    shared.streams.lock().unwrap().retain(|stream| stream.session.as_ref() != Some(id));
    let known = shared.peer.end_session(id);
    Reply::status(if known { 200 } else { 404 })
}

fn refuse(seen: &Seen, status: u16, why: &str) -> Response<Body> {
    let error = json!({"code": -32600, "message": why}).to_string();
    plain(status, text::failure(seen.id.as_deref().unwrap_or("null"), &error).into())
}

fn plain(status: u16, body: Bytes) -> Response<Body> {
    let mut response = Response::new(Full::new(body.clone()).map_err(|never| match never {}).boxed_unsync());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    if !body.is_empty() {
        response.headers_mut().insert("content-type", "application/json".parse().unwrap());
    }
    response
}
