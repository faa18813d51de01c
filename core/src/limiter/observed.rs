//! Limiters whose decisions somebody hears of.

use std::time::Instant;

use super::Limiter;
use super::prepared::Manner;
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::events::{
    self, Asked, DecisionCallback, DecisionEvent, Fingerprint, Listeners, StoreErrorCallback, StoreErrorEvent,
};
use crate::key::StoredKey;
use crate::store::Operation;

impl Limiter {
    /// Has a callback called for each decision from now on; see [`events`].
    ///
    /// Fails with [`InvalidArgument`](crate::ErrorKind::InvalidArgument) when the limiter has one already.
    pub fn set_on_decision(&self, callback: DecisionCallback) -> Result<()> {
        self.listeners.get_or_init(Box::default).set_on_decision(callback)
    }

    /// Has a callback called for each answer that the store owes from now on; see [`events`].
    ///
    /// Fails with [`InvalidArgument`](crate::ErrorKind::InvalidArgument) when the limiter has one already.
    pub fn set_on_store_error(&self, callback: StoreErrorCallback) -> Result<()> {
        self.listeners.get_or_init(Box::default).set_on_store_error(callback)
    }

    /// Whether anybody hears of what it decides.
    #[inline]
    pub(super) fn is_observed(&self) -> bool {
        self.listeners.get().is_some() || events::traced()
    }

    /// The beginning of a call, if anybody hears how long it took.
    pub(super) fn started(&self) -> Option<Instant> {
        self.is_observed().then(Instant::now)
    }

    /// Counts a decision and tells it.
    pub(super) fn concluded(&self, operation: &Operation<'_>, decision: Decision, manner: Manner) -> Decision {
        let decision = self.counted(operation, decision);
        if let Some(started) = manner.started {
            self.tell_decision(operation, &decision, started);
        }
        decision
    }

    #[cold]
    fn tell_decision(&self, operation: &Operation<'_>, decision: &Decision, started: Instant) {
        let asked = self.asked_of(operation, decision.policy(), started);
        if let (Some(policy), Some(asked)) = (self.policies.get(decision.policy()), asked) {
            events::tell_decision(self.listeners(), &DecisionEvent { asked, policy, decision });
        }
    }

    #[cold]
    pub(super) fn tell_store_error(&self, operation: &Operation<'_>, error: &Error, manner: Manner) {
        let asked = manner.started.and_then(|started| self.asked_of(operation, 0, started));
        if let (Some(policy), Some(asked), Some(_)) = (self.policies.first(), asked, error.store_kind()) {
            events::tell_store_error(self.listeners(), &StoreErrorEvent { asked, policy, error });
        }
    }

    /// Tells that keys could not be reset.
    #[cold]
    pub(super) fn tell_reset_error(&self, keys: &[StoredKey], error: &Error, started: Option<Instant>) {
        if let (Some(started), Some(key), Some(policy), Some(_)) =
            (started, keys.first(), self.policies.first(), error.store_kind())
        {
            let asked = self.asked("reset", 0, key, started);
            events::tell_store_error(self.listeners(), &StoreErrorEvent { asked, policy, error });
        }
    }

    fn listeners(&self) -> Option<&Listeners> {
        self.listeners.get()
    }

    fn asked_of(&self, operation: &Operation<'_>, policy: usize, started: Instant) -> Option<Asked> {
        let charge = operation.charges.get(policy)?;
        Some(self.asked(events::verb(operation.action), operation.cost, charge.key, started))
    }

    fn asked(&self, verb: &'static str, cost: u64, key: &[u8], started: Instant) -> Asked {
        let (key, store) = (Fingerprint::of(key, &self.style), self.store.kind());
        Asked { verb, cost, key, store, duration: started.elapsed() }
    }
}
