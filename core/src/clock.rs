//! Where "now" comes from.
//!
//! All instants are microseconds in a `u64`: since 1970 for the Redis server's and the caller's clock, since boot for
//! the embedded stores. Decisions only ever compare instants of one store, so the two never meet.

use std::sync::atomic::{AtomicU64, Ordering};

/// Instants stay below this (the year 2112), so that a Lua number holds them and what is added to them exactly.
pub const MAX_INSTANT_US: u64 = 1 << 52;

/// A source of time, given to a limiter to override the store's own.
///
/// Tests use [`ManualClock`]; replays and services that refuse `TIME` inside scripts bring their own.
pub trait Clock: Send + Sync {
    /// Microseconds since 1970.
    fn now_us(&self) -> u64;

    /// Lets so much time pass. A clock that is moved by hand moves, instead of letting the thread sleep.
    fn sleep_us(&self, us: u64) {
        std::thread::sleep(std::time::Duration::from_micros(us));
    }
}

/// The wall clock of this machine.
///
/// For stores that cannot tell the time themselves. A step of this clock is harmless (nobody gains, nobody is locked
/// out), yet stores that have a clock of their own are the better choice.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_us(&self) -> u64 {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since_1970.as_micros()).unwrap_or(0)
    }
}

/// A clock that moves only when told to, so that tests never sleep.
///
/// ```
/// use std::sync::Arc;
/// use ratelimit_core::{Limiter, ManualClock, Policy, store};
///
/// let clock = Arc::new(ManualClock::new(1_700_000_000.0));
/// let limiter = Limiter::builder(Policy::token_bucket(1, 1.0, 10.0)?)
///     .store(store::memory(1_000)?)
///     .clock(clock.clone())
///     .build()?;
/// assert!(limiter.allow("job", 1)?.allowed());
/// assert!(!limiter.allow("job", 1)?.allowed());
/// clock.advance(10.0);
/// assert!(limiter.allow("job", 1)?.allowed());
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
#[derive(Debug)]
pub struct ManualClock {
    now_us: AtomicU64,
}

impl ManualClock {
    /// A clock that stands at `now` seconds since 1970.
    pub fn new(now: f64) -> Self {
        Self { now_us: AtomicU64::new(seconds_to_us(now)) }
    }

    /// Moves the clock by `seconds`; a negative number moves it back. It never leaves the range of instants.
    pub fn advance(&self, seconds: f64) {
        let step = seconds_to_us(seconds.abs());
        self.advance_us(if seconds < 0.0 {
            -i64::try_from(step).unwrap_or(0)
        } else {
            i64::try_from(step).unwrap_or(0)
        });
    }

    /// Moves the clock by microseconds; a negative number moves it back.
    pub fn advance_us(&self, step_us: i64) {
        // `update` returns the old value; nothing here needs it.
        let _ = self.now_us.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| {
            Some(now.saturating_add_signed(step_us).min(MAX_INSTANT_US - 1))
        });
    }

    /// Puts the clock at an instant, in microseconds since 1970.
    pub fn set_us(&self, now_us: u64) {
        self.now_us.store(now_us.min(MAX_INSTANT_US - 1), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now_us(&self) -> u64 {
        self.now_us.load(Ordering::SeqCst)
    }

    fn sleep_us(&self, us: u64) {
        self.advance_us(i64::try_from(us).unwrap_or(i64::MAX));
    }
}

/// Seconds in a float to whole microseconds, rounded to the nearest; negative and NaN become 0, huge ones the limit.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss)]
pub fn seconds_to_us(seconds: f64) -> u64 {
    // A cast from float saturates, and takes NaN to 0.
    ((seconds * 1e6).round() as u64).min(MAX_INSTANT_US - 1)
}

/// Microseconds to seconds in a float, for languages whose waits are floats.
#[allow(clippy::cast_precision_loss)]
pub fn us_to_seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// The clock of the embedded stores: system-wide and monotonic, also across processes and through suspend.
///
/// A step of the wall clock does not touch it.
pub(crate) fn boot_time_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec.cast_unsigned() * 1_000_000 + now.tv_nsec.cast_unsigned() / 1_000
}
