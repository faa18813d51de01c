//! A policy bound to a store and to options: what a program holds.

use std::fmt::Debug;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::Clock;
use crate::core::algorithm::NEVER_US;
use crate::core::clock::us_to_seconds;
use crate::core::{self, Call, ErrorKind, FailureRule, WaitStep, Waiting};
use crate::decision::{Decision, Policies};
use crate::error::OrRaise as _;
use crate::key;
use crate::number::{self, Given, count, max_wait_us, type_name};
use crate::policy::{self, Policy};
use crate::store;

/// Decides by one policy or several, with the state in one store.
///
/// `policies` is a Policy or a list of them: all are charged, or none is, in one atomic step. `store` is None for the default store (the environment variable
/// `RATELIMIT_STORE`, else this process's memory), a DSN, a Store, or a redis.Redis, of which only the address and the
/// credentials are read. Cheap to build: nothing is sent to the store until the first call.
///
/// `on_error` says what to answer when the store does not: `throw` raises `StoreUnavailable`, `open` allows, `closed`
/// refuses, `local` decides in this process's memory by the limit divided by `share`; such a decision is `degraded`.
/// `hash_keys` stores every key as its hash, keyed with `secret`. `clock` replaces the store's own clock: a
/// `ManualClock`, or any object whose `now()` gives seconds since 1970; it is called before any lock is taken.
///
/// Every verb takes a key, which is str or bytes, or with several policies also a dict of one key per policy's name. It
/// raises `InvalidCost` unless `cost` is an int from 1 to 2147483647, and `StoreUnavailable` when the store fails and
/// `on_error` is `throw`. With a `token` (str or bytes) a call may be sent again, as after a time-out: what a call with
/// the same token on the same key took within the last minute is not taken again, and its decision is given again.
///
/// May be used from any thread and after `os.fork()`.
///
/// >>> limiter = Limiter(Policy.token_bucket(10, 1), Store.memory())
/// >>> decision = limiter.allow("user:42")
/// >>> decision.allowed, decision.remaining
/// (True, 9)
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct Limiter {
    inner: core::Limiter,
    policies: Policies,
    clock: Clock,
    /// Whether the store may make a caller wait.
    blocks: bool,
}

