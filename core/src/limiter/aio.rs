//! What [`crate::aio::Limiter`] asks a limiter for.

use super::batch::open;
use super::prepared::{Charges, Prepared};
use super::{Call, Keys, Limiter};
use crate::decision::{Decision, Source};
use crate::error::Result;
use crate::store::{AsyncStore, Charge};

impl Limiter {
    pub(crate) fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    pub(crate) async fn decide_async(&self, call: Call<'_>) -> Result<Decision> {
        let Some(store) = self.store.asynchronous() else { return self.decide(call) };
        let prepared = self.prepare(&call)?;
        let charges = prepared.charges(&self.policies);
        self.answer_async(store, &prepared, &charges).await
    }

    async fn answer_async(
        &self,
        store: &dyn AsyncStore,
        prepared: &Prepared,
        charges: &[Charge<'_>],
    ) -> Result<Decision> {
        let operation = prepared.operation(charges);
        if let Some(steps) = self.steps(prepared, charges) {
            return self.carry_out_in_steps_async(store, &operation, &steps, prepared.manner()).await;
        }
        if let Some(leases) = self.leases_for(&operation) {
            return self.decide_leased_async(leases, &operation, prepared.manner(), store).await;
        }
        match self.store.refusal(&operation) {
            Some(verdicts) => Ok(self.concluded(
                &operation,
                self.decision(&operation, verdicts, Source::DenyCache),
                prepared.manner(),
            )),
            None => self.settle(store.decide(&operation).await, &operation, prepared.manner()),
        }
    }

    pub(crate) async fn decide_many_async(&self, calls: &[Call<'_>]) -> Result<Vec<Result<Decision>>> {
        let Some(store) = self.store.asynchronous() else { return self.decide_many(calls) };
        let prepared = self.prepare_all(calls)?;
        let charges: Vec<Charges<'_>> = prepared.iter().map(|call| call.charges(&self.policies)).collect();
        if self.have_steps(&prepared, &charges) {
            let mut outcomes = Vec::with_capacity(prepared.len());
            for (call, charges) in prepared.iter().zip(&charges) {
                outcomes.push(self.answer_async(store, call, charges).await);
            }
            return Ok(outcomes);
        }
        let operations: Vec<_> = prepared.iter().zip(&charges).map(|(call, charges)| call.operation(charges)).collect();
        let known = self.known_of(&operations, &prepared);
        let open = open(&operations, &known);
        let outcomes = store.decide_many(&open).await;
        Ok(self.settle_all(&operations, &prepared, known, outcomes))
    }

    pub(crate) async fn forget_token_async(&self, call: &Call<'_>) -> Result<()> {
        let Some(store) = self.store.asynchronous() else { return self.forget_token(call) };
        for token in self.tokens_of(call)? {
            store.reset(&token).await?;
        }
        Ok(())
    }

    pub(crate) async fn reset_async(&self, keys: Keys<'_>) -> Result<()> {
        let Some(store) = self.store.asynchronous() else { return self.reset(keys) };
        let (keys, started) = (self.all_keys(&keys)?, self.started());
        for key in &keys {
            self.forget_leases(key);
            store.reset(key).await.inspect_err(|error| self.tell_reset_error(&keys, error, started))?;
        }
        Ok(())
    }
}
