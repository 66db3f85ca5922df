//! The bytes of a connection, bare or under TLS.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls_pki_types::ServerName;
use rustls_platform_verifier::Verifier;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use url::{Host, Url};

/// A connection.
#[derive(Debug)]
pub enum Wire {
    /// Bare.
    Plain(TcpStream),
    /// Under TLS.
    Secure(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// Connects to where a URL of `http` or `https` leads.
    pub(super) async fn open(url: &Url) -> io::Result<Self> {
        let port = url.port_or_known_default().unwrap_or(80);
        let stream = match url.host() {
            // Every address of the name is tried.
            Some(Host::Domain(name)) => TcpStream::connect((name, port)).await?,
            Some(Host::Ipv4(address)) => TcpStream::connect((address, port)).await?,
            Some(Host::Ipv6(address)) => TcpStream::connect((address, port)).await?,
            None => return Err(io::Error::new(io::ErrorKind::InvalidInput, "the URL names no host")),
        };
        stream.set_nodelay(true)?;
        if url.scheme() != "https" {
            return Ok(Self::Plain(stream));
        }
        let host = match url.host() {
            Some(Host::Ipv6(address)) => address.to_string(),
            other => other.map(|host| host.to_string()).unwrap_or_default(),
        };
        let name = ServerName::try_from(host).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::new(trust().map_err(io::Error::other)?));
        Ok(Self::Secure(Box::new(connector.connect(name, stream).await?)))
    }
}

/// Trusts the roots of the system (F-095).
fn trust() -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = Arc::new(Verifier::new(Arc::clone(&provider))?);
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

impl Wire {
    /// Whether both sides agreed on HTTP/2.
    #[must_use]
    pub fn is_http2(&self) -> bool {
        matches!(self, Self::Secure(stream) if stream.get_ref().1.alpn_protocol() == Some(b"h2"))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Secure(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Secure(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Secure(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Secure(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        texts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, texts),
            Self::Secure(stream) => Pin::new(stream).poll_write_vectored(cx, texts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Secure(stream) => stream.is_write_vectored(),
        }
    }
}
