//! The Redis store without blocking, for tokio: one connection per server that all calls of a process share.

mod batch;

mod link;

pub(super) mod node;

mod route;

mod stream;

use std::time::{Duration, Instant};

use tokio::time::{sleep, timeout};

use super::command::{self, Answer, answer};
use super::connection::Failure;
use super::deadline::Deadline;
use super::redirect::Redirect;
use super::resp::{Expected, Reply};
use super::{MAX_CORRECTIONS, MAX_HOPS, RedisStore, Sent, TRY_AGAIN, Way, calendar_time, keys_of, settled};
use crate::error::{Error, Result, StoreErrorKind};
use crate::lua::Naming;
use crate::store::{AsyncStore, BoxFuture, Held, Hold, Operation, Verdicts};

impl RedisStore {
    /// [`call`](Self::call) without blocking.
    async fn call_async<R>(
        &self,
        key: Option<&[u8]>,
        deadline: &Deadline,
        encode: impl Fn(&mut Vec<u8>, Naming) -> Result<()>,
        read: impl Fn(Reply) -> Option<R>,
    ) -> Result<R> {
        // Whoever drives an event loop only looks.
        self.route.admit(key, &self.network, Duration::ZERO)?;
        let sent = self.send_on_async(key, deadline, encode, read);
        let sent = timeout(deadline.left(Instant::now()), sent).await;
        let outcome = sent.unwrap_or_else(|_| Err(deadline.passed()));
        self.route.note(key, outcome.as_ref().err());
        outcome
    }

    async fn send_on_async<R>(
        &self,
        key: Option<&[u8]>,
        deadline: &Deadline,
        encode: impl Fn(&mut Vec<u8>, Naming) -> Result<()>,
        read: impl Fn(Reply) -> Option<R>,
    ) -> Result<R> {
        let mut target = self.route.find(key, &self.network, deadline).await?;
        let mut way = Way { naming: Naming::Sha, asking: false };
        let mut commands = Vec::new();
        let mut sent_at = deadline.started();
        for _ in 0..MAX_HOPS {
            commands.clear();
            if way.asking {
                command::word(&mut commands, b"ASKING");
            }
            let mut telling = None;
            if way.naming == Naming::Text {
                let told = target.telling().await;
                if told.is_some_and(|told| told > sent_at) {
                    // Somebody else has told the script in the meantime: a crowd need not send its text each.
                    way.naming = Naming::Sha;
                } else {
                    telling = Some(told);
                }
            }
            encode(&mut commands, way.naming)?;
            sent_at = Instant::now();
            let replies = 1 + usize::from(way.asking);
            let exchanged = target.exchange(&self.network, deadline, &commands, replies, Expected::Answer).await;
            if let (Some(mut told), Ok(_)) = (telling, &exchanged) {
                *told = Some(Instant::now());
            }
            let sent = exchanged.and_then(|mut replies| {
                // Of two replies the first is that to ASKING; only its refusal matters.
                let refused = replies.len() == 2 && matches!(replies[0], Reply::Error(_));
                let reply = if refused { replies.swap_remove(0) } else { replies.pop().unwrap_or(Reply::Null) };
                settled(reply, &target.address, &read)
            });
            match sent {
                Ok(Sent::Done(result)) => return Ok(result),
                Ok(Sent::Refused(error)) => return Err(error),
                Ok(Sent::Elsewhere(Redirect::Later)) if deadline.left(Instant::now()) >= TRY_AGAIN * 2 => {
                    sleep(TRY_AGAIN).await;
                }
                Ok(Sent::Elsewhere(redirect)) => (target, way) = self.sent_on(&redirect, target, way)?,
                Err(Failure::Unknown(error)) => {
                    target.part().await;
                    self.route.doubt(&error);
                    return Err(error);
                }
                Err(Failure::NotSent(error)) => {
                    self.route.doubt(&error);
                    match self.route.find_instead_of(&target, key, &self.network, deadline).await {
                        Some(other) => (target, way.asking) = (other, false),
                        None => return Err(error),
                    }
                }
            }
        }
        Err(Error::unavailable(StoreErrorKind::Loading, "the command was sent on from server to server without end"))
    }

    /// [`decide_within`](Self::decide_within) without blocking.
    async fn decide_within_async(&self, operation: &Operation<'_>, deadline: &Deadline) -> Result<Verdicts> {
        self.route.check_keys(keys_of(operation))?;
        let mut now_us = calendar_time(operation);
        for _ in 0..MAX_CORRECTIONS {
            let decide = || {
                self.call_async(
                    operation.charges.first().map(|charge| charge.key),
                    deadline,
                    |out, naming| command::encode(out, self.prefix(), naming, operation, now_us),
                    |reply| answer(&reply, operation),
                )
            };
            let answer = match decide().await {
                // What was taken is remembered under the token, so asking again takes nothing twice.
                Err(error) if operation.token.is_some() && error.store_kind() == Some(StoreErrorKind::Closed) => {
                    decide().await
                }
                answer => answer,
            };
            match answer? {
                Answer::Verdicts(verdicts, snapshot) => {
                    self.deny_cache.learn(operation, snapshot.as_ref());
                    return Ok(verdicts);
                }
                Answer::Elsewhen(server_us) => now_us = server_us,
            }
        }
        Err(Error::internal(super::CLOCKS_DISAGREE))
    }
}

impl AsyncStore for RedisStore {
    fn decide<'a>(&'a self, operation: &'a Operation<'a>) -> BoxFuture<'a, Result<Verdicts>> {
        Box::pin(async move {
            self.decide_within_async(&self.timed(operation), &Deadline::start(&self.network.options)).await
        })
    }

    fn decide_many<'a>(&'a self, operations: &'a [Operation<'a>]) -> BoxFuture<'a, Vec<Result<Verdicts>>> {
        Box::pin(self.decide_in_batch_async(operations))
    }

    fn reset<'a>(&'a self, key: &'a [u8]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            self.deny_cache.forget(key);
            let deadline = Deadline::start(&self.network.options);
            let encode = |out: &mut Vec<u8>, _| {
                command::delete(out, self.prefix(), key);
                Ok(())
            };
            let read = |reply| matches!(reply, Reply::Integer(0 | 1)).then_some(());
            self.call_async(Some(key), &deadline, encode, read).await
        })
    }

    fn hold<'a>(&'a self, hold: &'a Hold<'a>) -> BoxFuture<'a, Result<Held>> {
        Box::pin(async move {
            let deadline = Deadline::start(&self.network.options);
            let read = |reply| super::hold::read(&reply);
            self.call_async(Some(hold.key), &deadline, self.encode_hold(hold), read).await
        })
    }

    fn ping(&self) -> BoxFuture<'_, Result<std::time::Duration>> {
        Box::pin(async move {
            let deadline = Deadline::start(&self.network.options);
            let encode = |out: &mut Vec<u8>, _| {
                command::word(out, b"PING");
                Ok(())
            };
            let read = |reply| matches!(reply, Reply::Status(status) if status == b"PONG").then_some(());
            let started = Instant::now();
            self.call_async(None, &deadline, encode, read).await?;
            Ok(started.elapsed())
        })
    }
}
