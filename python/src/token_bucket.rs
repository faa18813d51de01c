//! The drop-in for the class of the same name in redis.io's guide.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::core::{self, Call, ErrorKind};
use crate::error::OrRaise as _;
use crate::key;
use crate::number::{Given, real, units};
use crate::store::{self, Store};

const KIND: ErrorKind = ErrorKind::InvalidPolicy;

/// A token bucket with the constructor and the answers of the class in redis.io's guide.
///
/// `redis_client` is None (the default store), a DSN, a Store or a client of redis-py, of which only the addresses, the
/// credentials and the encryption are read. The bucket holds `capacity` tokens and gains `refill_rate` of them at the end
/// of every `refill_interval` seconds. Raises `InvalidPolicy` and `InvalidStore`, naming the argument.
///
/// >>> allowed, remaining = TokenBucket(capacity=10).allow("user:42")
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct TokenBucket {
    inner: Arc<core::Limiter>,
    redis: Py<PyAny>,
    blocks: bool,
    capacity: i64,
    refill_rate: f64,
    refill_interval: f64,
}

#[pymethods]
impl TokenBucket {
    #[new]
    #[pyo3(
        signature = (redis_client = None, capacity = Given(None), refill_rate = Given(None), refill_interval = Given(None)),
        text_signature = "(redis_client=None, capacity=10, refill_rate=1, refill_interval=1.0)"
    )]
    fn new(
        py: Python<'_>,
        redis_client: Option<&Bound<'_, PyAny>>,
        capacity: Given<'_, '_>,
        refill_rate: Given<'_, '_>,
        refill_interval: Given<'_, '_>,
    ) -> PyResult<Self> {
        let capacity = capacity.or(10, |value| units(KIND, "capacity", value))?;
        let refill_rate = refill_rate.or(1.0, |value| real(KIND, "refill_rate", value))?;
        let refill_interval = refill_interval.or(1.0, |value| real(KIND, "refill_interval", value))?;
        let policy = core::Policy::token_bucket(capacity, refill_rate, refill_interval).or_raise()?;
        let store = store::named("redis_client", redis_client)?;
        let redis = match redis_client {
            Some(client) => client.clone().unbind(),
            None => Py::new(py, Store(store.clone()))?.into_any(),
        };
        let blocks = store.kind().blocks();
        let inner = Arc::new(core::Limiter::new(policy, store).or_raise()?);
        Ok(Self { inner, redis, blocks, capacity, refill_rate, refill_interval })
    }

    /// Takes a token of the bucket of `key`, if there is one: (whether there was, how many are left).
    ///
    /// Raises `StoreUnavailable` when the store gives no answer.
    fn allow(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<(bool, f64)> {
        let call = Call::allow(key::one(key)?, 1);
        let decision = if self.blocks { py.detach(|| self.inner.decide(call)) } else { self.inner.decide(call) };
        Ok(answer(&decision.or_raise()?))
    }

    /// What was given as `redis_client`, or the default store: good for building another one on the same server.
    #[getter]
    fn redis<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.redis.bind(py).clone()
    }

    /// The most tokens it holds.
    #[getter]
    fn capacity(&self) -> i64 {
        self.capacity
    }

    /// Tokens added per interval.
    #[getter]
    fn refill_rate(&self) -> f64 {
        self.refill_rate
    }

    /// Seconds between refills.
    #[getter]
    fn refill_interval(&self) -> f64 {
        self.refill_interval
    }

    /// Whether a call may have to wait for a server.
    #[getter]
    fn _blocks(&self) -> bool {
        self.blocks
    }

    fn __repr__(&self) -> String {
        let Self { capacity, refill_rate, refill_interval, .. } = self;
        let kind = self.inner.store().kind().as_str();
        format!(
            "<ratelimit_rs.TokenBucket capacity={capacity}, refill_rate={refill_rate:?}, \
             refill_interval={refill_interval:?} on '{kind}'>"
        )
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.redis)
    }
}

impl TokenBucket {
    /// Its limiter, asked without blocking.
    pub(crate) fn asynchronous(&self) -> core::aio::Limiter {
        core::aio::Limiter::new(self.inner.clone())
    }
}

/// What redis.io's class answers.
pub(crate) fn answer(decision: &core::Decision) -> (bool, f64) {
    (decision.allowed(), tokens(decision.remaining()))
}

#[allow(clippy::cast_precision_loss)]
fn tokens(remaining: u64) -> f64 {
    // A limit is below 2^31, so the float is exact.
    remaining as f64
}
