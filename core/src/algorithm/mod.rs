//! The pure models: (state, question) → (state, verdict).
//!
//! Nothing here knows a store, a key or a clock. Each machine has a twin of the same base name in `lua/`, which Redis
//! runs; the two give the same answer to the bit, because both count in integers below 2^53. Three algorithms are one
//! machine, [`Bucket`], with different numbers; the others are machines of their own.

pub mod bucket;

pub mod token_bucket;

pub mod leaky_bucket;

pub mod gcra;

pub mod fixed_window;

pub mod learnt;

pub(crate) mod in_flight;

pub(crate) mod leased;

pub mod calendar;

pub mod sliding_window_log;

pub mod sliding_window_counter;

pub mod ratio;

pub use bucket::Bucket;
pub use fixed_window::FixedWindow;
pub use gcra::Gcra;
pub use leaky_bucket::LeakyBucket;
pub use learnt::Learnt;
pub(crate) use leased::Leased;
pub use sliding_window_counter::SlidingWindowCounter;
pub use sliding_window_log::{Grant, Grants, SlidingWindowLog};
pub use token_bucket::TokenBucket;

use crate::error::{Error, ErrorKind, Result};

/// Every number of a model is at most this, so that a Lua number (a double) holds it exactly.
pub const MAX_EXACT: u64 = 1 << 53;

/// The largest limit, capacity or cost.
pub const MAX_UNITS: u64 = i32::MAX as u64;

/// The longest window or full refill (71 years), and the longest wait that is handed out: an instant plus two of
/// them still fits.
pub const MAX_SPAN_US: u64 = 1 << 51;

/// A wait that never ends: the cost is above what can ever be there.
pub const NEVER_US: u64 = u64::MAX;

/// What a store keeps for one key: three words that only the algorithm understands, and when they stop to matter.
///
/// From `whole_at_us` on, the state is that of a key never seen, whatever the policy of the next call; a store may drop
/// it then, and whether it did can't be told from the answers. A sliding log keeps [`Grants`] instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct State {
    /// The algorithm's own words, each within ±[`MAX_EXACT`].
    pub words: [i64; 3],
    /// The instant at which this equals no state at all.
    pub whole_at_us: u64,
}

impl State {
    /// The words of a state that is not whole yet, with the instant at which it will be.
    fn live_words(state: Option<&Self>, now_us: u64) -> Option<([i64; 3], u64)> {
        state.filter(|state| now_us < state.whole_at_us).map(|state| (state.words, state.whole_at_us))
    }
}

/// What is done with the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Take it if it passes now.
    Allow,
    /// Take it if it passes within a wait, and say how long that is.
    Reserve {
        /// The longest wait that is accepted, in microseconds.
        max_wait_us: u64,
    },
    /// Give it back.
    Refund,
    /// Take it if it passes now, and beyond it as much as there is, so that `most` are taken in all: to be spent later in
    /// the same window. Only windows are asked.
    ///
    /// Of a verdict that passes the wait is the units taken, and the delay the instant at which the window ends.
    Lease {
        /// The most units that are taken, unless the cost is more.
        most: u64,
    },
    /// Give it back if the window that ends at this instant is still on, and else nothing.
    Return {
        /// When the window ends in which it was taken.
        window_end_us: u64,
    },
}

/// One question to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The instant it is asked at.
    pub now_us: u64,
    /// What is done.
    pub verb: Verb,
    /// For how many units; from 1 to [`MAX_UNITS`].
    pub cost: u64,
    /// Whether it is done, or only looked at.
    pub commit: bool,
}

/// The numbers of one decision, all from the same atomic step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the cost passes.
    pub allowed: bool,
    /// The largest cost that would pass now.
    pub remaining: u64,
    /// Until the same call passes; 0 when allowed, [`NEVER_US`] when it never can.
    pub retry_after_us: u64,
    /// Until the budget is whole again.
    pub reset_after_us: u64,
    /// Until the caller may start, for a reservation.
    pub delay_us: u64,
}

impl Verdict {
    /// The verdict over two budgets that are both charged: what passes has to pass in either.
    pub(crate) fn and(self, other: Self) -> Self {
        let allowed = self.allowed && other.allowed;
        Self {
            allowed,
            remaining: self.remaining.min(other.remaining),
            retry_after_us: self.retry_after_us.max(other.retry_after_us),
            reset_after_us: self.reset_after_us.max(other.reset_after_us),
            delay_us: if allowed { self.delay_us.max(other.delay_us) } else { 0 },
        }
    }
}

/// Seconds of a window in whole microseconds.
fn window_us(argument: &'static str, seconds: f64) -> Result<u64> {
    span_us(ErrorKind::InvalidPolicy, argument, seconds)
}

/// Seconds of some length in whole microseconds: at least a millisecond, since no store forgets faster.
pub(crate) fn span_us(kind: ErrorKind, argument: &'static str, seconds: f64) -> Result<u64> {
    let us = crate::clock::seconds_to_us(seconds);
    if seconds.is_finite() && (1_000..=MAX_SPAN_US).contains(&us) {
        return Ok(us);
    }
    let longest = crate::clock::us_to_seconds(MAX_SPAN_US);
    let detail = format!("must be between 0.001 and {longest} seconds, got {seconds}");
    Err(Error::argument_error(kind, argument, detail))
}

/// A count of units: from 1 to [`MAX_UNITS`].
pub(crate) fn units(argument: &'static str, count: i64) -> Result<u64> {
    u64::try_from(count)
        .ok()
        .filter(|count| (1..=MAX_UNITS).contains(count))
        .ok_or_else(|| Error::policy(argument, format!("must be between 1 and {MAX_UNITS}, got {count}")))
}

/// A positive float as the ratio a person meant.
fn positive(argument: &'static str, value: f64) -> Result<ratio::Ratio> {
    ratio::Ratio::from_float(value).ok_or_else(|| {
        let range = "must be a finite number above 0 that 15 digits can tell from 0";
        Error::policy(argument, format!("{range}, got {value}"))
    })
}
