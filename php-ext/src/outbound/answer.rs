//! What a governor says: before a request, and after it.

use std::cell::RefCell;
use std::rc::Rc;

use ext_php_rs::convert::IntoZval as _;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::Zval;
use ratelimit_core::clock::us_to_seconds;
use ratelimit_core::outbound::{self, Reason};

use super::observation::{Observation, set_seconds};
use crate::class::{new_object, readonly_class};

/// A request on its way. Holds no credential and no URL.
#[derive(Clone)]
pub(crate) struct Ticket(pub(super) Rc<RefCell<Box<outbound::Ticket>>>);

readonly_class!(Ticket, "RateLimit\\Outbound\\Ticket", [], {
    "attempt": Long = |this, value| { value.set_long(i64::from(this.0.borrow().attempt())); Ok(()) };
    "degraded": Bool = |this, value| { value.set_bool(this.0.borrow().degraded()); Ok(()) };
    "route": String = |this, value| Ok(value.set_string(this.0.borrow().route(), false)?);
});

impl Ticket {
    pub(super) fn new(ticket: Box<outbound::Ticket>) -> Self {
        Self(Rc::new(RefCell::new(ticket)))
    }

    fn set(&self, value: &mut Zval) -> PhpResult {
        *value = new_object(self.clone()).into_zval(false)?;
        Ok(())
    }
}

/// Declares that a class is made by a governor only.
macro_rules! made_by_governor {
    ($($class:ident),*) => {
        $(
            #[php_impl]
            impl $class {
                #[php(vis = "private")]
                pub(crate) fn __construct() -> PhpResult<Self> {
                    Err("it is made by a governor".into())
                }
            }
        )*
    };
}

/// Send the request.
#[derive(Clone)]
pub(crate) struct Go(pub(super) Ticket);

readonly_class!(Go, "RateLimit\\Outbound\\Go", [], {
    "ticket": Mixed = |this, value| this.0.set(value);
});

/// Sleep, then ask again.
#[derive(Clone)]
pub(crate) struct Wait {
    pub(super) delay_us: u64,
    pub(super) reason: Reason,
    pub(super) ticket: Ticket,
}

readonly_class!(Wait, "RateLimit\\Outbound\\Wait", [], {
    "delay": Double = |this, value| { value.set_double(us_to_seconds(this.delay_us)); Ok(()) };
    "reason": String = |this, value| Ok(value.set_string(this.reason.as_str(), false)?);
    "ticket": Mixed = |this, value| this.ticket.set(value);
});

/// Do not send the request.
#[derive(Clone)]
pub(crate) struct Refuse {
    pub(super) delay_us: u64,
    pub(super) reason: Reason,
}

readonly_class!(Refuse, "RateLimit\\Outbound\\Refuse", [], {
    "delay": Double = |this, value| { value.set_double(us_to_seconds(this.delay_us)); Ok(()) };
    "reason": String = |this, value| Ok(value.set_string(this.reason.as_str(), false)?);
});

/// What a response told.
#[derive(Clone)]
pub(crate) struct Told {
    pub(super) observation: Option<outbound::Observation>,
    pub(super) invalid_limit_reached: bool,
}

impl Told {
    fn set(&self, value: &mut Zval) -> PhpResult {
        match &self.observation {
            Some(observation) => *value = new_object(Observation(observation.clone())).into_zval(false)?,
            None => value.set_null(),
        }
        Ok(())
    }
}

/// Hand the response to the caller. `Return` is no name that PHP lets a class have.
#[derive(Clone)]
pub(crate) struct Returned(pub(super) Told);

readonly_class!(Returned, "RateLimit\\Outbound\\Returned", [], {
    "observation": Mixed = |this, value| this.0.set(value);
    "invalidLimitReached": Bool = |this, value| { value.set_bool(this.0.invalid_limit_reached); Ok(()) };
});

/// Sleep, ask again, and send the request again.
#[derive(Clone)]
pub(crate) struct Retry {
    pub(super) delay_us: u64,
    pub(super) attempt: u32,
    pub(super) ticket: Ticket,
    pub(super) told: Told,
}

readonly_class!(Retry, "RateLimit\\Outbound\\Retry", [], {
    "delay": Double = |this, value| { value.set_double(us_to_seconds(this.delay_us)); Ok(()) };
    "attempt": Long = |this, value| { value.set_long(i64::from(this.attempt)); Ok(()) };
    "ticket": Mixed = |this, value| this.ticket.set(value);
    "observation": Mixed = |this, value| this.told.set(value);
    "invalidLimitReached": Bool = |this, value| { value.set_bool(this.told.invalid_limit_reached); Ok(()) };
});

/// Throw an exception.
#[derive(Clone)]
pub(crate) struct Fail {
    pub(super) retry_after_us: u64,
    pub(super) global: bool,
    pub(super) too_long: bool,
    pub(super) told: Told,
}

readonly_class!(Fail, "RateLimit\\Outbound\\Fail", [], {
    "retryAfter": Double = |this, value| { value.set_double(us_to_seconds(this.retry_after_us)); Ok(()) };
    "global": Bool = |this, value| { value.set_bool(this.global); Ok(()) };
    "tooLong": Bool = |this, value| { value.set_bool(this.too_long); Ok(()) };
    "observation": Mixed = |this, value| this.told.set(value);
    "invalidLimitReached": Bool = |this, value| { value.set_bool(this.told.invalid_limit_reached); Ok(()) };
});

/// What is known of a bucket.
#[derive(Clone)]
pub(crate) struct BucketState(pub(super) outbound::BucketState);

readonly_class!(BucketState, "RateLimit\\Outbound\\BucketState", [], {
    "limit": Mixed = |this, value| { set_units(value, this.0.limit); Ok(()) };
    "remaining": Mixed = |this, value| { set_units(value, this.0.remaining); Ok(()) };
    "resetAfter": Mixed = |this, value| { set_seconds(value, this.0.reset_after_us); Ok(()) };
    "retryAfter": Double = |this, value| { value.set_double(us_to_seconds(this.0.retry_after_us)); Ok(()) };
});

fn set_units(value: &mut Zval, units: Option<u64>) {
    match units {
        Some(units) => value.set_long(crate::decision::count(units)),
        None => value.set_null(),
    }
}

made_by_governor!(Ticket, Go, Wait, Refuse, Returned, Retry, Fail, BucketState);
