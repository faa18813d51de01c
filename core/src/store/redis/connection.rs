//! One connection to a server: commands out, replies in, and nothing kept after the first surprise.

use std::io::{self, ErrorKind as Io};
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};

use super::deadline::Deadline;
use super::fault;
use super::resp::{self, Expected, Parsed, Reply};
use super::setup::SetUp;
use super::stream::{Read, Stream};
use super::tls::Tls;
use crate::error::{Error, Result};
use crate::metrics;
use crate::store::dsn::Address;

/// A connection unused for longer than this is looked at before it is used: the server may have closed it. Between
/// closer calls the look would cost a system call and find nothing.
const IDLE: Duration = Duration::from_millis(1);

/// A connection that is ready for one exchange at a time.
#[derive(Debug)]
pub(super) struct Connection {
    stream: Stream,
    address: Address,
    /// The commands being sent; the buffer is kept between calls.
    pub(super) command: Vec<u8>,
    reply: Vec<u8>,
    /// Which bytes of `reply` have arrived and have not been read yet.
    from: usize,
    to: usize,
    /// The limit that the kernel has for each read and each write.
    limit: Duration,
    /// How long the exchange may take, and since when.
    exchange: (Instant, Duration),
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
    /// Connects within `limit` and sets the connection up.
    pub(super) fn open(address: &Address, tls: Option<&Tls>, set_up: &SetUp<'_>, limit: Duration) -> Result<Self> {
        let started = Instant::now();
        if limit.is_zero() {
            return Err(fault::late_connection(address, limit));
        }
        let stream = Stream::connect(address, tls, limit).map_err(|error| fault::connecting(address, &error, limit))?;
        let mut connection = Self {
            stream,
            address: address.clone(),
            command: Vec::with_capacity(512),
            reply: vec![0; 512],
            from: 0,
            to: 0,
            limit: Duration::ZERO,
            exchange: (started, limit),
            last_used: started,
        };
        for step in set_up.steps() {
            connection.command.clear();
            step.write(&mut connection.command);
            let left = limit.saturating_sub(started.elapsed()).max(Duration::from_micros(1));
            connection.begin(Instant::now(), left).map_err(Failure::into_error)?;
            let reply = connection.next_reply(step.expected(), true)?;
            step.check(address, &reply)?;
        }
        metrics::count_connection();
        Ok(connection)
    }

    /// Where it leads.
    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Whether the connection has been idle so long that it has to be looked at, and turns out closed or dirty.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        if now.saturating_duration_since(self.last_used) < IDLE {
            return false;
        }
        let mut byte = [0_u8; 1];
        let seen = recv(&self.stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
        // A byte nobody asked for is as bad as a closed connection; only "nothing there yet" is good.
        !matches!(seen, Err(rustix::io::Errno::AGAIN))
    }

    /// Sends `self.command` and reads its one reply. After a failure the connection must not be used again.
    pub(super) fn exchange(
        &mut self,
        deadline: &Deadline,
        now: Instant,
        expected: Expected,
    ) -> std::result::Result<Reply, Failure> {
        self.begin(now, deadline.of_exchange(now))?;
        self.next_reply(expected, true).map_err(Failure::Unknown)
    }

    /// Sends `self.command`, which may be several; their replies have to be read, all of them, before the next.
    pub(super) fn begin(&mut self, now: Instant, limit: Duration) -> std::result::Result<(), Failure> {
        if limit.is_zero() {
            return Err(Failure::NotSent(fault::late_answer(&self.address, limit)));
        }
        self.exchange = (now, limit);
        self.set_limit(limit).map_err(|error| Failure::NotSent(fault::broken(&self.address, &error, limit)))?;
        let mut sent = 0;
        while sent < self.command.len() {
            match self.stream.write(&self.command[sent..]) {
                Ok(0) => return Err(Failure::Unknown(self.broken(&Io::WriteZero.into()))),
                Ok(count) => sent += count,
                Err(error) if error.kind() == Io::Interrupted => {}
                Err(error) if sent == 0 && self.stream.writes_whole_or_says_so() => {
                    return Err(Failure::NotSent(self.broken(&error)));
                }
                Err(error) => return Err(Failure::Unknown(self.broken(&error))),
            }
            if sent < self.command.len() {
                self.hurry().map_err(Failure::Unknown)?;
            }
        }
        Ok(())
    }

    /// The next reply; after the `last` one nothing may follow.
    pub(super) fn next_reply(&mut self, expected: Expected, last: bool) -> Result<Reply> {
        loop {
            if self.from < self.to {
                match resp::parse(&self.reply[self.from..self.to], expected) {
                    Parsed::Complete(reply, length) if !last || self.from + length == self.to => {
                        self.from += length;
                        if self.from == self.to {
                            (self.from, self.to) = (0, 0);
                        }
                        if last {
                            self.last_used = Instant::now();
                            metrics::observe(self.last_used.duration_since(self.exchange.0));
                        }
                        return Ok(reply);
                    }
                    Parsed::Incomplete => self.hurry()?,
                    Parsed::Complete(..) | Parsed::Invalid => {
                        return Err(fault::protocol(&self.address, "with what is no reply to a decision"));
                    }
                }
            }
            self.make_room();
            match self.stream.read(&mut self.reply[self.to..]) {
                Ok(Read::Bytes(count)) => self.to += count,
                // The rest of a record has to come in what is left of the time.
                Ok(Read::Nothing) => self.hurry()?,
                Ok(Read::End) => return Err(self.broken(&Io::UnexpectedEof.into())),
                Err(error) if error.kind() == Io::Interrupted => self.hurry()?,
                Err(error) => return Err(self.broken(&error)),
            }
        }
    }

    fn make_room(&mut self) {
        if self.to < self.reply.len() {
            return;
        }
        if self.from > 0 {
            self.reply.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        } else {
            self.reply.resize(self.reply.len() * 2, 0);
        }
    }

    /// What comes in pieces has to come in what is left of the time, however small the pieces.
    fn hurry(&mut self) -> Result<()> {
        let (started, limit) = self.exchange;
        let left = limit.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Err(fault::late_answer(&self.address, limit));
        }
        self.set_limit(left).map_err(|error| self.broken(&error))
    }

    fn set_limit(&mut self, limit: Duration) -> io::Result<()> {
        if limit != self.limit {
            self.stream.set_timeouts(limit)?;
            self.limit = limit;
        }
        Ok(())
    }

    fn broken(&self, error: &io::Error) -> Error {
        fault::broken(&self.address, error, self.exchange.1)
    }
}
