//! Limits on how much is under way at a time.

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::Clock;
use crate::core::{self, ErrorKind};
use crate::decision::{Decision, Policies};
use crate::error::OrRaise as _;
use crate::held::HeldLease;
use crate::holding::{Holding, short_wait_us};
use crate::key;
use crate::mailbox::Mailbox;
use crate::number::{Given, real, units};
use crate::store;

/// Lets at most `limit` pieces of work on a key be under way at a time, whoever does them.
///
/// Each piece of work holds a lease, which ends by itself after `lease_ttl` seconds where its holder dies; a holder that
/// needs longer extends it. Two names share no leases. `store` and `clock` are what a `Limiter` takes. On an embedded store
/// every step looks at all leases of a key, so limits beyond some thousands belong on Redis.
///
/// A key is str or bytes. Every method raises `StoreUnavailable` when the store gives no answer. May be used from any thread
/// and after `os.fork()`.
///
/// >>> uploads = Concurrency(1, 60, Store.memory(), name="uploads")
/// >>> with uploads.lease("user:42"):
/// ...     uploads.peek("user:42").remaining
/// 0
/// >>> uploads.peek("user:42").remaining
/// 1
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct Concurrency {
    inner: core::Concurrency,
    holding: Holding,
    policies: Policies,
}

#[pymethods]
impl Concurrency {
    #[new]
    #[pyo3(signature = (limit, lease_ttl, store = None, *, name = "default", clock = None))]
    fn new(
        limit: &Bound<'_, PyAny>,
        lease_ttl: &Bound<'_, PyAny>,
        store: Option<&Bound<'_, PyAny>>,
        name: &str,
        clock: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        const KIND: ErrorKind = ErrorKind::InvalidPolicy;
        let (limit, lease_ttl) = (units(KIND, "limit", limit)?, real(KIND, "lease_ttl", lease_ttl)?);
        let (clock, store) = (Clock::of(clock)?, store::named("store", store)?);
        let leases = core::Concurrency::new(limit, lease_ttl, store).and_then(|it| it.named(name)).or_raise()?;
        let (holding, inner) = Holding::of_leases(leases, clock);
        Ok(Self { policies: inner.policies().into(), holding, inner })
    }

    /// Takes a lease, waiting for one for at most `max_wait` seconds. None where all are still taken.
    ///
    /// What it returns is the lease's text, by which it is extended and released, in any process and language. Those who wait
    /// are in no queue. It sleeps as `time.sleep` does, so that other threads go on and Ctrl-C interrupts it; nothing is held
    /// then. With a `ManualClock` it moves the clock instead. Where it raises `StoreUnavailable` a lease may be taken, until
    /// its time is over.
    #[pyo3(signature = (key, max_wait = Given(None)), text_signature = "($self, key, max_wait=0.0)")]
    fn acquire(&self, py: Python<'_>, key: &Bound<'_, PyAny>, max_wait: Given<'_, '_>) -> PyResult<Option<String>> {
        let (key, max_wait_us) = (key::one(key)?, short_wait_us(max_wait)?);
        Ok(self.holding.acquire(py, key, 0.0, max_wait_us)?.map(String::from))
    }

    /// Makes a lease last anew. False where its time was over before, or nobody has it.
    fn extend(&self, py: Python<'_>, key: &Bound<'_, PyAny>, lease: &str) -> PyResult<bool> {
        self.holding.extend(py, key::one(key)?, lease, 0.0)
    }

    /// Gives a lease back. False where its time was over before, or nobody has it.
    fn release(&self, py: Python<'_>, key: &Bound<'_, PyAny>, lease: &str) -> PyResult<bool> {
        self.holding.release(py, key::one(key)?, lease)
    }

    /// How many leases are left, taking none: `remaining` of `limit`.
    ///
    /// Where none is left, `retry_after` is how long it is at most until one is.
    fn peek(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Decision> {
        let key = key::one(key)?;
        self.holding.look(py)?;
        self.holding.run(py, || self.inner.peek(key)).or_raise().map(|decision| self.decision(decision))
    }

    /// `acquire` for a `with` statement, at whose end the lease is given back, also where the block raises.
    ///
    /// Raises `LimitExceeded`, with the decision, where all leases are taken for all of `max_wait`. The object that `with`
    /// gives has the `holder`, and `extend` and `release`. Where the store gives no answer to the release, the lease ends by
    /// itself.
    #[pyo3(signature = (key, max_wait = Given(None)), text_signature = "($self, key, max_wait=0.0)")]
    fn lease(slf: Bound<'_, Self>, key: &Bound<'_, PyAny>, max_wait: Given<'_, '_>) -> PyResult<HeldLease> {
        let (key, max_wait_us) = (key::one(key)?.into(), short_wait_us(max_wait)?);
        Ok(HeldLease::new(slf.unbind(), key, max_wait_us))
    }

    /// Whether a call may have to wait for a server.
    #[getter]
    fn _blocks(&self) -> bool {
        self.holding.blocks()
    }

    /// The decision for somebody who was refused a lease just now.
    fn _refusal(&self, py: Python<'_>, key: &Bound<'_, PyAny>) -> PyResult<Decision> {
        self.refusal(py, key::one(key)?)
    }

    fn __repr__(&self) -> String {
        let policy = &self.policies[0];
        let (limit, name, kind) = (policy.limit(), policy.name(), self.inner.store().kind().as_str());
        format!("<ratelimit_rs.Concurrency {name:?} of {limit} on '{kind}'>")
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.holding.traverse(&visit)
    }
}

impl Concurrency {
    pub(crate) const fn holding(&self) -> &Holding {
        &self.holding
    }

    pub(crate) fn refusal(&self, py: Python<'_>, key: &[u8]) -> PyResult<Decision> {
        self.holding.look(py)?;
        self.holding.run(py, || self.inner.refusal(key)).or_raise().map(|decision| self.decision(decision))
    }

    fn decision(&self, decision: core::Decision) -> Decision {
        Decision::new(decision, &self.policies, self.holding.told_us())
    }
}

/// Begins `peek`, or the look at what refused a lease just now.
#[pyfunction]
pub(crate) fn begin_look<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    leases: &Concurrency,
    key: &Bound<'py, PyAny>,
    refused: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let key = Box::<[u8]>::from(key::one(key)?);
    leases.holding.look(py)?;
    let (asked, policies) = (core::aio::Concurrency::new(leases.inner.clone()), leases.policies.clone());
    let at_us = leases.holding.told_us();
    let work = async move { if refused { asked.refusal(&key).await } else { asked.peek(&key).await } };
    mailbox.begin(py, work, move |py, decision| {
        let decision = Decision::new(decision.or_raise()?, &policies, at_us);
        Ok(Py::new(py, decision)?.into_any())
    })
}
