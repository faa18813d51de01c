//! Waiting until a call passes, as steps that a host takes in its own way.

use std::hash::{BuildHasher as _, RandomState};

use super::{Call, Limiter};
use crate::algorithm::NEVER_US;
use crate::clock::us_to_seconds;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Algorithm;
use crate::store::Action;

/// The most that is slept beyond a wait, so that those who were told the same instant do not all wake at it.
const MAX_SPREAD_US: u64 = 100_000;

/// A wait that is under way, taken step by step: the host asks, sleeps as long as it is told, and asks again.
///
/// ```
/// use std::sync::Arc;
/// use ratelimit_core::{Call, Limiter, ManualClock, Policy, WaitStep, Waiting, store};
///
/// let clock = Arc::new(ManualClock::new(1_700_000_000.0));
/// let policy = Policy::token_bucket(1, 1.0, 5.0)?;
/// let limiter = Limiter::builder(policy).store(store::memory(10)?).clock(clock).build()?;
/// let mut waiting = Waiting::new(u64::MAX);
/// assert!(matches!(waiting.step(&limiter, Call::allow("job", 1))?, WaitStep::Done(_)));
/// assert_eq!(Waiting::new(u64::MAX).step(&limiter, Call::allow("job", 1))?, WaitStep::Sleep { us: 5_000_000 });
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
#[derive(Debug)]
pub struct Waiting {
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

impl Waiting {
    /// A wait of at most `max_wait_us` microseconds; `u64::MAX` is as long as it takes.
    pub const fn new(max_wait_us: u64) -> Self {
        Self { left_us: max_wait_us, reserved: None }
    }

    /// The next step. Fails with [`WaitTooLong`](ErrorKind::WaitTooLong), nothing taken, when no step leads there in time.
    ///
    /// Each step of a wait is given the same limiter and the same call; of the call only its instant may change.
    pub fn step(&mut self, limiter: &Limiter, call: Call<'_>) -> Result<WaitStep> {
        if let Some(decision) = self.reserved() {
            return Ok(WaitStep::Done(decision));
        }
        let call = self.question(limiter, call);
        let decision = limiter.decide(call)?;
        self.hear(limiter, &call, decision)
    }

    /// The reservation whose start has come.
    pub(crate) fn reserved(&mut self) -> Option<Decision> {
        self.reserved.take()
    }

    /// What the limiter is to be asked.
    pub(crate) fn question<'a>(&self, limiter: &Limiter, call: Call<'a>) -> Call<'a> {
        let action = if reserves(limiter) { Action::Reserve { max_wait_us: self.left_us } } else { Action::Allow };
        Call { action, ..call }
    }

    /// The step that the limiter's answer to the [`question`](Self::question) leads to.
    pub(crate) fn hear(&mut self, limiter: &Limiter, call: &Call<'_>, decision: Decision) -> Result<WaitStep> {
        let spreads = limiter.clock.is_none() && call.now_us.is_none();
        if decision.allowed() {
            let delay_us = decision.delay_us();
            if delay_us == 0 {
                return Ok(WaitStep::Done(decision));
            }
            self.reserved = Some(decision);
            return Ok(WaitStep::Sleep { us: delay_us + spread_us(delay_us, spreads) });
        }
        let wait_us = decision.retry_after_us();
        // A reservation was refused because it would be too long; only a full queue, or a failure rule, may say yes later.
        let later =
            !reserves(limiter) || decision.degraded() || (queues(limiter) && decision.reset_after_us() <= self.left_us);
        if wait_us == NEVER_US || wait_us > self.left_us || !later {
            return Err(self.too_long(limiter, call, &decision));
        }
        let us = (wait_us + spread_us(wait_us, spreads)).min(self.left_us);
        if self.left_us != u64::MAX {
            self.left_us -= us;
        }
        Ok(WaitStep::Sleep { us })
    }

    /// Ends a wait early: gives back the slot that it may have reserved, and forgets what a token remembers of it.
    pub fn cancel(&mut self, limiter: &Limiter, call: Call<'_>) -> Result<()> {
        if self.reserved.take().is_none() {
            return Ok(());
        }
        // First, so that nobody is answered from what is being given back.
        limiter.forget_token(&call)?;
        limiter.decide(call.given_back()).map(drop)
    }

    fn too_long(&self, limiter: &Limiter, call: &Call<'_>, decision: &Decision) -> Error {
        let policy = limiter.policies()[decision.policy()].name();
        let wait = match decision.retry_after_us() {
            NEVER_US => format!("the cost {} is above the limit {}", call.cost, decision.limit()),
            _ => format!("the wait would be longer than the {} s that are left for it", us_to_seconds(self.left_us)),
        };
        Error::new(ErrorKind::WaitTooLong, format!("policy {policy:?} lets nothing pass in time: {wait}"))
    }
}

/// Whether the wait is for a reservation; windows are asked again instead.
fn reserves(limiter: &Limiter) -> bool {
    limiter.policies().iter().all(super::Policy::reserves)
}

/// Whether a refused reservation may be made later: a full queue gets room.
fn queues(limiter: &Limiter) -> bool {
    limiter.policies().iter().any(|policy| matches!(policy.algorithm(), Algorithm::LeakyBucket(_)))
}

/// A part of a tenth of the wait, drawn anew each time. With a clock of the caller's there is no crowd to spread.
fn spread_us(wait_us: u64, spreads: bool) -> u64 {
    if !spreads {
        return 0;
    }
    RandomState::new().hash_one(wait_us) % (wait_us / 10).clamp(1, MAX_SPREAD_US)
}
