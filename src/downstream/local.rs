//! The Unix socket for clients on this machine.
//!
//! *Invariants.* Nobody can connect before the file has its rights, which are the owner's alone. Each connection is of our
//! own user or of root, whatever became of the rights of the file since.
//! *On drop*: the file is gone.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream as Probe;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};

use crate::downstream::listen::{BACKLOG, Listener};
use crate::telemetry::events::downstream::AcceptFailed;

/// Reading and writing, for the owner.
const RIGHTS: u32 = 0o600;

/// The user who may do anything anyway.
const ROOT: u32 = 0;

/// A socket that is bound.
#[derive(Debug)]
pub struct LocalSocket {
    socket: Socket,
    /// Where its file was put.
    path: PathBuf,
    /// The number of the file, by which it is known to be ours still.
    file: u64,
}

impl LocalSocket {
    /// Binds a socket to this path. One that a gateway left behind is replaced.
    ///
    /// # Errors
    /// `AddrInUse` where another process listens there, `AlreadyExists` where something else is, and what the system says.
    pub fn bind(path: &Path) -> io::Result<Self> {
        make_way(path)?;
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        // Under a name of its own until it listens: at its place nobody ever finds a socket that refuses.
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}", std::process::id()));
        let fresh = PathBuf::from(fresh);
        socket.bind(&SockAddr::unix(&fresh)?)?;
        let placed = fs::set_permissions(&fresh, Permissions::from_mode(RIGHTS))
            .and_then(|()| socket.listen(BACKLOG))
            .and_then(|()| fs::symlink_metadata(&fresh))
            .and_then(|file| fs::rename(&fresh, path).map(|()| file.ino()));
        match placed {
            Ok(file) => Ok(Self { socket, path: path.to_owned(), file }),
            Err(error) => {
                // The first failure is the one to tell.
                let _ = fs::remove_file(&fresh);
                Err(error)
            }
        }
    }

    /// Ready to accept on the run time that it is called on.
    ///
    /// # Errors
    /// When the socket cannot be used there.
    pub fn listener(self) -> io::Result<LocalListener> {
        let listener = UnixListener::from_std(self.socket.try_clone()?.into())?;
        Ok(LocalListener { listener, _bound: self })
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        // Before the socket closes: who begins after that may have a file of its own at this path, or has one already.
        if fs::symlink_metadata(&self.path).is_ok_and(|found| found.ino() == self.file) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes the file of a socket on which nobody listens any more.
fn make_way(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    if !found.file_type().is_socket() {
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, "there is a file that is no socket"));
    }
    match Probe::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
    }
}

/// A socket that accepts.
#[derive(Debug)]
pub struct LocalListener {
    listener: UnixListener,
    _bound: LocalSocket,
}

impl Listener for LocalListener {
    type Stream = UnixStream;

    /// Others than our own user and root are turned away. Safe to cancel.
    async fn accept(&self) -> io::Result<(UnixStream, Option<std::net::IpAddr>)> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            let user = stream.peer_cred()?.uid();
            if user == geteuid().as_raw() || user == ROOT {
                return Ok((stream, None));
            }
            AcceptFailed { error: &format_args!("user {user} may not connect to the Unix socket") }.emit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// a socket left behind is replaced; one in use, and any other file, is not touched.
    #[test]
    fn r_25_only_a_socket_that_nobody_uses_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("clients.sock");
        let socket = LocalSocket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, RIGHTS);
        assert_eq!(LocalSocket::bind(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        drop(socket);
        assert!(!path.exists());
        // As a process leaves it that was killed.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(LocalSocket::bind(&path).unwrap());
        fs::write(&path, "precious").unwrap();
        assert_eq!(LocalSocket::bind(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }
}
