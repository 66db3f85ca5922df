//! A small HTTP/1.1 client: a connection for each request, an end to every wait, a cap on every body.
//!
//! *Invariants*: no redirect is followed; nothing of a request is shown in an error but the host.
//!
//! *Limits*: what [`Limits`] says. Proxies are not used.
//!
//! *On drop* of an [`Answer`]: its connection closes.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HOST, HeaderName, HeaderValue};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use url::Url;

use crate::base::{clock, tasks};
use crate::egress::wire::Wire;

/// How long things may take, and how large an answer may be.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// For name, connection and TLS.
    pub connect: Duration,
    /// Until the head of the answer, and between two pieces of its body.
    pub idle: Duration,
    /// Bytes of a body.
    pub body: usize,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Read.
    Get,
    /// Send.
    Post,
    /// Remove.
    Delete,
}

/// A request.
pub struct Request<'a> {
    /// What is asked for.
    pub method: Method,
    /// Of where; `http` or `https`.
    pub url: &'a Url,
    /// Names and values.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: Bytes,
}

/// Why there is no answer, or no whole one.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The URL is of another kind.
    #[error("only http and https are supported")]
    Scheme,
    /// A header cannot be sent; its value may be secret.
    #[error("the header `{0}` cannot be sent")]
    Header(String),
    /// There is no connection.
    #[error("cannot connect to {host}")]
    Connect {
        /// Host and port.
        host: String,
        /// Why.
        source: io::Error,
    },
    /// A limit passed.
    #[error("{host} did not answer within {} s", after.as_secs_f64())]
    Slow {
        /// Host and port.
        host: String,
        /// The limit.
        after: Duration,
    },
    /// The other side broke off, or does not speak HTTP.
    #[error("the connection to {host} broke")]
    Broken {
        /// Host and port.
        host: String,
        /// Why.
        source: hyper::Error,
    },
    /// The answer exceeds its cap.
    #[error("the answer of {host} is larger than {cap} bytes")]
    TooLarge {
        /// Host and port.
        host: String,
        /// The cap.
        cap: usize,
    },
}

/// The head of an answer, and its body as it comes.
pub struct Answer {
    head: http::response::Parts,
    body: Incoming,
    host: String,
    limits: Limits,
    taken: usize,
    _connection: tasks::Task<()>,
}

/// Sends a request and waits for the head of the answer, whatever its status.
///
/// # Errors
/// See [`HttpError`].
pub async fn send(request: Request<'_>, limits: Limits) -> Result<Answer, HttpError> {
    let url = request.url;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(HttpError::Scheme);
    }
    let host = host_of(url);
    let message = message(&request, &host)?;
    let slow = |after| {
        let host = host.clone();
        move |_| HttpError::Slow { host, after }
    };
    let wire = clock::within(limits.connect, Wire::open(url)).await.map_err(slow(limits.connect))?;
    let wire = wire.map_err(|source| HttpError::Connect { host: host.clone(), source })?;
    let broken = |source| HttpError::Broken { host: host.clone(), source };
    let answered = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(wire)).await?;
        // What breaks the connection breaks the answer too, where it is reported.
        let connection = tasks::spawn("egress connection", async { drop(connection.await) });
        Ok((sender.send_request(message).await?, connection))
    };
    let answered = clock::within(limits.idle, answered).await.map_err(slow(limits.idle))?;
    let (answer, connection) = answered.map_err(broken)?;
    let (head, body) = answer.into_parts();
    Ok(Answer { head, body, host, limits, taken: 0, _connection: connection })
}

impl Answer {
    /// The status.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.head.status.as_u16()
    }

    /// Status and its usual name.
    #[must_use]
    pub fn status_line(&self) -> String {
        self.head.status.to_string()
    }

    /// A header, if it is there and text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.headers.get(name)?.to_str().ok()
    }

    /// The next piece of the body; none at its end.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn chunk(&mut self) -> Result<Option<Bytes>, HttpError> {
        let host = || self.host.clone();
        loop {
            let slow = |_| HttpError::Slow { host: host(), after: self.limits.idle };
            let frame = clock::within(self.limits.idle, self.body.frame()).await.map_err(slow)?;
            let Some(frame) = frame else { return Ok(None) };
            let frame = frame.map_err(|source| HttpError::Broken { host: host(), source })?;
            // Trailers say nothing that we ask for.
            let Ok(data) = frame.into_data() else { continue };
            self.taken = self.taken.saturating_add(data.len());
            if self.taken > self.limits.body {
                return Err(HttpError::TooLarge { host: host(), cap: self.limits.body });
            }
            return Ok(Some(data));
        }
    }

    /// The rest of the body.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn text(&mut self) -> Result<Bytes, HttpError> {
        let mut text = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            text.extend_from_slice(&chunk);
        }
        Ok(Bytes::from(text))
    }
}

