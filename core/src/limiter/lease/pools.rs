//! The pools of one limiter's keys, and units on their way out of them.

use std::fmt;
use std::hash::{Hash as _, Hasher as _};
use std::sync::Arc;

use siphasher::sip::SipHasher13;

use crate::algorithm::leased::{Deposit, Leased, Step};
use crate::algorithm::{MAX_UNITS, Verdict};
use crate::clock::boot_time_us;
use crate::decision::{Decision, Source};
use crate::error::{Error, ErrorKind, Result, StoreErrorKind};
use crate::key::StoredKey;
use crate::policy::{Algorithm, Policy};
use crate::store::{self, Action, Charge, Operation, Store, Verdicts};

/// A limiter's leases: from where, how large, and to where.
pub(in crate::limiter) struct Leases {
    /// Who leases them out.
    pub(super) store: Arc<dyn Store>,
    pub(super) policy: Policy,
    /// The largest.
    pub(super) most: u64,
    /// Store and policy as a number: units of a changed policy are none of this one's.
    pub(super) lessor: u64,
    /// Where the pools are.
    pools: Arc<dyn Store>,
    spend: Policy,
    claim: Policy,
    release: Policy,
    drain: Policy,
    drain_old: Policy,
}

/// The error for a size of leases that is no integer from 0 to 2147483647, for bindings whose numbers may be anything.
pub fn invalid_lease(lease: &dyn fmt::Display) -> Error {
    let detail = format!("must be an integer between 0 and {MAX_UNITS}, got {lease}");
    Error::argument_error(ErrorKind::InvalidArgument, "lease", detail)
}

/// Units on their way back to the server.
pub(super) struct Rest {
    pub(super) leases: Arc<Leases>,
    key: StoredKey,
    units: u64,
    window_end_us: u64,
    /// When the window ends at the earliest, by the pool's clock.
    ends_at_us: u64,
    now_us: Option<u64>,
}

impl Leases {
    /// Leases of `most` units at most; none where they are off, or of no use: from a store on this host itself.
    pub(in crate::limiter) fn new(
        most: i64,
        policies: &[Policy],
        store: &Arc<dyn Store>,
        pools: Option<Arc<dyn Store>>,
    ) -> Result<Option<Arc<Self>>> {
        let invalid = |detail: String| Err(Error::argument_error(ErrorKind::InvalidArgument, "lease", detail));
        let most = match u64::try_from(most) {
            Ok(0) => return Ok(None),
            Ok(most) if most <= MAX_UNITS => most,
            _ => return Err(invalid_lease(&most)),
        };
        let [policy] = policies else {
            let why = "units of one of them are worth nothing without the others";
            return invalid(format!("goes with one policy, not with {}: {why}", policies.len()));
        };
        policy.check_leases()?;
        let Some(lessor) = store.lessor() else { return Ok(None) };
        let pools = match pools {
            Some(pools) if pools.kind().blocks() => {
                let detail = format!("must be kept in a memory or shared store, got {}", pools.kind().as_str());
                return invalid(detail);
            }
            Some(pools) => pools,
            None => store::embedded()?,
        };
        let mut hasher = SipHasher13::new();
        (lessor, format!("{:?}", policy.algorithm())).hash(&mut hasher);
        let step = |step| Policy::from(Algorithm::Leased(Leased(step)));
        Ok(Some(Arc::new(Self {
            store: store.clone(),
            policy: policy.clone(),
            most,
            lessor: hasher.finish(),
            pools,
            spend: step(Step::Spend),
            claim: step(Step::Claim { most }),
            release: step(Step::Release),
            drain: step(Step::Drain { old_only: false }),
            drain_old: step(Step::Drain { old_only: true }),
        })))
    }

    /// The pool of a stored key. Where callers tell the time, its windows are others.
    #[inline]
    pub(super) fn pool(&self, key: &[u8], by_caller: bool) -> StoredKey {
        let mut pool = StoredKey::new();
        pool.extend_from_slice(if by_caller { b"lc:" } else { b"ls:" });
        pool.extend_from_slice(&self.lessor.to_le_bytes());
        pool.extend_from_slice(key);
        pool
    }

    /// What tells the stores of pools in this process apart.
    pub(super) fn pools_address(&self) -> usize {
        Arc::as_ptr(&self.pools).addr()
    }

    /// Forgets the pools of a key.
    pub(in crate::limiter) fn forget(&self, key: &[u8]) {
        for by_caller in [false, true] {
            // Where a pool cannot be reached it cannot be spent from, either.
            let _ = self.pools.reset(&self.pool(key, by_caller));
        }
    }

    #[inline]
    fn step(&self, step: &Policy, pool: &[u8], action: Action, cost: u64, now_us: Option<u64>) -> Result<Verdict> {
        let charges = [Charge { policy: step, key: pool }];
        self.pools.decide_one(&Operation { action, charges: &charges, cost, now_us, token: None })
    }

