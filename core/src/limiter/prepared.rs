//! A call whose arguments have been checked and whose keys have been formed.

use std::time::Instant;

use smallvec::SmallVec;

use super::rotation::NewerKey;
use super::{Call, Limiter, valid_cost};
use crate::error::Result;
use crate::key::StoredKey;
use crate::policy::Policy;
use crate::resilience::FailureRule;
use crate::store::{Action, Charge, Operation};

/// What a store has to be told, owned, so that it may be told later or together with others.
#[derive(Debug)]
pub(super) struct Prepared {
    action: Action,
    keys: SmallVec<[StoredKey; 1]>,
    newer: Vec<NewerKey>,
    token: Option<StoredKey>,
    newer_tokens: Vec<StoredKey>,
    cost: u64,
    now_us: Option<u64>,
    manner: Manner,
}

/// How a call is answered, whatever its operation is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Manner {
    /// In place of the limiter's failure rule.
    pub(super) on_error: Option<FailureRule>,
    /// When it began, if anybody hears of it.
    pub(super) started: Option<Instant>,
}

/// The charges of one call.
pub(super) type Charges<'a> = SmallVec<[Charge<'a>; 4]>;

impl Prepared {
    pub(super) fn charges<'a>(&'a self, policies: &'a [Policy]) -> Charges<'a> {
        let newer = self.newer.iter().map(|(at, key)| Charge { policy: &policies[*at], key });
        policies.iter().zip(&self.keys).map(|(policy, key)| Charge { policy, key }).chain(newer).collect()
    }

    pub(super) fn newer_tokens(&self) -> &[StoredKey] {
        &self.newer_tokens
    }

    pub(super) fn token(&self) -> Option<&[u8]> {
        self.token.as_deref()
    }

    pub(super) const fn manner(&self) -> Manner {
        self.manner
    }

    pub(super) fn operation<'a>(&'a self, charges: &'a [Charge<'a>]) -> Operation<'a> {
        Operation { action: self.action, charges, cost: self.cost, now_us: self.now_us, token: self.token() }
    }
}

impl Limiter {
    #[inline]
    pub(super) fn manner(&self, call: &Call<'_>) -> Manner {
        Manner { on_error: call.on_error, started: self.started() }
    }

    /// Checks a call's arguments and forms its keys; asks the store nothing.
    pub(super) fn prepare(&self, call: &Call<'_>) -> Result<Prepared> {
        let cost = valid_cost(call.cost)?;
        if let Action::Reserve { .. } = call.action {
            self.policies.iter().try_for_each(Policy::check_reserves)?;
        }
        let keys = self.keys(&call.keys)?;
        // A look is never charged, so it has nothing to remember.
        let token = call.token.filter(|_| call.action != Action::Peek);
        let newer = self.newer_keys(&call.keys);
        let newer_tokens = token.map(|token| self.newer_tokens(&newer, token, call.action)).unwrap_or_default();
        let token = token.map(|token| self.token(&keys, token, call.action)).transpose()?;
        let (now_us, manner) = (self.now_us(call)?, self.manner(call));
        Ok(Prepared { action: call.action, keys, newer, token, newer_tokens, cost, now_us, manner })
    }
}
