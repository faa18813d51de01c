//! Leases: units taken from a server in advance, which this host's processes spend without asking it.
//!
//! A call takes what it needs from the host's pool of its key. Where there is too little, one caller at a time goes to the
//! server for more than he needs, the others for what they need. What a pool has too little of goes back first, in the
//! same exchange, so that the server decides as if there had been no lease.

mod ledger;

mod pools;

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use self::ledger::Entry;
pub(super) use self::pools::Leases;
use self::pools::Rest;
pub use self::pools::invalid_lease;
use super::Limiter;
use super::prepared::Manner;
use crate::algorithm::Verdict;
use crate::algorithm::leased::{self, Deposit};
use crate::clock::boot_time_us;
use crate::decision::{Decision, Source};
use crate::error::{Error, Result};
use crate::key::StoredKey;
use crate::resilience::BreakerState;
use crate::store::{Action, Charge, Operation, Verdicts};

/// So much of the time until a window's end, one part in so many, is left unused: by how much two clocks may differ in
/// their speed.
const DRIFT: u64 = 1_000;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/leases.md")]
struct Page;

/// What goes back to the server.
type Rests = SmallVec<[Rest; 1]>;

/// How far a call gets without the server.
enum Entered {
    /// To its end; and perhaps something has to go back.
    Decided(Decision, Rests),
    /// To a request.
    Leaves(Trip),
}

/// A request that is about to be sent.
struct Trip {
    /// What the pool had, too little for the call: it goes back first.
    back: Rests,
    action: Action,
    /// Doublings of a lease that was claimed.
    claimed: Option<u64>,
    /// What the pool has beside it, for a look.
    beside: u64,
    pool: StoredKey,
    /// Before the request was sent, by the pool's clock.
    sent_us: u64,
}

impl Trip {
    fn operations<'a>(&self, back: &'a [[Charge<'a>; 1]], asked: &Operation<'a>) -> Operations<'a> {
        let back = self.back.iter().zip(back).map(|(rest, charges)| rest.operation(charges));
        back.chain([Operation { action: self.action, ..*asked }]).collect()
    }
}

type Operations<'a> = SmallVec<[Operation<'a>; 2]>;

impl Limiter {
    /// Gives back what this process has leased and nobody has spent, of all keys: before a pause, or at the end of a
    /// program. Others of this host go on without it and lease anew.
    ///
    /// Without leases it does nothing. When the store gives no answer, what is on its way is lost until its window ends.
    pub fn return_leases(&self) -> Result<()> {
        let Some(leases) = &self.leases else { return Ok(()) };
        give_back(&self.all_leased(leases))
    }

    #[cfg(feature = "tokio")]
    pub(crate) async fn return_leases_async(&self) -> Result<()> {
        match (&self.leases, self.store.asynchronous()) {
            (Some(leases), Some(store)) => give_back_async(self.all_leased(leases), store).await,
            _ => self.return_leases(),
        }
    }

    fn all_leased(&self, leases: &Leases) -> Rests {
        let now_us = self.clock.as_ref().map(|clock| clock.now_us());
        let entries = ledger::all(leases).into_iter();
        let rests = entries.map(|(pool, entry)| {
            let now_us = entry.now_us.map(|leased_us| now_us.unwrap_or(leased_us));
            entry.leases.take_all(&pool, &entry.key, now_us)
        });
        rests.flatten().collect()
    }

    /// The leases that a call may be paid from: of one policy, taking or looking, without a token.
    #[inline]
    pub(super) fn leases_for(&self, operation: &Operation<'_>) -> Option<&Arc<Leases>> {
        let leases = self.leases.as_ref()?;
        let asks = matches!(operation.action, Action::Allow | Action::Peek);
        // While one secret takes over from another a call is charged under both.
        (asks && operation.token.is_none() && operation.charges.len() == 1).then_some(leases)
    }

    /// The answer to one of many calls, where the pool or what is remembered of the server gives it.
    pub(super) fn known(&self, operation: &Operation<'_>, manner: Manner) -> Option<Decision> {
        if let Some(leases) = self.leases_for(operation) {
            let pool = leases.pool(operation.charges[0].key, operation.now_us.is_some());
            if let Ok((decision, _)) = leases.spend(&pool, operation) {
                return Some(self.concluded(operation, decision, manner));
            }
        }
        let verdicts = self.store.refusal(operation)?;
        Some(self.concluded(operation, self.decision(operation, verdicts, Source::DenyCache), manner))
    }

