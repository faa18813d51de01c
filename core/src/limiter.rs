//! A policy bound to a store and to options: what a program holds.

use std::fmt;
use std::sync::Arc;

use crate::algorithm::{MAX_UNITS, Verb};
use crate::clock::{Clock, MAX_INSTANT_US};
use crate::decision::{Decision, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{KeySpace, KeyStyle};
use crate::policy::Policy;
use crate::resilience::{FailureRule, Fallback};
use crate::store::{self, Operation, Store};

/// Decides by one policy, with the state in one store.
///
/// Cheap to build: nothing is sent to the store until the first call, so one limiter per request costs no round trip.
/// All methods may be called from any thread.
pub struct Limiter {
    policy: Policy,
    space: KeySpace,
    style: KeyStyle,
    store: Arc<dyn Store>,
    clock: Option<Arc<dyn Clock>>,
    fallback: Fallback,
}

/// One question to a limiter, with everything that can be said about it.
///
/// ```
/// use ratelimit_core::{Call, Limiter, Policy, store};
///
/// let limiter = Limiter::new(Policy::token_bucket(5, 1.0, 1.0)?, store::memory(1_000)?)?;
/// let decision = limiter.decide(Call::allow("report", 3).at_us(1_700_000_000_000_000))?;
/// assert_eq!(decision.remaining(), 2);
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Call<'a> {
    verb: Verb,
    key: &'a [u8],
    cost: i64,
    now_us: Option<u64>,
}

impl<'a> Call<'a> {
    /// Take `cost` units if they pass.
    pub fn allow<K: AsRef<[u8]> + ?Sized>(key: &'a K, cost: i64) -> Self {
        Self { verb: Verb::Allow, key: key.as_ref(), cost, now_us: None }
    }

    /// Say whether `cost` units would pass, and take nothing.
    pub fn peek<K: AsRef<[u8]> + ?Sized>(key: &'a K, cost: i64) -> Self {
        Self { verb: Verb::Peek, key: key.as_ref(), cost, now_us: None }
    }

    /// Asked as of this instant, in microseconds since 1970, instead of the limiter's or the store's clock.
    #[must_use]
    pub const fn at_us(self, now_us: u64) -> Self {
        Self { now_us: Some(now_us), ..self }
    }
}

impl Limiter {
    /// A limiter that fails when the store does and keeps keys readable; [`builder`](Self::builder) has the options.
    pub fn new(policy: Policy, store: Arc<dyn Store>) -> Result<Self> {
        Self::builder(policy).store(store).build()
    }

    /// A limiter with options.
    pub fn builder(policy: Policy) -> LimiterBuilder {
        LimiterBuilder {
            policy,
            store: None,
            clock: None,
            on_error: FailureRule::default(),
            share: 1,
            style: KeyStyle::default(),
        }
    }

    /// Takes `cost` units of `key`'s budget, if they are there.
    ///
    /// Fails with [`InvalidCost`](ErrorKind::InvalidCost) unless `cost` is between 1 and 2147483647, and with
    /// [`StoreUnavailable`](ErrorKind::StoreUnavailable) when the store does and the failure rule says so. A cost above
    /// the limit is no error: it is denied, and its `retry_after` says never.
    pub fn allow(&self, key: impl AsRef<[u8]>, cost: i64) -> Result<Decision> {
        self.decide(Call::allow(&key, cost))
    }

    /// What [`allow`](Self::allow) would answer, without taking anything.
    pub fn peek(&self, key: impl AsRef<[u8]>, cost: i64) -> Result<Decision> {
        self.decide(Call::peek(&key, cost))
    }

    /// Answers one [`Call`].
    pub fn decide(&self, call: Call<'_>) -> Result<Decision> {
        let cost = valid_cost(call.cost)?;
        let now_us = match call.now_us {
            Some(now_us) if now_us >= MAX_INSTANT_US => return Err(invalid_instant(now_us)),
            Some(now_us) => Some(now_us),
            None => self.clock.as_ref().map(|clock| clock.now_us().min(MAX_INSTANT_US - 1)),
        };
        let key = self.space.key(&self.style, call.key);
        let operation = Operation { verb: call.verb, policy: &self.policy, key: &key, cost, now_us };
        match self.store.decide(&operation) {
            Ok(verdict) => Ok(Decision::new(verdict, self.policy.limit(), 0, Source::Store)),
            Err(error) => self.fallback.decide(error, self.policy.limit(), &operation),
        }
    }

    /// Forgets what `key` has used: its budget is whole again.
    pub fn reset(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.store.reset(&self.space.key(&self.style, key.as_ref()))
    }

    /// The policies it decides by, in the order of [`Decision::policy`].
    pub fn policies(&self) -> &[Policy] {
        std::slice::from_ref(&self.policy)
    }

    /// The store it keeps its state in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limiter")
            .field("policy", &self.policy)
            .field("store", &self.store.kind())
            .finish_non_exhaustive()
    }
}

/// The options of a [`Limiter`].
pub struct LimiterBuilder {
    policy: Policy,
    store: Option<Arc<dyn Store>>,
    clock: Option<Arc<dyn Clock>>,
    on_error: FailureRule,
    share: u32,
    style: KeyStyle,
}

impl LimiterBuilder {
    /// Where the state lives. Without this, the default store: the environment variable `RATELIMIT_STORE`, else
    /// this process's memory.
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
        let store = match self.store {
            Some(store) => store,
            None => store::open_default(None)?,
        };
        Ok(Limiter {
            space: KeySpace::of(&self.policy),
            fallback: Fallback::new(self.on_error, self.share, &self.policy)?,
            policy: self.policy,
            style: self.style,
            store,
            clock: self.clock,
        })
    }
}

impl fmt::Debug for LimiterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The secret of the key hash stays out of logs.
        f.debug_struct("LimiterBuilder").field("policy", &self.policy).finish_non_exhaustive()
    }
}

fn valid_cost(cost: i64) -> Result<u64> {
    u64::try_from(cost).ok().filter(|cost| (1..=MAX_UNITS).contains(cost)).ok_or_else(|| invalid_cost(&cost))
}

/// The error for a cost that is no integer from 1 to 2147483647, for bindings whose costs may be anything.
pub fn invalid_cost(cost: &dyn fmt::Display) -> Error {
    Error::argument_error(
        ErrorKind::InvalidCost,
        "cost",
        format!("must be an integer between 1 and {MAX_UNITS}, got {cost}"),
    )
}

fn invalid_instant(now_us: u64) -> Error {
    let detail = format!("must be below 2^53 microseconds since 1970, got {now_us}");
    Error::argument_error(ErrorKind::InvalidArgument, "now_us", detail)
}
