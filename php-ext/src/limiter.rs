//! `Limiter`: what a program holds.

// Named arguments in PHP are the Rust names as they are.
#![allow(non_snake_case)]

use std::sync::Arc;

use ext_php_rs::boxed::ZBox;
use ext_php_rs::exception::{PhpException, PhpResult};
use ext_php_rs::prelude::*;
use ext_php_rs::types::{ZendClassObject, ZendHashTable, Zval};
use ratelimit_core as core;
use ratelimit_core::clock::seconds_to_us;
use ratelimit_core::{Call, Error, ErrorKind, ManualClock, WaitStep, Waiting};

use crate::batch::{self, Calls};
use crate::call::Extras;
use crate::clock::{Clock, ClockArgument};
use crate::convert::{Float, Integer, Nullable, Switch, Text, shown};
use crate::decision::Decision;
use crate::events::{Listener, Listeners};
use crate::key::Key;
use crate::policy::Policies;
use crate::secret::Secrets;
use crate::{class, exception, store, wait};

/// The failure rule without `onError`. The macro takes defaults as names, not as strings.
const THROW: &str = "throw";

/// The longest wait without `maxWait`.
const UNLIMITED: f64 = f64::INFINITY;

/// A limiter of the core.
#[php_class]
#[php(name = "RateLimit\\Limiter")]
#[allow(clippy::struct_field_names)]
pub(crate) struct Limiter {
    limiter: Arc<core::Limiter>,
    time: Time,
    listeners: Listeners,
}

/// Where a limiter's time comes from, and so how it passes while the limiter waits.
enum Time {
    /// The store's clock.
    Store,
    /// A clock of ours, which a wait moves on.
    Manual,
    /// A clock written in PHP, and the one inside the core's limiter that is set by it before each call.
    Application(Zval, Arc<ManualClock>),
}

type Answer = PhpResult<ZBox<ZendClassObject<Decision>>>;

#[php_impl]
impl Limiter {
    #[php(defaults(onError = THROW, share = 1, hashKeys = false, lease = 0))]
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn __construct(
        policies: Policies,
        store: Option<&Zval>,
        onError: Text<'_>,
        share: Integer,
        hashKeys: Switch,
        secret: Nullable<Secrets>,
        clock: Option<ClockArgument>,
        lease: Integer,
    ) -> PhpResult<Self> {
        let policies = policies.get()?;
        let rule = onError.utf8("onError")?.parse().map_err(|error| exception::from_core(&error))?;
        let mut builder = core::Limiter::builder(policies)
            .store(store::resolve("store", store.unwrap_or(&Zval::new()))?)
            .on_error(rule)
            .share(parts(share)?)
            .hash_keys(hashKeys.get("hashKeys")?)
            .lease(lease.get("lease", invalid_lease)?);
        if let Some(secret) = secret.0 {
            builder = builder.secrets(secret.get()?);
        }
        let time = match clock.map(ClockArgument::get).transpose()? {
            None => Time::Store,
            Some(Clock::Manual(clock)) => {
                builder = builder.clock(clock);
                Time::Manual
            }
            Some(Clock::Application(object)) => {
                let inside = Arc::new(ManualClock::new(0.0));
                builder = builder.clock(inside.clone());
                Time::Application(object, inside)
            }
        };
        let limiter = builder.build().map_err(|error| exception::from_core(&error))?;
        Ok(Self { limiter: Arc::new(limiter), time, listeners: Listeners::default() })
    }

    #[php(defaults(cost = 1))]
    pub(crate) fn allow(
        &self,
        key: Key<'_>,
        cost: Integer,
        token: Nullable<Text<'_>>,
        onError: Nullable<Text<'_>>,
    ) -> Answer {
        let (cost, extras) = (cost.get("cost", invalid_cost)?, Extras::of(token, onError)?);
        key.with(|keys| self.decide(extras.on(Call::allow(keys, cost))))
    }

    /// One decision per pair of a key and a cost, in order.
    pub(crate) fn allow_many(&self, calls: Calls, onError: Nullable<Text<'_>>) -> PhpResult<ZBox<ZendHashTable>> {
        let extras = Extras::of(Nullable(None), onError)?;
        calls.with(&extras, |calls| {
            self.set_clock()?;
            let outcomes = self.limiter.decide_many(calls).map_err(|error| exception::from_core(&error))?;
            self.listeners.tell(&self.limiter)?;
            batch::decisions(outcomes, |decision| self.answer(decision))
        })
    }

    #[php(defaults(cost = 1))]
    pub(crate) fn peek(&self, key: Key<'_>, cost: Integer, onError: Nullable<Text<'_>>) -> Answer {
        let (cost, extras) = (cost.get("cost", invalid_cost)?, Extras::of(Nullable(None), onError)?);
        key.with(|keys| self.decide(extras.on(Call::peek(keys, cost))))
    }

    #[php(defaults(cost = 1, maxWait = UNLIMITED))]
    pub(crate) fn reserve(
        &self,
        key: Key<'_>,
        cost: Integer,
        maxWait: Float,
        token: Nullable<Text<'_>>,
        onError: Nullable<Text<'_>>,
    ) -> Answer {
        let (cost, max_wait_us) = (cost.get("cost", invalid_cost)?, max_wait_us(maxWait)?);
        let extras = Extras::of(token, onError)?;
        key.with(|keys| self.decide(extras.on(Call::reserve(keys, cost, max_wait_us))))
    }

