//! What [`crate::aio::Limiter`] asks a limiter for.

use super::batch::open;
use super::prepared::{Charges, Prepared};
use super::{Call, Keys, Limiter};
use crate::decision::{Decision, Source};
use crate::error::Result;

impl Limiter {
    pub(crate) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    pub(crate) async fn decide_async(&self, call: Call<'_>) -> Result<Decision> {
        let Some(store) = self.store.asynchronous() else { return self.decide(call) };
        let prepared = self.prepare(&call)?;
        let charges = prepared.charges(&self.policies);
        let operation = prepared.operation(&charges);
        match self.store.refusal(&operation) {
            Some(verdicts) => Ok(self.counted(&operation, self.decision(&verdicts, Source::DenyCache))),
            None => self.settle(store.decide(&operation).await, &operation),
        }
    }

    pub(crate) async fn decide_many_async(&self, calls: &[Call<'_>]) -> Result<Vec<Result<Decision>>> {
        let Some(store) = self.store.asynchronous() else { return self.decide_many(calls) };
        let prepared: Vec<Prepared> = calls.iter().map(|call| self.prepare(call)).collect::<Result<_>>()?;
        let charges: Vec<Charges<'_>> = prepared.iter().map(|call| call.charges(&self.policies)).collect();
        let operations: Vec<_> = prepared.iter().zip(&charges).map(|(call, charges)| call.operation(charges)).collect();
        let refusals = self.refusals(&operations);
        let open = open(&operations, &refusals);
        let outcomes = store.decide_many(&open).await;
        Ok(self.settle_all(&operations, refusals, outcomes))
    }

    pub(crate) async fn forget_token_async(&self, call: &Call<'_>) -> Result<()> {
        let Some(store) = self.store.asynchronous() else { return self.forget_token(call) };
        match self.token_of(call)? {
            Some(token) => store.reset(&token).await,
            None => Ok(()),
        }
    }

    pub(crate) async fn reset_async(&self, keys: Keys<'_>) -> Result<()> {
        let Some(store) = self.store.asynchronous() else { return self.reset(keys) };
        for key in self.keys(&keys)? {
            store.reset(&key).await?;
        }
        Ok(())
    }
}
