//! A new connection to an upstream: name, address, proxy, TLS, each within its limit (R-15, F-095).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Host;

use crate::base::clock;
use crate::egress::wire::Wire;
use crate::upstream::http::address::Origin;
use crate::upstream::http::proxy::Proxy;
use crate::upstream::http::tls::{Trust, TrustError};

/// Head start of an address before the next one is tried as well.
const HEAD_START: Duration = Duration::from_millis(250);
/// Idle time after which the system checks that the other side still exists, so that a silent stream is
/// not waited on for ever.
const KEEP_ALIVE: Duration = Duration::from_mins(1);
/// The longest answer to CONNECT that is read, in bytes.
const PROXY_ANSWER: usize = 8 * 1024;

/// Why there is no connection. The text is for operators; [`ConnectError::told`] is for clients.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// Its name has no address.
    #[error("the name {host} cannot be resolved")]
    Resolve {
        /// The name.
        host: Arc<str>,
    },
    /// No address answered.
    #[error("cannot connect to {host}:{port}: {source}")]
    Tcp {
        /// The name.
        host: Arc<str>,
        /// The port.
        port: u16,
        /// Of the address tried last.
        source: io::Error,
    },
    /// The limit for connecting passed.
    #[error("no connection within {0:?}")]
    Slow(Duration),
    /// The proxy does not connect us.
    #[error("the proxy answers CONNECT with {0}")]
    Proxy(String),
    /// TLS failed.
    #[error("TLS with {host} failed: {source}")]
    Tls {
        /// The name.
        host: Arc<str>,
        /// Why.
        source: io::Error,
    },
    /// The limit for TLS passed.
    #[error("no TLS within {0:?}")]
    SlowTls(Duration),
    /// TLS could not be set up on our side.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// HTTP could not begin.
    #[error("HTTP cannot begin: {0}")]
    Http(#[from] hyper::Error),
}

impl ConnectError {
    /// What a client is told: the kind of failure, without names and addresses.
    #[must_use]
    pub fn told(&self) -> &'static str {
        match self {
            Self::Resolve { .. } => "its name cannot be resolved",
            Self::Tcp { source, .. } => match source.kind() {
                io::ErrorKind::ConnectionRefused => "it refuses the connection",
                io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => "it cannot be reached",
                _ => "no connection could be made",
            },
            Self::Slow(_) | Self::SlowTls(_) => "it does not answer",
            Self::Proxy(_) => "the proxy does not connect to it",
            Self::Tls { .. } | Self::Trust(_) => "no secure connection could be made",
            Self::Http(_) => "it does not speak HTTP",
        }
    }
}

/// Makes connections to one origin.
#[derive(Debug)]
pub struct Connector {
    /// Whom to reach.
    pub origin: Origin,
    /// By way of whom.
    pub proxy: Option<Proxy>,
    /// Whom to trust.
    pub trust: Arc<Trust>,
    /// For name, address and proxy.
    pub connect: Duration,
    /// For TLS.
    pub tls: Duration,
}

impl Connector {
    /// A new connection, ready for HTTP.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(&self) -> Result<Wire, ConnectError> {
        let tcp = clock::within(self.connect, self.reach())
            .await
            .map_err(|_| ConnectError::Slow(self.connect))??;
        if !self.origin.tls {
            return Ok(Wire::Plain(tcp));
        }
        let host = || Arc::clone(&self.origin.host);
        let name = ServerName::try_from(self.origin.host.to_string())
            .map_err(|error| ConnectError::Tls { host: host(), source: io::Error::other(error) })?;
        let connector = self.trust.connector().await?;
        let stream = clock::within(self.tls, connector.connect(name, tcp))
            .await
            .map_err(|_| ConnectError::SlowTls(self.tls))?
            .map_err(|source| ConnectError::Tls { host: host(), source })?;
        Ok(Wire::Secure(Box::new(stream)))
    }

    async fn reach(&self) -> Result<TcpStream, ConnectError> {
        let Some(proxy) = &self.proxy else { return dial(&self.origin).await };
        let mut stream = dial(&proxy.origin).await?;
        if self.origin.tls {
            tunnel(&mut stream, &self.origin, proxy).await?;
        }
        Ok(stream)
    }
}

