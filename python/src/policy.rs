//! An algorithm with its numbers and a name.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use crate::core::policy::Algorithm;
use crate::core::{self, ErrorKind};
use crate::error::{self, OrRaise as _};
use crate::number::{Given, real, type_name, units};

const KIND: ErrorKind = ErrorKind::InvalidPolicy;

/// How much is allowed: an algorithm with its numbers and a name. Immutable; made by one of the static methods.
///
/// The name is part of the stored key, so two policies with different names never share a budget.
#[derive(Debug, PartialEq)]
#[pyclass(frozen, eq, module = "ratelimit_rs")]
pub(crate) struct Policy(pub(crate) core::Policy);

#[pymethods]
impl Policy {
    /// A bucket of `capacity` tokens that gains `refill_rate` tokens at the end of every `refill_interval` seconds.
    ///
    /// With `continuous`, tokens arrive all the time at that rate instead. `capacity` is an integer from 1 to
    /// 2147483647, the other two are positive and finite; 0.5 and the like are kept exactly. `name` is 1 to 100
    /// printable ASCII characters. Anything else raises `InvalidPolicy`, which names the argument and the value.
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
        make(capacity, refill_rate, refill_interval).and_then(|policy| policy.named(name)).map(Self).or_raise()
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

    pub(crate) fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let name = PyString::new(py, self.0.name()).repr()?;
        Ok(match self.0.algorithm() {
            Algorithm::TokenBucket(bucket) => format!(
                "Policy.token_bucket({}, {:?}, {:?}, continuous={}, name={name})",
                bucket.capacity(),
                bucket.refill_rate(),
                bucket.refill_interval(),
                if bucket.continuous() { "True" } else { "False" },
            ),
            _ => format!("Policy(name={name}, limit={})", self.0.limit()),
        })
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let restore = py.import("ratelimit_rs._native")?.getattr("restore_policy")?;
        let arguments = match self.0.algorithm() {
            Algorithm::TokenBucket(bucket) => (
                "token_bucket",
                (bucket.capacity(), bucket.refill_rate(), bucket.refill_interval(), bucket.continuous()),
                self.0.name(),
            )
                .into_pyobject(py)?,
            _ => return Err(PyTypeError::new_err("this policy cannot be pickled")),
        };
        Ok((restore, arguments))
    }
}

/// Makes a policy from what pickle kept of it.
#[pyfunction]
pub(crate) fn restore_policy(algorithm: &str, numbers: &Bound<'_, PyTuple>, name: &str) -> PyResult<Policy> {
    match algorithm {
        "token_bucket" => {
            let (capacity, refill_rate, refill_interval, continuous): (
                Bound<'_, PyAny>,
                Bound<'_, PyAny>,
                Bound<'_, PyAny>,
                bool,
            ) = numbers.extract()?;
            Policy::token_bucket(&capacity, &refill_rate, Given(Some(refill_interval.as_borrowed())), continuous, name)
        }
        other => Err(error::argument(KIND, "algorithm", format!("must be token_bucket, got {other:?}"))),
    }
}

/// The policy of a limiter, given alone or in a list of one.
pub(crate) fn one_of(policies: &Bound<'_, PyAny>) -> PyResult<core::Policy> {
    if let Ok(policy) = policies.cast::<Policy>() {
        return Ok(policy.get().0.clone());
    }
    let Ok(list) = policies.try_iter() else {
        let name = type_name(policies);
        return Err(PyTypeError::new_err(format!("policies must be a Policy or a list of one, got {name}")));
    };
    let mut found = Vec::new();
    for policy in list {
        let policy = policy?;
        let Ok(policy) = policy.cast::<Policy>() else {
            let name = type_name(&policy);
            return Err(PyTypeError::new_err(format!("policies must hold nothing but Policy, got {name}")));
        };
        found.push(policy.get().0.clone());
    }
    match <[_; 1]>::try_from(found) {
        Ok([policy]) => Ok(policy),
        Err(found) => {
            Err(error::argument(KIND, "policies", format!("must hold exactly one policy, got {}", found.len())))
        }
    }
}