fn message(request: &Request<'_>, host: &str) -> Result<http::Request<Full<Bytes>>, HttpError> {
    let refused = |name: &str| HttpError::Header(name.to_owned());
    let method = match request.method {
        Method::Get => http::Method::GET,
        Method::Post => http::Method::POST,
        Method::Delete => http::Method::DELETE,
    };
    let path = &request.url[url::Position::BeforePath..url::Position::AfterQuery];
    let uri = http::Uri::try_from(path).map_err(|_| HttpError::Scheme)?;
    let mut message = http::Request::new(Full::new(request.body.clone()));
    *message.method_mut() = method;
    *message.uri_mut() = uri;
    let headers = message.headers_mut();
    headers.insert(HOST, HeaderValue::try_from(host).map_err(|_| refused("host"))?);
    for (name, value) in request.headers {
        let value = HeaderValue::try_from(*value).map_err(|_| refused(name))?;
        headers.insert(HeaderName::try_from(*name).map_err(|_| refused(name))?, value);
    }
    Ok(message)
}

/// Host and port as they stand in the URL.
fn host_of(url: &Url) -> String {
    url[url::Position::BeforeHost..url::Position::AfterPort].to_owned()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const LIMITS: Limits =
        Limits { connect: Duration::from_secs(5), idle: Duration::from_secs(5), body: 1000 };

    /// Answers one connection with these bytes; gives the URL, and what was asked.
    async fn peer(answer: &'static [u8]) -> (Url, tasks::Task<String>) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/a?b=c", listener.local_addr().unwrap());
        let asked = tasks::spawn("peer", async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(answer).await.unwrap();
            String::from_utf8(asked).unwrap()
        });
        (url.parse().unwrap(), asked)
    }

    fn get<'a>(url: &'a Url, headers: &'a [(&'a str, &'a str)]) -> Request<'a> {
        Request { method: Method::Get, url, headers, body: Bytes::new() }
    }

    #[tokio::test]
    async fn a_request_is_sent_and_its_answer_read() {
        let (url, asked) =
            peer(b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 3\r\nx-a: b\r\n\r\nabc").await;
        let mut answer = send(get(&url, &[("accept", "text/plain")]), LIMITS).await.unwrap();
        assert_eq!((answer.status(), answer.header("x-a")), (503, Some("b")));
        assert_eq!(answer.text().await.unwrap(), "abc");
        let asked = asked.await.unwrap();
        assert!(asked.starts_with("GET /a?b=c HTTP/1.1\r\n"), "{asked}");
        assert!(asked.contains("accept: text/plain\r\n"), "{asked}");
        assert!(asked.contains(&format!("host: {}\r\n", host_of(&url))), "{asked}");
    }

    #[tokio::test]
    async fn a_large_answer_is_cut_off() {
        let (url, _asked) = peer(b"HTTP/1.1 200 OK\r\ncontent-length: 3000\r\n\r\n").await;
        let mut answer = send(get(&url, &[]), Limits { body: 3, ..LIMITS }).await.unwrap();
        // The peer has closed: too early an end is an error, not an end.
        assert!(matches!(answer.text().await, Err(HttpError::Broken { .. })));
        let (url, _asked) = peer(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nabcd").await;
        let mut answer = send(get(&url, &[]), Limits { body: 3, ..LIMITS }).await.unwrap();
        assert!(matches!(answer.text().await, Err(HttpError::TooLarge { cap: 3, .. })));
    }

    #[tokio::test]
    async fn what_does_not_answer_is_given_up() {
        // Accepted by the system, read by nobody.
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap()).parse().unwrap();
        let limits = Limits { idle: Duration::from_millis(20), ..LIMITS };
        assert!(matches!(send(get(&url, &[]), limits).await, Err(HttpError::Slow { .. })));
        drop(listener);
        let refused = send(get(&url, &[]), LIMITS).await;
        assert!(matches!(refused, Err(HttpError::Connect { .. })));
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_refused_without_its_value() {
        let url = "http://127.0.0.1:1/".parse().unwrap();
        let error = send(get(&url, &[("authorization", "a\nsecret")]), LIMITS).await.err().unwrap();
        assert_eq!(error.to_string(), "the header `authorization` cannot be sent");
        let file = "file:///etc/hosts".parse().unwrap();
        assert!(matches!(send(get(&file, &[]), LIMITS).await, Err(HttpError::Scheme)));
    }
}
