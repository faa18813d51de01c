//! Waiting in steps, for those who sleep in their own way: coroutines.

use std::sync::Arc;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};
use tokio::sync::Mutex;

use crate::call::{Extras, OwnedCall, Verb};
use crate::clock::Clock;
use crate::core::clock::{Clock as _, us_to_seconds};
use crate::core::{self, WaitStep, aio, events};
use crate::decision::{Decision, Policies};
use crate::error::OrRaise as _;
use crate::limiter::Limiter;
use crate::number::{Given, max_wait_us};

/// A wait that is under way. Private.
#[derive(Debug)]
#[pyclass(frozen, name = "_Waiting", module = "ratelimit_rs._native")]
pub(crate) struct Waiting {
    limiter: Py<Limiter>,
    call: Arc<OwnedCall>,
    under_way: Arc<UnderWay>,
}

/// `None` when it has been given up. A step and the end of the wait may meet: whoever is later waits for the other.
type UnderWay = Mutex<Option<core::Waiting>>;

/// What came of a step; `None` when the wait had been given up.
type Step = Option<core::Result<WaitStep>>;

#[pymethods]
impl Waiting {
    #[new]
    #[pyo3(
        signature = (limiter, key, cost = Given(None), max_wait = Given(None), token = None, on_error = None),
        text_signature = "(limiter, key, cost=1, max_wait=1e999, token=None, on_error=None)"
    )]
    fn new(
        limiter: Py<Limiter>,
        key: &Bound<'_, PyAny>,
        cost: Given<'_, '_>,
        max_wait: Given<'_, '_>,
        token: Option<&Bound<'_, PyAny>>,
        on_error: Option<&str>,
    ) -> PyResult<Self> {
        let under_way = core::Waiting::new(max_wait_us(max_wait)?);
        Ok(Self {
            limiter,
            call: Arc::new(OwnedCall::of(Verb::Allow, key, cost, Extras::of(token, on_error)?)?),
            under_way: Arc::new(Mutex::new(Some(under_way))),
        })
    }

    /// The next step: (seconds to sleep before the one after it, the decision at the end of the wait).
    fn step(&self, py: Python<'_>) -> PyResult<(f64, Option<Decision>)> {
        let limiter = self.limiter.get();
        let now_us = limiter.clock().ask(py)?;
        let step = limiter.run(py, || {
            let mut under_way = self.under_way.blocking_lock();
            under_way.as_mut().map(|waiting| waiting.step(limiter.core(), self.call.call(&self.call.key(), now_us)))
        })?;
        self.reading().step(step)
    }

    /// Gives the wait up, and the slot back that it may have reserved. A step that is under way is waited for, and none
    /// is taken afterwards.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        let limiter = self.limiter.get();
        let now_us = limiter.clock().ask(py)?;
        let cancelled = limiter.run(py, || {
            let given_up = self.under_way.blocking_lock().take();
            let call = self.call.key();
            given_up.map_or(Ok(()), |mut waiting| waiting.cancel(limiter.core(), self.call.call(&call, now_us)))
        })?;
        cancelled.or_raise()
    }

    /// `cancel` for a caller who cannot wait for it, nor hear of it.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        let work = self.cancel_later(py)?;
        aio::spawn(async {
            drop(work.await);
            // Nobody is there any more to hear of it.
            drop(events::take());
        })
        .or_raise()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.limiter)
    }
}

impl Waiting {
    /// `step`, to be awaited.
    pub(crate) fn step_later(&self, py: Python<'_>) -> PyResult<impl Future<Output = Step> + Send + use<>> {
        let (limiter, now_us) = self.ask(py)?;
        let (call, under_way) = (self.call.clone(), self.under_way.clone());
        Ok(async move {
            let mut under_way = under_way.lock().await;
            let waiting = under_way.as_mut()?;
            Some(limiter.step(waiting, call.call(&call.key(), now_us)).await)
        })
    }

    /// `cancel`, to be awaited.
    pub(crate) fn cancel_later(
        &self,
        py: Python<'_>,
    ) -> PyResult<impl Future<Output = core::Result<()>> + Send + use<>> {
        let (limiter, now_us) = self.ask(py)?;
        let (call, under_way) = (self.call.clone(), self.under_way.clone());
        Ok(async move {
            let given_up = under_way.lock().await.take();
            match given_up {
                Some(mut waiting) => limiter.cancel(&mut waiting, call.call(&call.key(), now_us)).await,
                None => Ok(()),
            }
        })
    }

    /// Its limiter.
    pub(crate) fn limiter<'py>(&self, py: Python<'py>) -> &Bound<'py, Limiter> {
        self.limiter.bind(py)
    }

    /// What a step that was awaited is read with.
    pub(crate) fn reading(&self) -> Reading {
        let limiter = self.limiter.get();
        let clock = match limiter.clock() {
            Clock::Manual(clock) => Some(clock.clone()),
            _ => None,
        };
        Reading { policies: limiter.policies().clone(), clock, at_us: limiter.clock().told_us() }
    }

    fn ask(&self, py: Python<'_>) -> PyResult<(aio::Limiter, Option<u64>)> {
        let limiter = self.limiter.get();
        Ok((limiter.asynchronous(), limiter.clock().ask(py)?))
    }
}

/// What turns the core's step into the one that a coroutine takes.
pub(crate) struct Reading {
    policies: Policies,
    /// A clock that is moved instead of sleeping.
    clock: Option<Arc<core::ManualClock>>,
    at_us: u64,
}

impl Reading {
    pub(crate) fn step(&self, step: Step) -> PyResult<(f64, Option<Decision>)> {
        let step = step.ok_or_else(|| PyRuntimeError::new_err("the wait has been given up"))?;
        match (step.or_raise()?, &self.clock) {
            (WaitStep::Done(decision), _) => Ok((0.0, Some(Decision::new(decision, &self.policies, self.at_us)))),
            (WaitStep::Sleep { us }, Some(clock)) => {
                clock.sleep_us(us);
                Ok((0.0, None))
            }
            (WaitStep::Sleep { us }, None) => Ok((us_to_seconds(us), None)),
        }
    }
}
