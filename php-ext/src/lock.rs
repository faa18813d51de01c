//! `Lock`: one holder per key.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;
use ratelimit_core as core;
use ratelimit_core::{AcquireStep, Acquiring, Holder};

use crate::convert::{Float, Text};
use crate::limiter::max_wait_us;
use crate::work::Work;
use crate::{exception, store, wait};

/// Locks of the core.
#[php_class]
#[php(name = "RateLimit\\Lock")]
pub(crate) struct Lock(core::Lock);

#[php_impl]
impl Lock {
    pub(crate) fn __construct(store: Option<&Zval>) -> PhpResult<Self> {
        Ok(Self(core::Lock::new(store::resolve("store", store.unwrap_or(&Zval::new()))?)))
    }

    #[php(defaults(maxWait = 0.0))]
    pub(crate) fn acquire(&self, key: Text<'_>, ttl: Float, maxWait: Float) -> PhpResult<Option<String>> {
        let (key, ttl, max_wait_us) = (key.get("key")?, ttl.get("ttl")?, max_wait_us(maxWait)?);
        Ok(self.take(key, ttl, max_wait_us)?.map(String::from))
    }

    pub(crate) fn extend(&self, key: Text<'_>, owner: Text<'_>, ttl: Float) -> PhpResult<bool> {
        let (key, owner, ttl) = (key.get("key")?, owner.utf8("owner")?, ttl.get("ttl")?);
        self.0.extend(key, owner, ttl).map_err(|error| exception::from_core(&error))
    }

    pub(crate) fn release(&self, key: Text<'_>, owner: Text<'_>) -> PhpResult<bool> {
        let (key, owner) = (key.get("key")?, owner.utf8("owner")?);
        self.0.release(key, owner).map_err(|error| exception::from_core(&error))
    }

    pub(crate) fn is_held(&self, key: Text<'_>) -> PhpResult<bool> {
        self.0.is_held(key.get("key")?).map_err(|error| exception::from_core(&error))
    }

    #[php(defaults(maxWait = 0.0))]
    pub(crate) fn run(&self, key: Text<'_>, ttl: Float, work: Work<'_>, maxWait: Float) -> PhpResult<Zval> {
        let (key, ttl, work) = (key.get("key")?, ttl.get("ttl")?, work.get()?);
        let max_wait_us = max_wait_us(maxWait)?;
        match self.take(key, ttl, max_wait_us)? {
            // Where the store gives no answer, the lock ends by itself.
            Some(holder) => work.run(holder.as_str(), || drop(self.0.release(key, &holder))),
            None => Err(exception::from_core(&core::Lock::refused(max_wait_us))),
        }
    }
}

impl Lock {
    fn take(&self, key: &[u8], ttl: f64, max_wait_us: u64) -> PhpResult<Option<Holder>> {
        let mut acquiring = Acquiring::new(max_wait_us).map_err(|error| exception::from_core(&error))?;
        loop {
            match self.0.step(&mut acquiring, key, ttl).map_err(|error| exception::from_core(&error))? {
                AcquireStep::Done(holder) => return Ok(Some(holder)),
                AcquireStep::Refused => return Ok(None),
                AcquireStep::Sleep { us } => wait::sleep_us(us)?,
            }
        }
    }
}
