//! An algorithm with its numbers and a name.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::core::algorithm::fixed_window::Placing;
use crate::core::clock::us_to_seconds;
use crate::core::policy::Algorithm;
use crate::core::{self, ErrorKind};
use crate::error::OrRaise as _;
use crate::number::{Given, real, type_name, units};

const KIND: ErrorKind = ErrorKind::InvalidPolicy;

/// How much is allowed: an algorithm with its numbers and a name. Immutable; made by one of the static methods.
///
/// Limits, capacities and bursts are integers from 1 to 2147483647 (10.0 will do); rates are positive and finite, and
/// 0.5 and the like are kept exactly; windows and periods are seconds. `name` is 1 to 100 printable ASCII characters and
/// part of the stored key, so two policies with different names never share a budget. Anything else raises
/// `InvalidPolicy`, which names the argument and the value.
///
/// `str()` of a policy is a text that `Policy.parse` reads as the same policy, but for the name.
#[derive(Debug, PartialEq)]
#[pyclass(frozen, eq, module = "ratelimit_rs")]
pub(crate) struct Policy(pub(crate) core::Policy);

#[pymethods]
impl Policy {
    /// A bucket of `capacity` tokens that gains `refill_rate` tokens at the end of every `refill_interval` seconds.
    ///
    /// With `continuous`, tokens arrive all the time at that rate instead.
    ///
    /// >>> Policy.token_bucket(10, 0.5, name="login").limit
    /// 10
    #[staticmethod]
    #[pyo3(
        signature = (capacity, refill_rate, refill_interval = Given(None), *, continuous = false, name = "default"),
        text_signature = "(capacity, refill_rate, refill_interval=1.0, *, continuous=False, name='default')"
    )]
    fn token_bucket(
        capacity: &Bound<'_, PyAny>,
        refill_rate: &Bound<'_, PyAny>,
        refill_interval: Given<'_, '_>,
        continuous: bool,
        name: &str,
    ) -> PyResult<Self> {
        let capacity = units(KIND, "capacity", capacity)?;
        let refill_rate = real(KIND, "refill_rate", refill_rate)?;
        let refill_interval = refill_interval.or(1.0, |value| real(KIND, "refill_interval", value))?;
        let make = if continuous { core::Policy::token_bucket_continuous } else { core::Policy::token_bucket };
        named(make(capacity, refill_rate, refill_interval), name)
    }

    /// At most `limit` units in each window of `window` seconds.
    ///
    /// A window is opened by the first hit; with `aligned`, windows stand at multiples of their length since 1970.
    /// Around the edge of two windows up to twice the limit may pass within one window's length.
    #[staticmethod]
    #[pyo3(
        signature = (limit, window, *, aligned = false, name = "default"),
        text_signature = "(limit, window, *, aligned=False, name='default')"
    )]
    fn fixed_window(limit: &Bound<'_, PyAny>, window: &Bound<'_, PyAny>, aligned: bool, name: &str) -> PyResult<Self> {
        let (limit, window) = limit_and_window(limit, window)?;
        let make = if aligned { core::Policy::fixed_window_aligned } else { core::Policy::fixed_window };
        named(make(limit, window), name)
    }

    /// At most `limit` units in any `window` seconds. Exact; every grant is remembered, so memory grows with the limit.
    #[staticmethod]
    #[pyo3(signature = (limit, window, *, name = "default"), text_signature = "(limit, window, *, name='default')")]
    fn sliding_window_log(limit: &Bound<'_, PyAny>, window: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let (limit, window) = limit_and_window(limit, window)?;
        named(core::Policy::sliding_window_log(limit, window), name)
    }

    /// About `limit` units in any `window` seconds, from two counters.
    #[staticmethod]
    #[pyo3(signature = (limit, window, *, name = "default"), text_signature = "(limit, window, *, name='default')")]
    fn sliding_window_counter(limit: &Bound<'_, PyAny>, window: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let (limit, window) = limit_and_window(limit, window)?;
        named(core::Policy::sliding_window_counter(limit, window), name)
    }

    /// A bucket of `capacity` units that leaks `leak_rate` of them per second; a call that would overflow it is denied.
    ///
    /// `reserve` and `wait` use it as a queue: starts are spaced evenly, and a full queue denies.
    #[staticmethod]
    #[pyo3(
        signature = (capacity, leak_rate, *, name = "default"),
        text_signature = "(capacity, leak_rate, *, name='default')"
    )]
    fn leaky_bucket(capacity: &Bound<'_, PyAny>, leak_rate: &Bound<'_, PyAny>, name: &str) -> PyResult<Self> {
        let capacity = units(KIND, "capacity", capacity)?;
        named(core::Policy::leaky_bucket(capacity, real(KIND, "leak_rate", leak_rate)?), name)
    }

    /// `limit` units per `period` seconds, evenly spaced, of which `burst` may come at once; None is the limit.
    #[staticmethod]
    #[pyo3(
        signature = (limit, period, burst = None, *, name = "default"),
        text_signature = "(limit, period, burst=None, *, name='default')"
    )]
    fn gcra(
        limit: &Bound<'_, PyAny>,
        period: &Bound<'_, PyAny>,
        burst: Option<&Bound<'_, PyAny>>,
        name: &str,
    ) -> PyResult<Self> {
        let limit = units(KIND, "limit", limit)?;
        let period = real(KIND, "period", period)?;
        let burst = burst.map(|burst| units(KIND, "burst", burst)).transpose()?;
        named(core::Policy::gcra(limit, period, burst), name)
    }

    /// Reads a policy from a text. A text that is none raises `InvalidPolicy`, which points at the place.
    ///
    /// | text | policy |
    /// |---|---|
    /// | `100/m`, `5 per 10 minutes` | fixed window, opened by the first hit |
    /// | `100/h aligned` | fixed window at multiples of an hour |
    /// | `1000/day aligned Europe/Berlin` | fixed window: the days (`week`, `month`) of a time zone |
    /// | `100/h sliding` | sliding window counter |
    /// | `100/h log` | sliding window log |
    /// | `10/s burst 20`, `10/s gcra` | GCRA, 20 (10) at once |
    /// | `20 burst, 5/s` | token bucket of 20 tokens, 5 arriving at the end of each second |
    /// | `20 burst, 5/s continuous` | token bucket, the tokens arriving all the time |
    /// | `10 burst, 2/s leaky` | leaky bucket of 10 units, leaking 2 per second |
    ///
    /// Units of time are `us`, `ms`, `s`, `m`, `h`, `d` and `w`, or the words for them.
    ///
    /// >>> str(Policy.parse("5 per 10 minutes"))
    /// '5/600s'
    #[staticmethod]
    #[pyo3(signature = (text, *, name = "default"), text_signature = "(text, *, name='default')")]
    fn parse(text: &str, name: &str) -> PyResult<Self> {
        named(core::Policy::parse(text), name)
    }

    /// What it is called.
    #[getter]
    fn name(&self) -> &str {
        self.0.name()
    }

    /// The largest cost that can ever pass.
    #[getter]
    fn limit(&self) -> u64 {
        self.0.limit()
    }

    fn __hash__(&self) -> u64 {
        // Equal policies have equal names, limits and windows.
        let mut hasher = DefaultHasher::new();
        (self.0.name(), self.0.limit(), self.0.window_us()).hash(&mut hasher);
        hasher.finish()
    }

    fn __str__(&self) -> String {
        self.0.to_string()
    }

    pub(crate) fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, self.0.name()).repr()?;
        Ok(match self.0.algorithm() {
            Algorithm::TokenBucket(it) => {
                let (capacity, rate, interval) = (it.capacity(), it.refill_rate(), it.refill_interval());
                let continuous = python_bool(it.continuous());
                format!("Policy.token_bucket({capacity}, {rate:?}, {interval:?}, continuous={continuous}, name={name})")
            }
            Algorithm::LeakyBucket(it) => {
                format!("Policy.leaky_bucket({}, {:?}, name={name})", it.capacity(), it.leak_rate())
            }
            Algorithm::Gcra(it) => {
                format!("Policy.gcra({}, {:?}, {}, name={name})", it.limit(), it.period(), it.burst())
            }
            Algorithm::FixedWindow(it) if !matches!(it.placing(), Placing::Calendar(_)) => {
                let (limit, window) = (it.limit(), us_to_seconds(it.window_us()));
                let aligned = python_bool(*it.placing() == Placing::Aligned);
                format!("Policy.fixed_window({limit}, {window:?}, aligned={aligned}, name={name})")
            }
            Algorithm::SlidingWindowLog(it) => {
                let (limit, window) = (it.limit(), us_to_seconds(it.window_us()));
                format!("Policy.sliding_window_log({limit}, {window:?}, name={name})")
            }
            Algorithm::SlidingWindowCounter(it) => {
                let (limit, window) = (it.limit(), us_to_seconds(it.window_us()));
                format!("Policy.sliding_window_counter({limit}, {window:?}, name={name})")
            }
            _ => format!("Policy.parse({}, name={name})", PyString::new(py, &self.0.to_string()).repr()?),
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.import("ratelimit_rs._native")?.getattr("restore_policy")?;
        Ok((restore, (self.0.to_string(), self.0.name()).into_pyobject(py)?))
    }
}

