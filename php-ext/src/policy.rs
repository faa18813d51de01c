//! `Policy`: how much is allowed.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use ext_php_rs::convert::FromZvalMut;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::flags::DataType;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, Zval};
use ratelimit_core as core;
use ratelimit_core::{Error, ErrorKind};

use crate::class::readonly_class;
use crate::convert::{Float, Integer, Switch, Text, shown, wrong_type};
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
        Err("a policy is made by Policy::tokenBucket()".into())
    }

    #[php(defaults(refillInterval = 1.0, continuous = false, name = DEFAULT_NAME))]
    pub(crate) fn token_bucket(
        capacity: Integer,
        refillRate: Float,
        refillInterval: Float,
        continuous: Switch,
        name: Text<'_>,
    ) -> PhpResult<Self> {
        let policy = token_bucket(capacity, refillRate, refillInterval, continuous.get("continuous")?)?;
        policy.named(&name.utf8("name")?).map(Self).map_err(|error| exception::from_core(&error))
    }
}

/// The token bucket of both classes that make one.
pub(crate) fn token_bucket(
    capacity: Integer,
    refill_rate: Float,
    refill_interval: Float,
    continuous: bool,
) -> PhpResult<core::Policy> {
    let capacity = capacity.get("capacity", |capacity| not_whole("capacity", capacity))?;
    let (rate, interval) = (refill_rate.get("refillRate")?, refill_interval.get("refillInterval")?);
    let policy = if continuous {
        core::Policy::token_bucket_continuous(capacity, rate, interval)
    } else {
        core::Policy::token_bucket(capacity, rate, interval)
    };
    policy.map_err(|error| exception::from_core(&error))
}

fn not_whole(argument: &'static str, number: f64) -> PhpException {
    let detail = format!("must be an integer between 1 and 2147483647, got {}", shown(number));
    exception::from_core(&Error::argument_error(ErrorKind::InvalidPolicy, argument, detail))
}

/// The argument `Policy|array $policies`: one policy, or a list of one.
pub(crate) enum Policies {
    /// The policy.
    One(core::Policy),
    /// A list of this many.
    Several(usize),
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
        let mut one = Self::Several(list.len());
        for value in list.values() {
            match policy(value) {
                Some(policy) if list.len() == 1 => one = Self::One(policy),
                Some(_) => {}
                None => return Some(Self::Wrong(format!("array with {}", engine::type_name(value)))),
            }
        }
        Some(one)
    }
}

impl Policies {
    /// The policy.
    pub(crate) fn get(self) -> PhpResult<core::Policy> {
        match self {
            Self::One(policy) => Ok(policy),
            Self::Several(number) => {
                let detail = format!("must be one policy or a list of one, got a list of {number}");
                Err(exception::from_core(&Error::argument_error(ErrorKind::InvalidPolicy, "policies", detail)))
            }
            Self::Wrong(type_) => Err(wrong_type("policies", "RateLimit\\Policy|array", &type_)),
        }
    }
}
