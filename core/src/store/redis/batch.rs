//! Many decisions in one exchange per server.

use std::time::Instant;

use super::command::{self, Answer, answer, script_of};
use super::connection::{Connection, Failure};
use super::deadline::Deadline;
use super::redirect::Redirect;
use super::resp::{Expected, Reply};
use super::route::Target;
use super::{RedisStore, Sent, calendar_time, keys_of, settled};
use crate::error::{Error, Result};
use crate::lua::{Naming, Script};
use crate::store::{Operation, Verdicts};

/// No more commands than this are under way at once: their replies wait in the server's memory meanwhile.
const MAX_UNDER_WAY: usize = 1000;

/// The operations of a batch that go to one server.
struct Part<'a> {
    target: Target<'a>,
    /// Their numbers in the batch, in order.
    members: Vec<usize>,
}

/// What is known of each operation so far.
struct Outcomes {
    settled: Vec<Option<Result<Verdicts>>>,
    /// Those whose script the server did not know.
    untold: Vec<usize>,
}

impl RedisStore {
    /// Decides each, in order; on each server in one exchange. What a server sends elsewhere goes there alone.
    pub(super) fn decide_in_batch(&self, operations: &[Operation<'_>]) -> Vec<Result<Verdicts>> {
        let deadline = Deadline::start(&self.network.options);
        let operations: Vec<Operation<'_>> = operations.iter().map(|operation| self.timed(operation)).collect();
        let mut outcomes = Outcomes { settled: operations.iter().map(|_| None).collect(), untold: Vec::new() };
        for (index, operation) in operations.iter().enumerate() {
            if let Err(error) = self.route.check_keys(keys_of(operation)) {
                outcomes.settled[index] = Some(Err(error));
            }
        }
        let all: Vec<usize> = (0..operations.len()).filter(|&index| outcomes.settled[index].is_none()).collect();
        for members in all.chunks(MAX_UNDER_WAY) {
            self.exchange(&operations, members, Naming::Sha, &deadline, &mut outcomes);
            let untold = std::mem::take(&mut outcomes.untold);
            if !untold.is_empty() {
                self.exchange(&operations, &untold, Naming::Text, &deadline, &mut outcomes);
                outcomes.untold.clear();
            }
        }
        // Whatever needs more than one exchange.
        let alone = |(outcome, operation): (Option<Result<Verdicts>>, &Operation<'_>)| match outcome {
            Some(outcome) => outcome,
            None => self.decide_within(operation, &deadline),
        };
        outcomes.settled.into_iter().zip(&operations).map(alone).collect()
    }

    /// Sends the members to their servers, all of them, and then reads the replies.
    fn exchange(
        &self,
        operations: &[Operation<'_>],
        members: &[usize],
        naming: Naming,
        deadline: &Deadline,
        outcomes: &mut Outcomes,
    ) {
        let mut under_way = Vec::new();
        for part in self.parts(operations, members, deadline, outcomes) {
            match self.begin(&part, operations, naming, deadline) {
                Ok(connection) => under_way.push((part, connection)),
                // Nothing has been sent, so another server may be asked: alone, by whoever finds it.
                Err(Failure::NotSent(error)) if self.route.has_others() => self.route.doubt(&error),
                Err(failure) => self.fail(&part.members, &failure.into_error(), outcomes),
            }
        }
        for (part, connection) in under_way {
            self.finish(&part, connection, operations, outcomes);
        }
    }

    /// The members by server, each part in order.
    fn parts(
        &self,
        operations: &[Operation<'_>],
        members: &[usize],
        deadline: &Deadline,
        outcomes: &mut Outcomes,
    ) -> Vec<Part<'_>> {
        let mut parts: Vec<Part<'_>> = Vec::new();
        for &index in members {
            let key = operations[index].charges.first().map(|charge| charge.key);
            match self.route.target(key, &self.network, deadline) {
                Ok(target) => match parts.iter_mut().find(|part| part.target.address == target.address) {
                    Some(part) => part.members.push(index),
                    None => parts.push(Part { target, members: vec![index] }),
                },
                Err(error) => outcomes.settled[index] = Some(Err(error)),
            }
        }
        parts
    }

    /// Sends a part: on a pooled connection, and on a new one where that takes no byte.
    fn begin(
        &self,
        part: &Part<'_>,
        operations: &[Operation<'_>],
        naming: Naming,
        deadline: &Deadline,
    ) -> std::result::Result<Connection, Failure> {
        let now = Instant::now();
        while let Some(mut connection) = part.target.pooled(now) {
            self.write(&mut connection.command, part, operations, naming).map_err(Failure::Unknown)?;
            match connection.begin(now, deadline.of_exchange(now)) {
                Ok(()) => return Ok(connection),
                Err(Failure::NotSent(_)) => part.target.pool.clear(),
                Err(failure) => return Err(failure),
            }
        }
        let mut connection = part.target.connect(&self.network, deadline).map_err(Failure::NotSent)?;
        self.write(&mut connection.command, part, operations, naming).map_err(Failure::Unknown)?;
        let now = Instant::now();
        connection.begin(now, deadline.of_exchange(now))?;
        Ok(connection)
    }

    /// Writes the commands of a part. A script's text has to be sent once: the commands are carried out in order.
    fn write(
        &self,
        command: &mut Vec<u8>,
        part: &Part<'_>,
        operations: &[Operation<'_>],
        naming: Naming,
    ) -> Result<()> {
        command.clear();
        let mut told: Vec<*const Script> = Vec::new();
        for operation in part.members.iter().map(|&index| &operations[index]) {
            let script: *const Script = script_of(operation);
            let naming = if told.contains(&script) { Naming::Sha } else { naming };
            if naming == Naming::Text {
                told.push(script);
            }
            command::encode(command, self.prefix(), naming, operation, calendar_time(operation))?;
        }
        Ok(())
    }

    fn finish(
        &self,
        part: &Part<'_>,
        mut connection: Connection,
        operations: &[Operation<'_>],
        outcomes: &mut Outcomes,
    ) {
        for (at, &index) in part.members.iter().enumerate() {
            let operation = &operations[index];
            let reply = connection.next_reply(Expected::Answer, at + 1 == part.members.len());
            let settled = reply
                .map_err(Failure::Unknown)
                .and_then(|reply: Reply| settled(reply, connection.address(), |reply| answer(&reply, operation)));
            outcomes.settled[index] = match settled {
                Ok(Sent::Done(Answer::Verdicts(verdicts))) => Some(Ok(verdicts)),
                Ok(Sent::Refused(error)) => Some(Err(error)),
                Ok(Sent::Elsewhere(Redirect::Text)) => {
                    outcomes.untold.push(index);
                    None
                }
                Ok(Sent::Done(Answer::Elsewhen(_)) | Sent::Elsewhere(_)) => None,
                Err(failure) => {
                    let error = failure.into_error();
                    self.fail(&part.members[at..], &error, outcomes);
                    return;
                }
            };
        }
        part.target.pool.put(connection);
    }

    /// Nothing more is known of these.
    fn fail(&self, members: &[usize], error: &Error, outcomes: &mut Outcomes) {
        self.route.doubt(error);
        for &index in members {
            outcomes.settled[index] = Some(Err(error.clone()));
        }
    }
}
