//! State on Redis or Valkey servers, changed by scripts.

#[cfg(feature = "tokio")]
mod aio;

mod batch;

mod cluster;

mod command;

mod connection;

mod deadline;

mod fault;

/// Only for the harness in `fuzz/`, which is built with this flag.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing;

mod hold;

mod knock;

mod node;

mod pool;

mod redirect;

mod resolve;

pub(crate) mod resp;

mod route;

mod sentinel;

mod setup;

mod slot;

mod stream;

mod tls;

use std::cell::Cell;
use std::hash::{Hash as _, Hasher as _};
use std::thread;
use std::time::{Duration, Instant};

use siphasher::sip::SipHasher13;

use self::command::{Answer, answer};
use self::connection::{Connection, Failure};
use self::deadline::Deadline;
use self::knock::LOOK;
use self::node::Network;
use self::redirect::Redirect;
use self::resp::{Expected, Reply};
use self::route::{Route, Target};
use self::tls::Tls;
use super::dsn::{RedisOptions, StoreClock};
use super::{Held, Hold, Operation, Store, StoreKind, Verdicts, sealed};
use crate::clock::{Clock as _, SystemClock};
use crate::error::{Error, Result, StoreErrorKind};
use crate::lua::Naming;
use crate::resilience::{BreakerState, DenyCache};

/// How often a window of the calendar is looked up anew because the server's clock says another one is on.
const MAX_CORRECTIONS: usize = 3;

const CLOCKS_DISAGREE: &str = "the server's clock and this one's do not agree on a window of the calendar";

/// How often a command is sent on from server to server, or to one again with its script's text.
const MAX_HOPS: usize = 16;

/// How long a slot that is being moved is given until its keys are together again.
const TRY_AGAIN: Duration = Duration::from_millis(5);

/// Keeps state on one server, or on the servers of a deployment. One decision is one `EVALSHA`: one write, one read.
///
/// A command is sent again only when the server cannot have run it: after `NOSCRIPT`, `MOVED`, `ASK` and `TRYAGAIN`, or
/// when a connection took no byte of it. Whatever else fails is an error, and its connection is closed.
#[derive(Debug)]
pub struct RedisStore {
    network: Network,
    route: Route,
    deny_cache: DenyCache,
}

/// What came of sending a command.
enum Sent<R> {
    Done(R),
    /// The server refused, and the connection is as good as before.
    Refused(Error),
    /// The command belongs elsewhere, or needs its script's text.
    Elsewhere(Redirect),
}

/// How a command is sent.
#[derive(Clone, Copy)]
struct Way {
    naming: Naming,
    /// The node is to answer for a slot that it is only about to get.
    asking: bool,
}

impl RedisStore {
    /// A store on the servers that `options` name; reads the files of certificates, and connects on first use.
    pub fn new(options: RedisOptions) -> Result<Self> {
        let tls = options.tls.as_ref().map(Tls::new).transpose()?;
        let network = Network { options, tls };
        Ok(Self { route: Route::new(&network), deny_cache: DenyCache::new(network.options.deny_cache), network })
    }

    /// Where the servers are and how they are talked to.
    pub fn options(&self) -> &RedisOptions {
        &self.network.options
    }

    fn prefix(&self) -> &[u8] {
        self.network.options.prefix.as_bytes()
    }

    /// Sends a command to where its key is, unless that server has kept too many waiting.
    fn call<R>(
        &self,
        key: Option<&[u8]>,
        deadline: &Deadline,
        encode: impl Fn(&mut Vec<u8>, Naming) -> Result<()>,
        read: impl Fn(Reply) -> Option<R>,
    ) -> Result<R> {
        self.route.admit(key, &self.network, LOOK)?;
        let outcome = self.send_on(key, deadline, encode, read);
        self.route.note(key, outcome.as_ref().err());
        outcome
    }

