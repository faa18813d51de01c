//! `Limiter`: what a program holds.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use std::sync::Arc;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, Zval};
use ratelimit_core as core;
use ratelimit_core::{Call, Error, ErrorKind};

use crate::clock::{Clock, ClockArgument};
use crate::convert::{Integer, Nullable, Switch, Text, shown};
use crate::decision::Decision;
use crate::policy::Policies;
use crate::{class, exception, store};

/// The failure rule without `onError`. The macro takes defaults as names, not as strings.
const THROW: &str = "throw";

/// A limiter of the core.
#[php_class]
#[php(name = "RateLimit\\Limiter")]
pub(crate) struct Limiter {
    limiter: Arc<core::Limiter>,
    /// A clock written in PHP. Ours is inside the core's limiter.
    clock: Option<Zval>,
}

#[php_impl]
impl Limiter {
    #[php(defaults(onError = THROW, share = 1, hashKeys = false))]
    pub(crate) fn __construct(
        policies: Policies,
        store: Option<&Zval>,
        onError: Text<'_>,
        share: Integer,
        hashKeys: Switch,
        secret: Nullable<Text<'_>>,
        clock: Option<ClockArgument>,
    ) -> PhpResult<Self> {
        let policy = policies.get()?;
        let rule = onError.utf8("onError")?.parse().map_err(|error| exception::from_core(&error))?;
        let mut builder = core::Limiter::builder(policy)
            .store(store::resolve("store", store.unwrap_or(&Zval::new()))?)
            .on_error(rule)
            .share(parts(share)?)
            .hash_keys(hashKeys.get("hashKeys")?);
        if let Some(secret) = secret.0 {
            builder = builder.secret(secret.get("secret")?);
        }
        let mut application_clock = None;
        match clock.map(ClockArgument::get).transpose()? {
            None => {}
            Some(Clock::Manual(clock)) => builder = builder.clock(clock),
            Some(Clock::Application(object)) => application_clock = Some(object),
        }
        let limiter = builder.build().map_err(|error| exception::from_core(&error))?;
        Ok(Self { limiter: Arc::new(limiter), clock: application_clock })
    }

    #[php(defaults(cost = 1))]
    pub(crate) fn allow(&self, key: Text<'_>, cost: Integer) -> PhpResult<ZBox<ZendClassObject<Decision>>> {
        self.decide(Call::allow(key.get("key")?, cost.get("cost", invalid_cost)?))
    }

    #[php(defaults(cost = 1))]
    pub(crate) fn peek(&self, key: Text<'_>, cost: Integer) -> PhpResult<ZBox<ZendClassObject<Decision>>> {
        self.decide(Call::peek(key.get("key")?, cost.get("cost", invalid_cost)?))
    }

    pub(crate) fn reset(&self, key: Text<'_>) -> PhpResult<()> {
        self.limiter.reset(key.get("key")?).map_err(|error| exception::from_core(&error))
    }
}

impl Limiter {
    fn decide(&self, call: Call<'_>) -> PhpResult<ZBox<ZendClassObject<Decision>>> {
        let call = match &self.clock {
            None => call,
            Some(clock) => call.at_us(Clock::now_us(clock)?),
        };
        match self.limiter.decide(call) {
            Ok(decision) => Ok(class::new_object(Decision { decision, limiter: self.limiter.clone() })),
            Err(error) => Err(exception::from_core(&error)),
        }
    }
}

/// A cost that is no whole number.
fn invalid_cost(cost: f64) -> PhpException {
    exception::from_core(&core::limiter::invalid_cost(&shown(cost)))
}

/// The number of equal parts of a fleet.
fn parts(share: Integer) -> PhpResult<u32> {
    let invalid = |got: String| {
        let detail = format!("must be between 1 and {}, got {got}", u32::MAX);
        exception::from_core(&Error::argument_error(ErrorKind::InvalidArgument, "share", detail))
    };
    let share = share.get("share", |share| invalid(shown(share)))?;
    u32::try_from(share).map_err(|_| invalid(share.to_string()))
}
