//! `Policy`: how much is allowed.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use ext_php_rs::convert::FromZvalMut;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::flags::DataType;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, Zval};
use ratelimit_core as core;
use ratelimit_core::{Error, ErrorKind};

use crate::class::readonly_class;
use crate::convert::{Float, Integer, Nullable, Switch, Text, shown, wrong_type};
use crate::decision::count;
use crate::{engine, exception};

/// The name of a policy without one.
const DEFAULT_NAME: &str = "default";

/// A policy of the core.
#[derive(Clone)]
pub(crate) struct Policy(pub(crate) core::Policy);

readonly_class!(Policy, "RateLimit\\Policy", [], {
    "name": String = |policy, value| Ok(value.set_string(policy.0.name(), false)?);
    "limit": Long = |policy, value| { value.set_long(count(policy.0.limit())); Ok(()) };
});

#[php_impl]
impl Policy {
    #[php(vis = "private")]
    pub(crate) fn __construct() -> PhpResult<Self> {
        Err("a policy is made by Policy::parse() or one of the methods called after an algorithm".into())
    }

    #[php(defaults(refillInterval = 1.0, continuous = false, name = DEFAULT_NAME))]
    pub(crate) fn token_bucket(
        capacity: Integer,
        refillRate: Float,
        refillInterval: Float,
        continuous: Switch,
        name: Text<'_>,
    ) -> PhpResult<Self> {
        named(&token_bucket(capacity, refillRate, refillInterval, continuous.get("continuous")?)?, name)
    }

    #[php(defaults(aligned = false, name = DEFAULT_NAME))]
    pub(crate) fn fixed_window(limit: Integer, window: Float, aligned: Switch, name: Text<'_>) -> PhpResult<Self> {
        let (limit, window) = (units("limit", limit)?, window.get("window")?);
        let make =
            if aligned.get("aligned")? { core::Policy::fixed_window_aligned } else { core::Policy::fixed_window };
        named(&made(make(limit, window))?, name)
    }

    #[php(defaults(name = DEFAULT_NAME))]
    pub(crate) fn sliding_window_log(limit: Integer, window: Float, name: Text<'_>) -> PhpResult<Self> {
        named(&made(core::Policy::sliding_window_log(units("limit", limit)?, window.get("window")?))?, name)
    }

    #[php(defaults(name = DEFAULT_NAME))]
    pub(crate) fn sliding_window_counter(limit: Integer, window: Float, name: Text<'_>) -> PhpResult<Self> {
        named(&made(core::Policy::sliding_window_counter(units("limit", limit)?, window.get("window")?))?, name)
    }

    #[php(defaults(name = DEFAULT_NAME))]
    pub(crate) fn leaky_bucket(capacity: Integer, leakRate: Float, name: Text<'_>) -> PhpResult<Self> {
        named(&made(core::Policy::leaky_bucket(units("capacity", capacity)?, leakRate.get("leakRate")?))?, name)
    }

    #[php(defaults(name = DEFAULT_NAME))]
    pub(crate) fn gcra(limit: Integer, period: Float, burst: Nullable<Integer>, name: Text<'_>) -> PhpResult<Self> {
        let (limit, period) = (units("limit", limit)?, period.get("period")?);
        let burst = burst.0.map(|burst| units("burst", burst)).transpose()?;
        named(&made(core::Policy::gcra(limit, period, burst))?, name)
    }

    #[php(defaults(name = DEFAULT_NAME))]
    pub(crate) fn parse(text: Text<'_>, name: Text<'_>) -> PhpResult<Self> {
        named(&made(core::Policy::parse(&text.utf8("text")?))?, name)
    }

    /// A text that reads as the same policy; the name is no part of it.
    pub(crate) fn __to_string(&self) -> String {
        self.0.to_string()
    }
}

/// The token bucket of both classes that make one.
pub(crate) fn token_bucket(
    capacity: Integer,
    refill_rate: Float,
    refill_interval: Float,
    continuous: bool,
) -> PhpResult<core::Policy> {
    let capacity = units("capacity", capacity)?;
    let (rate, interval) = (refill_rate.get("refillRate")?, refill_interval.get("refillInterval")?);
    let policy = if continuous {
        core::Policy::token_bucket_continuous(capacity, rate, interval)
    } else {
        core::Policy::token_bucket(capacity, rate, interval)
    };
    made(policy)
}

/// A policy of the core, or its error as an exception.
fn made(policy: core::Result<core::Policy>) -> PhpResult<core::Policy> {
    policy.map_err(|error| exception::from_core(&error))
}

/// The policy under its name.
fn named(policy: &core::Policy, name: Text<'_>) -> PhpResult<Policy> {
    made(policy.named(&name.utf8("name")?)).map(Policy)
}

/// A number of units, which the core checks further.
pub(crate) fn units(argument: &'static str, number: Integer) -> PhpResult<i64> {
    let not_whole = |number| {
        let detail = format!("must be an integer between 1 and 2147483647, got {}", shown(number));
        exception::from_core(&Error::argument_error(ErrorKind::InvalidPolicy, argument, detail))
    };
    number.get(argument, not_whole)
}

/// The argument `Policy|array $policies`: one policy, or a list of them.
pub(crate) enum Policies {
    /// The policy.
    One(core::Policy),
    /// The policies, in order.
    Several(Vec<core::Policy>),
    /// Something of this type.
    Wrong(String),
}

impl FromZvalMut<'_> for Policies {
    const TYPE: DataType = DataType::object("RateLimit\\Policy");

    fn from_zval_mut(value: &mut Zval) -> Option<Self> {
        let policy = |value: &Zval| {
            let policy = value.dereference().object().and_then(ZendClassObject::<Policy>::from_zend_obj);
            policy.map(|policy| policy.0.clone())
        };
        let Some(list) = value.array() else {
            return Some(policy(value).map_or_else(|| Self::Wrong(engine::type_name(value)), Self::One));
        };
        let of = |value: &Zval| {
            policy(value).ok_or_else(|| format!("array with {}", engine::type_name(value.dereference())))
        };
        Some(list.values().map(of).collect::<Result<_, _>>().map_or_else(Self::Wrong, Self::Several))
    }
}

impl Policies {
    /// The policies; how many there may be is the core's to say.
    pub(crate) fn get(self) -> PhpResult<core::Policies> {
        match self {
            Self::One(policy) => Ok(policy.into()),
            Self::Several(policies) => Ok(policies.into()),
            Self::Wrong(type_) => Err(wrong_type("policies", "RateLimit\\Policy|array", &type_)),
        }
    }
}