async fn dial(origin: &Origin) -> Result<TcpStream, ConnectError> {
    let addresses = resolve(origin).await?;
    let failed = |source| ConnectError::Tcp { host: Arc::clone(&origin.host), port: origin.port, source };
    let stream = first_of(addresses).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let keep_alive = socket2::TcpKeepalive::new().with_time(KEEP_ALIVE).with_interval(KEEP_ALIVE / 4);
    // Without it a vanished peer is found later; that is no reason to fail.
    let _ = socket2::SockRef::from(&stream).set_tcp_keepalive(&keep_alive);
    Ok(stream)
}

async fn resolve(origin: &Origin) -> Result<Vec<SocketAddr>, ConnectError> {
    let at = |address: IpAddr| SocketAddr::new(address, origin.port);
    Ok(match &origin.target {
        Host::Ipv4(address) => vec![at(IpAddr::V4(*address))],
        Host::Ipv6(address) => vec![at(IpAddr::V6(*address))],
        // Servers listen on either, whatever the system's table says (F-095).
        Host::Domain(name) if name == "localhost" => {
            vec![at(IpAddr::V6(Ipv6Addr::LOCALHOST)), at(IpAddr::V4(Ipv4Addr::LOCALHOST))]
        }
        Host::Domain(name) => {
            let unknown = || ConnectError::Resolve { host: Arc::clone(&origin.host) };
            let found = tokio::net::lookup_host((name.as_str(), origin.port)).await.map_err(|_| unknown())?;
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                return Err(unknown());
            }
            found
        }
    })
}

/// The connection that is made first; each address gets a head start over the next.
async fn first_of(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut waiting = addresses.into_iter();
    let mut tries = FuturesUnordered::new();
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    tries.extend(waiting.next().map(TcpStream::connect));
    loop {
        // Both branches are safe to cancel: a set of futures keeps those that are not ready.
        tokio::select! {
            done = tries.next() => match done {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(error)) => {
                    last = error;
                    tries.extend(waiting.next().map(TcpStream::connect));
                }
                None => return Err(last),
            },
            () = clock::sleep(HEAD_START), if waiting.len() > 0 => {
                tries.extend(waiting.next().map(TcpStream::connect));
            }
        }
    }
}

/// Asks the proxy for a way to `origin`.
async fn tunnel(stream: &mut TcpStream, origin: &Origin, proxy: &Proxy) -> Result<(), ConnectError> {
    let target = match &origin.target {
        Host::Ipv6(address) => format!("[{address}]:{}", origin.port),
        _ => format!("{}:{}", origin.host, origin.port),
    };
    let mut ask = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n").into_bytes();
    if let Some(credentials) = &proxy.credentials {
        ask.extend_from_slice(b"Proxy-Authorization: ");
        ask.extend_from_slice(credentials.as_bytes());
        ask.extend_from_slice(b"\r\n");
    }
    ask.extend_from_slice(b"\r\n");
    let broken = |error: io::Error| ConnectError::Proxy(error.kind().to_string());
    stream.write_all(&ask).await.map_err(broken)?;
    let mut answer = Vec::with_capacity(256);
    // Byte by byte at the end only matters in theory: nothing follows the head before we speak.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= PROXY_ANSWER {
            return Err(ConnectError::Proxy("too much".into()));
        }
        answer.push(stream.read_u8().await.map_err(broken)?);
    }
    let status = answer.split(|&byte| byte == b' ').nth(1).unwrap_or_default();
    if status.first() == Some(&b'2') {
        return Ok(());
    }
    Err(ConnectError::Proxy(format!("status {}", String::from_utf8_lossy(&status[..status.len().min(3)]))))
}
