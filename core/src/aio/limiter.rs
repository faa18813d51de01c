//! The limiter whose verbs are awaited.

use std::sync::Arc;
use std::time::Duration;

use crate::decision::Decision;
use crate::error::Result;
use crate::limiter::{Call, Keys, WaitStep, Waiting};
use crate::{Limiter as Blocking, limiter};

/// A [limiter](Blocking) whose verbs are awaited. Cheap to clone.
///
/// Needs a runtime with its network and its clock enabled. All calls to one server share one connection, however many
/// tasks there are; a call that is dropped leaves it in order. What was sent before that may have been counted.
///
/// ```
/// use ratelimit_core::{Policy, aio, store};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let limiter = aio::Limiter::new(ratelimit_core::Limiter::new(Policy::parse("100/m")?, store::memory(1_000)?)?);
/// assert!(limiter.allow("user:42", 1).await?.allowed());
/// # Ok::<(), ratelimit_core::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug, Clone)]
pub struct Limiter(Arc<Blocking>);

impl Limiter {
    /// The same limiter, asked without blocking.
    pub fn new(limiter: impl Into<Arc<Blocking>>) -> Self {
        Self(limiter.into())
    }

    /// The limiter it asks.
    pub fn blocking(&self) -> &Arc<Blocking> {
        &self.0
    }

    /// [`Limiter::allow`](Blocking::allow).
    pub async fn allow(&self, key: impl AsRef<[u8]>, cost: i64) -> Result<Decision> {
        self.decide(Call::allow(key.as_ref(), cost)).await
    }

    /// [`Limiter::peek`](Blocking::peek).
    pub async fn peek(&self, key: impl AsRef<[u8]>, cost: i64) -> Result<Decision> {
        self.decide(Call::peek(key.as_ref(), cost)).await
    }

    /// [`Limiter::reserve`](Blocking::reserve).
    pub async fn reserve(&self, key: impl AsRef<[u8]>, cost: i64, max_wait_us: u64) -> Result<Decision> {
        self.decide(Call::reserve(key.as_ref(), cost, max_wait_us)).await
    }

    /// [`Limiter::refund`](Blocking::refund).
    pub async fn refund(&self, key: impl AsRef<[u8]>, cost: i64) -> Result<()> {
        self.decide(Call::refund(key.as_ref(), cost)).await.map(drop)
    }

    /// [`Limiter::wait`](Blocking::wait), without blocking the thread.
    ///
    /// When it is dropped while it sleeps on a reservation, the reservation stays: give it back with
    /// [`refund`](Self::refund), or take the steps of [`Waiting`] yourself.
    pub async fn wait(&self, key: impl AsRef<[u8]>, cost: i64, max_wait_us: u64) -> Result<Decision> {
        self.wait_for(Call::allow(key.as_ref(), cost), max_wait_us).await
    }

    /// [`wait`](Self::wait) for a call with keys of its own, or a token.
    pub async fn wait_for(&self, call: Call<'_>, max_wait_us: u64) -> Result<Decision> {
        let mut waiting = Waiting::new(max_wait_us);
        loop {
            match self.step(&mut waiting, call).await? {
                WaitStep::Done(decision) => return Ok(decision),
                WaitStep::Sleep { us } if self.0.has_clock() => self.0.sleep_us(us),
                WaitStep::Sleep { us } => tokio::time::sleep(Duration::from_micros(us)).await,
            }
        }
    }

    /// [`Waiting::step`] without blocking.
    pub async fn step(&self, waiting: &mut Waiting, call: Call<'_>) -> Result<WaitStep> {
        if let Some(decision) = waiting.reserved() {
            return Ok(WaitStep::Done(decision));
        }
        let call = waiting.question(&self.0, call);
        let decision = self.decide(call).await?;
        waiting.hear(&self.0, &call, decision)
    }

    /// [`Waiting::cancel`] without blocking.
    pub async fn cancel(&self, waiting: &mut Waiting, call: Call<'_>) -> Result<()> {
        if waiting.reserved().is_none() {
            return Ok(());
        }
        // First, so that nobody is answered from what is being given back.
        self.0.forget_token_async(&call).await?;
        self.decide(call.given_back()).await.map(drop)
    }

    /// Forgets what a key has used.
    pub async fn reset<'a>(&self, keys: impl Into<Keys<'a>>) -> Result<()> {
        self.0.reset_async(keys.into()).await
    }

    /// [`Limiter::return_leases`](Blocking::return_leases).
    pub async fn return_leases(&self) -> Result<()> {
        self.0.return_leases_async().await
    }

    /// Answers one [`Call`].
    pub async fn decide(&self, call: Call<'_>) -> Result<Decision> {
        self.0.decide_async(call).await
    }

    /// [`Limiter::allow_many`](Blocking::allow_many): all are under way at once, on one connection per server.
    pub async fn allow_many<K: AsRef<[u8]>>(&self, calls: &[(K, i64)]) -> Result<Vec<Result<Decision>>> {
        let calls: Vec<Call<'_>> = calls.iter().map(|(key, cost)| Call::allow(key.as_ref(), *cost)).collect();
        self.decide_many(&calls).await
    }

    /// [`allow_many`](Self::allow_many) for calls of all kinds.
    pub async fn decide_many(&self, calls: &[Call<'_>]) -> Result<Vec<Result<Decision>>> {
        self.0.decide_many_async(calls).await
    }

    /// How long a round trip takes.
    pub async fn ping(&self) -> Result<Duration> {
        let store = self.0.store();
        match store.asynchronous() {
            Some(store) => store.ping().await,
            None => store.ping(),
        }
    }
}

impl From<limiter::Limiter> for Limiter {
    fn from(limiter: limiter::Limiter) -> Self {
        Self::new(limiter)
    }
}
