//! What locks and concurrency limits share: something is held by a text, and waited for.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::clock::Clock;
use crate::concurrency::Concurrency;
use crate::core::clock::Clock as _;
use crate::core::{self, AcquireStep, Acquiring, Holder, aio};
use crate::error::OrRaise as _;
use crate::lock::Lock;
use crate::number::{Given, max_wait_us};

/// Locks or leases of the core, and how time passes for them.
#[derive(Debug)]
pub(crate) struct Holding {
    pub(crate) what: What,
    clock: Clock,
    /// What a clock in Python told, for the core to read.
    told: Option<Arc<core::ManualClock>>,
    /// Whether the store may make a caller wait.
    blocks: bool,
}

/// What is held.
#[derive(Debug, Clone)]
pub(crate) enum What {
    Lock(core::Lock),
    /// Their time is the limit's, whatever `ttl` says.
    Leases(core::Concurrency),
}

impl What {
    fn step(&self, acquiring: &mut Acquiring, key: &[u8], ttl: f64) -> core::Result<AcquireStep> {
        match self {
            Self::Lock(lock) => lock.step(acquiring, key, ttl),
            Self::Leases(leases) => leases.step(acquiring, key),
        }
    }

    fn extend(&self, key: &[u8], holder: &str, ttl: f64) -> core::Result<bool> {
        match self {
            Self::Lock(lock) => lock.extend(key, holder, ttl),
            Self::Leases(leases) => leases.extend(key, holder),
        }
    }

    fn release(&self, key: &[u8], holder: &str) -> core::Result<bool> {
        match self {
            Self::Lock(lock) => lock.release(key, holder),
            Self::Leases(leases) => leases.release(key, holder),
        }
    }

    pub(crate) fn cancel(&self, acquiring: &Acquiring, key: &[u8]) -> core::Result<()> {
        match self {
            Self::Lock(lock) => lock.cancel(acquiring, key),
            Self::Leases(leases) => leases.cancel(acquiring, key),
        }
    }

    pub(crate) async fn step_later(
        &self,
        acquiring: &mut Acquiring,
        key: &[u8],
        ttl: f64,
    ) -> core::Result<AcquireStep> {
        match self.clone() {
            Self::Lock(lock) => aio::Lock::new(lock).step(acquiring, key, ttl).await,
            Self::Leases(leases) => aio::Concurrency::new(leases).step(acquiring, key).await,
        }
    }

    pub(crate) async fn extend_later(&self, key: &[u8], holder: &str, ttl: f64) -> core::Result<bool> {
        match self.clone() {
            Self::Lock(lock) => aio::Lock::new(lock).extend(key, holder, ttl).await,
            Self::Leases(leases) => aio::Concurrency::new(leases).extend(key, holder).await,
        }
    }

    pub(crate) async fn release_later(&self, key: &[u8], holder: &str) -> core::Result<bool> {
        match self.clone() {
            Self::Lock(lock) => aio::Lock::new(lock).release(key, holder).await,
            Self::Leases(leases) => aio::Concurrency::new(leases).release(key, holder).await,
        }
    }

    pub(crate) async fn cancel_later(&self, acquiring: &Acquiring, key: &[u8]) -> core::Result<()> {
        match self.clone() {
            Self::Lock(lock) => aio::Lock::new(lock).cancel(acquiring, key).await,
            Self::Leases(leases) => aio::Concurrency::new(leases).cancel(acquiring, key).await,
        }
    }
}

impl Holding {
    pub(crate) fn of_lock(lock: core::Lock) -> Self {
        let blocks = lock.store().kind().blocks();
        Self { what: What::Lock(lock), clock: Clock::Store, told: None, blocks }
    }

    /// Leases by a clock, and the limit that reads it.
    pub(crate) fn of_leases(leases: core::Concurrency, clock: Clock) -> (Self, core::Concurrency) {
        let blocks = leases.store().kind().blocks();
        let (leases, told) = match &clock {
            Clock::Store => (leases, None),
            Clock::Manual(manual) => (leases.clock(manual.clone()), None),
            Clock::Python(..) => {
                let told = Arc::new(core::ManualClock::new(0.0));
                (leases.clock(told.clone()), Some(told))
            }
        };
        (Self { what: What::Leases(leases.clone()), clock, told, blocks }, leases)
    }

