//! `Concurrency`: how much may be under way at a time.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use std::sync::Arc;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::exception::PhpResult;
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, Zval};
use ratelimit_core as core;
use ratelimit_core::{AcquireStep, Acquiring, Holder, Limiter, ManualClock};

use crate::clock::{Clock, ClockArgument};
use crate::convert::{Float, Integer, Text};
use crate::decision::Decision;
use crate::limiter::max_wait_us;
use crate::work::Work;
use crate::{class, exception, policy, store, wait};

/// The name without `name`. The macro takes defaults as names, not as strings.
const DEFAULT: &str = "default";

/// A concurrency limit of the core.
#[php_class]
#[php(name = "RateLimit\\Concurrency")]
pub(crate) struct Concurrency {
    inner: core::Concurrency,
    /// Asked nothing: decisions look here for their policy and their time.
    describes: Arc<Limiter>,
    /// A clock written in PHP, and the one inside the core's that is set by it before each call.
    application: Option<(Zval, Arc<ManualClock>)>,
    /// Whether a wait moves its clock instead of sleeping.
    manual: bool,
}

#[php_impl]
impl Concurrency {
    #[php(defaults(name = DEFAULT))]
    pub(crate) fn __construct(
        limit: Integer,
        leaseTtl: Float,
        store: Option<&Zval>,
        name: Text<'_>,
        clock: Option<ClockArgument>,
    ) -> PhpResult<Self> {
        let (limit, lease_ttl) = (policy::units("limit", limit)?, leaseTtl.get("leaseTtl")?);
        let name = name.utf8("name")?;
        let store = store::resolve("store", store.unwrap_or(&Zval::new()))?;
        let named = core::Concurrency::new(limit, lease_ttl, store.clone()).and_then(|it| it.named(&name));
        let mut inner = named.map_err(|error| exception::from_core(&error))?;
        let mut describes = Limiter::builder(inner.policies().to_vec()).store(store);
        let clock = clock.map(ClockArgument::get).transpose()?;
        let manual = matches!(clock, Some(Clock::Manual(_)));
        let mut application = None;
        if let Some(clock) = clock {
            let inside = match clock {
                Clock::Manual(clock) => clock,
                Clock::Application(object) => {
                    let inside = Arc::new(ManualClock::new(0.0));
                    application = Some((object, inside.clone()));
                    inside
                }
            };
            inner = inner.clock(inside.clone());
            describes = describes.clock(inside);
        }
        let describes = Arc::new(describes.build().map_err(|error| exception::from_core(&error))?);
        Ok(Self { inner, describes, application, manual })
    }

    #[php(defaults(maxWait = 0.0))]
    pub(crate) fn acquire(&self, key: Text<'_>, maxWait: Float) -> PhpResult<Option<String>> {
        let (key, max_wait_us) = (key.get("key")?, max_wait_us(maxWait)?);
        Ok(self.take(key, max_wait_us)?.map(String::from))
    }

    pub(crate) fn extend(&self, key: Text<'_>, lease: Text<'_>) -> PhpResult<bool> {
        let (key, lease) = (key.get("key")?, lease.utf8("lease")?);
        self.set_clock()?;
        self.inner.extend(key, lease).map_err(|error| exception::from_core(&error))
    }

    pub(crate) fn release(&self, key: Text<'_>, lease: Text<'_>) -> PhpResult<bool> {
        let (key, lease) = (key.get("key")?, lease.utf8("lease")?);
        self.set_clock()?;
        self.inner.release(key, lease).map_err(|error| exception::from_core(&error))
    }

    pub(crate) fn peek(&self, key: Text<'_>) -> PhpResult<ZBox<ZendClassObject<Decision>>> {
        let key = key.get("key")?;
        self.set_clock()?;
        let decision = self.inner.peek(key).map_err(|error| exception::from_core(&error))?;
        Ok(class::new_object(self.described(decision)))
    }

    #[php(defaults(maxWait = 0.0))]
    pub(crate) fn run(&self, key: Text<'_>, work: Work<'_>, maxWait: Float) -> PhpResult<Zval> {
        let (key, work, max_wait_us) = (key.get("key")?, work.get()?, max_wait_us(maxWait)?);
        let Some(lease) = self.take(key, max_wait_us)? else {
            let decision = self.inner.refusal(key).map_err(|error| exception::from_core(&error))?;
            return Err(exception::limit_exceeded(self.described(decision)));
        };
        // The application's clock is not asked: it could throw. Where the store gives no answer, the lease ends by itself.
        work.run(lease.as_str(), || drop(self.inner.release(key, &lease)))
    }
}

impl Concurrency {
    fn take(&self, key: &[u8], max_wait_us: u64) -> PhpResult<Option<Holder>> {
        let mut acquiring = Acquiring::new(max_wait_us).map_err(|error| exception::from_core(&error))?;
        self.set_clock()?;
        loop {
            match self.inner.step(&mut acquiring, key).map_err(|error| exception::from_core(&error))? {
                AcquireStep::Done(lease) => return Ok(Some(lease)),
                AcquireStep::Refused => return Ok(None),
                AcquireStep::Sleep { us } if self.manual => self.inner.sleep_us(us),
                AcquireStep::Sleep { us } => {
                    wait::sleep_us(us)?;
                    self.set_clock()?;
                }
            }
        }
    }

    fn described(&self, decision: core::Decision) -> Decision {
        Decision { decision, limiter: self.describes.clone() }
    }

    /// Asks the application's clock, if there is one.
    fn set_clock(&self) -> PhpResult<()> {
        if let Some((clock, inside)) = &self.application {
            inside.set_us(Clock::now_us(clock)?);
        }
        Ok(())
    }
}
