//! Policies bound to a store and to options: what a program holds.

#[cfg(feature = "tokio")]
mod aio;

mod batch;

mod builder;

mod call;

mod lease;

mod observed;

mod prepared;

mod rotation;

mod wait;

use std::fmt;
use std::sync::Arc;

use once_cell::race::OnceBox;
use smallvec::SmallVec;

pub use builder::{LimiterBuilder, Policies};
pub use call::{Call, Keys};
pub use lease::invalid_lease;
pub(crate) use rotation::{folded, position};
pub use wait::{WaitStep, Waiting};

use self::prepared::{Manner, Prepared};
use crate::algorithm::MAX_UNITS;
use crate::clock::{Clock, MAX_INSTANT_US, SystemClock};
use crate::decision::{Decision, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::events::Listeners;
use crate::key::{self, KeySpace, KeyStyle, StoredKey};
use crate::metrics::{self, PolicyCounters};
use crate::policy::Policy;
use crate::resilience::Fallback;
use crate::store::{Action, Charge, Operation, Store, Verdicts};

/// Decides by one policy or several, with the state in one store.
///
/// Several policies are charged all or none, in one atomic step. Cheap to build: nothing is sent to the store until
/// the first call, so one limiter per request costs no round trip. All methods may be called from any thread.
///
/// Every verb fails with [`InvalidCost`](ErrorKind::InvalidCost) unless `cost` is between 1 and 2147483647, and with
/// [`StoreUnavailable`](ErrorKind::StoreUnavailable) when the store gives no answer and the failure rule says so.
pub struct Limiter {
    policies: SmallVec<[Policy; 1]>,
    spaces: SmallVec<[KeySpace; 1]>,
    /// How keys are written: by the secret that has been in use for the longest, if there are several.
    style: KeyStyle,
    /// The same by those that take over from it.
    newer: Box<[KeyStyle]>,
    store: Arc<dyn Store>,
    clock: Option<Arc<dyn Clock>>,
    fallback: Fallback,
    leases: Option<Arc<lease::Leases>>,
    /// Per policy, where its decisions are counted.
    counters: SmallVec<[PolicyCounters; 1]>,
    /// Who hears of its decisions; empty as long as nobody does.
    listeners: OnceBox<Listeners>,
}

impl Limiter {
    /// A limiter that fails when the store does and keeps keys readable; [`builder`](Self::builder) has the options.
    pub fn new(policies: impl Into<Policies>, store: Arc<dyn Store>) -> Result<Self> {
        Self::builder(policies).store(store).build()
    }

    /// A limiter with options.
    pub fn builder(policies: impl Into<Policies>) -> LimiterBuilder {
        LimiterBuilder::new(policies.into())
    }

    /// Takes `cost` units of `key`'s budget, if they are there.
    ///
    /// A cost above the limit is no error: it is denied, and its `retry_after` says never.
    pub fn allow(&self, key: impl AsRef<[u8]>, cost: i64) -> Result<Decision> {
        self.decide(Call::allow(key.as_ref(), cost))
    }

    /// What [`allow`](Self::allow) would answer, without taking anything.
    pub fn peek(&self, key: impl AsRef<[u8]>, cost: i64) -> Result<Decision> {
        self.decide(Call::peek(key.as_ref(), cost))
    }

    /// Takes `cost` units now, for a start after [`delay`](Decision::delay): ahead of time where they are not there yet,
    /// by at most `max_wait_us` microseconds; beyond that it is denied and takes nothing.
    ///
    /// Token bucket and GCRA go into debt. A leaky bucket is a queue: each start waits for all before it to leak out, and
    /// a full queue denies. A window policy fails with [`InvalidArgument`](ErrorKind::InvalidArgument):
    /// [`wait`](Self::wait) is for them.
    pub fn reserve(&self, key: impl AsRef<[u8]>, cost: i64, max_wait_us: u64) -> Result<Decision> {
        self.decide(Call::reserve(key.as_ref(), cost, max_wait_us))
    }

    /// Gives `cost` units back: at most what was taken, never above the limit.
    ///
    /// For work that was not done after all. What has come back by itself in the meantime is not given twice. When the
    /// store gives no answer, `open` and `closed` drop it, so that it breaks nobody's request: what was taken comes back
    /// by itself, only later.
    pub fn refund(&self, key: impl AsRef<[u8]>, cost: i64) -> Result<()> {
        self.decide(Call::refund(key.as_ref(), cost)).map(drop)
    }

    /// Takes `cost` units, sleeping until they are there; at most `max_wait_us` microseconds.
    ///
    /// Fails with [`WaitTooLong`](ErrorKind::WaitTooLong) at once, taking nothing, when the wait would be longer, or when
    /// the cost can never pass. Blocks the thread; [`Waiting`] is for hosts that sleep in their own way.
    pub fn wait(&self, key: impl AsRef<[u8]>, cost: i64, max_wait_us: u64) -> Result<Decision> {
        self.wait_for(Call::allow(key.as_ref(), cost), max_wait_us)
    }

    /// [`wait`](Self::wait) for a call with keys of its own, or a token.
    pub fn wait_for(&self, call: Call<'_>, max_wait_us: u64) -> Result<Decision> {
        let mut waiting = Waiting::new(max_wait_us);
        loop {
            match waiting.step(self, call)? {
                WaitStep::Done(decision) => return Ok(decision),
                WaitStep::Sleep { us } => self.sleep_us(us),
            }
        }
    }

    /// Lets time pass on the limiter's clock.
    pub fn sleep_us(&self, us: u64) {
        match &self.clock {
            Some(clock) => clock.sleep_us(us),
            None => std::thread::sleep(std::time::Duration::from_micros(us)),
        }
    }

    /// Answers one [`Call`].
    pub fn decide(&self, call: Call<'_>) -> Result<Decision> {
        // The common call is spared the lists of the others.
        if let ([policy], [space], Keys::One(key), None, [], false) =
            (self.policies.as_slice(), self.spaces.as_slice(), call.keys, call.token, &*self.newer, self.is_observed())
        {
            let cost = valid_cost(call.cost)?;
            if let Action::Reserve { .. } = call.action {
                policy.check_reserves()?;
            }
            let key = space.key(&self.style, key);
            let charges = [Charge { policy, key: &key }];
            let now_us = self.now_us(&call)?;
            let operation = Operation { action: call.action, charges: &charges, cost, now_us, token: None };
            if let Some(leases) = self.leases_for(&operation) {
                return self.decide_leased(leases, &operation, self.manner(&call));
            }
            if let Some(verdicts) = self.store.refusal(&operation) {
                return Ok(self.counted(&operation, self.decision(&operation, verdicts, Source::DenyCache)));
            }
            // Spared the list of verdicts, too.
            return match self.store.decide_one(&operation) {
                Ok(verdict) => Ok(self.counted(&operation, Decision::new(verdict, policy.limit(), 0, Source::Store))),
                Err(error) => self.fall_back(error, &operation, self.manner(&call)),
            };
        }
        let prepared = self.prepare(&call)?;
        self.answer(&prepared, &prepared.charges(&self.policies))
    }

    fn answer(&self, prepared: &Prepared, charges: &[Charge<'_>]) -> Result<Decision> {
        let operation = prepared.operation(charges);
        match self.steps(prepared, charges) {
            None => self.carry_out(&operation, prepared.manner()),
            Some(steps) => self.carry_out_in_steps(&operation, &steps, prepared.manner()),
        }
    }

    fn carry_out(&self, operation: &Operation<'_>, manner: Manner) -> Result<Decision> {
        if let Some(leases) = self.leases_for(operation) {
            return self.decide_leased(leases, operation, manner);
        }
        match self.store.refusal(operation) {
            Some(verdicts) => {
                Ok(self.concluded(operation, self.decision(operation, verdicts, Source::DenyCache), manner))
            }
            None => self.settle(self.store.decide(operation), operation, manner),
        }
    }

    /// The store's verdicts as a decision, or what the failure rule says in their place.
    fn settle(&self, outcome: Result<Verdicts>, operation: &Operation<'_>, manner: Manner) -> Result<Decision> {
        match outcome {
            Ok(verdicts) => Ok(self.concluded(operation, self.decision(operation, verdicts, Source::Store), manner)),
            Err(error) => self.fall_back(error, operation, manner),
        }
    }

    #[cold]
    fn fall_back(&self, error: Error, operation: &Operation<'_>, manner: Manner) -> Result<Decision> {
        if let Some(kind) = error.store_kind() {
            metrics::count_error(kind);
        }
        self.tell_store_error(operation, &error, manner);
        let decision = self.fallback.decide(manner.on_error, error, &self.policies, operation)?;
        if operation.action == Action::Refund && decision.source() != Source::Local {
            metrics::count_dropped_refund();
        }
        Ok(self.concluded(operation, decision, manner))
    }

    /// A decision that takes something is counted under the policy that ruled.
    #[inline]
    fn counted(&self, operation: &Operation<'_>, decision: Decision) -> Decision {
        if let (Action::Allow | Action::Reserve { .. }, Some(counters)) =
            (operation.action, self.counters.get(decision.policy()))
        {
            metrics::count(*counters, &decision);
        }
        decision
    }

    /// Forgets what `key` has used: its budget is whole again.
    pub fn reset<'a>(&self, keys: impl Into<Keys<'a>>) -> Result<()> {
        let (keys, started) = (self.all_keys(&keys.into())?, self.started());
        let outcome = keys.iter().try_for_each(|key| {
            self.forget_leases(key);
            self.store.reset(key)
        });
        outcome.inspect_err(|error| self.tell_reset_error(&keys, error, started))
    }

    /// Forgets what this host has leased of a key.
    fn forget_leases(&self, key: &StoredKey) {
        if let Some(leases) = &self.leases {
            leases.forget(key);
        }
    }

    /// Forgets what a call with a token took, so that the token is as good as new.
    fn forget_token(&self, call: &Call<'_>) -> Result<()> {
        self.tokens_of(call)?.iter().try_for_each(|token| self.store.reset(token))
    }

    /// The policies it decides by, in the order of [`Decision::policy`].
    pub fn policies(&self) -> &[Policy] {
        &self.policies
    }

    /// The store it keeps its state in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The present in microseconds since 1970: by the limiter's clock, or the wall clock where it has none. It is what
    /// headers count from, and no instant of a store.
    pub fn wall_clock_us(&self) -> u64 {
        self.clock.as_ref().map_or_else(|| SystemClock.now_us(), |clock| clock.now_us())
    }

    fn now_us(&self, call: &Call<'_>) -> Result<Option<u64>> {
        match call.now_us {
            Some(now_us) if now_us == 0 || now_us >= MAX_INSTANT_US => {
                let detail = format!("must be above 0 and below 2^52 microseconds since 1970, got {now_us}");
                Err(Error::argument_error(ErrorKind::InvalidArgument, "now_us", detail))
            }
            Some(now_us) => Ok(Some(now_us)),
            None => Ok(self.clock.as_ref().map(|clock| clock.now_us().clamp(1, MAX_INSTANT_US - 1))),
        }
    }

    /// The stored keys of a call, one per policy.
    fn keys(&self, keys: &Keys<'_>) -> Result<SmallVec<[StoredKey; 1]>> {
        match keys {
            Keys::One(key) => Ok(self.spaces.iter().map(|space| space.key(&self.style, key)).collect()),
            Keys::Each(pairs) => {
                let named = |name: &str| pairs.iter().find(|(policy, _)| *policy == name).map(|(_, key)| *key);
                if let Some((stranger, _)) =
                    pairs.iter().find(|(name, _)| self.policies.iter().all(|p| p.name() != *name))
                {
                    return Err(invalid_key(format!("names a policy {stranger:?} that the limiter does not have")));
                }
                let repeats = |at: &usize| pairs[..*at].iter().any(|(name, _)| *name == pairs[*at].0);
                if let Some(at) = (1..pairs.len()).find(repeats) {
                    return Err(invalid_key(format!("names policy {:?} twice", pairs[at].0)));
                }
                let key = |(policy, space): (&Policy, &KeySpace)| match named(policy.name()) {
                    Some(key) => Ok(space.key(&self.style, key)),
                    None => Err(invalid_key(format!("has no entry for policy {:?}", policy.name()))),
                };
                self.policies.iter().zip(&self.spaces).map(key).collect()
            }
        }
    }

    fn token(&self, keys: &[StoredKey], token: &[u8], action: Action) -> Result<StoredKey> {
        if token.is_empty() {
            return Err(Error::argument_error(ErrorKind::InvalidArgument, "token", "must not be empty"));
        }
        Ok(key::token_key(&keys[0], &self.style, token, action == Action::Refund))
    }

    #[inline]
    fn decision(&self, operation: &Operation<'_>, verdicts: Verdicts, source: Source) -> Decision {
        decision(&self.policies, &folded(&self.policies, operation.charges, verdicts), source)
    }
}

/// One decision over the verdicts of several policies.
#[inline]
pub(crate) fn decision(policies: &[Policy], verdicts: &Verdicts, source: Source) -> Decision {
    if let ([policy], [verdict]) = (policies, verdicts.as_slice()) {
        return Decision::new(*verdict, policy.limit(), 0, source);
    }
    decision_of_several(policies, verdicts, source)
}

fn decision_of_several(policies: &[Policy], verdicts: &Verdicts, source: Source) -> Decision {
    let each = policies.iter().zip(verdicts).enumerate().map(|(index, (policy, verdict))| {
        // A limiter has few policies.
        Decision::new(*verdict, policy.limit(), u32::try_from(index).unwrap_or(u32::MAX), source)
    });
    Decision::over(each.collect())
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.store.kind();
        f.debug_struct("Limiter").field("policies", &self.policies).field("store", &kind).finish_non_exhaustive()
    }
}

fn valid_cost(cost: i64) -> Result<u64> {
    u64::try_from(cost).ok().filter(|cost| (1..=MAX_UNITS).contains(cost)).ok_or_else(|| invalid_cost(&cost))
}

/// The error for a cost that is no integer from 1 to 2147483647, for bindings whose costs may be anything.
pub fn invalid_cost(cost: &dyn fmt::Display) -> Error {
    let detail = format!("must be an integer between 1 and {MAX_UNITS}, got {cost}");
    Error::argument_error(ErrorKind::InvalidCost, "cost", detail)
}

fn invalid_key(detail: String) -> Error {
    Error::argument_error(ErrorKind::InvalidArgument, "key", detail)
}
