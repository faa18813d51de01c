//! A step on locks and leases as a command, and its reply.

use super::command::exact;
use super::deadline::Deadline;
use super::resp::{self, Reply};
use super::{RedisStore, StoreClock};
use crate::algorithm::in_flight::Held;
use crate::clock::{Clock as _, SystemClock};
use crate::error::Result;
use crate::lua::{self, Naming, Script};
use crate::store::{Hold, Kept};

impl RedisStore {
    pub(super) fn hold_within(&self, hold: &Hold<'_>, deadline: &Deadline) -> Result<Held> {
        self.call(Some(hold.key), deadline, self.encode_hold(hold), |reply| read(&reply))
    }

    /// What writes the command of a step.
    pub(super) fn encode_hold(&self, hold: &Hold<'_>) -> impl Fn(&mut Vec<u8>, Naming) -> Result<()> {
        let at_caller = self.network.options.clock == StoreClock::Caller;
        let now_us = hold.now_us.or_else(|| at_caller.then(|| SystemClock.now_us())).unwrap_or(0);
        move |out, naming| {
            encode(out, self.prefix(), naming, hold, now_us);
            Ok(())
        }
    }
}

fn encode(command: &mut Vec<u8>, prefix: &[u8], naming: Naming, hold: &Hold<'_>, now_us: u64) {
    let request = &hold.request;
    let script = match hold.kept {
        Kept::AsLock => Script::lock(),
        Kept::AsLeases => Script::in_flight(),
    };
    script.write_head(command, naming, 1, 2);
    resp::bulk_joined(command, prefix, hold.key);
    lua::numbers(command, [request.act as u64, request.limit, request.ttl_us, now_us].into_iter());
    resp::bulk(command, format!("{:032x}", request.holder).as_bytes());
}

pub(super) fn read(reply: &Reply) -> Option<Held> {
    let Reply::Bulk(bytes) = reply else { return None };
    let mut numbers = bytes.chunks_exact(8).map(|bytes| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes));
    let mut next = || exact(numbers.next()?);
    let (done, in_flight, wait_us) = (next()?, next()?, next()?);
    (bytes.len() == 24 && done < 2).then_some(Held { done: done == 1, in_flight, wait_us })
}
