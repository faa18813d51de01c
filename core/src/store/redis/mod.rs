//! State on a Redis or Valkey server, changed by scripts.

mod connection;

mod fault;

mod pool;

pub(crate) mod resp;

use std::time::{Duration, Instant};

use self::connection::{Connection, Failure};
use self::pool::Pool;
use self::resp::Reply;
use super::dsn::RedisOptions;
use super::{Operation, Store, StoreKind, sealed};
use crate::algorithm::{MAX_EXACT, NEVER_US, Verdict};
use crate::error::Result;
use crate::lua::{self, Naming, Script};

/// The beginning of the error for a script that the server does not know.
const NOSCRIPT: &[u8] = b"NOSCRIPT";

/// Keeps state on one server. One decision is one `EVALSHA`: one write, one read.
///
/// A command is sent again only when the server cannot have run it: after `NOSCRIPT`, or when a pooled connection took
/// no byte of it. Whatever else fails is an error, and its connection is closed.
#[derive(Debug)]
pub struct RedisStore {
    options: RedisOptions,
    pool: Pool,
}

impl RedisStore {
    /// A store on the server that `options` name; connects on first use.
    pub fn new(options: RedisOptions) -> Self {
        Self { pool: Pool::new(options.pool), options }
    }

    /// Where the server is and how it is talked to.
    pub fn options(&self) -> &RedisOptions {
        &self.options
    }

    fn prefix(&self) -> &[u8] {
        self.options.prefix.as_bytes()
    }

    /// Runs `exchanges` on one connection, a pooled one if there is a good one.
    fn on_connection<R>(
        &self,
        exchanges: impl Fn(&mut Connection, Instant) -> std::result::Result<R, Failure>,
    ) -> Result<R> {
        let mut started = Instant::now();
        while let Some(mut connection) = self.pool.take() {
            if connection.is_stale(started) {
                continue;
            }
            match exchanges(&mut connection, started) {
                Ok(result) => {
                    self.pool.put(connection);
                    return Ok(result);
                }
                // The other idle connections are as old and as dead; a new one tells whether the server is back.
                Err(Failure::NotSent(_)) => self.pool.clear(),
                Err(Failure::Unknown(error)) => return Err(error),
            }
        }
        let mut connection = Connection::open(&self.options)?;
        started = Instant::now();
        let result = exchanges(&mut connection, started).map_err(Failure::into_error)?;
        self.pool.put(connection);
        Ok(result)
    }

    /// A reply that is an error becomes one; it leaves the connection in order, unless it leads to the wrong place.
    fn settled<R>(&self, reply: Reply, read: impl Fn(Reply) -> Option<R>) -> std::result::Result<Result<R>, Failure> {
        let error = match reply {
            Reply::Error(line) => fault::server(&self.options, &line),
            reply => match read(reply) {
                Some(result) => return Ok(Ok(result)),
                None => fault::protocol(&self.options, "with numbers that make no decision"),
            },
        };
        if fault::spoils_connection(&error) { Err(Failure::Unknown(error)) } else { Ok(Err(error)) }
    }

    /// Writes the command of a decision.
    fn encode(&self, command: &mut Vec<u8>, script: &Script, naming: Naming, operation: &Operation<'_>) {
        command.clear();
        command.extend_from_slice(script.head(naming, operation.now_us.is_some()));
        resp::bulk_joined(command, self.prefix(), operation.key);
        resp::integer(command, operation.cost);
        command.extend_from_slice(lua::verb_argument(operation.verb));
        command.extend_from_slice(operation.policy.lua_arguments());
        if let Some(now_us) = operation.now_us {
            resp::integer(command, now_us);
        }
    }
}

impl Store for RedisStore {
    fn decide(&self, operation: &Operation<'_>) -> Result<Verdict> {
        let script = Script::of(operation.policy.algorithm());
        self.on_connection(|connection, started| {
            self.encode(&mut connection.command, script, Naming::Sha, operation);
            let mut reply = connection.exchange(&self.options, started)?;
            if matches!(&reply, Reply::Error(line) if line.starts_with(NOSCRIPT)) {
                // The server has not run anything, so this is no second try.
                self.encode(&mut connection.command, script, Naming::Text, operation);
                reply = connection
                    .exchange(&self.options, started)
                    .map_err(|failure| Failure::Unknown(failure.into_error()))?;
            }
            self.settled(reply, |reply| verdict(&reply, operation.policy.limit()))
        })?
    }

    fn reset(&self, key: &[u8]) -> Result<()> {
        self.on_connection(|connection, started| {
            connection.command.clear();
            resp::array(&mut connection.command, 2);
            resp::bulk(&mut connection.command, b"DEL");
            resp::bulk_joined(&mut connection.command, self.prefix(), key);
            let reply = connection.exchange(&self.options, started)?;
            self.settled(reply, |reply| matches!(reply, Reply::Integer(0 | 1)).then_some(()))
        })?
    }

    fn ping(&self) -> Result<Duration> {
        self.on_connection(|connection, _| {
            connection.command.clear();
            resp::array(&mut connection.command, 1);
            resp::bulk(&mut connection.command, b"PING");
            let started = Instant::now();
            let reply = connection.exchange(&self.options, started)?;
            self.settled(reply, |reply| {
                matches!(reply, Reply::Status(status) if status == b"PONG").then(|| started.elapsed())
            })
        })?
    }

    fn kind(&self) -> StoreKind {
        StoreKind::Redis
    }

    fn idle_connections(&self) -> usize {
        self.pool.len()
    }
}

impl sealed::Sealed for RedisStore {}

/// The script's four integers as a verdict, if they can be one.
fn verdict(reply: &Reply, limit: u64) -> Option<Verdict> {
    let Reply::Integers(numbers) = reply else { return None };
    let &[allowed @ (0 | 1), remaining, retry_after, reset_after] = numbers.as_slice() else { return None };
    let allowed = allowed == 1;
    let remaining = u64::try_from(remaining).ok().filter(|&remaining| remaining <= limit)?;
    let wait = |us: i64| u64::try_from(us).ok().filter(|&us| us < MAX_EXACT);
    let retry_after_us = if retry_after == -1 { NEVER_US } else { wait(retry_after)? };
    let reset_after_us = wait(reset_after)?;
    // Passing means waiting for nothing, and the other way round: whatever says otherwise is no decision of ours.
    (allowed == (retry_after_us == 0)).then_some(Verdict {
        allowed,
        remaining,
        retry_after_us,
        reset_after_us,
        delay_us: 0,
    })
}
