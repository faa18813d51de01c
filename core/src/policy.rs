//! An algorithm with its numbers and a name.

use std::fmt;
use std::sync::Arc;

use once_cell::sync::OnceCell;

use crate::algorithm::{Change, State, TokenBucket, Verb, Verdict};
use crate::error::{Error, Result};
use crate::lua;

/// The longest policy name, in bytes.
const MAX_NAME: usize = 100;

/// How much is allowed: an algorithm with its numbers and a name. Immutable and cheap to clone.
///
/// The name is part of the stored key, so two policies with different names never share a budget, and it is what a
/// decision, a header or a metric calls the policy.
#[derive(Clone)]
pub struct Policy(Arc<Inner>);

struct Inner {
    name: Box<str>,
    algorithm: Algorithm,
    /// The numbers as the Redis scripts take them.
    arguments: OnceCell<Box<[u8]>>,
}

/// The rule that a policy follows.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// See [`TokenBucket`].
    TokenBucket(TokenBucket),
}

impl Policy {
    /// A token bucket that gains `refill_rate` tokens at the end of every `refill_interval` seconds.
    ///
    /// `capacity` is an integer from 1 to 2147483647, the two others are positive and finite; a fractional rate is
    /// kept as the exact ratio it was written as. Otherwise [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy).
    ///
    /// ```
    /// let policy = ratelimit_core::Policy::token_bucket(10, 0.5, 1.0)?;
    /// assert_eq!(policy.limit(), 10);
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    pub fn token_bucket(capacity: i64, refill_rate: f64, refill_interval: f64) -> Result<Self> {
        TokenBucket::new(capacity, refill_rate, refill_interval, false).map(Self::from)
    }

    /// A token bucket that gains `refill_rate` tokens per `refill_interval` seconds all the time.
    ///
    /// The same numbers as for [`token_bucket`](Self::token_bucket), and the same errors.
    pub fn token_bucket_continuous(capacity: i64, refill_rate: f64, refill_interval: f64) -> Result<Self> {
        TokenBucket::new(capacity, refill_rate, refill_interval, true).map(Self::from)
    }

    /// The same policy under another name: 1 to 100 printable ASCII characters. Without this it is `default`.
    pub fn named(&self, name: &str) -> Result<Self> {
        let printable = name.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !(1..=MAX_NAME).contains(&name.len()) || !printable {
            let got = if name.len() > MAX_NAME { format!("{} bytes", name.len()) } else { format!("{name:?}") };
            return Err(Error::policy(
                "name",
                format!("must be 1 to {MAX_NAME} printable ASCII characters, got {got}"),
            ));
        }
        Ok(Self::new(name, self.0.algorithm.clone()))
    }

    /// The policy for one of `share` equal parts of a fleet: limit and rate divided, at least one unit.
    pub(crate) fn divided(&self, share: u32) -> Result<Self> {
        let algorithm = match &self.0.algorithm {
            Algorithm::TokenBucket(bucket) => Algorithm::TokenBucket(bucket.divided(share)?),
        };
        Ok(Self::new(&self.0.name, algorithm))
    }

    fn new(name: &str, algorithm: Algorithm) -> Self {
        Self(Arc::new(Inner { name: name.into(), algorithm, arguments: OnceCell::new() }))
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The rule it follows.
    pub fn algorithm(&self) -> &Algorithm {
        &self.0.algorithm
    }

    /// The largest cost that can ever pass.
    pub fn limit(&self) -> u64 {
        match &self.0.algorithm {
            Algorithm::TokenBucket(bucket) => bucket.capacity(),
        }
    }

    /// The time in which `limit` units come back, in microseconds.
    pub fn window_us(&self) -> u64 {
        match &self.0.algorithm {
            Algorithm::TokenBucket(bucket) => bucket.fill_us(),
        }
    }

    /// What tells the algorithms' keys apart. A new layout of the stored state gets a new tag.
    pub(crate) fn tag(&self) -> &'static str {
        match &self.0.algorithm {
            Algorithm::TokenBucket(_) => "tb",
        }
    }

    /// One step of the pure model.
    pub(crate) fn decide(&self, state: Option<&State>, now_us: u64, cost: u64, verb: Verb) -> (Change, Verdict) {
        match &self.0.algorithm {
            Algorithm::TokenBucket(bucket) => bucket.decide(state, now_us, cost, verb),
        }
    }

    pub(crate) fn lua_arguments(&self) -> &[u8] {
        self.0.arguments.get_or_init(|| lua::policy_arguments(&self.0.algorithm))
    }
}

impl From<TokenBucket> for Policy {
    fn from(bucket: TokenBucket) -> Self {
        Self::new("default", Algorithm::TokenBucket(bucket))
    }
}

impl PartialEq for Policy {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name && self.0.algorithm == other.0.algorithm
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("name", &self.0.name).field("algorithm", &self.0.algorithm).finish()
    }
}
