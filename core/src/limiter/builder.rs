//! The options of a limiter.

use std::fmt;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::Limiter;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::key::{KeySpace, KeyStyle};
use crate::metrics;
use crate::policy::Policy;
use crate::resilience::{FailureRule, Fallback};
use crate::store::{self, Store};

/// More policies than this in one limiter are refused: each costs the store work in every call.
const MAX_POLICIES: usize = 32;

/// The policies of a limiter: one, or a list of them.
#[derive(Debug, Clone)]
pub struct Policies(SmallVec<[Policy; 1]>);

impl From<Policy> for Policies {
    fn from(policy: Policy) -> Self {
        Self(smallvec![policy])
    }
}

impl From<Vec<Policy>> for Policies {
    fn from(policies: Vec<Policy>) -> Self {
        Self(policies.into())
    }
}

/// The options of a [`Limiter`].
pub struct LimiterBuilder {
    policies: SmallVec<[Policy; 1]>,
    store: Option<Arc<dyn Store>>,
    clock: Option<Arc<dyn Clock>>,
    on_error: FailureRule,
    share: u32,
    style: KeyStyle,
}

impl LimiterBuilder {
    pub(super) fn new(policies: Policies) -> Self {
        Self {
            policies: policies.0,
            store: None,
            clock: None,
            on_error: FailureRule::default(),
            share: 1,
            style: KeyStyle::default(),
        }
    }

    /// Where the state lives. Without this, the default store: the environment variable `RATELIMIT_STORE`, else
    /// `shared:`.
    #[must_use]
    pub fn store(self, store: Arc<dyn Store>) -> Self {
        Self { store: Some(store), ..self }
    }

    /// A clock to use instead of the store's own.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// What to answer when the store gives no answer.
    #[must_use]
    pub fn on_error(self, rule: FailureRule) -> Self {
        Self { on_error: rule, ..self }
    }

    /// With [`FailureRule::Local`]: this process gets the limit divided by `share`.
    #[must_use]
    pub fn share(self, share: u32) -> Self {
        Self { share, ..self }
    }

    /// Hash every key, so that no raw identity reaches the store.
    #[must_use]
    pub fn hash_keys(mut self, hash_keys: bool) -> Self {
        self.style.hash_all = hash_keys;
        self
    }

    /// The secret of the key hash (HMAC-SHA-256). Without one a hashed address can be found by trying all of them.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> Self {
        self.style.secret = Some(secret.into().into_boxed_slice());
        self
    }

    /// Builds the limiter; asks the store nothing.
    pub fn build(self) -> Result<Limiter> {
        let count = self.policies.len();
        if !(1..=MAX_POLICIES).contains(&count) {
            return Err(Error::policy("policies", format!("must be 1 to {MAX_POLICIES} policies, got {count}")));
        }
        let spaces = KeySpace::of_all(&self.policies).ok_or_else(|| {
            let detail = "must differ in name, algorithm or window, or they would charge one budget twice";
            Error::policy("policies", detail)
        })?;
        let store = match self.store {
            Some(store) => store,
            None => store::open_default(None)?,
        };
        Ok(Limiter {
            fallback: Fallback::new(self.on_error, self.share, &self.policies)?,
            counters: self.policies.iter().map(|policy| metrics::of_policy(policy.name())).collect(),
            policies: self.policies,
            spaces,
            style: self.style,
            store,
            clock: self.clock,
        })
    }
}

impl fmt::Debug for LimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret of the key hash stays out of logs.
        f.debug_struct("LimiterBuilder").field("policies", &self.policies).finish_non_exhaustive()
    }
}
