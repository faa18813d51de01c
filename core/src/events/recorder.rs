//! Events that are kept until the call they belong to is over; for bindings, whose callbacks have to be called in their
//! language's own surroundings.

use std::cell::RefCell;
use std::sync::Arc;

use super::{Asked, DecisionEvent, StoreErrorEvent};
use crate::decision::Decision;
use crate::error::{Error, Result};
use crate::limiter::Limiter;
use crate::policy::Policy;

/// An event that borrows nothing.
#[derive(Debug, Clone)]
pub enum Recorded {
    /// A [`DecisionEvent`].
    Decision {
        /// What was asked.
        asked: Asked,
        /// The policy that ruled.
        policy: Policy,
        /// The decision.
        decision: Decision,
    },
    /// A [`StoreErrorEvent`].
    StoreError {
        /// What was asked.
        asked: Asked,
        /// The limiter's policy; of several the first.
        policy: Policy,
        /// What went wrong.
        error: Error,
    },
}

thread_local! {
    static KEPT: RefCell<Vec<Recorded>> = const { RefCell::new(Vec::new()) };
}

/// Keeps the events of a limiter from now on, each on the thread that it happens on, until [`take`] is called there; which
/// has to be done after each call, or they pile up. For an awaited call that is in the same poll, since the next one may
/// be on another thread.
pub fn record(limiter: &Limiter) -> Result<()> {
    limiter.set_on_decision(Arc::new(|&DecisionEvent { asked, policy, decision }: &DecisionEvent<'_>| {
        keep(Recorded::Decision { asked, policy: policy.clone(), decision: decision.clone() });
    }))?;
    limiter.set_on_store_error(Arc::new(|&StoreErrorEvent { asked, policy, error }: &StoreErrorEvent<'_>| {
        keep(Recorded::StoreError { asked, policy: policy.clone(), error: error.clone() });
    }))
}

fn keep(event: Recorded) {
    let _ = KEPT.try_with(|kept| kept.borrow_mut().push(event));
}

/// The events that this thread has kept, in order.
pub fn take() -> Vec<Recorded> {
    KEPT.try_with(RefCell::take).unwrap_or_default()
}