    /// Pays a call from the pool, and says whether what is left has been there for too long; or says how many units there
    /// are. A host that cannot keep units has none.
    #[inline]
    pub(super) fn spend(&self, pool: &[u8], operation: &Operation<'_>) -> std::result::Result<(Decision, bool), u64> {
        let Operation { action, cost, now_us, .. } = *operation;
        match self.step(&self.spend, pool, action, cost, now_us) {
            Ok(spent) if spent.allowed => Ok((self.decision(&spent), spent.delay_us > 0 && action == Action::Allow)),
            Ok(spent) => Err(spent.remaining),
            Err(_) => Err(0),
        }
    }

    /// The decision on a call that was paid from the pool.
    #[inline]
    pub(super) fn decision(&self, spent: &Verdict) -> Decision {
        let limit = self.policy.limit();
        let remaining = spent.remaining.min(limit);
        let reset_after_us = spent.reset_after_us + self.policy.overhang_us();
        Decision::new(Verdict { remaining, reset_after_us, delay_us: 0, ..*spent }, limit, 0, Source::Lease)
    }

    pub(super) fn claim(&self, pool: &[u8], cost: u64, now_us: Option<u64>) -> Result<Verdict> {
        self.step(&self.claim, pool, Action::Allow, cost, now_us)
    }

    /// Lets somebody else go for a lease. Where that fails, the claim is over soon.
    pub(super) fn release(&self, pool: &[u8], now_us: Option<u64>) {
        let _ = self.step(&self.release, pool, Action::Allow, 1, now_us);
    }

    /// Puts units into a pool; those that it does not take are to go back.
    pub(super) fn put_in(
        self: &Arc<Self>,
        pool: &[u8],
        key: &[u8],
        deposit: Deposit,
        now_us: Option<u64>,
    ) -> Option<Rest> {
        let step = Policy::from(Algorithm::Leased(Leased(Step::Deposit(deposit))));
        let taken = self.step(&step, pool, Action::Allow, 1, now_us).is_ok_and(|verdict| verdict.allowed);
        let Deposit { units, window_end_us, ends_at_us, .. } = deposit;
        let (leases, key) = (self.clone(), StoredKey::from_slice(key));
        (!taken && units > 0).then_some(Rest { leases, key, units, window_end_us, ends_at_us, now_us })
    }

    /// Takes out what has been in a pool for too long; or says how many units there are.
    pub(super) fn take_old(
        self: &Arc<Self>,
        pool: &[u8],
        key: &[u8],
        now_us: Option<u64>,
    ) -> std::result::Result<Rest, u64> {
        self.take(&self.drain_old, pool, key, now_us)
    }

    /// Takes out what is in a pool.
    pub(super) fn take_all(self: &Arc<Self>, pool: &[u8], key: &[u8], now_us: Option<u64>) -> Option<Rest> {
        self.take(&self.drain, pool, key, now_us).ok()
    }

    fn take(
        self: &Arc<Self>,
        step: &Policy,
        pool: &[u8],
        key: &[u8],
        now_us: Option<u64>,
    ) -> std::result::Result<Rest, u64> {
        let before_us = now_us.unwrap_or_else(boot_time_us);
        let verdict = self.step(step, pool, Action::Allow, 1, now_us).map_err(|_| 0_u64)?;
        let units = if verdict.allowed { verdict.delay_us } else { 0 };
        Rest::taken_out(self, &verdict, units, before_us, key, now_us).ok_or(verdict.remaining)
    }
}

impl Rest {
    /// Units that a step has taken out of a pool, if it has. `before_us` is before that step, so that the end that is
    /// counted from there is none too late.
    pub(super) fn taken_out(
        leases: &Arc<Leases>,
        verdict: &Verdict,
        units: u64,
        before_us: u64,
        key: &[u8],
        now_us: Option<u64>,
    ) -> Option<Self> {
        (units > 0).then(|| Self {
            leases: leases.clone(),
            key: StoredKey::from_slice(key),
            units,
            window_end_us: verdict.retry_after_us,
            ends_at_us: before_us + verdict.reset_after_us,
            now_us,
        })
    }

    pub(super) fn charge(&self) -> Charge<'_> {
        Charge { policy: &self.leases.policy, key: &self.key }
    }

    /// Gives them back.
    pub(super) fn operation<'a>(&self, charges: &'a [Charge<'a>; 1]) -> Operation<'a> {
        let action = Action::Return { window_end_us: self.window_end_us };
        Operation { action, charges, cost: self.units, now_us: self.now_us, token: None }
    }

    /// Puts them into the pool again if no connection was there to give them back on. After any other failure the server
    /// may have them.
    pub(super) fn keep_if_unsent(&self, outcome: &Result<Verdicts>) {
        if outcome.as_ref().is_err_and(|error| error.store_kind() == Some(StoreErrorKind::Refused)) {
            let Self { leases, key, units, window_end_us, ends_at_us, now_us } = self;
            let (units, window_end_us, ends_at_us) = (*units, *window_end_us, *ends_at_us);
            let deposit = Deposit { units, remaining: 0, window_end_us, ends_at_us, doublings: None };
            let _ = leases.put_in(&leases.pool(key, now_us.is_some()), key, deposit, *now_us);
        }
    }
}
