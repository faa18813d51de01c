//! Many decisions in one exchange per server.

use std::time::Instant;

use super::command::{self, Answer, answer, script_of};
use super::connection::{Connection, Failure};
use super::deadline::Deadline;
use super::knock::LOOK;
use super::redirect::Redirect;
use super::resp::{Expected, Reply};
use super::route::Target;
use super::{RedisStore, Sent, calendar_time, keys_of, settled};
use crate::error::{Error, Result};
use crate::lua::{Naming, Script};
use crate::store::dsn::Address;
use crate::store::{Operation, Verdicts};

/// No more commands than this are under way at once: their replies wait in the server's memory meanwhile.
pub(super) const MAX_UNDER_WAY: usize = 1000;

/// The operations of a batch, and what has come of each so far.
pub(super) struct Batch<'a> {
    pub(super) operations: Vec<Operation<'a>>,
    store: &'a RedisStore,
    outcomes: Vec<Option<Result<Verdicts>>>,
    /// Those whose script the server did not know.
    untold: Vec<usize>,
}

/// The operations of a batch that go to one server.
pub(super) struct Part<'r> {
    pub(super) target: Target<'r>,
    /// Their numbers in the batch, in order.
    pub(super) members: Vec<usize>,
}

impl<'a> Batch<'a> {
    /// Keys of one operation that no node can have together are a mistake of the caller: then nothing is left open.
    pub(super) fn of(store: &'a RedisStore, operations: &[Operation<'a>]) -> Self {
        let operations: Vec<_> = operations.iter().map(|operation| store.timed(operation)).collect();
        let misplaced = |(index, operation)| {
            store.route.check_keys(keys_of(operation)).err().map(|error: Error| error.at_index(index))
        };
        let misplaced = operations.iter().enumerate().find_map(misplaced);
        let outcomes = operations.iter().map(|_| misplaced.clone().map(Err)).collect();
        Self { outcomes, operations, store, untold: Vec::new() }
    }

    /// The numbers of those that are open, in order.
    pub(super) fn open(&self) -> Vec<usize> {
        (0..self.operations.len()).filter(|&index| self.outcomes[index].is_none()).collect()
    }

    /// Those whose script has to be told, once.
    pub(super) fn take_untold(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.untold)
    }

    /// The key by which an operation finds its server.
    pub(super) fn key(&self, index: usize) -> Option<&'a [u8]> {
        self.operations[index].charges.first().map(|charge| charge.key)
    }

    /// Adds an operation to the part of its server.
    pub(super) fn assign<'r>(parts: &mut Vec<Part<'r>>, index: usize, target: Target<'r>) {
        match parts.iter_mut().find(|part| part.target.address == target.address) {
            Some(part) => part.members.push(index),
            None => parts.push(Part { target, members: vec![index] }),
        }
    }

    /// Writes the commands of these. A script's text has to be sent once: the commands are carried out in order.
    pub(super) fn write(&self, out: &mut Vec<u8>, prefix: &[u8], members: &[usize], naming: Naming) -> Result<()> {
        out.clear();
        let mut told: Vec<*const Script> = Vec::new();
        for operation in members.iter().map(|&index| &self.operations[index]) {
            let script: *const Script = script_of(operation);
            let naming = if told.contains(&script) { Naming::Sha } else { naming };
            if naming == Naming::Text {
                told.push(script);
            }
            command::encode(out, prefix, naming, operation, calendar_time(operation))?;
        }
        Ok(())
    }

    /// Takes a reply. An error means that the connection is of no use any more.
    pub(super) fn hear(&mut self, index: usize, reply: Reply, from: &Address) -> Result<()> {
        let operation = &self.operations[index];
        match settled(reply, from, |reply| answer(&reply, operation)).map_err(Failure::into_error)? {
            Sent::Done(Answer::Verdicts(verdicts, snapshot)) => {
                self.store.deny_cache.learn(operation, snapshot.as_ref());
                self.outcomes[index] = Some(Ok(verdicts));
            }
            Sent::Refused(error) => self.outcomes[index] = Some(Err(error)),
            Sent::Elsewhere(Redirect::Text) => self.untold.push(index),
            // More than one exchange is needed.
            Sent::Done(Answer::Elsewhen(_)) | Sent::Elsewhere(_) => {}
        }
        Ok(())
    }

    pub(super) fn settle(&mut self, index: usize, outcome: Result<Verdicts>) {
        self.outcomes[index] = Some(outcome);
    }

    /// Nothing more will be known of these.
    pub(super) fn fail(&mut self, members: &[usize], error: &Error) {
        for &index in members {
            self.outcomes[index] = Some(Err(error.clone()));
        }
    }

    pub(super) fn into_outcomes(self) -> Vec<Option<Result<Verdicts>>> {
        self.outcomes
    }
}