    #[php(defaults(cost = 1, maxWait = UNLIMITED))]
    pub(crate) fn wait(
        &self,
        key: Key<'_>,
        cost: Integer,
        maxWait: Float,
        token: Nullable<Text<'_>>,
        onError: Nullable<Text<'_>>,
    ) -> Answer {
        let (cost, max_wait_us) = (cost.get("cost", invalid_cost)?, max_wait_us(maxWait)?);
        let extras = Extras::of(token, onError)?;
        key.with(|keys| {
            let call = extras.on(Call::allow(keys, cost));
            let mut waiting = Waiting::new(max_wait_us);
            let give_up = |waiting: &mut Waiting| {
                drop(waiting.cancel(&self.limiter, call));
                self.listeners.forget();
            };
            self.set_clock()?;
            loop {
                let step = waiting.step(&self.limiter, call);
                if let Err(ended) = self.listeners.tell(&self.limiter) {
                    // The script ends; what was reserved is given back as at the end of a sleep.
                    give_up(&mut waiting);
                    return Err(ended);
                }
                match step.map_err(|error| exception::from_core(&error))? {
                    WaitStep::Done(decision) => return Ok(self.answer(decision)),
                    // The exception that ends the wait is what the caller has to hear of, whatever becomes of the slot.
                    WaitStep::Sleep { us } => {
                        wait::unless_given_up(|| self.pass_us(us), || give_up(&mut waiting))?;
                    }
                }
            }
        })
    }

    #[php(defaults(cost = 1))]
    pub(crate) fn refund(
        &self,
        key: Key<'_>,
        cost: Integer,
        token: Nullable<Text<'_>>,
        onError: Nullable<Text<'_>>,
    ) -> PhpResult<()> {
        let (cost, extras) = (cost.get("cost", invalid_cost)?, Extras::of(token, onError)?);
        key.with(|keys| self.decide(extras.on(Call::refund(keys, cost))).map(drop))
    }

    pub(crate) fn reset(&self, key: Key<'_>) -> PhpResult<()> {
        key.with(|keys| {
            let outcome = self.limiter.reset(keys);
            self.listeners.tell(&self.limiter)?;
            outcome.map_err(|error| exception::from_core(&error))
        })
    }

    /// Calls the listener for each decision from now on.
    pub(crate) fn on_decision(&self, listener: Listener) -> PhpResult<()> {
        self.listeners.add_to_decisions(listener, &self.limiter)
    }

    /// Calls the listener each time the store gives no answer, from now on.
    pub(crate) fn on_store_error(&self, listener: Listener) -> PhpResult<()> {
        self.listeners.add_to_store_errors(listener, &self.limiter)
    }

    /// Gives back what this process has leased and nobody has spent.
    pub(crate) fn return_leases(&self) -> PhpResult<()> {
        self.set_clock()?;
        self.limiter.return_leases().map_err(|error| exception::from_core(&error))
    }
}

impl Limiter {
    #[inline]
    fn decide(&self, call: Call<'_>) -> Answer {
        self.set_clock()?;
        let outcome = self.limiter.decide(call);
        self.listeners.tell(&self.limiter)?;
        match outcome {
            Ok(decision) => Ok(self.answer(decision)),
            Err(error) => Err(exception::from_core(&error)),
        }
    }

    #[inline]
    fn answer(&self, decision: core::Decision) -> ZBox<ZendClassObject<Decision>> {
        class::new_object(Decision { decision, limiter: self.limiter.clone() })
    }

    /// Asks the application's clock, if there is one.
    #[inline]
    fn set_clock(&self) -> PhpResult {
        match &self.time {
            Time::Store | Time::Manual => Ok(()),
            Time::Application(object, inside) => ask(object, inside),
        }
    }

    /// Lets time pass, and sees what the time is then. A clock of the application's is taken to go by itself.
    fn pass_us(&self, us: u64) -> PhpResult {
        match self.time {
            Time::Manual => self.limiter.sleep_us(us),
            Time::Store | Time::Application(..) => wait::sleep_us(us)?,
        }
        self.set_clock()
    }
}

#[cold]
fn ask(clock: &Zval, inside: &ManualClock) -> PhpResult {
    inside.set_us(Clock::now_us(clock)?);
    Ok(())
}

/// The longest wait that is accepted, in microseconds.
pub(crate) fn max_wait_us(seconds: Float) -> PhpResult<u64> {
    let seconds = seconds.get("maxWait")?;
    if seconds.is_nan() || seconds < 0.0 {
        let detail = format!("must be at least 0 seconds, got {}", shown(seconds));
        return Err(exception::from_core(&Error::argument_error(ErrorKind::InvalidArgument, "max_wait", detail)));
    }
    Ok(if seconds.is_infinite() { u64::MAX } else { seconds_to_us(seconds) })
}

/// A cost that is no whole number.
fn invalid_cost(cost: f64) -> PhpException {
    exception::from_core(&core::limiter::invalid_cost(&shown(cost)))
}

/// A size of leases that is no whole number.
fn invalid_lease(lease: f64) -> PhpException {
    exception::from_core(&core::limiter::invalid_lease(&shown(lease)))
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
