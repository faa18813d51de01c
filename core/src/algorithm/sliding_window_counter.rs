//! The sliding window counter: two counters stand for a log. What was used in the window before counts by the part of
//! it that still overlaps the span that ends now.
//!
//! State: the units of the window before, those of the current one, and when the current one began. A new state begins
//! at a multiple of the window since 1970; a clock that steps back makes it begin now, and it goes on from there.

use super::{MAX_EXACT, NEVER_US, Question, State, Verb, Verdict, units, window_us};
use crate::error::{Error, Result};

/// The ticks in which a window is measured, finest first.
const TICKS_US: [u64; 3] = [1, 1_000, 1_000_000];

/// The numbers of a sliding counter, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindowCounter {
    limit: u64,
    /// The window in ticks.
    window: u64,
    tick_us: u64,
}

/// The two counters at one instant.
#[derive(Debug, Clone, Copy)]
struct Counters {
    previous: u64,
    current: u64,
    start_us: u64,
    repaired: bool,
    forgotten_at_us: u64,
}

impl SlidingWindowCounter {
    /// About `limit` units in any `window` seconds.
    ///
    /// Fails with [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) when a number is out of range.
    pub fn new(limit: i64, window: f64) -> Result<Self> {
        let (limit, window_us) = (units("limit", limit)?, window_us("window", window)?);
        Self::exact(limit, window_us).ok_or_else(|| {
            let why = "limit times window is more than can be counted exactly";
            Error::policy("window", format!("does not fit the limit ({limit} units in {window} s): {why}"))
        })
    }

    /// The same for one of `share` equal parts of a fleet.
    pub(crate) fn divided(&self, share: u32) -> Self {
        Self { limit: (self.limit / u64::from(share)).max(1), ..*self }
    }

    fn exact(limit: u64, window_us: u64) -> Option<Self> {
        TICKS_US.into_iter().find_map(|tick_us| {
            let window = window_us / tick_us;
            // Both counters full, and the one unit more that the rounding asks about.
            let largest = window.checked_mul(2 * limit + 2)?;
            (window_us.is_multiple_of(tick_us) && largest <= MAX_EXACT).then_some(Self { limit, window, tick_us })
        })
    }

    /// Units per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window in microseconds.
    pub const fn window_us(&self) -> u64 {
        self.window * self.tick_us
    }

    /// The numbers that the Lua twin takes, in its order.
    pub(crate) const fn numbers(&self) -> [u64; 5] {
        [self.limit, self.window, self.tick_us, 0, 0]
    }

    /// Answers, and changes the state where the question commits.
    pub fn decide(&self, state: &mut Option<State>, question: &Question) -> Verdict {
        let Question { now_us, verb, cost, commit } = *question;
        let mut counters = self.counters(state.as_ref(), now_us);
        let left = self.limit.saturating_sub(self.estimate(&counters, now_us));
        let mut allowed = true;
        let mut changes = commit;
        let (mut taken, mut window_end_us) = (0, 0);
        match verb {
            Verb::Refund => {
                changes &= counters.previous + counters.current > 0;
                if changes {
                    let from_current = cost.min(counters.current);
                    counters.current -= from_current;
                    counters.previous = counters.previous.saturating_sub(cost - from_current);
                }
            }
            Verb::Return { window_end_us } => {
                // A clock that stepped back looks at a later window's counts.
                let same = !counters.repaired && counters.start_us + self.window_us() == window_end_us;
                changes &= same && counters.current > 0;
                if changes {
                    counters.current = counters.current.saturating_sub(cost);
                }
            }
            Verb::Lease { most } if cost <= left => {
                (taken, window_end_us) = (most.clamp(cost, left), counters.start_us + self.window_us());
                if changes {
                    counters.current += taken;
                }
            }
            _ => {
                allowed = cost <= left;
                changes &= allowed;
                if changes {
                    counters.current += cost;
                }
            }
        }
        let stores = changes || counters.repaired;
        let told_us = |at_us: u64| (if stores { at_us } else { at_us.min(counters.forgotten_at_us) }) - now_us;
        let whole_at_us = self.whole_at_us(&counters).max(now_us);
        if stores {
            let words = [counters.previous, counters.current, counters.start_us].map(u64::cast_signed);
            *state = (whole_at_us > now_us).then_some(State { words, whole_at_us });
        }
        Verdict {
            allowed,
            remaining: self.limit.saturating_sub(self.estimate(&counters, now_us)),
            retry_after_us: match allowed {
                true => taken,
                false if cost > self.limit => NEVER_US,
                false => told_us(self.passes_at_us(&counters, cost)),
            },
            reset_after_us: told_us(whole_at_us),
            delay_us: window_end_us,
        }
    }

    /// The counters as they are at `now_us`.
    fn counters(&self, state: Option<&State>, now_us: u64) -> Counters {
        let window_us = self.window_us();
        let fresh = Counters {
            previous: 0,
            current: 0,
            start_us: now_us - now_us % window_us,
            repaired: false,
            forgotten_at_us: u64::MAX,
        };
        let Some((words, forgotten_at_us)) = State::live_words(state, now_us) else { return fresh };
        let [previous, current, start_us] = words.map(i64::unsigned_abs);
        let stored = Counters { previous, current, start_us, repaired: false, forgotten_at_us };
        if start_us > now_us {
            return Counters { start_us: now_us, repaired: true, ..stored };
        }
        match (now_us - start_us) / window_us {
            0 => stored,
            // Two counters of nothing are whole, and as good as none.
            1 if current == 0 => fresh,
            1 => Counters { previous: current, current: 0, start_us: start_us + window_us, ..stored },
            _ => fresh,
        }
    }

    /// What counts as used, rounded down.
    fn estimate(&self, counters: &Counters, now_us: u64) -> u64 {
        let elapsed = (now_us - counters.start_us) / self.tick_us;
        // A state of a policy with a higher limit may hold more than this one's numbers are made for.
        let previous = counters.previous.min(self.limit);
        let current = counters.current.min(self.limit);
        (previous * (self.window - elapsed) + current * self.window) / self.window
    }

    /// The instant at which `cost`, refused now, passes.
    fn passes_at_us(&self, counters: &Counters, cost: u64) -> u64 {
        let (previous, current) = (counters.previous.min(self.limit), counters.current.min(self.limit));
        let room = self.limit - cost + 1;
        let (start_us, falling, room) = if room > current {
            (counters.start_us, previous, room - current)
        } else {
            (counters.start_us + self.window_us(), current, room)
        };
        // The first tick at which what is left of the falling counter is below the room.
        let left = (room * self.window).div_ceil(falling.max(1)) - 1;
        start_us + self.window.saturating_sub(left) * self.tick_us
    }

    /// The instant at which both counters weigh nothing.
    fn whole_at_us(&self, counters: &Counters) -> u64 {
        match counters {
            Counters { current: 1.., .. } => counters.start_us + 2 * self.window_us(),
            Counters { previous: 1.., .. } => counters.start_us + self.window_us(),
            _ => 0,
        }
    }
}