    /// Answers a call from the pool, or asks the server.
    pub(super) fn decide_leased(
        &self,
        leases: &Arc<Leases>,
        operation: &Operation<'_>,
        manner: Manner,
    ) -> Result<Decision> {
        let (decision, rests) = match self.enter(leases, operation, manner) {
            Entered::Decided(decision, rests) => (Ok(decision), rests),
            Entered::Leaves(trip) => {
                let back = charges(&trip.back);
                let outcomes = match trip.operations(&back, operation).as_slice() {
                    [one] => smallvec![self.store.decide(one)],
                    many => self.store.decide_many(many).into(),
                };
                self.arrive(leases, (operation, manner), &trip, outcomes)
            }
        };
        // The call is answered, whatever becomes of it.
        let _ = give_back(&rests);
        decision
    }

    #[cfg(feature = "tokio")]
    pub(super) async fn decide_leased_async(
        &self,
        leases: &Arc<Leases>,
        operation: &Operation<'_>,
        manner: Manner,
        store: &dyn crate::store::AsyncStore,
    ) -> Result<Decision> {
        let (decision, rests) = match self.enter(leases, operation, manner) {
            Entered::Decided(decision, rests) => (Ok(decision), rests),
            Entered::Leaves(trip) => {
                let back = charges(&trip.back);
                let outcomes = store.decide_many(&trip.operations(&back, operation)).await;
                self.arrive(leases, (operation, manner), &trip, outcomes.into())
            }
        };
        let _ = give_back_async(rests, store).await;
        decision
    }

    fn enter(&self, leases: &Arc<Leases>, operation: &Operation<'_>, manner: Manner) -> Entered {
        let Operation { action, charges, cost, now_us, .. } = *operation;
        let key = charges[0].key;
        let pool = leases.pool(key, now_us.is_some());
        let held = match leases.spend(&pool, operation) {
            Ok((decision, is_old)) => {
                // While the server is away the pool is all there is.
                let goes_back = is_old && self.store.breaker() == BreakerState::Closed;
                let rest = if goes_back { leases.take_old(&pool, key, now_us).ok() } else { None };
                return Entered::Decided(self.concluded(operation, decision, manner), rest.into_iter().collect());
            }
            Err(held) => held,
        };
        if let Some(mut verdicts) = self.store.refusal(operation)
            && verdicts[0].remaining + held < cost
        {
            verdicts[0].remaining += held;
            let decision = self.decision(operation, verdicts, Source::DenyCache);
            let decision = self.concluded(operation, decision, manner);
            return Entered::Decided(decision, Rests::new());
        }
        // Read before it is sent: what is counted from here ends none too late.
        let sent_us = now_us.unwrap_or_else(boot_time_us);
        let direct =
            |pool, beside| Entered::Leaves(Trip { back: Rests::new(), action, claimed: None, beside, pool, sent_us });
        if action == Action::Peek || held > 0 && self.store.breaker() == BreakerState::Open {
            return direct(pool, held);
        }
        let Ok(verdict) = leases.claim(&pool, cost, now_us) else { return direct(pool, held) };
        if verdict.allowed {
            // Somebody has put units in meanwhile.
            return Entered::Decided(self.concluded(operation, leases.decision(&verdict), manner), Rests::new());
        }
        let back = Rest::taken_out(leases, &verdict, verdict.remaining, sent_us, key, now_us).into_iter().collect();
        let most = match verdict.delay_us {
            leased::BUSY => None,
            _ if !ledger::has_room(leases, &pool) => Some(cost),
            doublings => Some(leased::size(cost, doublings, leases.most)),
        };
        let action = most.map_or(action, |most| Action::Lease { most });
        Entered::Leaves(Trip { back, action, claimed: most.map(|_| verdict.delay_us), beside: 0, pool, sent_us })
    }