#[pymethods]
impl Limiter {
    #[new]
    #[pyo3(
        signature = (policies, store = None, *, on_error = "throw", share = Given(None), hash_keys = false, secret = None, clock = None),
        text_signature = "(policies, store=None, *, on_error='throw', share=1, hash_keys=False, secret=None, clock=None)"
    )]
    fn new(
        policies: &Bound<'_, PyAny>,
        store: Option<&Bound<'_, PyAny>>,
        on_error: &str,
        share: Given<'_, '_>,
        hash_keys: bool,
        secret: Option<&Bound<'_, PyAny>>,
        clock: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let share = share.or(1, |value| count(ErrorKind::InvalidArgument, "share", &u32::MAX, value))?;
        let on_error: FailureRule = on_error.parse().or_raise()?;
        let builder = core::Limiter::builder(policy::list(policies)?);
        let mut builder = builder.on_error(on_error).share(share).hash_keys(hash_keys);
        if let Some(secret) = secret {
            builder = builder.secret(secret_bytes(secret)?);
        }
        let clock = Clock::of(clock)?;
        if let Some(clock) = clock.for_core() {
            builder = builder.clock(clock);
        }
        let store = store::named("store", store)?;
        let blocks = store.kind().blocks();
        let inner = builder.store(store).build().or_raise()?;
        Ok(Self { policies: inner.policies().into(), inner, clock, blocks })
    }

    /// Takes `cost` units of the budget of `key`, if they are there.
    ///
    /// A cost above the limit is no error: it is denied with a `retry_after` of `math.inf`.
    #[pyo3(
        signature = (key, cost = Given(None), *, token = None),
        text_signature = "($self, key, cost=1, *, token=None)"
    )]
    fn allow(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Decision> {
        let (cost, token) = (number::cost(cost)?, key::token(token)?);
        key::with(key, |keys| self.decide(py, with_token(Call::allow(keys, cost), token)))
    }

    /// What `allow` would answer, without taking anything.
    #[pyo3(signature = (key, cost = Given(None)), text_signature = "($self, key, cost=1)")]
    fn peek(&self, py: Python<'_>, key: &Bound<'_, PyAny>, cost: Given<'_, '_>) -> PyResult<Decision> {
        let cost = number::cost(cost)?;
        key::with(key, |keys| self.decide(py, Call::peek(keys, cost)))
    }

    /// Takes `cost` units now, for a start after `decision.delay` seconds: ahead of time where they are not there yet.
    ///
    /// What would start later than after `max_wait` seconds is denied and takes nothing. Token bucket and GCRA go into
    /// debt; a leaky bucket is a queue, and denies when it is full. A window policy raises `InvalidArgument`: `wait` is
    /// for them.
    #[pyo3(
        signature = (key, cost = Given(None), max_wait = Given(None), *, token = None),
        text_signature = "($self, key, cost=1, max_wait=1e999, *, token=None)"
    )]
    fn reserve(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        max_wait: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Decision> {
        let (cost, max_wait_us, token) = (number::cost(cost)?, max_wait_us(max_wait)?, key::token(token)?);
        key::with(key, |keys| self.decide(py, with_token(Call::reserve(keys, cost, max_wait_us), token)))
    }

    /// Takes `cost` units, sleeping until they are there; at most `max_wait` seconds.
    ///
    /// Raises `WaitTooLong` at once, taking nothing, when the wait would be longer or the cost can never pass. Sleeps as
    /// `time.sleep` does, so that other threads go on and Ctrl-C interrupts it (what it had reserved stays taken); with a
    /// `ManualClock` it moves the clock instead.
    #[pyo3(
        signature = (key, cost = Given(None), max_wait = Given(None), *, token = None),
        text_signature = "($self, key, cost=1, max_wait=1e999, *, token=None)"
    )]
    fn wait(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        max_wait: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Decision> {
        let (cost, max_wait_us, token) = (number::cost(cost)?, max_wait_us(max_wait)?, key::token(token)?);
        key::with(key, |keys| {
            let mut waiting = self.inner.waiting(with_token(Call::allow(keys, cost), token), max_wait_us);
            loop {
                match self.step(py, &mut waiting)? {
                    WaitStep::Done(decision) => return Ok(Decision::new(decision, &self.policies)),
                    WaitStep::Sleep { us } => self.clock.sleep(py, us)?,
                }
            }
        })
    }

    /// Gives `cost` units back, for work that was not done after all: at most what was taken, never above the limit.
    #[pyo3(signature = (key, cost = Given(None)), text_signature = "($self, key, cost=1)")]
    fn refund(&self, py: Python<'_>, key: &Bound<'_, PyAny>, cost: Given<'_, '_>) -> PyResult<()> {
        let cost = number::cost(cost)?;
        key::with(key, |keys| self.decide(py, Call::refund(keys, cost)).map(drop))
    }

    /// Forgets what `key` has used: its budget is whole again. Raises `StoreUnavailable`.
    fn reset(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        key::with(key, |keys| self.run(py, || self.inner.reset(keys)).or_raise())
    }

    /// Decorates a function, so that each call of it takes `cost` units first, or raises `LimitExceeded`.
    ///
    /// `key` is what the verbs take, or a function that makes it of the call's arguments. With `wait` a call waits for
    /// its turn instead, and raises `WaitTooLong` when it can never come. A coroutine function is one still: it sleeps in
    /// its event loop, and has a server asked by a thread of the loop's executor.
    ///
    /// >>> limiter = Limiter(Policy.token_bucket(1, 1, 60), Store.memory(), clock=ManualClock())
    /// >>> @limiter.limit(key=lambda user: f"user:{user}")
    /// ... def greet(user):
    /// ...     return f"Hello, {user}!"
    /// >>> greet("Ada")
    /// 'Hello, Ada!'
    /// >>> greet("Ada")
    /// Traceback (most recent call last):
    /// ratelimit_rs.errors.LimitExceeded: the limit of policy 'default' is used up; retry after 60.0 s
    #[pyo3(
        signature = (key, cost = Given(None), wait = false),
        text_signature = "($self, key, cost=1, wait=False)"
    )]
    fn limit<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
        cost: Given<'_, 'py>,
        wait: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let cost = number::cost_in_range(cost)?;
        if !key.is_callable() {
            key::with(key, |_| Ok(()))?;
        }
        let decorator = slf.py().import("ratelimit_rs.decorator")?;
        decorator.getattr("limit")?.call1((slf, key, cost, wait))
    }

    /// Whether a call may have to wait for a server.
    #[getter]
    fn _blocks(&self) -> bool {
        self.blocks
    }

    /// A step of a wait without a bound, for those who sleep in their own way: (seconds to sleep, decision). Without a
    /// decision another step has to follow.
    fn _wait_step(&self, py: Python<'_>, key: &Bound<'_, PyAny>, cost: i64) -> PyResult<(f64, Option<Decision>)> {
        let (us, decision) = key::with(key, |keys| {
            if self.policies.iter().all(core::Policy::reserves) {
                // A reservation is the decision and the sleep before it in one.
                let decision = self.answer(py, Call::reserve(keys, cost, u64::MAX))?;
                match decision.retry_after_us() {
                    0 => return Ok((decision.delay_us(), Some(decision))),
                    // The step below says why.
                    NEVER_US => {}
                    us => return Ok((us, None)),
                }
            }
            match self.step(py, &mut self.inner.waiting(Call::allow(keys, cost), u64::MAX))? {
                WaitStep::Done(decision) => Ok((0, Some(decision))),
                WaitStep::Sleep { us } => Ok((us, None)),
            }
        })?;
        let decision = decision.map(|decision| Decision::new(decision, &self.policies));
        if let Clock::Manual(_) = self.clock {
            self.clock.sleep(py, us)?;
            return Ok((0.0, decision));
        }
        Ok((us_to_seconds(us), decision))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let policies = self.policies.iter().map(|policy| Policy(policy.clone()));
        let policies = policies.map(|policy| policy.__repr__(py)).collect::<PyResult<Vec<_>>>()?;
        let kind = self.inner.store().kind().as_str();
        Ok(format!("<ratelimit_rs.Limiter [{}] on '{kind}'>", policies.join(", ")))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.clock.traverse(&visit)
    }
}

