//! Leaves a server alone that keeps its callers waiting.
//!
//! Only time-outs open the breaker: a server that refuses at once costs nobody anything. While it is open callers are
//! told so at once. It closes when the server answers a knock, a `PING` on a connection of its own that nobody waits
//! for, or when a call that is let through every now and then succeeds.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, TryLockError};
use std::time::Duration;

use crate::clock::boot_time_us;
use crate::error::{Error, Result, StoreErrorKind};
use crate::metrics;

/// So many time-outs in a row open the breaker.
const TIME_OUTS: u32 = 5;

/// How long after opening the first call is let through, and how long at most between two.
const FIRST_PAUSE_US: u64 = 250_000;
const LONGEST_PAUSE_US: u64 = 2_000_000;

/// How long after one knock the next is made: a name that cannot be looked up must not cost every caller the look-up.
const KNOCK_PAUSE_US: u64 = 100_000;

/// Whether callers are kept away from a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BreakerState {
    /// All is well.
    Closed,
    /// Only now and then a call is let through.
    Open,
}

impl BreakerState {
    /// The name used in every language: `closed` or `open`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

/// Asks a server for a sign of life without waiting for it.
pub(crate) trait Knock: Send {
    /// Whether the server has answered, looking for so long at most; an error when this knock never will be.
    fn is_answered(&mut self, patience: Duration) -> std::io::Result<bool>;
}

/// The breaker of one server.
pub(crate) struct Breaker {
    /// Time-outs in a row.
    time_outs: AtomicU32,
    /// When the next call is let through, in time since boot; 0 while the breaker is closed.
    next_at_us: AtomicU64,
    door: Mutex<Door>,
}

/// The knock that waits to be answered.
#[derive(Default)]
struct Door {
    knock: Option<Box<dyn Knock>>,
    /// When the last one was made, in time since boot.
    knocked_at_us: u64,
}

impl Breaker {
    pub(crate) fn new() -> Self {
        Self { time_outs: AtomicU32::new(0), next_at_us: AtomicU64::new(0), door: Mutex::default() }
    }

    pub(crate) fn state(&self) -> BreakerState {
        if self.next_at_us.load(Ordering::Relaxed) == 0 { BreakerState::Closed } else { BreakerState::Open }
    }

    /// Whether a call may go to the server, which `knock` knocks at; a knock is waited for with `patience`.
    pub(crate) fn admit(
        &self,
        who: &dyn std::fmt::Display,
        patience: Duration,
        knock: impl FnOnce() -> Option<Box<dyn Knock>>,
    ) -> Result<()> {
        let next_at_us = self.next_at_us.load(Ordering::Relaxed);
        if next_at_us == 0 || self.has_answered(patience, knock) {
            return Ok(());
        }
        let now_us = boot_time_us();
        // One caller at a time is let through; the others see the next instant.
        if now_us >= next_at_us
            && self
                .next_at_us
                .compare_exchange(next_at_us, now_us + self.pause_us(now_us), Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            return Ok(());
        }
        let left = Duration::from_micros(next_at_us.saturating_sub(now_us));
        let count = self.time_outs.load(Ordering::Relaxed);
        let why = format!("{who} did not answer {count} times in a row, so it is left alone for another {left:?}");
        Err(Error::unavailable(StoreErrorKind::Timeout, why))
    }

    /// Takes note of how a call has ended.
    pub(crate) fn note(&self, error: Option<&Error>) {
        match error.and_then(Error::store_kind) {
            Some(StoreErrorKind::Timeout) => {
                let count = self.time_outs.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                if count >= TIME_OUTS && self.next_at_us.load(Ordering::Relaxed) == 0 {
                    let now_us = boot_time_us();
                    self.next_at_us.store(now_us + self.pause_us(now_us), Ordering::Relaxed);
                    metrics::count_opened_breaker();
                }
            }
            // Whatever it says, it does answer. The common call writes nothing.
            _ if self.time_outs.load(Ordering::Relaxed) > 0 => {
                self.time_outs.store(0, Ordering::Relaxed);
                self.next_at_us.store(0, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Whether the server has answered a knock. The knocking is done by one caller at a time, and also in a forked child
    /// nobody waits for who does it.
    fn has_answered(&self, patience: Duration, knock: impl FnOnce() -> Option<Box<dyn Knock>>) -> bool {
        let mut door = match self.door.try_lock() {
            Ok(door) => door,
            Err(TryLockError::Poisoned(door)) => door.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let now_us = boot_time_us();
        if door.knock.is_none() && now_us >= door.knocked_at_us + KNOCK_PAUSE_US {
            *door = Door { knock: knock(), knocked_at_us: now_us };
        }
        let Some(waiting) = door.knock.as_mut() else { return false };
        match waiting.is_answered(patience) {
            Ok(false) => false,
            Ok(true) => {
                // The next silence is knocked at without delay.
                *door = Door::default();
                // One more time-out opens it again.
                self.time_outs.store(TIME_OUTS - 1, Ordering::Relaxed);
                self.next_at_us.store(0, Ordering::Relaxed);
                true
            }
            Err(_) => {
                door.knock = None;
                false
            }
        }
    }

    /// Until the next call is let through: longer with each time-out, and never the same for all processes.
    fn pause_us(&self, now_us: u64) -> u64 {
        let doublings = self.time_outs.load(Ordering::Relaxed).saturating_sub(TIME_OUTS).min(3);
        let pause_us = (FIRST_PAUSE_US << doublings).min(LONGEST_PAUSE_US);
        let random = now_us.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(std::process::id());
        pause_us - (random % (pause_us / 4))
    }
}

impl std::fmt::Debug for Breaker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Breaker").field(&self.state()).finish()
    }
}
