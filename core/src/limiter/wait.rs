//! Waiting until a call passes, as steps that a host takes in its own way.

use std::hash::{BuildHasher as _, RandomState};

use super::{Call, Limiter};
use crate::algorithm::NEVER_US;
use crate::clock::us_to_seconds;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind, Result};
use crate::store::Action;

/// The most that is slept beyond a wait, so that those who were told the same instant do not all wake at it.
const MAX_SPREAD_US: u64 = 100_000;

/// A wait that is under way.
#[derive(Debug)]
pub struct Waiting<'a> {
    limiter: &'a Limiter,
    call: Call<'a>,
    left_us: u64,
    /// A reservation that has been made; the sleep before its start is all that is left.
    reserved: Option<Decision>,
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitStep {
    /// The call may go ahead.
    Done(Decision),
    /// Sleep so long, then take the next step.
    Sleep {
        /// Microseconds.
        us: u64,
    },
}

impl<'a> Waiting<'a> {
    pub(super) fn new(limiter: &'a Limiter, call: Call<'a>, max_wait_us: u64) -> Self {
        Self { limiter, call, left_us: max_wait_us, reserved: None }
    }

    /// The next step. Fails with [`WaitTooLong`](ErrorKind::WaitTooLong), nothing taken, when no step leads there in time.
    pub fn step(&mut self) -> Result<WaitStep> {
        if let Some(decision) = self.reserved.take() {
            return Ok(WaitStep::Done(decision));
        }
        let reserves = self.limiter.policies().iter().all(super::Policy::reserves);
        self.call.action = if reserves { Action::Reserve { max_wait_us: self.left_us } } else { Action::Allow };
        let decision = self.limiter.decide(self.call)?;
        if decision.allowed() {
            let delay_us = decision.delay_us();
            if delay_us == 0 {
                return Ok(WaitStep::Done(decision));
            }
            self.reserved = Some(decision);
            return Ok(WaitStep::Sleep { us: delay_us + self.spread_us(delay_us) });
        }
        let wait_us = decision.retry_after_us();
        // A reservation was refused because it would be too long; only a full queue, or a failure rule, may say yes later.
        let later = !reserves || decision.degraded() || (self.queues() && decision.reset_after_us() <= self.left_us);
        if wait_us == NEVER_US || wait_us > self.left_us || !later {
            return Err(self.too_long(&decision));
        }
        let us = (wait_us + self.spread_us(wait_us)).min(self.left_us);
        self.left_us -= us;
        Ok(WaitStep::Sleep { us })
    }

    /// Whether a refused reservation may be made later: a full queue gets room.
    fn queues(&self) -> bool {
        use crate::policy::Algorithm;
        self.limiter.policies().iter().any(|policy| matches!(policy.algorithm(), Algorithm::LeakyBucket(_)))
    }

    /// A part of a tenth of the wait, drawn anew each time. With a clock of the caller's there is no crowd to spread.
    fn spread_us(&self, wait_us: u64) -> u64 {
        if self.limiter.clock.is_some() || self.call.now_us.is_some() {
            return 0;
        }
        RandomState::new().hash_one(wait_us) % (wait_us / 10).clamp(1, MAX_SPREAD_US)
    }

    fn too_long(&self, decision: &Decision) -> Error {
        let policy = self.limiter.policies()[decision.policy()].name();
        let wait = match decision.retry_after_us() {
            NEVER_US => format!("the cost {} is above the limit {}", self.call.cost, decision.limit()),
            _ => format!("the wait would be longer than the {} s that are left for it", us_to_seconds(self.left_us)),
        };
        Error::new(ErrorKind::WaitTooLong, format!("policy {policy:?} lets nothing pass in time: {wait}"))
    }
}
