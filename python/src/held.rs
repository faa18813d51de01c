//! What is held inside a `with` statement.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use pyo3::{PyTraverseError, PyVisit};

use crate::concurrency::Concurrency;
use crate::core;
use crate::error::{LimitExceeded, raise};
use crate::holding::Holding;
use crate::lock::{Lock, seconds};

/// A lock that is held inside a `with` statement.
#[derive(Debug)]
#[pyclass(frozen, name = "_HeldLock", module = "ratelimit_rs._native")]
pub(crate) struct HeldLock {
    lock: Py<Lock>,
    key: Box<[u8]>,
    ttl: f64,
    max_wait_us: u64,
    holder: Slot,
}

/// A lease that is held inside a `with` statement.
#[derive(Debug)]
#[pyclass(frozen, name = "_HeldLease", module = "ratelimit_rs._native")]
pub(crate) struct HeldLease {
    leases: Py<Concurrency>,
    key: Box<[u8]>,
    max_wait_us: u64,
    holder: Slot,
}

impl HeldLock {
    pub(crate) fn new(lock: Py<Lock>, key: Box<[u8]>, ttl: f64, max_wait_us: u64) -> Self {
        Self { lock, key, ttl, max_wait_us, holder: Slot::default() }
    }

    fn holding(&self) -> &Holding {
        self.lock.get().holding()
    }
}

impl HeldLease {
    pub(crate) fn new(leases: Py<Concurrency>, key: Box<[u8]>, max_wait_us: u64) -> Self {
        Self { leases, key, max_wait_us, holder: Slot::default() }
    }

    fn holding(&self) -> &Holding {
        self.leases.get().holding()
    }
}

#[pymethods]
impl HeldLock {
    /// The text by which it is held; None outside the block.
    #[getter]
    fn holder(&self) -> Option<String> {
        self.holder.get()
    }

    /// Makes it end `ttl` seconds from now, those of `hold` without it. False where its time was over before.
    #[pyo3(signature = (ttl = None))]
    fn extend(&self, py: Python<'_>, ttl: Option<&Bound<'_, PyAny>>) -> PyResult<bool> {
        let ttl = ttl.map_or(Ok(self.ttl), seconds)?;
        match self.holder.get() {
            Some(holder) => self.holding().extend(py, &self.key, &holder, ttl),
            None => Ok(false),
        }
    }

    /// Releases it before the block ends. False where it was not held any more.
    fn release(&self, py: Python<'_>) -> PyResult<bool> {
        match self.holder.take() {
            Some(holder) => self.holding().release(py, &self.key, &holder),
            None => Ok(false),
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let (py, this) = (slf.py(), slf.get());
        this.holder.check_empty()?;
        match this.holding().acquire(py, &this.key, this.ttl, this.max_wait_us)? {
            Some(holder) => this.holder.put(holder),
            None => return Err(raise(&core::Lock::refused(this.max_wait_us))),
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> bool {
        if let Some(holder) = self.holder.take() {
            self.holding().let_go(py, &self.key, &holder);
        }
        false
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.lock)
    }
}

#[pymethods]
impl HeldLease {
    /// The text by which it is held; None outside the block.
    #[getter]
    fn holder(&self) -> Option<String> {
        self.holder.get()
    }

    /// Makes it last anew. False where its time was over before.
    fn extend(&self, py: Python<'_>) -> PyResult<bool> {
        match self.holder.get() {
            Some(lease) => self.holding().extend(py, &self.key, &lease, 0.0),
            None => Ok(false),
        }
    }

    /// Gives it back before the block ends. False where it was not held any more.
    fn release(&self, py: Python<'_>) -> PyResult<bool> {
        match self.holder.take() {
            Some(lease) => self.holding().release(py, &self.key, &lease),
            None => Ok(false),
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        let (py, this) = (slf.py(), slf.get());
        this.holder.check_empty()?;
        match this.holding().acquire(py, &this.key, 0.0, this.max_wait_us)? {
            Some(lease) => this.holder.put(lease),
            None => return Err(LimitExceeded::new_err((this.leases.get().refusal(py, &this.key)?,))),
        }
        Ok(slf)
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, py: Python<'_>, _raised: &Bound<'_, PyTuple>) -> bool {
        if let Some(lease) = self.holder.take() {
            self.holding().let_go(py, &self.key, &lease);
        }
        false
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.leases)
    }
}

/// The text by which something is held, while it is.
#[derive(Debug, Default)]
struct Slot(Mutex<Option<core::Holder>>);

impl Slot {
    fn check_empty(&self) -> PyResult<()> {
        match *self.guard() {
            None => Ok(()),
            Some(_) => Err(PyRuntimeError::new_err("it is held already: another `with` needs another hold")),
        }
    }

    fn put(&self, holder: core::Holder) {
        *self.guard() = Some(holder);
    }

    fn get(&self) -> Option<String> {
        self.guard().clone().map(String::from)
    }

    fn take(&self) -> Option<String> {
        self.guard().take().map(String::from)
    }

    fn guard(&self) -> MutexGuard<'_, Option<core::Holder>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
