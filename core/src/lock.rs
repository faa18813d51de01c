//! Locks: one holder per key, until it lets go or its time is over.

use std::fmt;
use std::sync::Arc;

use crate::acquiring::{AcquireStep, Acquiring};
use crate::algorithm::{self, in_flight::Act};
use crate::clock::us_to_seconds;
use crate::error::{Error, ErrorKind, Result};
use crate::holder::Holder;
use crate::holding::Holding;
use crate::key::KeySpace;
use crate::store::{Kept, Store};

/// Locks by key, in one store: at most one holder at a time.
///
/// A lock ends by itself after its lifetime, so that a holder that died blocks nobody for longer; a holder that needs
/// longer [extends](Self::extend) it. Only the holder's text extends or releases a lock. On Redis it is one key, written by
/// `SET NX PX`: it is as safe as that one server, and a failover may lose it.
///
/// ```
/// use ratelimit_core::{Lock, store};
///
/// let lock = Lock::new(store::memory(1_000)?);
/// let holder = lock.acquire("report:7", 30.0, 0)?.expect("nobody else holds it");
/// assert!(lock.acquire("report:7", 30.0, 0)?.is_none());
/// assert!(lock.release("report:7", &holder)?);
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Lock(Holding);

impl Lock {
    /// Locks in a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(Holding { store, space: KeySpace::named("lock", None), kept: Kept::AsLock, limit: 1, clock: None })
    }

    /// Takes a lock for `ttl` seconds, waiting for it for at most `max_wait_us` microseconds. `None` where somebody else
    /// still holds it then.
    ///
    /// Fails with [`InvalidArgument`](ErrorKind::InvalidArgument) when `ttl` is no time from a millisecond up, and with
    /// [`StoreUnavailable`](ErrorKind::StoreUnavailable) when the store gives no answer; the lock may be taken then, until
    /// its time is over. Blocks the thread; [`step`](Self::step) is for hosts that sleep in their own way.
    pub fn acquire(&self, key: impl AsRef<[u8]>, ttl: f64, max_wait_us: u64) -> Result<Option<Holder>> {
        let mut acquiring = Acquiring::new(max_wait_us)?;
        loop {
            match self.step(&mut acquiring, key.as_ref(), ttl)? {
                AcquireStep::Done(holder) => return Ok(Some(holder)),
                AcquireStep::Refused => return Ok(None),
                AcquireStep::Sleep { us } => std::thread::sleep(std::time::Duration::from_micros(us)),
            }
        }
    }

    /// The next step of a wait for a lock. Each step of a wait is given the same key.
    pub fn step(&self, acquiring: &mut Acquiring, key: impl AsRef<[u8]>, ttl: f64) -> Result<AcquireStep> {
        let ttl_us = ttl_us(ttl)?;
        let held = self.0.ask(Act::Acquire, key.as_ref(), acquiring.begin(), ttl_us)?;
        Ok(acquiring.hear(&held))
    }

    /// Ends a wait that is given up, and releases what its last try may have taken: for hosts that can be interrupted while
    /// the store is asked, or before the answer has come to whoever wants it. Asks nothing where nothing can be held.
    pub fn cancel(&self, acquiring: &Acquiring, key: impl AsRef<[u8]>) -> Result<()> {
        match acquiring.may_hold() {
            Some(holder) => self.release(key, holder).map(drop),
            None => Ok(()),
        }
    }

    /// Makes a lock that is held end `ttl` seconds from now. `false` where it is not, or not any more, this holder's.
    pub fn extend(&self, key: impl AsRef<[u8]>, holder: impl AsRef<str>, ttl: f64) -> Result<bool> {
        self.0.ask(Act::Extend, key.as_ref(), holder.as_ref(), ttl_us(ttl)?).map(|held| held.done)
    }

    /// Lets a lock go. `false` where it is not, or not any more, this holder's: what it was to protect may have been done
    /// by two at once.
    pub fn release(&self, key: impl AsRef<[u8]>, holder: impl AsRef<str>) -> Result<bool> {
        self.0.ask(Act::Release, key.as_ref(), holder.as_ref(), 0).map(|held| held.done)
    }

    /// Whether anybody holds a lock.
    pub fn is_held(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.0.ask(Act::Count, key.as_ref(), "", 0).map(|held| held.in_flight > 0)
    }

    /// [`acquire`](Self::acquire), with a guard that releases the lock where it goes out of scope.
    ///
    /// Fails with [`WaitTooLong`](ErrorKind::WaitTooLong) where somebody else holds it.
    ///
    /// ```
    /// # use ratelimit_core::{Lock, store};
    /// # let lock = Lock::new(store::memory(1_000)?);
    /// {
    ///     let _guard = lock.guard("report:7", 30.0, 0)?;
    ///     assert!(lock.is_held("report:7")?);
    /// }
    /// assert!(!lock.is_held("report:7")?);
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    pub fn guard<K: AsRef<[u8]>>(&self, key: K, ttl: f64, max_wait_us: u64) -> Result<LockGuard<'_, K>> {
        let holder = self.acquire(key.as_ref(), ttl, max_wait_us)?.ok_or_else(|| Self::refused(max_wait_us))?;
        Ok(LockGuard { lock: self, key, holder, released: false })
    }

    /// The error for a lock that somebody else holds, for hosts that run something under a lock.
    pub fn refused(max_wait_us: u64) -> Error {
        let waited = us_to_seconds(max_wait_us);
        let detail = format!("the lock is held by somebody else, and was for all of the {waited} s to wait for it");
        Error::new(ErrorKind::WaitTooLong, detail)
    }

    /// The store it keeps its locks in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.0.store
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn holding(&self) -> &Holding {
        &self.0
    }
}

/// A lifetime in microseconds.
pub(crate) fn ttl_us(ttl: f64) -> Result<u64> {
    algorithm::span_us(ErrorKind::InvalidArgument, "ttl", ttl)
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("store", &self.0.store.kind()).finish_non_exhaustive()
    }
}

/// A lock that is released where this goes out of scope.
#[derive(Debug)]
pub struct LockGuard<'a, K: AsRef<[u8]>> {
    lock: &'a Lock,
    key: K,
    holder: Holder,
    released: bool,
}

impl<K: AsRef<[u8]>> LockGuard<'_, K> {
    /// Makes it end `ttl` seconds from now; `false` where its time was over before.
    pub fn extend(&self, ttl: f64) -> Result<bool> {
        self.lock.extend(&self.key, &self.holder, ttl)
    }

    /// Releases it now, and says whether it was still held.
    pub fn release(mut self) -> Result<bool> {
        self.released = true;
        self.lock.release(&self.key, &self.holder)
    }
}

impl<K: AsRef<[u8]>> Drop for LockGuard<'_, K> {
    fn drop(&mut self) {
        if !self.released {
            // Where the store gives no answer, the lock ends by itself.
            let _ = self.lock.release(&self.key, &self.holder);
        }
    }
}