    /// Sends a command to where its key is, and on from there as the servers say.
    fn send_on<R>(
        &self,
        key: Option<&[u8]>,
        deadline: &Deadline,
        encode: impl Fn(&mut Vec<u8>, Naming) -> Result<()>,
        read: impl Fn(Reply) -> Option<R>,
    ) -> Result<R> {
        let mut target = self.route.target(key, &self.network, deadline)?;
        let mut way = Way { naming: Naming::Sha, asking: false };
        let mut now = deadline.started();
        for _ in 0..MAX_HOPS {
            let sent = target.on_connection(&self.network, deadline, now, |connection, now| {
                send(connection, deadline, now, way, &encode, &read)
            });
            match sent {
                Ok(Sent::Done(result)) => return Ok(result),
                Ok(Sent::Refused(error)) => return Err(error),
                Ok(Sent::Elsewhere(Redirect::Later)) if deadline.left(Instant::now()) >= TRY_AGAIN * 2 => {
                    thread::sleep(TRY_AGAIN);
                }
                Ok(Sent::Elsewhere(redirect)) => (target, way) = self.sent_on(&redirect, target, way)?,
                Err(Failure::Unknown(error)) => {
                    self.route.doubt(&error);
                    return Err(error);
                }
                Err(Failure::NotSent(error)) => {
                    match self.route.instead_of(&target, &error, key, &self.network, deadline) {
                        Some(other) => (target, way.asking) = (other, false),
                        None => return Err(error),
                    }
                }
            }
            now = Instant::now();
        }
        Err(Error::unavailable(StoreErrorKind::Loading, "the command was sent on from server to server without end"))
    }

    /// Where a command goes next, and how.
    fn sent_on<'a>(&'a self, redirect: &Redirect, target: Target<'a>, way: Way) -> Result<(Target<'a>, Way)> {
        let anew = |asking| Way { naming: Naming::Sha, asking };
        let (next, way) = match redirect {
            Redirect::Text => (Some(target), Way { naming: Naming::Text, ..way }),
            Redirect::Moved { slot, address } => (self.route.moved(*slot, address, &self.network), anew(false)),
            Redirect::Ask { address } => (self.route.at(address, &self.network), anew(true)),
            Redirect::Later => {
                let why = "the slot of the key is being moved to another node";
                return Err(Error::unavailable(StoreErrorKind::Loading, why));
            }
        };
        let why = "the server is a node of a cluster: name it with redis+cluster:// instead of redis://";
        next.map(|next| (next, way)).ok_or_else(|| Error::unavailable(StoreErrorKind::Protocol, why))
    }

    /// Decides within a deadline that is running already.
    fn decide_within(&self, operation: &Operation<'_>, deadline: &Deadline) -> Result<Verdicts> {
        self.route.check_keys(keys_of(operation))?;
        let mut now_us = calendar_time(operation);
        // Written where it stays, and not handed from one to the other on the way back.
        let answered = Cell::new(None);
        for _ in 0..MAX_CORRECTIONS {
            let decide = || {
                self.call(
                    operation.charges.first().map(|charge| charge.key),
                    deadline,
                    |out, naming| command::encode(out, self.prefix(), naming, operation, now_us),
                    |reply| answer(&reply, operation).map(|answer| answered.set(Some(answer))),
                )
            };
            match decide() {
                // What was taken is remembered under the token, so asking again takes nothing twice.
                Err(error) if operation.token.is_some() && error.store_kind() == Some(StoreErrorKind::Closed) => {
                    decide()
                }
                outcome => outcome,
            }?;
            match answered.take() {
                Some(Answer::Verdicts(verdicts, snapshot)) => {
                    self.deny_cache.learn(operation, snapshot.as_ref());
                    return Ok(verdicts);
                }
                Some(Answer::Elsewhen(server_us)) => now_us = server_us,
                None => break,
            }
        }
        Err(Error::internal(CLOCKS_DISAGREE))
    }

    /// The operation at the time it is decided at: the caller's, where the server is not to be asked for its own.
    fn timed<'a>(&self, operation: &Operation<'a>) -> Operation<'a> {
        match self.network.options.clock {
            StoreClock::Server => *operation,
            StoreClock::Caller => {
                Operation { now_us: Some(operation.now_us.unwrap_or_else(|| SystemClock.now_us())), ..*operation }
            }
        }
    }
}