    pub(crate) fn acquire(&self, py: Python<'_>, key: &[u8], ttl: f64, max_wait_us: u64) -> PyResult<Option<Holder>> {
        let mut acquiring = Acquiring::new(max_wait_us).or_raise()?;
        loop {
            self.look(py)?;
            match self.run(py, || self.what.step(&mut acquiring, key, ttl)).or_raise()? {
                AcquireStep::Done(holder) => return Ok(Some(holder)),
                AcquireStep::Refused => return Ok(None),
                AcquireStep::Sleep { us } => self.clock.sleep(py, us)?,
            }
        }
    }

    /// One step of a wait; `acquiring` is kept from others meanwhile.
    pub(crate) fn step(
        &self,
        py: Python<'_>,
        key: &[u8],
        ttl: f64,
        acquiring: &tokio::sync::Mutex<Option<Acquiring>>,
    ) -> PyResult<Option<core::Result<AcquireStep>>> {
        self.look(py)?;
        let step = || acquiring.blocking_lock().as_mut().map(|acquiring| self.what.step(acquiring, key, ttl));
        Ok(self.run(py, step))
    }

    pub(crate) fn extend(&self, py: Python<'_>, key: &[u8], holder: &str, ttl: f64) -> PyResult<bool> {
        self.look(py)?;
        self.run(py, || self.what.extend(key, holder, ttl)).or_raise()
    }

    pub(crate) fn release(&self, py: Python<'_>, key: &[u8], holder: &str) -> PyResult<bool> {
        self.look(py)?;
        self.run(py, || self.what.release(key, holder)).or_raise()
    }

    /// Releases at the end of a block. What the block raised matters more, and where the store gives no answer it ends by
    /// itself; nor is a clock in Python asked, which could raise.
    pub(crate) fn let_go(&self, py: Python<'_>, key: &[u8], holder: &str) {
        let _ = self.run(py, || self.what.release(key, holder));
    }

    /// Has the core know what a clock in Python tells, if there is one.
    pub(crate) fn look(&self, py: Python<'_>) -> PyResult<()> {
        if let (Some(told), Some(now_us)) = (&self.told, self.clock.ask(py)?) {
            told.set_us(now_us);
        }
        Ok(())
    }

    /// The clock that is moved instead of sleeping, if it is one.
    pub(crate) fn manual(&self) -> Option<Arc<core::ManualClock>> {
        match &self.clock {
            Clock::Manual(clock) => Some(clock.clone()),
            _ => None,
        }
    }

    /// When a decision was made, for its headers.
    pub(crate) fn told_us(&self) -> u64 {
        self.told.as_ref().map_or_else(|| self.clock.told_us(), |told| told.now_us())
    }

    pub(crate) const fn blocks(&self) -> bool {
        self.blocks
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.clock.traverse(visit)
    }

    /// Asks the core, without the interpreter's lock where the answer may take its time.
    pub(crate) fn run<R: Send>(&self, py: Python<'_>, ask: impl Send + FnOnce() -> R) -> R {
        if self.blocks { py.detach(ask) } else { ask() }
    }
}

/// The object of Python's that something is held by.
#[derive(Debug, FromPyObject)]
pub(crate) enum Owner {
    Lock(Py<Lock>),
    Leases(Py<Concurrency>),
}

impl Owner {
    pub(crate) fn holding(&self) -> &Holding {
        match self {
            Self::Lock(lock) => lock.get().holding(),
            Self::Leases(leases) => leases.get().holding(),
        }
    }

    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self {
            Self::Lock(lock) => visit.call(lock),
            Self::Leases(leases) => visit.call(leases),
        }
    }
}

/// The longest wait in microseconds; none when it is not given.
pub(crate) fn short_wait_us(max_wait: Given<'_, '_>) -> PyResult<u64> {
    match max_wait.0 {
        None => Ok(0),
        Some(_) => max_wait_us(max_wait),
    }
}
