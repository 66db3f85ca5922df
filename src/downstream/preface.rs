//! Which version of HTTP a client speaks, told by the first bytes of its connection.
//!
//! Both are served on one port: HTTP/2 as clients begin it that know the server speaks it ("prior knowledge").

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt};

/// What every HTTP/2 client sends first (RFC 9113, section 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// How a connection begins.
#[derive(Debug, PartialEq, Eq)]
pub enum Preface {
    /// With these bytes of HTTP/1.
    One(Bytes),
    /// With HTTP/2, and these bytes of it.
    Two(Bytes),
}

/// Reads as much as tells the two apart.
///
/// # Errors
/// What the socket says; `UnexpectedEof` when it ends before that.
pub async fn read(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Preface> {
    let mut start = [0; PREFACE.len()];
    let mut filled = 0;
    while filled < start.len() {
        let more = socket.read(&mut start[filled..]).await?;
        filled += more;
        if more == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if start[..filled] != PREFACE[..filled] {
            return Ok(Preface::One(Bytes::copy_from_slice(&start[..filled])));
        }
    }
    Ok(Preface::Two(Bytes::from_static(PREFACE)))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};

    use super::*;

    async fn told(parts: &[&'static [u8]]) -> io::Result<Preface> {
        let (mut near, mut far) = duplex(64);
        let write = async {
            for part in parts {
                far.write_all(part).await.unwrap();
            }
            drop(far);
        };
        tokio::join!(read(&mut near), write).0
    }

    /// However the bytes are cut, and nothing of them is lost.
    #[tokio::test]
    async fn first_bytes_tell_the_version() {
        assert_eq!(told(&[PREFACE]).await.unwrap(), Preface::Two(Bytes::from_static(PREFACE)));
        assert_eq!(
            told(&[b"PRI * HTTP/2.0\r\n", b"\r\nSM\r\n\r\n"]).await.unwrap(),
            Preface::Two(Bytes::from_static(PREFACE))
        );
        assert_eq!(told(&[b"POST"]).await.unwrap(), Preface::One(Bytes::from_static(b"POST")));
        assert_eq!(told(&[b"GET"]).await.unwrap(), Preface::One(Bytes::from_static(b"GET")));
        for cut in [&b""[..], b"PRI * HTTP/2.0\r\n"] {
            assert_eq!(told(&[cut]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        }
    }
}
