//! Locks that are awaited.

use std::time::Duration;

use crate::Lock as Blocking;
use crate::acquiring::{AcquireStep, Acquiring};
use crate::algorithm::in_flight::Act;
use crate::error::Result;
use crate::holder::Holder;
use crate::lock::ttl_us;

/// A [lock](Blocking) whose verbs are awaited. Cheap to clone.
///
/// ```
/// use ratelimit_core::{aio, store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let lock = aio::Lock::new(ratelimit_core::Lock::new(store::memory(1_000)?));
/// let holder = lock.acquire("report:7", 30.0, 0).await?.expect("nobody else holds it");
/// assert!(lock.release("report:7", &holder).await?);
/// # Ok::<(), ratelimit_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Lock(Blocking);

impl Lock {
    /// The same locks, asked without blocking.
    pub const fn new(lock: Blocking) -> Self {
        Self(lock)
    }

    /// The locks it asks.
    pub const fn blocking(&self) -> &Blocking {
        &self.0
    }

    /// [`Lock::acquire`](Blocking::acquire). Where it is dropped during a try, the lock may be taken until its time is
    /// over.
    pub async fn acquire(&self, key: impl AsRef<[u8]>, ttl: f64, max_wait_us: u64) -> Result<Option<Holder>> {
        let mut acquiring = Acquiring::new(max_wait_us)?;
        loop {
            match self.step(&mut acquiring, key.as_ref(), ttl).await? {
                AcquireStep::Done(holder) => return Ok(Some(holder)),
                AcquireStep::Refused => return Ok(None),
                AcquireStep::Sleep { us } => tokio::time::sleep(Duration::from_micros(us)).await,
            }
        }
    }

    /// [`Lock::step`](Blocking::step).
    pub async fn step(&self, acquiring: &mut Acquiring, key: impl AsRef<[u8]>, ttl: f64) -> Result<AcquireStep> {
        let ttl_us = ttl_us(ttl)?;
        let held = self.0.holding().ask_async(Act::Acquire, key.as_ref(), acquiring.begin(), ttl_us).await?;
        Ok(acquiring.hear(&held))
    }

    /// [`Lock::cancel`](Blocking::cancel).
    pub async fn cancel(&self, acquiring: &Acquiring, key: impl AsRef<[u8]>) -> Result<()> {
        match acquiring.may_hold() {
            Some(holder) => self.release(key, holder).await.map(drop),
            None => Ok(()),
        }
    }

    /// [`Lock::extend`](Blocking::extend).
    pub async fn extend(&self, key: impl AsRef<[u8]>, holder: impl AsRef<str>, ttl: f64) -> Result<bool> {
        let held = self.0.holding().ask_async(Act::Extend, key.as_ref(), holder.as_ref(), ttl_us(ttl)?).await?;
        Ok(held.done)
    }

    /// [`Lock::release`](Blocking::release).
    pub async fn release(&self, key: impl AsRef<[u8]>, holder: impl AsRef<str>) -> Result<bool> {
        Ok(self.0.holding().ask_async(Act::Release, key.as_ref(), holder.as_ref(), 0).await?.done)
    }

    /// [`Lock::is_held`](Blocking::is_held).
    pub async fn is_held(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        Ok(self.0.holding().ask_async(Act::Count, key.as_ref(), "", 0).await?.in_flight > 0)
    }
}
