//! The few words of Streamable HTTP that both ends of the bench use.

use anyhow::{Error, Result};
use bytes::{Bytes, BytesMut};
use http::{Request, header::HOST};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{
    body::{Body as _, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Path of the endpoint, at the fixture as at every target.
pub const PATH: &str = "/mcp";

/// The header that carries the session.
pub const SESSION: &str = "mcp-session-id";

/// The header that carries the revision.
pub const REVISION: &str = "mcp-protocol-version";

/// Content type of a single message.
pub const JSON: &str = "application/json";

/// Content type of a stream of events.
pub const EVENTS: &str = "text/event-stream";

/// Everything that is sent here is far smaller.
const BODY_CAP: usize = 16 << 20;

/// Reads a body to its end, without a copy where it came in one piece.
pub async fn read_all(body: Incoming) -> Result<Bytes> {
    let mut body = Limited::new(body, BODY_CAP);
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Error::from_boxed)?.into_data() else { continue };
        if first.is_empty() {
            first = data;
            continue;
        }
        if rest.is_empty() {
            let hint = usize::try_from(body.size_hint().lower()).unwrap_or_default();
            rest.reserve(first.len() + data.len() + hint);
            rest.extend_from_slice(&first);
        }
        rest.extend_from_slice(&data);
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

/// Fetches a small page of the fixture over a connection of its own.
pub async fn fetch(origin: &str, path: &str) -> Result<String> {
    let address = origin.trim_start_matches("http://");
    let socket = TcpStream::connect(address).await?;
    let (mut connection, driver) = http1::handshake(TokioIo::new(socket)).await?;
    tokio::spawn(driver);
    let request = Request::get(path).header(HOST, address).body(Empty::<Bytes>::new())?;
    let body = read_all(connection.send_request(request).await?.into_body()).await?;
    Ok(String::from_utf8(body.into())?)
}
