//! A `PING` that nobody waits for.

use std::io::{self, ErrorKind as Io};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with,
};

use super::node::Network;
use super::resolve::resolve;
use crate::resilience::Knock;
use crate::store::dsn::Address;

/// How long a caller who may block waits for the answer: a server that has just come back answers within that.
pub(super) const LOOK: Duration = Duration::from_micros(300);

/// How long a name may take to be looked up.
const LOOK_UP: Duration = Duration::from_millis(20);

/// A knock that is not answered for so long is given up, and another one made: a firewall may have swallowed it.
const PATIENCE: Duration = Duration::from_secs(1);

struct Ping {
    socket: OwnedFd,
    begun: Instant,
    sent: bool,
}

/// Knocks at the server at `address`; not where the connection is encrypted, since any process that only listens would
/// seem to answer.
pub(super) fn knock(address: &Address, network: &Network) -> Option<Box<dyn Knock>> {
    if network.tls.is_some() {
        return None;
    }
    let socket = begin(address).ok()?;
    Some(Box::new(Ping { socket, begun: Instant::now(), sent: false }))
}

fn begin(address: &Address) -> io::Result<OwnedFd> {
    let open = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None);
    let (socket, connected) = match address {
        Address::Unix(path) => {
            let socket = open(AddressFamily::UNIX)?;
            let connected = connect(&socket, &SocketAddrUnix::new(path)?);
            (socket, connected)
        }
        Address::Tcp(host, port) => {
            let address = resolve(host, *port, LOOK_UP)?.into_iter().next().ok_or(Io::NotFound)?;
            let socket = open(if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 })?;
            let connected = connect(&socket, &address);
            (socket, connected)
        }
    };
    match connected {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

impl Knock for Ping {
    fn is_answered(&mut self, patience: Duration) -> io::Result<bool> {
        if !self.sent {
            if self.look(PollFlags::OUT, patience)?.is_empty() {
                return self.still_waits();
            }
            send(&self.socket, b"PING\r\n", SendFlags::NOSIGNAL)?;
            self.sent = true;
        }
        if self.look(PollFlags::IN, patience)?.is_empty() {
            return self.still_waits();
        }
        let mut byte = [0_u8; 1];
        // Anything it says is a sign of life, also that a password is needed.
        match recv(&self.socket, &mut byte, RecvFlags::DONTWAIT)? {
            (0, _) => Err(Io::UnexpectedEof.into()),
            _ => Ok(true),
        }
    }
}

impl Ping {
    fn look(&self, wanted: PollFlags, patience: Duration) -> io::Result<PollFlags> {
        let mut looked = [PollFd::new(&self.socket, wanted)];
        poll(&mut looked, Some(&Timespec::try_from(patience).map_err(io::Error::other)?))?;
        Ok(looked[0].revents())
    }

    fn still_waits(&self) -> io::Result<bool> {
        if self.begun.elapsed() > PATIENCE { Err(Io::TimedOut.into()) } else { Ok(false) }
    }
}
