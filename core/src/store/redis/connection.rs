//! One connection to a server: a command out, a reply in, and nothing kept after the first surprise.

use std::io::{self, ErrorKind as Io, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, BorrowedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, socket_with};

use super::fault;
use super::resp::{self, Parsed, Reply};
use crate::error::{Error, Result};
use crate::store::dsn::{Address, RedisOptions};

/// A connection unused for longer than this is looked at before it is used: the server may have closed it. Between
/// closer calls the look would cost a system call and find nothing.
const IDLE: Duration = Duration::from_millis(1);

#[derive(Debug)]
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// A connection that is ready for one command at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    /// The command being sent; the buffer is kept between calls.
    pub(super) command: Vec<u8>,
    reply: Vec<u8>,
    timeout: Duration,
    last_used: Instant,
}

/// Why an exchange failed, and whether the command may be sent again.
#[derive(Debug)]
pub(super) enum Failure {
    /// No byte of the command was taken by the connection: the server cannot have run it.
    NotSent(Error),
    /// The server may have run it.
    Unknown(Error),
}

impl Failure {
    pub(super) fn into_error(self) -> Error {
        match self {
            Self::NotSent(error) | Self::Unknown(error) => error,
        }
    }
}

impl Connection {
    /// Connects, authenticates and selects the database, all within the connect timeout.
    pub(super) fn open(options: &RedisOptions) -> Result<Self> {
        let started = Instant::now();
        let left = || match options.connect_timeout.checked_sub(started.elapsed()) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(fault::timeout(options, "be connected to", options.connect_timeout)),
        };
        let stream = match &options.address {
            Address::Tcp(host, port) => Stream::Tcp(connect_tcp(options, host, *port, left)?),
            Address::Unix(path) => {
                Stream::Unix(connect_unix(path, left()?).map_err(|error| fault::connecting(options, &error))?)
            }
        };
        let mut connection = Self {
            stream,
            command: Vec::with_capacity(512),
            reply: vec![0; 512],
            timeout: options.timeout,
            last_used: started,
        };
        connection.set_up(options, left()?)?;
        let limits = connection.stream.set_timeouts(options.timeout);
        limits.map_err(|error| fault::connecting(options, &error))?;
        connection.last_used = Instant::now();
        Ok(connection)
    }

    fn set_up(&mut self, options: &RedisOptions, limit: Duration) -> Result<()> {
        let mut commands = Vec::new();
        if let Some(password) = &options.password {
            let mut auth = ::redis::cmd("AUTH");
            // Without a name the form that servers before 6.0 know as well.
            options.username.iter().for_each(|name| {
                auth.arg(name);
            });
            commands.push(auth.arg(password.reveal()).get_packed_command());
        }
        if options.database != 0 {
            commands.push(::redis::cmd("SELECT").arg(options.database).get_packed_command());
        }
        let started = Instant::now();
        for command in commands {
            let left = limit.saturating_sub(started.elapsed()).max(Duration::from_micros(1));
            self.stream.set_timeouts(left).map_err(|error| fault::connecting(options, &error))?;
            self.command = command;
            self.timeout = left;
            match self.exchange(options, Instant::now()).map_err(Failure::into_error)? {
                Reply::Status(status) if status == b"OK" => {}
                Reply::Error(line) => return Err(fault::server(options, &line)),
                _ => {
                    return Err(fault::protocol(
                        options,
                        "with something else than OK while it was being connected to",
                    ));
                }
            }
        }
        self.timeout = options.timeout;
        Ok(())
    }

    /// Whether the connection has been idle so long that it has to be looked at, and turns out closed or dirty.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        if now.duration_since(self.last_used) < IDLE {
            return false;
        }
        let mut byte = [0_u8; 1];
        let seen = recv(&self.stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        // A byte nobody asked for is as bad as a closed connection; only "nothing there yet" is good.
        !matches!(seen, Err(rustix::io::Errno::AGAIN))
    }

    /// Sends `self.command` and reads its reply. After a failure the connection must not be used again.
    pub(super) fn exchange(&mut self, options: &RedisOptions, started: Instant) -> std::result::Result<Reply, Failure> {
        self.send(options)?;
        self.receive(options, started).map_err(Failure::Unknown)
    }

    fn send(&mut self, options: &RedisOptions) -> std::result::Result<(), Failure> {
        let mut sent = 0;
        while sent < self.command.len() {
            match self.stream.write(&self.command[sent..]) {
                Ok(0) => return Err(Failure::Unknown(fault::broken(options, &Io::WriteZero.into()))),
                Ok(count) => sent += count,
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) if sent == 0 => return Err(Failure::NotSent(fault::broken(options, &error))),
                Err(error) => return Err(Failure::Unknown(fault::broken(options, &error))),
            }
        }
        Ok(())
    }

    fn receive(&mut self, options: &RedisOptions, started: Instant) -> Result<Reply> {
        let mut read = 0;
        let mut hurried = false;
        let reply = loop {
            match self.stream.read(&mut self.reply[read..]) {
                Ok(0) => return Err(fault::broken(options, &Io::UnexpectedEof.into())),
                Ok(count) => read += count,
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) => return Err(fault::broken(options, &error)),
            }
            match resp::parse(&self.reply[..read]) {
                Parsed::Complete(reply) => break reply,
                Parsed::Incomplete => {}
                Parsed::Invalid => return Err(fault::protocol(options, "with what is no reply to a decision")),
            }
            if read == self.reply.len() {
                self.reply.resize(read * 2, 0);
            }
            // The rest of the reply has to come in what is left of the time, however small the pieces.
            let left = self.timeout.saturating_sub(started.elapsed());
            if left.is_zero() {
                return Err(fault::timeout(options, "answer", self.timeout));
            }
            hurried = true;
            self.stream.set_timeouts(left).map_err(|error| fault::broken(options, &error))?;
        };
        if hurried {
            self.stream.set_timeouts(self.timeout).map_err(|error| fault::broken(options, &error))?;
        }
        self.last_used = Instant::now();
        Ok(reply)
    }
}

fn connect_tcp(
    options: &RedisOptions,
    host: &str,
    port: u16,
    left: impl Fn() -> Result<Duration>,
) -> Result<TcpStream> {
    let addresses = (host, port).to_socket_addrs().map_err(|error| fault::connecting(options, &error))?;
    let mut last = fault::connecting(options, &io::Error::new(Io::NotFound, "the name has no address"));
    for address in addresses {
        let connected = TcpStream::connect_timeout(&address, left()?);
        match connected.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = fault::connecting(options, &error),
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

impl Stream {
    /// Limits each read and each write; the kernel keeps the limits until they are changed.
    fn set_timeouts(&self, limit: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.set_read_timeout(Some(limit)).and(stream.set_write_timeout(Some(limit))),
            Self::Unix(stream) => stream.set_read_timeout(Some(limit)).and(stream.set_write_timeout(Some(limit))),
        }
    }

    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}
