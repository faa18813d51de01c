//! Where "now" comes from, when the caller says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit, intern};

use crate::core::clock::{self, Clock as _};
use crate::core::{self, ErrorKind};
use crate::error;
use crate::number::{Given, instant_us, real, type_name};

/// A clock that moves only when told to, so that tests never sleep.
///
/// `now` is in seconds since 1970 and kept to the microsecond.
///
/// >>> clock = ManualClock()
/// >>> limiter = Limiter(Policy.token_bucket(1, 1, 10.0), Store.memory(), clock=clock)
/// >>> limiter.allow("job").allowed, limiter.allow("job").allowed
/// (True, False)
/// >>> clock.advance(10)
/// >>> limiter.allow("job").allowed
/// True
#[derive(Debug)]
#[pyclass(frozen, module = "ratelimit_rs")]
pub(crate) struct ManualClock {
    clock: Arc<core::ManualClock>,
}

#[pymethods]
impl ManualClock {
    #[new]
    #[pyo3(signature = (now = Given(None)), text_signature = "(now=1700000000.0)")]
    fn new(now: Given<'_, '_>) -> PyResult<Self> {
        let now = now.or(1_700_000_000.0, |now| real(ErrorKind::InvalidArgument, "now", now))?;
        // Checked here, since the core would bring it into range.
        instant_us("now", now)?;
        Ok(Self { clock: Arc::new(core::ManualClock::new(now)) })
    }

    /// Moves the clock by so many seconds; a negative number moves it back.
    fn advance(&self, seconds: &Bound<'_, PyAny>) -> PyResult<()> {
        let seconds = real(ErrorKind::InvalidArgument, "seconds", seconds)?;
        if !seconds.is_finite() {
            let detail = format!("must be a finite number, got {seconds}");
            return Err(error::argument(ErrorKind::InvalidArgument, "seconds", detail));
        }
        self.clock.advance(seconds);
        Ok(())
    }

    /// Seconds since 1970.
    fn now(&self) -> f64 {
        clock::us_to_seconds(self.clock.now_us())
    }

    fn __repr__(&self) -> String {
        format!("ManualClock({:?})", self.now())
    }
}

/// The clock of a limiter.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The store's own.
    Store,
    /// One that needs no interpreter.
    Manual(Arc<core::ManualClock>),
    /// Any object with a method `now`, and the instant that it told last, in microseconds.
    Python(Py<PyAny>, AtomicU64),
}

impl Clock {
    pub(crate) fn of(clock: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(clock) = clock else { return Ok(Self::Store) };
        if let Ok(manual) = clock.cast::<ManualClock>() {
            return Ok(Self::Manual(manual.get().clock.clone()));
        }
        let now = clock.getattr_opt(intern!(clock.py(), "now"))?;
        if now.is_some_and(|now| now.is_callable()) {
            return Ok(Self::Python(clock.clone().unbind(), AtomicU64::new(0)));
        }
        let name = type_name(clock);
        Err(PyTypeError::new_err(format!("clock must be a ManualClock or an object with a method now(), got {name}")))
    }

    /// The clock for the core to read, if there is one: one in Python is asked here, since the core could not raise what
    /// it raises.
    pub(crate) fn for_core(&self) -> Option<Arc<dyn core::Clock>> {
        match self {
            Self::Store | Self::Python(..) => None,
            Self::Manual(clock) => Some(clock.clone()),
        }
    }

    /// The instant that a clock in Python tells, in microseconds; `None` for the others. May run any code, so no lock may
    /// be held.
    pub(crate) fn ask(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        let Self::Python(clock, told) = self else { return Ok(None) };
        let now = clock.bind(py).call_method0(intern!(py, "now"))?;
        let seconds = real(ErrorKind::InvalidArgument, "clock.now()", &now)?;
        // The core's instants begin at 1.
        let now_us = instant_us("clock.now()", seconds)?.max(1);
        told.store(now_us, Ordering::Relaxed);
        Ok(Some(now_us))
    }

    /// The instant of a decision made just now, in microseconds since 1970; 0 where the clock is the store's own.
    pub(crate) fn told_us(&self) -> u64 {
        match self {
            Self::Store => 0,
            Self::Manual(clock) => clock.now_us(),
            Self::Python(_, told) => told.load(Ordering::Relaxed),
        }
    }

    /// Lets time pass: moves a clock that is moved by hand, else sleeps as Python does, without the interpreter's lock
    /// and until a signal handler raises.
    pub(crate) fn sleep(&self, py: Python<'_>, us: u64) -> PyResult<()> {
        // A signal that came while the store was asked would not be noticed before the end of the sleep.
        py.check_signals()?;
        if let Self::Manual(clock) = self {
            clock.sleep_us(us);
            return Ok(());
        }
        py.import(intern!(py, "time"))?.call_method1(intern!(py, "sleep"), (clock::us_to_seconds(us),)).map(drop)
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Python(clock, _) => visit.call(clock),
            _ => Ok(()),
        }
    }
}
