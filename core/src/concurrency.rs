//! How much may be under way at a time.

use std::fmt;
use std::sync::Arc;

use crate::acquiring::{AcquireStep, Acquiring};
use crate::algorithm::{self, Verdict, in_flight::Act};
use crate::clock::Clock;
use crate::decision::{Decision, Source};
use crate::error::{ErrorKind, Result};
use crate::holder::Holder;
use crate::holding::Holding;
use crate::key::KeySpace;
use crate::policy::Policy;
use crate::store::{Held, Kept, Store};

/// Lets at most so many pieces of work on a key be under way at a time, whoever does them.
///
/// Each holds a lease, which ends by itself where its holder dies; a holder that needs longer
/// [extends](Self::extend) it. Memory is O(limit) per key; an embedded store looks at all leases of a key in every step, so
/// limits beyond some thousands belong on Redis.
///
/// ```
/// use ratelimit_core::{Concurrency, store};
///
/// let uploads = Concurrency::new(1, 60.0, store::memory(1_000)?)?;
/// let lease = uploads.acquire("user:42", 0)?.expect("nothing is under way");
/// assert!(uploads.acquire("user:42", 0)?.is_none());
/// assert!(uploads.release("user:42", &lease)?);
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
#[derive(Clone)]
pub struct Concurrency {
    holding: Holding,
    policy: Policy,
    lease_ttl_us: u64,
}

impl Concurrency {
    /// At most `limit` leases on each key, which end `lease_ttl` seconds after they were taken or extended.
    ///
    /// Fails with [`InvalidPolicy`](ErrorKind::InvalidPolicy) when `limit` is not between 1 and 2147483647, or `lease_ttl` no
    /// time from a millisecond up.
    pub fn new(limit: i64, lease_ttl: f64, store: Arc<dyn Store>) -> Result<Self> {
        let lease_ttl_us = algorithm::span_us(ErrorKind::InvalidPolicy, "lease_ttl", lease_ttl)?;
        let policy = Policy::fixed_window(limit, lease_ttl)?;
        let limit = policy.limit();
        let holding =
            Holding { store, space: KeySpace::named("cc", Some("default")), kept: Kept::AsLeases, limit, clock: None };
        Ok(Self { holding, policy, lease_ttl_us })
    }

    /// The same under another name, which shares no leases with any other: 1 to 100 printable ASCII characters. Without
    /// this it is `default`.
    pub fn named(mut self, name: &str) -> Result<Self> {
        self.policy = self.policy.named(name)?;
        self.holding.space = KeySpace::named("cc", Some(name));
        Ok(self)
    }