impl RedisStore {
    /// Decides each, in order; on each server in one exchange. What a server sends elsewhere goes there alone.
    pub(super) fn decide_in_batch(&self, operations: &[Operation<'_>]) -> Vec<Result<Verdicts>> {
        let deadline = Deadline::start(&self.network.options);
        let mut batch = Batch::of(self, operations);
        for members in batch.open().chunks(MAX_UNDER_WAY) {
            self.exchange(&mut batch, members, Naming::Sha, &deadline);
            let untold = batch.take_untold();
            if !untold.is_empty() {
                self.exchange(&mut batch, &untold, Naming::Text, &deadline);
            }
        }
        for index in batch.open() {
            let outcome = self.decide_within(&batch.operations[index], &deadline);
            batch.settle(index, outcome);
        }
        batch.into_outcomes().into_iter().flatten().collect()
    }

    /// Sends the members to their servers, all of them, and then reads the replies.
    fn exchange(&self, batch: &mut Batch<'_>, members: &[usize], naming: Naming, deadline: &Deadline) {
        let mut parts = Vec::new();
        for &index in members {
            match self.route.target(batch.key(index), &self.network, deadline) {
                Ok(target) => Batch::assign(&mut parts, index, target),
                Err(error) => batch.fail(&[index], &error),
            }
        }
        let mut under_way = Vec::new();
        for part in parts {
            if let Err(error) = part.target.admit(&self.network, LOOK) {
                batch.fail(&part.members, &error);
                continue;
            }
            match self.begin(batch, &part, naming, deadline) {
                Ok(connection) => under_way.push((part, connection)),
                Err(failure) => self.not_under_way(batch, &part, failure),
            }
        }
        for (part, mut connection) in under_way {
            let mut unheard = part.members.as_slice();
            while let [index, rest @ ..] = unheard {
                let reply = connection.next_reply(Expected::Answer, rest.is_empty());
                if let Err(error) = reply.and_then(|reply| batch.hear(*index, reply, connection.address())) {
                    self.route.doubt(&error);
                    part.target.note(Some(&error));
                    batch.fail(unheard, &error);
                    break;
                }
                unheard = rest;
            }
            if unheard.is_empty() {
                part.target.note(None);
                part.target.pool.put(connection);
            }
        }
    }

    /// What becomes of a part that could not be sent.
    pub(super) fn not_under_way(&self, batch: &mut Batch<'_>, part: &Part<'_>, failure: Failure) {
        let is_open = matches!(failure, Failure::NotSent(_)) && self.route.has_others();
        let error = failure.into_error();
        part.target.note(Some(&error));
        self.route.doubt(&error);
        // Nothing has been sent, so where there are other servers one of them may be asked: alone, once it is found.
        if !is_open {
            batch.fail(&part.members, &error);
        }
    }

    /// Sends a part: on a pooled connection, and on a new one where that takes no byte.
    fn begin(
        &self,
        batch: &Batch<'_>,
        part: &Part<'_>,
        naming: Naming,
        deadline: &Deadline,
    ) -> std::result::Result<Box<Connection>, Failure> {
        let now = Instant::now();
        let write = |connection: &mut Connection| {
            batch.write(&mut connection.command, self.prefix(), &part.members, naming).map_err(Failure::Unknown)
        };
        while let Some(mut connection) = part.target.pooled(now) {
            write(&mut connection)?;
            match connection.begin(now, deadline.of_exchange(now)) {
                Ok(()) => return Ok(connection),
                Err(Failure::NotSent(_)) => part.target.pool.clear(),
                Err(failure) => return Err(failure),
            }
        }
        let mut connection = part.target.connect(&self.network, deadline).map_err(Failure::NotSent)?;
        write(&mut connection)?;
        let now = Instant::now();
        connection.begin(now, deadline.of_exchange(now))?;
        Ok(connection)
    }
}
