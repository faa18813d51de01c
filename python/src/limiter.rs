//! A policy bound to a store and to options: what a program holds.

use std::fmt::Debug;

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::Clock;
use crate::core::{self, Call, ErrorKind, FailureRule};
use crate::decision::Decision;
use crate::error::OrRaise as _;
use crate::key;
use crate::number::{self, Given, count, type_name};
use crate::policy::{self, Policy};
use crate::store;

/// Decides by one policy, with the state in one store.
///
/// `policies` is a Policy, or a list with one. `store` is None for the default store (the environment variable
/// `RATELIMIT_STORE`, else this process's memory), a DSN, a Store, or a redis.Redis, of which only the address and the
/// credentials are read. Cheap to build: nothing is sent to the store until the first call.
///
/// `on_error` says what to answer when the store does not: `throw` raises `StoreUnavailable`, `open` allows, `closed`
/// refuses, `local` decides in this process's memory by the limit divided by `share`; such a decision is `degraded`.
/// `hash_keys` stores every key as its hash, keyed with `secret`. `clock` replaces the store's own clock: a
/// `ManualClock`, or any object whose `now()` gives seconds since 1970; it is called before any lock is taken.
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
        let builder = core::Limiter::builder(policy::one_of(policies)?);
        let mut builder = builder.on_error(on_error).share(share).hash_keys(hash_keys);
        if let Some(secret) = secret {
            builder = builder.secret(secret_bytes(secret)?);
        }
        let clock = Clock::of(clock)?;
        let store = store::named("store", store)?;
        let blocks = store.kind().blocks();
        Ok(Self { inner: builder.store(store).build().or_raise()?, clock, blocks })
    }

    /// Takes `cost` units of the budget of `key` (str or bytes), if they are there.
    ///
    /// Raises `InvalidCost` unless `cost` is an int from 1 to 2147483647, and `StoreUnavailable` when the store fails and
    /// `on_error` is `throw`. A cost above the limit is no error: it is denied with a `retry_after` of `math.inf`.
    #[pyo3(signature = (key, cost = Given(None)), text_signature = "($self, key, cost=1)")]
    fn allow(&self, py: Python<'_>, key: &Bound<'_, PyAny>, cost: Given<'_, '_>) -> PyResult<Decision> {
        self.decide(py, Call::allow(key::bytes(key)?, number::cost(cost)?))
    }

    /// What `allow` would answer, without taking anything.
    #[pyo3(signature = (key, cost = Given(None)), text_signature = "($self, key, cost=1)")]
    fn peek(&self, py: Python<'_>, key: &Bound<'_, PyAny>, cost: Given<'_, '_>) -> PyResult<Decision> {
        self.decide(py, Call::peek(key::bytes(key)?, number::cost(cost)?))
    }

    /// Forgets what `key` has used: its budget is whole again. Raises `StoreUnavailable`.
    fn reset(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let key = key::bytes(key)?;
        self.run(py, |limiter| limiter.reset(key)).or_raise()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let policies = self.inner.policies().iter().map(|policy| Policy(policy.clone()));
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
        let call = match self.clock.now_us(py)? {
            Some(now_us) => call.at_us(now_us),
            None => call,
        };
        let decision = self.run(py, |limiter| limiter.decide(call)).or_raise()?;
        Ok(Decision::new(decision, self.inner.policies()))
    }

    /// Asks the core, without the interpreter's lock where the answer may take its time.
    fn run<R: Send>(&self, py: Python<'_>, ask: impl Send + FnOnce(&core::Limiter) -> R) -> R {
        if self.blocks { py.detach(|| ask(&self.inner)) } else { ask(&self.inner) }
    }
}

fn secret_bytes(secret: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    if let Ok(text) = secret.cast::<PyString>() {
        return Ok(text.to_str()?.as_bytes().to_vec());
    }
    match secret.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes().to_vec()),
        Err(_) => Err(PyTypeError::new_err(format!("secret must be str or bytes, got {}", type_name(secret)))),
    }
}
