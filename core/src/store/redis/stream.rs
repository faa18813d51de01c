//! Bytes to and from a server, however they travel.

use std::io::{self, ErrorKind as Io, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use std::time::Instant;

use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustls::ClientConnection;

use super::resolve::resolve;
use super::tls::Tls;
use crate::store::dsn::Address;

#[derive(Debug)]
pub(super) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<(ClientConnection, TcpStream)>),
}

/// What one read has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    Bytes(usize),
    /// Something arrived, but nothing of the reply yet: a piece of an encrypted record.
    Nothing,
    End,
}

impl Stream {
    /// Connects within `limit`, and agrees on encryption if there is to be any.
    pub(super) fn connect(address: &Address, tls: Option<&Tls>, limit: Duration) -> io::Result<Self> {
        let started = Instant::now();
        let left = || left_of(limit, started);
        match (address, tls) {
            (Address::Unix(path), _) => connect_unix(path, limit).map(Self::Unix),
            (Address::Tcp(host, port), None) => connect_tcp(host, *port, left).map(Self::Tcp),
            (Address::Tcp(host, port), Some(tls)) => {
                let mut secured = tls.connection(address)?;
                let mut stream = connect_tcp(host, *port, left)?;
                while secured.is_handshaking() {
                    let left = left()?;
                    stream.set_read_timeout(Some(left)).and(stream.set_write_timeout(Some(left)))?;
                    // One step at a time, so that a server that drips is held to the deadline.
                    if secured.wants_write() {
                        secured.write_tls(&mut stream)?;
                    } else {
                        if secured.read_tls(&mut stream)? == 0 {
                            return Err(Io::UnexpectedEof.into());
                        }
                        if let Err(error) = secured.process_new_packets() {
                            // The alert that tells the server why.
                            let _ = secured.write_tls(&mut stream);
                            return Err(io::Error::new(Io::InvalidData, error));
                        }
                    }
                }
                Ok(Self::Tls(Box::new((secured, stream))))
            }
        }
    }

    /// Limits each read and each write; the kernel keeps the limits until they are changed.
    pub(super) fn set_timeouts(&self, limit: Duration) -> io::Result<()> {
        let tcp = |stream: &TcpStream| stream.set_read_timeout(Some(limit)).and(stream.set_write_timeout(Some(limit)));
        match self {
            Self::Tcp(stream) => tcp(stream),
            Self::Unix(stream) => stream.set_read_timeout(Some(limit)).and(stream.set_write_timeout(Some(limit))),
            Self::Tls(secured) => tcp(&secured.1),
        }
    }

    /// Reads what is there, once.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Read> {
        let count = match self {
            Self::Tcp(stream) => stream.read(buffer)?,
            Self::Unix(stream) => stream.read(buffer)?,
            Self::Tls(secured) => {
                let (tls, stream) = &mut **secured;
                // What was decrypted with an earlier read comes first.
                match tls.reader().read(buffer) {
                    Err(error) if error.kind() == Io::WouldBlock => {}
                    outcome => return outcome.map(|count| if count == 0 { Read::End } else { Read::Bytes(count) }),
                }
                if tls.read_tls(stream)? == 0 {
                    return Ok(Read::End);
                }
                tls.process_new_packets().map_err(|error| io::Error::new(Io::InvalidData, error))?;
                match tls.reader().read(buffer) {
                    Err(error) if error.kind() == Io::WouldBlock => return Ok(Read::Nothing),
                    outcome => outcome?,
                }
            }
        };
        Ok(if count == 0 { Read::End } else { Read::Bytes(count) })
    }

    /// Writes some of the bytes, and says how many.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
            Self::Tls(secured) => {
                let (tls, stream) = &mut **secured;
                let taken = tls.writer().write(bytes)?;
                while tls.wants_write() {
                    tls.write_tls(stream)?;
                }
                Ok(taken)
            }
        }
    }

    /// Whether a failed first write can have left no byte on its way. A record that is under way may be complete.
    pub(super) fn writes_whole_or_says_so(&self) -> bool {
        !matches!(self, Self::Tls(_))
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
            Self::Tls(secured) => secured.1.as_fd(),
        }
    }
}

fn left_of(limit: Duration, started: Instant) -> io::Result<Duration> {
    match limit.checked_sub(started.elapsed()) {
        Some(left) if !left.is_zero() => Ok(left),
        _ => Err(Io::TimedOut.into()),
    }
}

fn connect_tcp(host: &str, port: u16, left: impl Fn() -> io::Result<Duration>) -> io::Result<TcpStream> {
    let mut last = io::Error::new(Io::NotFound, "the name has no address");
    for address in resolve(host, port, left()?)? {
        let connected = TcpStream::connect_timeout(&address, left()?);
        match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Connects within `limit`: a server that does not accept keeps a plain `connect` waiting for as long as it likes.
fn connect_unix(path: &Path, limit: Duration) -> io::Result<UnixStream> {
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&socket, Timeout::Send, Some(limit))?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(UnixStream::from(socket))
}
