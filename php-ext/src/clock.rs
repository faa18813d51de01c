//! `Clock` and `ManualClock`: where "now" comes from in tests.

use std::sync::Arc;

use ext_php_rs::builders::{ClassBuilder, FunctionBuilder};
use ext_php_rs::convert::FromZval;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::flags::{ClassFlags, DataType, MethodFlags};
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, Zval};
use ext_php_rs::zend::ExecutorGlobals;
use ratelimit_core::clock::{Clock as _, us_to_seconds};
use ratelimit_core::{Error, ErrorKind, clock as core};

use crate::class::Slot;
use crate::convert::{self, Float, shown, wrong_type};
use crate::{engine, exception};

static CLOCK: Slot = Slot::new();

/// Registers the interface, while the module starts.
pub(crate) fn register() -> ext_php_rs::error::Result<()> {
    let now = FunctionBuilder::new_abstract("now").returns(DataType::Double, false, false);
    ClassBuilder::new("RateLimit\\Clock")
        .flags(ClassFlags::Interface)
        .method(now, MethodFlags::Public | MethodFlags::Abstract)
        .registration(|class, argument_infos| CLOCK.set(class, argument_infos))
        .register()
}

/// A clock that moves only when told to.
#[php_class]
#[php(name = "RateLimit\\ManualClock")]
#[php(implements(ce = || CLOCK.get(), stub = "\\RateLimit\\Clock"))]
pub(crate) struct ManualClock(Arc<core::ManualClock>);

#[php_impl]
impl ManualClock {
    #[php(defaults(now = 1_700_000_000.0))]
    pub(crate) fn __construct(now: Float) -> PhpResult<Self> {
        let now = instant("now", now.get("now")?)?;
        Ok(Self(Arc::new(core::ManualClock::new(now))))
    }

    pub(crate) fn now(&self) -> f64 {
        us_to_seconds(self.0.now_us())
    }

    pub(crate) fn advance(&self, seconds: Float) -> PhpResult<()> {
        let seconds = seconds.get("seconds")?;
        if !seconds.is_finite() {
            return Err(invalid("seconds", format!("must be finite, got {}", shown(seconds))));
        }
        self.0.advance(seconds);
        Ok(())
    }
}

/// A limiter's clock.
pub(crate) enum Clock {
    /// One of ours, read by the core.
    Manual(Arc<core::ManualClock>),
    /// An object of the application, asked before each call to the store.
    Application(Zval),
}

impl Clock {
    /// Asks an application's clock, in microseconds since 1970. Its exception goes to the caller.
    pub(crate) fn now_us(object: &Zval) -> PhpResult<u64> {
        let now = object.try_call_method("now", vec![]);
        if ExecutorGlobals::has_exception() {
            // The pending exception is the one the caller gets; this one is never thrown.
            return Err("the clock threw".into());
        }
        let now = now.map_err(|error| PhpException::from(error.to_string()))?;
        let now = now.double().ok_or_else(|| wrong_type("Clock::now()", "float", &engine::type_name(&now)))?;
        Ok(core::seconds_to_us(instant("now", now)?))
    }
}

/// The argument `?Clock $clock`; anything else than a clock is refused when the limiter asks for it.
pub(crate) enum ClockArgument {
    /// A clock.
    Given(Clock),
    /// Something of this type.
    Wrong(String),
}

impl FromZval<'_> for ClockArgument {
    const TYPE: DataType = DataType::object("RateLimit\\Clock");

    fn from_zval(value: &Zval) -> Option<Self> {
        if value.is_null() {
            return None;
        }
        let Some(object) = value.object().filter(|object| object.instance_of(CLOCK.get())) else {
            return Some(Self::Wrong(engine::type_name(value)));
        };
        Some(Self::Given(match ZendClassObject::<ManualClock>::from_zend_obj(object) {
            Some(clock) => Clock::Manual(clock.0.clone()),
            None => Clock::Application(value.shallow_clone()),
        }))
    }
}

impl ClockArgument {
    /// The clock.
    pub(crate) fn get(self) -> PhpResult<Clock> {
        match self {
            Self::Given(clock) => Ok(clock),
            Self::Wrong(type_) => Err(convert::wrong_type("clock", "?RateLimit\\Clock", &type_)),
        }
    }
}

fn instant(argument: &'static str, seconds: f64) -> PhpResult<f64> {
    if seconds.is_finite() && seconds >= 0.0 {
        return Ok(seconds);
    }
    Err(invalid(argument, format!("must be seconds since 1970, got {}", shown(seconds))))
}

fn invalid(argument: &'static str, detail: String) -> PhpException {
    exception::from_core(&Error::argument_error(ErrorKind::InvalidArgument, argument, detail))
}
