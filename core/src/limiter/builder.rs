//! The options of a limiter.

use std::fmt;
use std::sync::Arc;

use once_cell::race::OnceBox;
use smallvec::{SmallVec, smallvec};

use super::Limiter;
use super::lease::Leases;
use crate::clock::Clock;
use crate::error::{Error, ErrorKind, Result};
use crate::events::{DecisionCallback, StoreErrorCallback};
use crate::key::{KeySpace, KeyStyle};
use crate::metrics;
use crate::policy::Policy;
use crate::resilience::{FailureRule, Fallback};
use crate::store::{self, Store};

/// More policies than this in one limiter are refused: each costs the store work in every call.
const MAX_POLICIES: usize = 32;

/// More secrets than this are refused: during an overlap each multiplies what the store has to do in every call.
const MAX_SECRETS: usize = 4;

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
    hash_keys: bool,
    secrets: Option<Vec<Box<[u8]>>>,
    on_decision: Option<DecisionCallback>,
    on_store_error: Option<StoreErrorCallback>,
    lease: i64,
    pools: Option<Arc<dyn Store>>,
}

impl LimiterBuilder {
    pub(super) fn new(policies: Policies) -> Self {
        Self {
            policies: policies.0,
            store: None,
            clock: None,
            on_error: FailureRule::default(),
            share: 1,
            hash_keys: false,
            secrets: None,
            on_decision: None,
            on_store_error: None,
            lease: 0,
            pools: None,
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
    pub fn hash_keys(self, hash_keys: bool) -> Self {
        Self { hash_keys, ..self }
    }

    /// The secret of the key hash (HMAC-SHA-256). Without one a hashed address can be found by trying all of them.
    #[must_use]
    pub fn secret(self, secret: impl Into<Vec<u8>>) -> Self {
        self.secrets([secret])
    }

    /// Several secrets while one takes over from another: the new one first, then those that other processes may still
    /// have; 4 at most.
    ///
    /// A call is charged under each of them, all or nothing, so that processes with the old secret, with both and with the
    /// new one share their limits: those with both pass nothing that the others' count does not let pass. A decision has
    /// one entry per policy, the tighter one. The old secret can be dropped once every process has had both for as long
    /// as the longest window or full refill.
    ///
    /// It is one atomic step, one round trip. On a cluster, where the two keys may be on two nodes, and for a call with a
    /// token it is a step for each secret, the old one's first; what was taken is given back when a later one refuses,
    /// and the wait told is that of the one that refused.
    ///
    /// ```
    /// use ratelimit_core::{Limiter, Policy, store};
    ///
    /// let store = store::memory(1_000)?;
    /// let limiter = |secrets: &[&str]| {
    ///     let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_bytes()).collect();
    ///     Limiter::builder(Policy::parse("5/m")?).store(store.clone()).hash_keys(true).secrets(secrets).build()
    /// };
    /// let (old, both) = (limiter(&["of last year"])?, limiter(&["of this year", "of last year"])?);
    /// assert_eq!(old.allow("192.0.2.10", 1)?.remaining(), 4);
    /// assert_eq!(both.allow("192.0.2.10", 1)?.remaining(), 3);
    /// assert_eq!(old.allow("192.0.2.10", 1)?.remaining(), 2);
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    #[must_use]
    pub fn secrets(self, secrets: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        Self { secrets: Some(secrets.into_iter().map(|secret| secret.into().into_boxed_slice()).collect()), ..self }
    }

    /// Has a callback called for each decision; see [`events`](crate::events).
    #[must_use]
    pub fn on_decision(self, callback: DecisionCallback) -> Self {
        Self { on_decision: Some(callback), ..self }
    }

    /// Has a callback called each time the store gives no usable answer; see [`events`](crate::events).
    #[must_use]
    pub fn on_store_error(self, callback: StoreErrorCallback) -> Self {
        Self { on_store_error: Some(callback), ..self }
    }

    /// For keys that are asked for very often: take up to so many units at once from the server, and let this host's
    /// processes spend them without asking. 0, as without this: one request per call.
    ///
    /// Never more passes than the policy allows. A call may be refused while other hosts have units that they have not
    /// spent: `lease` per key and host at most, and no more than a host spends in a tenth of a second as long as it goes
    /// on. It goes with one policy, a fixed window or a sliding window counter; anything else fails to
    /// [`build`](Self::build) with [`InvalidArgument`](crate::ErrorKind::InvalidArgument). With a store on this host it
    /// changes nothing.
    #[must_use]
    pub fn lease(self, units: i64) -> Self {
        Self { lease: units, ..self }
    }

    /// Where leased units are kept: a memory or shared store. Without this, the shared store of this host.
    #[must_use]
    pub fn lease_store(self, pools: Arc<dyn Store>) -> Self {
        Self { pools: Some(pools), ..self }
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
        let (style, newer) = styles(self.hash_keys, self.secrets)?;
        let store = match self.store {
            Some(store) => store,
            None => store::open_default(None)?,
        };
        let limiter = Limiter {
            leases: Leases::new(self.lease, &self.policies, &store, self.pools)?,
            fallback: Fallback::new(self.on_error, self.share, &self.policies)?,
            counters: self.policies.iter().map(|policy| metrics::of_policy(policy.name())).collect(),
            policies: self.policies,
            spaces,
            style,
            newer,
            store,
            clock: self.clock,
            listeners: OnceBox::new(),
        };
        self.on_decision.map_or(Ok(()), |callback| limiter.set_on_decision(callback))?;
        self.on_store_error.map_or(Ok(()), |callback| limiter.set_on_store_error(callback))?;
        Ok(limiter)
    }
}

/// How keys are written under each of the secrets, the oldest one first.
fn styles(hash_all: bool, secrets: Option<Vec<Box<[u8]>>>) -> Result<(KeyStyle, Box<[KeyStyle]>)> {
    let invalid = |detail: String| Err(Error::argument_error(ErrorKind::InvalidArgument, "secret", detail));
    let Some(secrets) = secrets else { return Ok((KeyStyle { hash_all, secret: None }, Box::default())) };
    let count = secrets.len();
    if !(1..=MAX_SECRETS).contains(&count) {
        return invalid(format!("must be 1 to {MAX_SECRETS} secrets, got {count}"));
    }
    if let Some(index) = secrets.iter().position(|secret| secret.is_empty()) {
        return invalid(match count {
            1 => "must not be empty".to_owned(),
            _ => format!("must not have an empty one, got one at index {index}"),
        });
    }
    let mut styles: Vec<_> =
        secrets.into_iter().rev().map(|secret| KeyStyle { hash_all, secret: Some(secret) }).collect();
    let repeats = |at: &usize| styles[..*at].iter().any(|style| style.writes_as(&styles[*at]));
    if let Some(at) = (1..count).find(repeats) {
        return invalid(format!("must not have one secret twice, got the one at index {} again", count - 1 - at));
    }
    let oldest = styles.remove(0);
    Ok((oldest, styles.into()))
}

impl fmt::Debug for LimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret of the key hash stays out of logs.
        f.debug_struct("LimiterBuilder").field("policies", &self.policies).finish_non_exhaustive()
    }
}
