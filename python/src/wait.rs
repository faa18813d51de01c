//! Waiting in steps, for those who sleep in their own way: the decorator of coroutine functions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::Clock;
use crate::core::clock::us_to_seconds;
use crate::core::{self, Call, WaitStep};
use crate::decision::Decision;
use crate::error::OrRaise as _;
use crate::key;
use crate::limiter::Limiter;

/// A wait without a bound that is under way. Private. Each step is given the same key and cost.
#[derive(Debug)]
#[pyclass(frozen, name = "_Waiting", module = "ratelimit_rs._native")]
pub(crate) struct Waiting {
    limiter: Py<Limiter>,
    /// `None` when it has been given up. A step and the end of the wait may meet in two threads: whoever is later waits
    /// for the other, without the interpreter's lock where that may take its time.
    under_way: Mutex<Option<core::Waiting>>,
}

#[pymethods]
impl Waiting {
    #[new]
    fn new(limiter: Py<Limiter>) -> Self {
        Self { limiter, under_way: Mutex::new(Some(core::Waiting::new(u64::MAX))) }
    }

    /// The next step: (seconds to sleep before the one after it, the decision at the end of the wait).
    fn step(&self, py: Python<'_>, key: &Bound<'_, PyAny>, cost: i64) -> PyResult<(f64, Option<Decision>)> {
        let limiter = self.limiter.get();
        let step = key::with(key, |keys| {
            let call = limiter.dated(py, Call::allow(keys, cost))?;
            let step = limiter.run(py, || self.under_way().as_mut().map(|waiting| waiting.step(limiter.core(), call)));
            step.ok_or_else(|| PyRuntimeError::new_err("the wait has been given up"))?.or_raise()
        })?;
        match step {
            WaitStep::Done(decision) => Ok((0.0, Some(limiter.decision(decision)))),
            WaitStep::Sleep { us } => match limiter.clock() {
                Clock::Manual(_) => limiter.clock().sleep(py, us).map(|()| (0.0, None)),
                _ => Ok((us_to_seconds(us), None)),
            },
        }
    }

    /// Gives the wait up, and the slot back that it may have reserved. A step that is under way is waited for, and none
    /// is taken afterwards.
    fn cancel(&self, py: Python<'_>, key: &Bound<'_, PyAny>, cost: i64) -> PyResult<()> {
        let limiter = self.limiter.get();
        key::with(key, |keys| {
            let call = limiter.dated(py, Call::allow(keys, cost))?;
            limiter
                .run(py, || self.under_way().take().map_or(Ok(()), |mut waiting| waiting.cancel(limiter.core(), call)))
                .or_raise()
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.limiter)
    }
}

impl Waiting {
    fn under_way(&self) -> MutexGuard<'_, Option<core::Waiting>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