/// Sends a command on a connection and reads its reply.
fn send<R>(
    connection: &mut Connection,
    deadline: &Deadline,
    now: Instant,
    way: Way,
    encode: impl Fn(&mut Vec<u8>, Naming) -> Result<()>,
    read: impl Fn(Reply) -> Option<R>,
) -> std::result::Result<Sent<R>, Failure> {
    connection.command.clear();
    if way.asking {
        command::word(&mut connection.command, b"ASKING");
    }
    encode(&mut connection.command, way.naming).map_err(Failure::Unknown)?;
    let reply = if way.asking {
        connection.begin(now, deadline.of_exchange(now))?;
        let granted = connection.next_reply(Expected::Answer, false).map_err(Failure::Unknown)?;
        let reply = connection.next_reply(Expected::Answer, true).map_err(Failure::Unknown)?;
        if let Reply::Error(_) = granted { granted } else { reply }
    } else {
        connection.exchange(deadline, now, Expected::Answer)?
    };
    settled(reply, connection.address(), read)
}

/// A reply that is an error becomes one; it leaves the connection in order, unless it leads to the wrong place.
fn settled<R>(
    reply: Reply,
    address: &super::dsn::Address,
    read: impl Fn(Reply) -> Option<R>,
) -> std::result::Result<Sent<R>, Failure> {
    if let Reply::Error(line) = &reply {
        if let Some(redirect) = Redirect::of(&reply, address) {
            return Ok(Sent::Elsewhere(redirect));
        }
        let error = fault::server(address, line);
        return if fault::spoils_connection(&error) { Err(Failure::Unknown(error)) } else { Ok(Sent::Refused(error)) };
    }
    match read(reply) {
        Some(result) => Ok(Sent::Done(result)),
        None => Err(Failure::Unknown(fault::protocol(address, "with numbers that make no decision"))),
    }
}

/// All keys that a command names.
fn keys_of<'a>(operation: &Operation<'a>) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    operation.charges.iter().map(|charge| charge.key).chain(operation.token)
}

/// The instant at which windows of a calendar are looked up; whoever has none is not made to read the clock.
fn calendar_time(operation: &Operation<'_>) -> u64 {
    let calendar = operation.charges.iter().any(|charge| charge.policy.needs_wall_clock());
    operation.now_us.unwrap_or_else(|| if calendar { SystemClock.now_us() } else { 0 })
}

impl Store for RedisStore {
    #[cfg(feature = "tokio")]
    fn asynchronous(&self) -> Option<&dyn super::AsyncStore> {
        Some(self)
    }

    fn decide(&self, operation: &Operation<'_>) -> Result<Verdicts> {
        let deadline = Deadline::start(&self.network.options);
        match self.network.options.clock {
            StoreClock::Server => self.decide_within(operation, &deadline),
            StoreClock::Caller => self.decide_within(&self.timed(operation), &deadline),
        }
    }

    fn decide_many(&self, operations: &[Operation<'_>]) -> Vec<Result<Verdicts>> {
        self.decide_in_batch(operations)
    }

    fn refusal(&self, operation: &Operation<'_>) -> Option<Verdicts> {
        match self.network.options.clock {
            StoreClock::Server => self.deny_cache.refusal(operation),
            StoreClock::Caller => self.deny_cache.refusal(&self.timed(operation)),
        }
    }

    fn reset(&self, key: &[u8]) -> Result<()> {
        self.deny_cache.forget(key);
        self.call(
            Some(key),
            &Deadline::start(&self.network.options),
            |out, _| {
                command::delete(out, self.prefix(), key);
                Ok(())
            },
            |reply| matches!(reply, Reply::Integer(0 | 1)).then_some(()),
        )
    }

    fn hold(&self, hold: &Hold<'_>) -> Result<Held> {
        self.hold_within(hold, &Deadline::start(&self.network.options))
    }

    fn ping(&self) -> Result<Duration> {
        let started = Cell::new(Instant::now());
        self.call(
            None,
            &Deadline::start(&self.network.options),
            |out, _| {
                command::word(out, b"PING");
                started.set(Instant::now());
                Ok(())
            },
            |reply| matches!(reply, Reply::Status(status) if status == b"PONG").then(|| started.get().elapsed()),
        )
    }

    fn kind(&self) -> StoreKind {
        self.route.kind()
    }

    fn lessor(&self) -> Option<u64> {
        let options = &self.network.options;
        let mut hasher = SipHasher13::new();
        (&options.servers, options.database, &options.prefix).hash(&mut hasher);
        Some(hasher.finish())
    }

    fn breaker(&self) -> BreakerState {
        self.route.breaker_state()
    }

    fn idle_connections(&self) -> usize {
        self.route.idle_connections()
    }
}

impl sealed::Sealed for RedisStore {}
