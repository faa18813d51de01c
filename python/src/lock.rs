//! Locks: one holder per key.

use pyo3::prelude::*;

use crate::core::{self, ErrorKind};
use crate::error::OrRaise as _;
use crate::held::HeldLock;
use crate::holding::{Holding, short_wait_us};
use crate::key;
use crate::mailbox::Mailbox;
use crate::number::{Given, max_wait_us, real};
use crate::store;

/// Locks by key, in one store: at most one holder at a time.
///
/// A lock ends by itself after `ttl` seconds, so that a holder that dies blocks nobody for longer; a holder that needs longer
/// extends it. On Redis it is as safe as that one server: a failover may lose it. Nothing keeps a holder whose time is over
/// from going on. `store` is what a `Limiter` takes.
///
/// A key is str or bytes. Every method raises `StoreUnavailable` when the store gives no answer. May be used from any thread
/// and after `os.fork()`.
///
/// >>> lock = Lock(Store.memory())
/// >>> with lock.hold("report:7", 30):
/// ...     lock.is_held("report:7")
/// True
/// >>> lock.is_held("report:7")
/// False
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct Lock {
    inner: core::Lock,
    holding: Holding,
}

#[pymethods]
impl Lock {
    #[new]
    #[pyo3(signature = (store = None))]
    fn new(store: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let inner = core::Lock::new(store::named("store", store)?);
        Ok(Self { holding: Holding::of_lock(inner.clone()), inner })
    }

    /// Takes a lock for `ttl` seconds, waiting for it for at most `max_wait` seconds. None where somebody else still holds it.
    ///
    /// What it returns is the holder's text, by which the lock is extended and released, in any process and language. Those
    /// who wait are in no queue. It sleeps as `time.sleep` does, so that other threads go on and Ctrl-C interrupts it; nothing
    /// is held then. Where it raises `StoreUnavailable` the lock may be taken, until its time is over. A `ttl` below 0.001
    /// raises `InvalidArgument`, and the store is not asked.
    ///
    /// >>> lock = Lock(Store.memory())
    /// >>> holder = lock.acquire("report:7", ttl=30)
    /// >>> lock.acquire("report:7", ttl=30) is None
    /// True
    /// >>> lock.release("report:7", holder)
    /// True
    #[pyo3(signature = (key, ttl, max_wait = Given(None)), text_signature = "($self, key, ttl, max_wait=0.0)")]
    fn acquire(
        &self,
        py: Python<'_>,
        key: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        max_wait: Given<'_, '_>,
    ) -> PyResult<Option<String>> {
        let (key, ttl, max_wait_us) = (key::one(key)?, seconds(ttl)?, short_wait_us(max_wait)?);
        Ok(self.holding.acquire(py, key, ttl, max_wait_us)?.map(String::from))
    }

    /// Makes a lock that is held end `ttl` seconds from now. False where it is not, or not any more, this holder's.
    fn extend(&self, py: Python<'_>, key: &Bound<'_, PyAny>, holder: &str, ttl: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (key, ttl) = (key::one(key)?, seconds(ttl)?);
        self.holding.extend(py, key, holder, ttl)
    }

    /// Lets a lock go. False where it was not, or not any more, this holder's: what it was to protect may have been done by
    /// two at once.
    fn release(&self, py: Python<'_>, key: &Bound<'_, PyAny>, holder: &str) -> PyResult<bool> {
        self.holding.release(py, key::one(key)?, holder)
    }

    /// Whether anybody holds a lock. The answer may be out of date when it arrives.
    fn is_held(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        let key = key::one(key)?;
        self.holding.run(py, || self.inner.is_held(key)).or_raise()
    }

    /// `acquire` for a `with` statement, at whose end the lock is released, also where the block raises.
    ///
    /// Raises `WaitTooLong` where somebody else holds the lock for all of `max_wait`. The object that `with` gives has the
    /// `holder`, and `extend` and `release`. Where the store gives no answer to the release, the lock ends by itself.
    ///
    /// >>> lock = Lock(Store.memory())
    /// >>> with lock.hold("report:7", 30) as held:
    /// ...     held.extend(60)
    /// True
    #[pyo3(signature = (key, ttl, max_wait = Given(None)), text_signature = "($self, key, ttl, max_wait=1e999)")]
    fn hold(
        slf: Bound<'_, Self>,
        key: &Bound<'_, PyAny>,
        ttl: &Bound<'_, PyAny>,
        max_wait: Given<'_, '_>,
    ) -> PyResult<HeldLock> {
        let (key, ttl, max_wait_us) = (key::one(key)?.into(), seconds(ttl)?, max_wait_us(max_wait)?);
        Ok(HeldLock::new(slf.unbind(), key, ttl, max_wait_us))
    }

    /// Whether a call may have to wait for a server.
    #[getter]
    fn _blocks(&self) -> bool {
        self.holding.blocks()
    }

    fn __repr__(&self) -> String {
        format!("<ratelimit_rs.Lock on '{}'>", self.inner.store().kind().as_str())
    }
}

impl Lock {
    pub(crate) const fn holding(&self) -> &Holding {
        &self.holding
    }
}

/// The time of a lock.
pub(crate) fn seconds(ttl: &Bound<'_, PyAny>) -> PyResult<f64> {
    real(ErrorKind::InvalidArgument, "ttl", ttl)
}

/// Begins `is_held`.
#[pyfunction]
pub(crate) fn begin_is_held<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    lock: &Lock,
    key: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let (key, asked) = (Box::<[u8]>::from(key::one(key)?), core::aio::Lock::new(lock.inner.clone()));
    let work = async move { asked.is_held(&key).await };
    mailbox.begin(py, work, |py, held| crate::acquiring::truth(py, held.or_raise()?))
}
