//! `TokenBucket`: the class of redis.io's guide, same constructor, same array.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use ext_php_rs::boxed::ZBox;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendHashTable, Zval};
use ratelimit_core as core;

use crate::convert::{Float, Integer, Text};
use crate::decision::count;
use crate::engine::Key;
use crate::{class, exception, policy, store};

static ALLOWED: Key = Key::new();
static REMAINING: Key = Key::new();

/// Registers the class, while the module starts.
pub(crate) fn register() -> ext_php_rs::error::Result<()> {
    ALLOWED.set("allowed");
    REMAINING.set("remaining");
    class::register::<TokenBucket>()
}

/// A limiter with one token bucket.
#[php_class]
#[php(name = "TokenBucket")]
pub(crate) struct TokenBucket(core::Limiter);

#[php_impl]
impl TokenBucket {
    #[php(defaults(capacity = 10, refillRate = 1.0, refillInterval = 1.0))]
    pub(crate) fn __construct(
        capacity: Integer,
        refillRate: Float,
        refillInterval: Float,
        redis: Option<&Zval>,
    ) -> PhpResult<Self> {
        let policy = policy::token_bucket(capacity, refillRate, refillInterval, false)?;
        let store = store::resolve("redis", redis.unwrap_or(&Zval::new()))?;
        core::Limiter::new(policy, store).map(Self).map_err(|error| exception::from_core(&error))
    }

    #[allow(clippy::cast_precision_loss)] // Below 2^31.
    pub(crate) fn allow(&self, key: Text<'_>) -> PhpResult<ZBox<ZendHashTable>> {
        let decision = self.0.allow(key.get("key")?, 1).map_err(|error| exception::from_core(&error))?;
        let mut result = ZendHashTable::with_capacity(2);
        ALLOWED.add(&mut result, decision.allowed())?;
        REMAINING.add(&mut result, count(decision.remaining()) as f64)?;
        Ok(result)
    }
}