    /// What came of a request, and what has to go back.
    fn arrive(
        &self,
        leases: &Arc<Leases>,
        (operation, manner): (&Operation<'_>, Manner),
        trip: &Trip,
        mut outcomes: SmallVec<[Result<Verdicts>; 2]>,
    ) -> (Result<Decision>, Rests) {
        let missing = || Error::internal("the store left a call of many unanswered");
        let outcome = outcomes.pop().unwrap_or_else(|| Err(missing()));
        trip.back.iter().zip(&outcomes).for_each(|(rest, outcome)| rest.keep_if_unsent(outcome));
        let outcome = outcome.and_then(|verdicts| verdicts.first().copied().ok_or_else(missing));
        if trip.claimed.is_some() && !outcome.as_ref().is_ok_and(|verdict| verdict.allowed) {
            leases.release(&trip.pool, operation.now_us);
        }
        let mut verdict = match outcome {
            Ok(verdict) => verdict,
            Err(error) => return (self.fall_back(error, operation, manner), Rests::new()),
        };
        let mut rests = Rests::new();
        if trip.claimed.is_some() && verdict.allowed {
            (verdict, rests) = self.put_in(leases, operation, trip, verdict);
        }
        let policy = &self.policies[0];
        if trip.beside > 0 {
            verdict.remaining = (verdict.remaining + trip.beside).min(policy.limit());
            if !verdict.allowed && operation.cost <= verdict.remaining {
                verdict = Verdict { allowed: true, retry_after_us: 0, ..verdict };
            }
        }
        if self.store.breaker() == BreakerState::Closed {
            rests.extend(self.old_ones(operation.now_us));
        }
        (Ok(self.concluded(operation, Decision::new(verdict, policy.limit(), 0, Source::Store), manner)), rests)
    }

    /// Puts what a lease is more than the call into the pool.
    fn put_in(
        &self,
        leases: &Arc<Leases>,
        operation: &Operation<'_>,
        trip: &Trip,
        verdict: Verdict,
    ) -> (Verdict, Rests) {
        let (key, now_us, policy) = (operation.charges[0].key, operation.now_us, &self.policies[0]);
        let (units, window_end_us) = (verdict.retry_after_us - operation.cost, verdict.delay_us);
        let until_end_us = verdict.reset_after_us.saturating_sub(policy.overhang_us());
        let ends_at_us = match now_us {
            Some(_) => window_end_us,
            None => trip.sent_us + until_end_us - until_end_us / DRIFT,
        };
        let deposit =
            Deposit { units, remaining: verdict.remaining, window_end_us, ends_at_us, doublings: trip.claimed };
        let refused = leases.put_in(&trip.pool, key, deposit, now_us);
        if units > 0 && refused.is_none() {
            let at_us = now_us.map_or(trip.sent_us, |_| boot_time_us());
            let entry = || Entry { leases: leases.clone(), key: StoredKey::from_slice(key), now_us, at_us };
            ledger::enter(leases, &trip.pool, entry, now_us, at_us);
        }
        let remaining = (verdict.remaining + units).min(policy.limit());
        (Verdict { remaining, retry_after_us: 0, delay_us: 0, ..verdict }, refused.into_iter().collect())
    }

    /// What this process has leased from the store, and nobody has spent for too long.
    fn old_ones(&self, now_us: Option<u64>) -> Rests {
        let mut rests = Rests::new();
        for (pool, mut entry) in ledger::due(&self.store, now_us.is_some()) {
            match entry.leases.take_old(&pool, &entry.key, now_us) {
                Ok(rest) => rests.push(rest),
                Err(0) => {}
                Err(_) => {
                    let (leases, at_us) = (entry.leases.clone(), boot_time_us());
                    (entry.now_us, entry.at_us) = (now_us, at_us);
                    ledger::enter(&leases, &pool, || entry, now_us, at_us);
                }
            }
        }
        rests
    }
}

/// Gives units back; those of which it is sure that no server has heard stay here.
fn give_back(rests: &Rests) -> Result<()> {
    let Some(store) = rests.first().map(|rest| rest.leases.store.clone()) else { return Ok(()) };
    let charges = charges(rests);
    let operations: Operations<'_> = rests.iter().zip(&charges).map(|(rest, it)| rest.operation(it)).collect();
    given_back(rests, store.decide_many(&operations))
}

#[cfg(feature = "tokio")]
async fn give_back_async(rests: Rests, store: &dyn crate::store::AsyncStore) -> Result<()> {
    if rests.is_empty() {
        return Ok(());
    }
    let charges = charges(&rests);
    let operations: Operations<'_> = rests.iter().zip(&charges).map(|(rest, it)| rest.operation(it)).collect();
    given_back(&rests, store.decide_many(&operations).await)
}

fn given_back(rests: &Rests, outcomes: Vec<Result<Verdicts>>) -> Result<()> {
    rests.iter().zip(&outcomes).for_each(|(rest, outcome)| rest.keep_if_unsent(outcome));
    outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
}

fn charges(rests: &Rests) -> SmallVec<[[Charge<'_>; 1]; 1]> {
    rests.iter().map(|rest| [rest.charge()]).collect()
}
