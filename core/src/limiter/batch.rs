//! Many calls at once.

use super::prepared::{Charges, Prepared};
use super::{Call, Limiter};
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::store::{Operation, Verdicts};

impl Limiter {
    /// [`allow`](Self::allow) for each pair of a key and a cost, in order, in as few round trips as the store allows: one
    /// per server. Each decision stands alone; one that is denied changes nothing for the others.
    ///
    /// Fails as a whole, before anything is asked, when an argument is wrong: the error names the index of its pair. Else
    /// each has an outcome of its own.
    ///
    /// ```
    /// use ratelimit_core::{Limiter, Policy, store};
    ///
    /// let limiter = Limiter::new(Policy::token_bucket(5, 1.0, 60.0)?, store::memory(1_000)?)?;
    /// let outcomes = limiter.allow_many(&[("a", 3), ("b", 6), ("a", 3)])?;
    /// let allowed: Vec<bool> = outcomes.into_iter().flatten().map(|decision| decision.allowed()).collect();
    /// assert_eq!(allowed, [true, false, false]);
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    pub fn allow_many<K: AsRef<[u8]>>(&self, calls: &[(K, i64)]) -> Result<Vec<Result<Decision>>> {
        let calls: Vec<Call<'_>> = calls.iter().map(|(key, cost)| Call::allow(key.as_ref(), *cost)).collect();
        self.decide_many(&calls)
    }

    /// [`allow_many`](Self::allow_many) for calls of all kinds.
    pub fn decide_many(&self, calls: &[Call<'_>]) -> Result<Vec<Result<Decision>>> {
        let prepared = self.prepare_all(calls)?;
        let charges: Vec<Charges<'_>> = prepared.iter().map(|call| call.charges(&self.policies)).collect();
        if self.have_steps(&prepared, &charges) {
            return Ok(prepared.iter().zip(&charges).map(|(call, charges)| self.answer(call, charges)).collect());
        }
        let operations: Vec<Operation<'_>> =
            prepared.iter().zip(&charges).map(|(call, charges)| call.operation(charges)).collect();
        let known = self.known_of(&operations, &prepared);
        let open = open(&operations, &known);
        Ok(self.settle_all(&operations, &prepared, known, self.store.decide_many(&open)))
    }

    /// Whether any of the calls is no single step; then each is carried out by itself, in order.
    pub(super) fn have_steps(&self, prepared: &[Prepared], charges: &[Charges<'_>]) -> bool {
        !self.newer.is_empty() && prepared.iter().zip(charges).any(|(call, it)| self.steps(call, it).is_some())
    }

    /// What is known of each without asking the store.
    pub(super) fn known_of(&self, operations: &[Operation<'_>], prepared: &[Prepared]) -> Vec<Option<Decision>> {
        operations.iter().zip(prepared).map(|(operation, call)| self.known(operation, call.manner())).collect()
    }

    /// One outcome per operation: what is known, or the next of the store's.
    pub(super) fn settle_all(
        &self,
        operations: &[Operation<'_>],
        prepared: &[Prepared],
        known: Vec<Option<Decision>>,
        outcomes: Vec<Result<Verdicts>>,
    ) -> Vec<Result<Decision>> {
        let mut outcomes = outcomes.into_iter();
        let settle = |((operation, known), call): ((&Operation<'_>, Option<Decision>), &Prepared)| {
            if let Some(decision) = known {
                return Ok(decision);
            }
            let missing = || Err(Error::internal("the store left a call of many unanswered"));
            self.settle(outcomes.next().unwrap_or_else(missing), operation, call.manner())
        };
        operations.iter().zip(known).zip(prepared).map(settle).collect()
    }

    /// Checks the arguments of all; the error names the index of the call at fault.
    pub(super) fn prepare_all(&self, calls: &[Call<'_>]) -> Result<Vec<Prepared>> {
        let prepared = calls.iter().enumerate();
        prepared.map(|(index, call)| self.prepare(call).map_err(|error| error.at_index(index))).collect()
    }
}

/// The operations that the store has to be asked about.
pub(super) fn open<'a>(operations: &[Operation<'a>], known: &[Option<Decision>]) -> Vec<Operation<'a>> {
    let open = operations.iter().zip(known).filter(|(_, decision)| decision.is_none());
    open.map(|(operation, _)| *operation).collect()
}