impl Limiter {
    fn decide(&self, py: Python<'_>, call: Call<'_>) -> PyResult<Decision> {
        self.answer(py, call).map(|decision| Decision::new(decision, &self.policies))
    }

    fn answer(&self, py: Python<'_>, call: Call<'_>) -> PyResult<core::Decision> {
        self.clock.ask(py)?;
        self.run(py, || self.inner.decide(call)).or_raise()
    }

    fn step(&self, py: Python<'_>, waiting: &mut Waiting<'_>) -> PyResult<WaitStep> {
        self.clock.ask(py)?;
        self.run(py, || waiting.step()).or_raise()
    }

    /// Asks the core, without the interpreter's lock where the answer may take its time.
    fn run<R: Send>(&self, py: Python<'_>, ask: impl Send + FnOnce() -> R) -> R {
        if self.blocks { py.detach(ask) } else { ask() }
    }
}

fn with_token<'a>(call: Call<'a>, token: Option<&'a [u8]>) -> Call<'a> {
    match token {
        Some(token) => call.token(token),
        None => call,
    }
}

fn secret_bytes(secret: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    match key::bytes(secret)? {
        Some(bytes) => Ok(bytes.to_vec()),
        None => Err(PyTypeError::new_err(format!("secret must be str or bytes, got {}", type_name(secret)))),
    }
}
