//! A standing stream of HTTP/1.1, written without the engine: head and chunks go straight to the socket.
//!
//! A session's client listens for hours and is told something now and then. The engine keeps two buffers of 8 KiB and more for each
//! connection, to be ready for a next request; here there is none, since the stream is the last response of its connection.
//!
//! *Invariants.* Only a stream that ended cleanly gets its last chunk, so a client never takes half an answer for a whole one.
//! *On drop*: the connection is closed.

use std::fmt::Write as _;
use std::io;

use bytes::{Buf, Bytes};
use http::header::{CONNECTION, DATE, TRANSFER_ENCODING};
use http::{HeaderValue, Response};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::base::clock;

/// Writes a response until it ends or its client is gone.
///
/// # Errors
/// What the socket says.
pub async fn write<S, B>(mut socket: S, response: Response<B>) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
    B: Body<Data = Bytes> + Unpin,
{
    let (head, mut body) = response.into_parts();
    socket.write_all(text(head).as_slice()).await?;
    loop {
        let frame = tokio::select! {
            biased;
            // Both are safe to cancel.
            frame = body.frame() => frame,
            gone = gone(&mut socket) => return gone,
        };
        match frame {
            Some(Ok(frame)) => {
                if let Ok(part) = frame.into_data() {
                    chunk(&mut socket, part).await?;
                }
            }
            Some(Err(_)) => return Ok(()),
            None => {
                socket.write_all(b"0\r\n\r\n").await?;
                return socket.shutdown().await;
            }
        }
    }
}

/// The head, with what the transfer of an endless body needs.
fn text(mut head: http::response::Parts) -> Vec<u8> {
    head.headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    if let Ok(date) = HeaderValue::try_from(clock::http_date()) {
        head.headers.insert(DATE, date);
    }
    let status = head.status;
    let mut text =
        format!("HTTP/1.1 {} {}\r\n", status.as_str(), status.canonical_reason().unwrap_or_default())
            .into_bytes();
    for (name, value) in &head.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n");
    text
}

/// Writes a part in one go.
async fn chunk(socket: &mut (impl AsyncWrite + Unpin), part: Bytes) -> io::Result<()> {
    // A chunk of no bytes would be the last one.
    if part.is_empty() {
        return Ok(());
    }
    let mut size = String::with_capacity(10);
    // Writing to a string never fails.
    let _ = write!(size, "{:x}\r\n", part.len());
    let mut chunk = Buf::chain(size.as_bytes(), part).chain(&b"\r\n"[..]);
    socket.write_all_buf(&mut chunk).await
}

/// Waits until the client is gone. What it still sends is no request of ours to serve: it was told that the connection ends.
/// Safe to cancel.
async fn gone(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<()> {
    while socket.read(&mut [0; 64]).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures_util::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::io::{DuplexStream, duplex};
    use tokio::sync::mpsc;

    use super::*;
    use crate::downstream::body::Broken;

    type Sender = mpsc::UnboundedSender<Result<Frame<Bytes>, Broken>>;

    fn begun() -> (Sender, DuplexStream, impl Future<Output = io::Result<()>>) {
        let (near, far) = duplex(1024);
        let (sender, receiver) = mpsc::unbounded_channel();
        let parts = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        let mut response = Response::new(StreamBody::new(Box::pin(parts)));
        response.headers_mut().insert("x-one", HeaderValue::from_static("1"));
        (sender, far, write(near, response))
    }

    fn part(text: &'static str) -> Result<Frame<Bytes>, Broken> {
        Ok(Frame::data(Bytes::from_static(text.as_bytes())))
    }

    /// HTTP-16: what an HTTP/1.1 client can read, to its end.
    #[tokio::test]
    async fn a_stream_is_chunks_and_a_last_chunk() {
        let (sender, mut far, writing) = begun();
        for text in ["hello ", "", "world, and sixteen"] {
            sender.send(part(text)).unwrap();
        }
        drop(sender);
        writing.await.unwrap();
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let mut lines = head.split("\r\n");
        assert_eq!(lines.next(), Some("HTTP/1.1 200 OK"));
        let names: Vec<_> = lines.map(|line| line.split_once(": ").unwrap().0).collect();
        assert_eq!(names, ["x-one", "transfer-encoding", "connection", "date"]);
        assert_eq!(body, "6\r\nhello \r\n12\r\nworld, and sixteen\r\n0\r\n\r\n");
    }

    /// A stream that breaks off has no last chunk.
    #[tokio::test]
    async fn a_broken_stream_has_no_end() {
        let (sender, mut far, writing) = begun();
        sender.send(part("half")).unwrap();
        sender.send(Err(Broken)).unwrap();
        writing.await.unwrap();
        let mut text = String::new();
        far.read_to_string(&mut text).await.unwrap();
        assert!(text.ends_with("4\r\nhalf\r\n"), "{text}");
    }

    /// a client that leaves frees its stream at once, and one that talks on does not disturb it.
    #[tokio::test]
    async fn r_16_a_client_that_leaves_is_noticed() {
        let (sender, mut far, writing) = begun();
        let writing = tokio::spawn(writing);
        far.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        sender.send(part("still here")).unwrap();
        let mut text = Vec::new();
        while !text.ends_with(b"still here\r\n") {
            text.push(far.read_u8().await.unwrap());
        }
        drop(far);
        writing.await.unwrap().unwrap();
        assert!(sender.is_closed());
    }
}
