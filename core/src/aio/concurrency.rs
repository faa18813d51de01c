//! Leases of work under way, awaited.

use std::time::Duration;

use crate::Concurrency as Blocking;
use crate::acquiring::{AcquireStep, Acquiring};
use crate::algorithm::in_flight::Act;
use crate::decision::Decision;
use crate::error::Result;
use crate::holder::Holder;
use crate::store::Held;

/// A [concurrency limit](Blocking) whose verbs are awaited. Cheap to clone.
///
/// ```
/// use ratelimit_core::{aio, store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let uploads = aio::Concurrency::new(ratelimit_core::Concurrency::new(1, 60.0, store::memory(1_000)?)?);
/// let lease = uploads.acquire("user:42", 0).await?.expect("nothing is under way");
/// assert!(uploads.release("user:42", &lease).await?);
/// # Ok::<(), ratelimit_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Concurrency(Blocking);

impl Concurrency {
    /// The same limit, asked without blocking.
    pub const fn new(concurrency: Blocking) -> Self {
        Self(concurrency)
    }

    /// The limit it asks.
    pub const fn blocking(&self) -> &Blocking {
        &self.0
    }

    /// [`Concurrency::acquire`](Blocking::acquire). Where it is dropped during a try, a lease may be taken until its time
    /// is over.
    pub async fn acquire(&self, key: impl AsRef<[u8]>, max_wait_us: u64) -> Result<Option<Holder>> {
        let mut acquiring = Acquiring::new(max_wait_us)?;
        loop {
            match self.step(&mut acquiring, key.as_ref()).await? {
                AcquireStep::Done(holder) => return Ok(Some(holder)),
                AcquireStep::Refused => return Ok(None),
                AcquireStep::Sleep { us } if self.0.holding().0.clock.is_some() => self.0.sleep_us(us),
                AcquireStep::Sleep { us } => tokio::time::sleep(Duration::from_micros(us)).await,
            }
        }
    }

    /// [`Concurrency::step`](Blocking::step).
    pub async fn step(&self, acquiring: &mut Acquiring, key: impl AsRef<[u8]>) -> Result<AcquireStep> {
        let held = self.ask(Act::Acquire, key.as_ref(), acquiring.begin()).await?;
        Ok(acquiring.hear(&held))
    }

    /// [`Concurrency::cancel`](Blocking::cancel).
    pub async fn cancel(&self, acquiring: &Acquiring, key: impl AsRef<[u8]>) -> Result<()> {
        match acquiring.may_hold() {
            Some(lease) => self.release(key, lease).await.map(drop),
            None => Ok(()),
        }
    }

    /// [`Concurrency::extend`](Blocking::extend).
    pub async fn extend(&self, key: impl AsRef<[u8]>, lease: impl AsRef<str>) -> Result<bool> {
        Ok(self.ask(Act::Extend, key.as_ref(), lease.as_ref()).await?.done)
    }

    /// [`Concurrency::release`](Blocking::release).
    pub async fn release(&self, key: impl AsRef<[u8]>, lease: impl AsRef<str>) -> Result<bool> {
        Ok(self.ask(Act::Release, key.as_ref(), lease.as_ref()).await?.done)
    }

    /// [`Concurrency::peek`](Blocking::peek).
    pub async fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision> {
        Ok(self.0.decision(&self.ask(Act::Count, key.as_ref(), "").await?))
    }

    /// [`Concurrency::refusal`](Blocking::refusal).
    pub async fn refusal(&self, key: impl AsRef<[u8]>) -> Result<Decision> {
        Ok(self.0.refused(&self.ask(Act::Count, key.as_ref(), "").await?))
    }

    async fn ask(&self, act: Act, key: &[u8], lease: &str) -> Result<Held> {
        let (holding, ttl_us) = self.0.holding();
        holding.ask_async(act, key, lease, ttl_us).await
    }
}
