//! One question to a limiter.

use crate::resilience::FailureRule;
use crate::store::Action;

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
    pub(super) action: Action,
    pub(super) keys: Keys<'a>,
    pub(super) cost: i64,
    pub(super) now_us: Option<u64>,
    pub(super) token: Option<&'a [u8]>,
    pub(super) on_error: Option<FailureRule>,
}

/// Whose budget: one key for all policies, or one key for each by the policy's name.
#[derive(Debug, Clone, Copy)]
pub enum Keys<'a> {
    /// The same for all.
    One(&'a [u8]),
    /// Pairs of a policy's name and its key; every policy of the limiter has to be there.
    Each(&'a [(&'a str, &'a [u8])]),
}

impl<'a> Call<'a> {
    /// Take `cost` units if they pass.
    pub fn allow(keys: impl Into<Keys<'a>>, cost: i64) -> Self {
        Self { action: Action::Allow, keys: keys.into(), cost, now_us: None, token: None, on_error: None }
    }

    /// Say whether `cost` units would pass, and take nothing.
    pub fn peek(keys: impl Into<Keys<'a>>, cost: i64) -> Self {
        Self { action: Action::Peek, ..Self::allow(keys, cost) }
    }

    /// Take `cost` units, at most `max_wait_us` microseconds ahead of time.
    pub fn reserve(keys: impl Into<Keys<'a>>, cost: i64, max_wait_us: u64) -> Self {
        Self { action: Action::Reserve { max_wait_us }, ..Self::allow(keys, cost) }
    }

    /// Give `cost` units back.
    pub fn refund(keys: impl Into<Keys<'a>>, cost: i64) -> Self {
        Self { action: Action::Refund, ..Self::allow(keys, cost) }
    }

    /// The call that gives back what this one took.
    pub(crate) const fn given_back(self) -> Self {
        Self { action: Action::Refund, token: None, ..self }
    }

    /// Asked as of this instant, in microseconds since 1970, instead of the limiter's or the store's clock.
    #[must_use]
    pub const fn at_us(self, now_us: u64) -> Self {
        Self { now_us: Some(now_us), ..self }
    }

    /// Asked with an idempotency token: what a call with the same token on the same key took within the last minute is
    /// not taken again, and its decision is given again. A call that timed out may so be sent again.
    #[must_use]
    pub const fn token(self, token: &'a [u8]) -> Self {
        Self { token: Some(token), ..self }
    }

    /// Answered by this rule, and not by the limiter's, when the store gives no answer.
    ///
    /// ```
    /// use ratelimit_core::{Call, FailureRule, Limiter, Policy, Source, store};
    ///
    /// // Nobody listens there.
    /// let limiter = Limiter::new(Policy::parse("10/s")?, store::open("redis://127.0.0.1:1")?)?;
    /// assert!(limiter.allow("user:42", 1).is_err());
    /// let decision = limiter.decide(Call::allow("user:42", 1).on_error(FailureRule::Open))?;
    /// assert_eq!((decision.allowed(), decision.source()), (true, Source::FailOpen));
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    #[must_use]
    pub const fn on_error(self, rule: FailureRule) -> Self {
        Self { on_error: Some(rule), ..self }
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Keys<'a> {
    fn from(key: &'a T) -> Self {
        Self::One(key.as_ref())
    }
}