    /// A clock to use instead of the store's own.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.holding.clock = Some(clock);
        self
    }

    /// Takes a lease, waiting for one for at most `max_wait_us` microseconds. `None` where all are still taken then.
    ///
    /// Fails with [`StoreUnavailable`](ErrorKind::StoreUnavailable) when the store gives no answer; a lease may be taken
    /// then, until its time is over. Blocks the thread; [`step`](Self::step) is for hosts that sleep in their own way.
    pub fn acquire(&self, key: impl AsRef<[u8]>, max_wait_us: u64) -> Result<Option<Holder>> {
        let mut acquiring = Acquiring::new(max_wait_us)?;
        loop {
            match self.step(&mut acquiring, key.as_ref())? {
                AcquireStep::Done(holder) => return Ok(Some(holder)),
                AcquireStep::Refused => return Ok(None),
                AcquireStep::Sleep { us } => self.sleep_us(us),
            }
        }
    }

    /// The next step of a wait for a lease. Each step of a wait is given the same key.
    pub fn step(&self, acquiring: &mut Acquiring, key: impl AsRef<[u8]>) -> Result<AcquireStep> {
        let held = self.holding.ask(Act::Acquire, key.as_ref(), acquiring.begin(), self.lease_ttl_us)?;
        Ok(acquiring.hear(&held))
    }

    /// Ends a wait that is given up, as [`Lock::cancel`](crate::Lock::cancel) does.
    pub fn cancel(&self, acquiring: &Acquiring, key: impl AsRef<[u8]>) -> Result<()> {
        match acquiring.may_hold() {
            Some(lease) => self.release(key, lease).map(drop),
            None => Ok(()),
        }
    }

    /// Lets time pass on its clock.
    pub fn sleep_us(&self, us: u64) {
        match &self.holding.clock {
            Some(clock) => clock.sleep_us(us),
            None => std::thread::sleep(std::time::Duration::from_micros(us)),
        }
    }

    /// Makes a lease last anew. `false` where its time was over before, or nobody has it.
    pub fn extend(&self, key: impl AsRef<[u8]>, lease: impl AsRef<str>) -> Result<bool> {
        self.holding.ask(Act::Extend, key.as_ref(), lease.as_ref(), self.lease_ttl_us).map(|held| held.done)
    }

    /// Gives a lease back. `false` where its time was over before, or nobody has it.
    pub fn release(&self, key: impl AsRef<[u8]>, lease: impl AsRef<str>) -> Result<bool> {
        self.holding.ask(Act::Release, key.as_ref(), lease.as_ref(), self.lease_ttl_us).map(|held| held.done)
    }

    /// What an [`acquire`](Self::acquire) would find: how many leases are left, and where none is, how long it is at most
    /// until one is.
    pub fn peek(&self, key: impl AsRef<[u8]>) -> Result<Decision> {
        let held = self.holding.ask(Act::Count, key.as_ref(), "", self.lease_ttl_us)?;
        Ok(self.decision(&held))
    }

    /// [`acquire`](Self::acquire), with a guard that gives the lease back where it goes out of scope; or the decision that
    /// refuses it.
    ///
    /// ```
    /// # use ratelimit_core::{Concurrency, store};
    /// # let uploads = Concurrency::new(1, 60.0, store::memory(1_000)?)?;
    /// {
    ///     let _lease = uploads.guard("user:42", 0)?.expect("nothing is under way");
    ///     assert_eq!(uploads.peek("user:42")?.remaining(), 0);
    /// }
    /// assert_eq!(uploads.peek("user:42")?.remaining(), 1);
    /// # Ok::<(), ratelimit_core::Error>(())
    /// ```
    pub fn guard<K: AsRef<[u8]>>(
        &self,
        key: K,
        max_wait_us: u64,
    ) -> Result<std::result::Result<LeaseGuard<'_, K>, Decision>> {
        match self.acquire(key.as_ref(), max_wait_us)? {
            Some(lease) => Ok(Ok(LeaseGuard { concurrency: self, key, lease, released: false })),
            None => self.refusal(key).map(Err),
        }
    }

    /// The decision for somebody who was refused a lease just now.
    pub fn refusal(&self, key: impl AsRef<[u8]>) -> Result<Decision> {
        let held = self.holding.ask(Act::Count, key.as_ref(), "", self.lease_ttl_us)?;
        Ok(self.refused(&held))
    }

    /// A refusal, also where a lease has come back since.
    pub(crate) fn refused(&self, held: &Held) -> Decision {
        self.decision(&Held { done: false, wait_us: held.wait_us.max(1), ..*held })
    }

    pub(crate) fn decision(&self, held: &Held) -> Decision {
        let limit = self.holding.limit;
        let verdict = Verdict {
            allowed: held.done,
            remaining: limit.saturating_sub(held.in_flight),
            retry_after_us: held.wait_us,
            reset_after_us: if held.in_flight > 0 { self.lease_ttl_us } else { 0 },
            delay_us: 0,
        };
        Decision::new(verdict, limit, 0, Source::Store)
    }

    /// Its name and its limit as a policy, for [`http::headers`](crate::http::headers) and the like; its window is the
    /// time of a lease. It only describes: nothing is charged by it.
    pub fn policies(&self) -> &[Policy] {
        std::slice::from_ref(&self.policy)
    }

    /// The store it keeps its leases in.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.holding.store
    }

    #[cfg(feature = "tokio")]
    pub(crate) fn holding(&self) -> (&Holding, u64) {
        (&self.holding, self.lease_ttl_us)
    }
}

impl fmt::Debug for Concurrency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Concurrency");
        debug.field("limit", &self.holding.limit).field("lease_ttl_us", &self.lease_ttl_us);
        debug.field("store", &self.holding.store.kind()).finish_non_exhaustive()
    }
}

/// A lease that is given back where this goes out of scope.
#[derive(Debug)]
pub struct LeaseGuard<'a, K: AsRef<[u8]>> {
    concurrency: &'a Concurrency,
    key: K,
    lease: Holder,
    released: bool,
}

impl<K: AsRef<[u8]>> LeaseGuard<'_, K> {
    /// Makes it last anew; `false` where its time was over before.
    pub fn extend(&self) -> Result<bool> {
        self.concurrency.extend(&self.key, &self.lease)
    }

    /// Gives it back now, and says whether it was still held.
    pub fn release(mut self) -> Result<bool> {
        self.released = true;
        self.concurrency.release(&self.key, &self.lease)
    }
}

impl<K: AsRef<[u8]>> Drop for LeaseGuard<'_, K> {
    fn drop(&mut self) {
        if !self.released {
            // Where the store gives no answer, the lease ends by itself.
            let _ = self.concurrency.release(&self.key, &self.lease);
        }
    }
}