/// Makes a policy from what pickle kept of it: its text and its name.
#[pyfunction]
pub(crate) fn restore_policy(text: &str, name: &str) -> PyResult<Policy> {
    Policy::parse(text, name)
}

/// The policies of a limiter: one alone, or those of a list.
pub(crate) fn list(policies: &Bound<'_, PyAny>) -> PyResult<Vec<core::Policy>> {
    if let Ok(policy) = policies.cast::<Policy>() {
        return Ok(vec![policy.get().0.clone()]);
    }
    let Ok(list) = policies.try_iter() else {
        let name = type_name(policies);
        return Err(PyTypeError::new_err(format!("policies must be a Policy or a list of them, got {name}")));
    };
    let policy = |policy: PyResult<Bound<'_, PyAny>>| {
        let policy = policy?;
        let wrong = || {
            let name = type_name(&policy);
            PyTypeError::new_err(format!("policies must hold nothing but Policy, got {name}"))
        };
        policy.cast::<Policy>().map(|policy| policy.get().0.clone()).map_err(|_| wrong())
    };
    list.map(policy).collect()
}

fn named(policy: core::Result<core::Policy>, name: &str) -> PyResult<Policy> {
    policy.and_then(|policy| policy.named(name)).map(Policy).or_raise()
}

fn limit_and_window(limit: &Bound<'_, PyAny>, window: &Bound<'_, PyAny>) -> PyResult<(i64, f64)> {
    Ok((units(KIND, "limit", limit)?, real(KIND, "window", window)?))
}

fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}
