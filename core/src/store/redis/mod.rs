//! State on a Redis or Valkey server, changed by scripts.

mod connection;

mod fault;

mod pool;

pub(crate) mod resp;

use std::time::{Duration, Instant};

use smallvec::smallvec;

use self::connection::{Connection, Failure};
use self::pool::Pool;
use self::resp::Reply;
use super::dsn::RedisOptions;
use super::{Action, Charge, Operation, Store, StoreKind, TOKEN_LIFETIME, Verdicts, sealed};
use crate::algorithm::{MAX_EXACT, MAX_SPAN_US, NEVER_US, Verdict};
use crate::clock::{Clock as _, MAX_INSTANT_US, SystemClock};
use crate::error::{Error, Result, StoreErrorKind};
use crate::lua::{self, Naming, Script};

/// How often a window of the calendar is looked up anew because the server's clock says another one is on.
const MAX_CORRECTIONS: usize = 3;

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

    /// Writes the command of a decision. `now_us` is for windows that only this side can find in the calendar.
    fn encode(&self, command: &mut Vec<u8>, naming: Naming, operation: &Operation<'_>, now_us: u64) -> Result<()> {
        let Operation { action, charges, cost, token, .. } = *operation;
        let several = charges.len() > 1;
        // The common call is spared its own numbers: the script takes them for these.
        let usual = (action, cost, operation.now_us, token, several) == (Action::Allow, 1, None, None, false);
        let script = if several { Script::several() } else { Script::of(charges[0].policy.machine()) };
        command.clear();
        let keys = charges.len() + usize::from(token.is_some());
        script.write_head(command, naming, keys, charges.len() + usize::from(!usual));
        for key in charges.iter().map(|charge| charge.key).chain(token) {
            resp::bulk_joined(command, self.prefix(), key);
        }
        let (verb, max_wait_us) = match action {
            Action::Peek => (0, 0),
            Action::Allow => (1, 0),
            Action::Reserve { max_wait_us } => (2, max_wait_us.min(MAX_SPAN_US)),
            Action::Refund => (3, 0),
        };
        let lifetime_ms = token.map_or(0, |_| u64::try_from(TOKEN_LIFETIME.as_millis()).unwrap_or(0));
        let call = [verb, cost, max_wait_us, operation.now_us.unwrap_or(0), lifetime_ms];
        if several {
            lua::numbers(command, call.into_iter());
        }
        charges.iter().try_for_each(|charge| charge.policy.write_lua_numbers(command, now_us, several))?;
        if !several && !usual {
            lua::numbers(command, call.into_iter());
        }
        Ok(())
    }

    /// Runs the script, by its hash, and by its text where the server does not know it.
    fn run(
        &self,
        connection: &mut Connection,
        started: Instant,
        operation: &Operation<'_>,
        now_us: u64,
    ) -> std::result::Result<Reply, Failure> {
        self.encode(&mut connection.command, Naming::Sha, operation, now_us).map_err(Failure::Unknown)?;
        let reply = connection.exchange(&self.options, started)?;
        if !matches!(&reply, Reply::Error(line) if line.starts_with(NOSCRIPT)) {
            return Ok(reply);
        }
        // The server has not run anything, so this is no second try.
        self.encode(&mut connection.command, Naming::Text, operation, now_us).map_err(Failure::Unknown)?;
        connection.exchange(&self.options, started).map_err(|failure| Failure::Unknown(failure.into_error()))
    }
}

impl Store for RedisStore {
    fn decide(&self, operation: &Operation<'_>) -> Result<Verdicts> {
        // Only windows of a calendar depend on it; whoever has none is not made to read the clock.
        let calendar = operation.charges.iter().any(|charge| charge.policy.needs_wall_clock());
        let mut now_us = operation.now_us.unwrap_or_else(|| if calendar { SystemClock.now_us() } else { 0 });
        for _ in 0..MAX_CORRECTIONS {
            let decide = || {
                self.on_connection(|connection, started| {
                    let reply = self.run(connection, started, operation, now_us)?;
                    self.settled(reply, |reply| answer(&reply, operation))
                })?
            };
            let answer = match decide() {
                // What was taken is remembered under the token, so asking again takes nothing twice.
                Err(error) if operation.token.is_some() && error.store_kind() == Some(StoreErrorKind::Closed) => {
                    decide()
                }
                answer => answer,
            };
            match answer? {
                Answer::Verdicts(verdicts) => return Ok(verdicts),
                Answer::Elsewhen(server_us) => now_us = server_us,
            }
        }
        Err(Error::internal("the server's clock and this one's do not agree on a window of the calendar"))
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

/// What a script says.
enum Answer {
    Verdicts(Verdicts),
    /// By the server's time another window of the calendar is on; nothing was done.
    Elsewhen(u64),
}

/// A script's reply as verdicts, if it can be some.
fn answer(reply: &Reply, operation: &Operation<'_>) -> Option<Answer> {
    let bytes = match reply {
        Reply::Bulk(bytes) if bytes.len() == operation.charges.len() * 40 => bytes,
        &Reply::Integer(now_us) if operation.charges.iter().any(|charge| charge.policy.needs_wall_clock()) => {
            return u64::try_from(now_us).ok().filter(|&now_us| now_us < MAX_INSTANT_US).map(Answer::Elsewhen);
        }
        _ => return None,
    };
    if let [charge] = operation.charges {
        // The common case, without iterators that the compiler does not see through.
        return limited(bytes, charge, operation).map(|verdict| Answer::Verdicts(smallvec![verdict]));
    }
    let verdicts = bytes.chunks_exact(40).zip(operation.charges);
    verdicts.map(|(bytes, charge)| limited(bytes, charge, operation)).collect::<Option<_>>().map(Answer::Verdicts)
}

/// One verdict, within the limit of its policy.
fn limited(bytes: &[u8], charge: &Charge<'_>, operation: &Operation<'_>) -> Option<Verdict> {
    let limit = charge.policy.limit();
    let mut verdict = verdict(bytes)?;
    if operation.token.is_some() {
        // What is remembered may be of a policy with a higher limit.
        verdict.remaining = verdict.remaining.min(limit);
    }
    (verdict.remaining <= limit).then_some(verdict)
}

fn verdict(bytes: &[u8]) -> Option<Verdict> {
    let mut numbers = bytes.chunks_exact(8).map(|bytes| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes));
    let allowed = match exact(numbers.next()?)? {
        flag @ (0 | 1) => flag == 1,
        _ => return None,
    };
    let remaining = exact(numbers.next()?)?;
    let retry_after_us = match numbers.next()? {
        -1.0 => NEVER_US,
        us => exact(us)?,
    };
    let (reset_after_us, delay_us) = (exact(numbers.next()?)?, exact(numbers.next()?)?);
    // Passing means waiting for nothing, and the other way round: whatever says otherwise is no decision of ours.
    (allowed == (retry_after_us == 0)).then_some(Verdict {
        allowed,
        remaining,
        retry_after_us,
        reset_after_us,
        delay_us,
    })
}

/// A double as the whole number it has to be, below 2^53.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::float_cmp)]
fn exact(number: f64) -> Option<u64> {
    // A cast from float saturates, and takes NaN to 0; neither gives the same float again.
    let whole = number as u64;
    (whole < MAX_EXACT && whole as f64 == number).then_some(whole)
}
