//! Waiting for a lock or a lease in steps, and the other verbs of both, for event loops.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use tokio::sync::Mutex;

use crate::core::clock::{Clock as _, us_to_seconds};
use crate::core::{self, AcquireStep, aio};
use crate::error::{OrRaise as _, raise};
use crate::holding::Owner;
use crate::key;
use crate::lock::seconds;
use crate::mailbox::Mailbox;
use crate::number::{Given, max_wait_us};

/// A wait for a lock or a lease that is under way. Private.
#[derive(Debug)]
#[pyclass(frozen, name = "_Acquiring", module = "ratelimit_rs._native")]
pub(crate) struct Acquiring {
    owner: Owner,
    key: Arc<[u8]>,
    ttl: f64,
    max_wait_us: u64,
    /// `None` when it has been given up. A step and the end of the wait may meet: whoever is later waits for the other.
    under_way: Arc<Mutex<Option<core::Acquiring>>>,
}

/// What came of a step; `None` when the wait had been given up.
type Step = Option<core::Result<AcquireStep>>;

#[pymethods]
impl Acquiring {
    #[new]
    #[pyo3(
        signature = (owner, key, max_wait = Given(None), ttl = None),
        text_signature = "(owner, key, max_wait=1e999, ttl=None)"
    )]
    fn new(
        owner: Owner,
        key: &Bound<'_, PyAny>,
        max_wait: Given<'_, '_>,
        ttl: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (key, max_wait_us, ttl) = (key::one(key)?.into(), max_wait_us(max_wait)?, ttl.map_or(Ok(0.0), seconds)?);
        let under_way = Arc::new(Mutex::new(Some(core::Acquiring::new(max_wait_us).or_raise()?)));
        Ok(Self { owner, key, ttl, max_wait_us, under_way })
    }

    /// The next step: the seconds to sleep before the one after it, or the holder's text, or None where the wait is over.
    fn step(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let step = self.owner.holding().step(py, &self.key, self.ttl, &self.under_way)?;
        self.reading().step(py, step)
    }

    /// Gives the wait up, and what it may have taken back. A step that is under way is waited for, and none is taken
    /// afterwards.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let holding = self.owner.holding();
        let cancelled = holding.run(py, || {
            let given_up = self.under_way.blocking_lock().take();
            given_up.map_or(Ok(()), |acquiring| holding.what.cancel(&acquiring, &self.key))
        });
        cancelled.or_raise()
    }

    /// `cancel` for a caller who cannot wait for it, nor hear of it.
    fn abandon(&self) -> PyResult<()> {
        let work = self.cancel_later();
        aio::spawn(async { drop(work.await) }).or_raise()
    }

    /// The exception for a lock that somebody else holds.
    fn refused(&self, py: Python<'_>) -> Py<PyAny> {
        raise(&core::Lock::refused(self.max_wait_us)).into_value(py).into_any()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.owner.traverse(&visit)
    }
}

impl Acquiring {
    fn step_later(&self, py: Python<'_>) -> PyResult<impl Future<Output = Step> + Send + use<>> {
        let holding = self.owner.holding();
        holding.look(py)?;
        let (what, key, ttl) = (holding.what.clone(), self.key.clone(), self.ttl);
        let under_way = self.under_way.clone();
        Ok(async move {
            let mut under_way = under_way.lock().await;
            let acquiring = under_way.as_mut()?;
            Some(what.step_later(acquiring, &key, ttl).await)
        })
    }

    fn cancel_later(&self) -> impl Future<Output = core::Result<()>> + Send + use<> {
        let (what, key) = (self.owner.holding().what.clone(), self.key.clone());
        let under_way = self.under_way.clone();
        async move {
            let given_up = under_way.lock().await.take();
            match given_up {
                Some(acquiring) => what.cancel_later(&acquiring, &key).await,
                None => Ok(()),
            }
        }
    }

    fn reading(&self) -> Reading {
        Reading { clock: self.owner.holding().manual() }
    }
}

/// What turns the core's step into the one that a coroutine takes.
struct Reading {
    /// A clock that is moved instead of sleeping.
    clock: Option<Arc<core::ManualClock>>,
}

impl Reading {
    fn step(&self, py: Python<'_>, step: Step) -> PyResult<Py<PyAny>> {
        let step = step.ok_or_else(|| PyRuntimeError::new_err("the wait has been given up"))?;
        let sleep = match (step.or_raise()?, &self.clock) {
            (AcquireStep::Done(holder), _) => return Ok(holder.as_str().into_pyobject(py)?.into_any().unbind()),
            (AcquireStep::Refused, _) => return Ok(py.None()),
            (AcquireStep::Sleep { us }, Some(clock)) => {
                clock.sleep_us(us);
                0.0
            }
            (AcquireStep::Sleep { us }, None) => us_to_seconds(us),
        };
        Ok(sleep.into_pyobject(py)?.into_any().unbind())
    }
}

/// Begins a step of a wait for a lock or a lease.
#[pyfunction]
pub(crate) fn begin_acquire<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    acquiring: &Acquiring,
) -> PyResult<Bound<'py, PyAny>> {
    let (work, reading) = (acquiring.step_later(py)?, acquiring.reading());
    mailbox.begin(py, work, move |py, step| reading.step(py, step))
}

/// Begins to give such a wait up.
#[pyfunction]
pub(crate) fn begin_give_up<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    acquiring: &Acquiring,
) -> PyResult<Bound<'py, PyAny>> {
    mailbox.begin(py, acquiring.cancel_later(), |py, outcome| outcome.or_raise().map(|()| py.None()))
}

/// Begins `extend`; a lease needs no `ttl`.
#[pyfunction]
#[pyo3(signature = (mailbox, owner, key, holder, ttl = None))]
// What Python gives is taken over.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn begin_extend<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    owner: Owner,
    key: &Bound<'py, PyAny>,
    holder: String,
    ttl: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    let (key, ttl) = (Box::<[u8]>::from(key::one(key)?), ttl.map_or(Ok(0.0), seconds)?);
    owner.holding().look(py)?;
    let what = owner.holding().what.clone();
    let work = async move { what.extend_later(&key, &holder, ttl).await };
    mailbox.begin(py, work, |py, extended| truth(py, extended.or_raise()?))
}

/// Begins `release`.
#[pyfunction]
// As above.
#[allow(clippy::needless_pass_by_value)]
pub(crate) fn begin_release<'py>(
    py: Python<'py>,
    mailbox: &Mailbox,
    owner: Owner,
    key: &Bound<'py, PyAny>,
    holder: String,
) -> PyResult<Bound<'py, PyAny>> {
    let key = Box::<[u8]>::from(key::one(key)?);
    owner.holding().look(py)?;
    let what = owner.holding().what.clone();
    let work = async move { what.release_later(&key, &holder).await };
    mailbox.begin(py, work, |py, released| truth(py, released.or_raise()?))
}

/// Yes or no, as Python's.
pub(crate) fn truth(py: Python<'_>, value: bool) -> PyResult<Py<PyAny>> {
    Ok(value.into_pyobject(py)?.to_owned().into_any().unbind())
}
