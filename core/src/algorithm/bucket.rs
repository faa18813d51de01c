//! The machine behind token bucket, leaky bucket and GCRA: a level that comes back at a steady rate.
//!
//! Units are counted in *credits*, whole fractions of a unit chosen so that each tick adds a whole number of them:
//! refilling needs no division and loses nothing. A tick is an interval of the policy's, or a microsecond, or the
//! shortest longer tick whose numbers fit.
//!
//! State: the credits that are there (negative after reservations), the credits of one unit, and the instant up to
//! which ticks have been added.

use super::ratio::{Ratio, gcd};
use super::{MAX_EXACT, MAX_SPAN_US, NEVER_US, Question, State, Verb, Verdict};

/// Credits of a full bucket, and those it may owe, stay within this: their sum is still exact.
const MAX_CREDITS: u64 = MAX_EXACT / 2;

/// The ticks of a bucket that refills all the time, finest first.
const TICKS_US: [u64; 3] = [1, 1_000, 1_000_000];

/// The numbers of the machine, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    capacity: u64,
    /// Credits that make one unit.
    unit: u64,
    /// Credits that one tick adds.
    refill: u64,
    tick_us: u64,
    /// The most credits that may be owed: what can be counted exactly and comes back within the longest span. Kept, since
    /// a decision should not have to divide for it.
    max_debt: i64,
    /// Whether a reservation waits for all those before it, as in a queue, or only until its units are there.
    queue: bool,
}

/// What a bucket holds at one instant.
#[derive(Debug, Clone, Copy)]
struct Level {
    credits: i64,
    updated_at_us: u64,
    /// Whether there is anything stored at all.
    stored: bool,
    /// The stored instant was later than now, and has been brought down.
    repaired: bool,
    /// When what is stored is forgotten, if nothing is stored anew: under a policy that was raised since, earlier than
    /// the bucket fills.
    forgotten_at_us: u64,
}

impl Bucket {
    /// A bucket that gains `rate` units at the end of each interval; `None` when the numbers can't be counted exactly.
    pub(super) fn by_interval(capacity: u64, rate: Ratio, interval_us: u64) -> Option<Self> {
        Self::fitting(capacity, u128::from(rate.denominator), u128::from(rate.numerator), interval_us)
    }

    /// A bucket that gains `rate` units per `interval` seconds all the time, on the finest tick that fits.
    pub(super) fn continuous(capacity: u64, rate: Ratio, interval: Ratio) -> Option<Self> {
        let refill_per_us = u128::from(rate.numerator) * u128::from(interval.denominator);
        let unit = u128::from(rate.denominator) * u128::from(interval.numerator) * 1_000_000;
        let refill = |tick_us| refill_per_us.checked_mul(u128::from(tick_us));
        TICKS_US.into_iter().find_map(|tick_us| Self::fitting(capacity, unit, refill(tick_us)?, tick_us))
    }

    /// The same bucket, with reservations queueing one behind the other.
    pub(super) const fn with_queue(self) -> Self {
        Self { queue: true, ..self }
    }

    /// The numbers in lowest terms, if each of them, and the time to fill the bucket, can be counted exactly.
    fn fitting(capacity: u64, unit: u128, refill: u128, tick_us: u64) -> Option<Self> {
        let divisor = gcd(unit, refill);
        let unit = u64::try_from(unit / divisor).ok().filter(|&unit| unit <= MAX_CREDITS)?;
        let full = capacity.checked_mul(unit).filter(|&full| full <= MAX_CREDITS)?;
        // More than a full bucket per tick is a full bucket per tick.
        let refill = u64::try_from((refill / divisor).min(u128::from(full))).ok()?;
        full.div_ceil(refill).checked_mul(tick_us).filter(|us| (1..=MAX_SPAN_US).contains(us))?;
        let max_debt = (MAX_SPAN_US / tick_us).saturating_mul(refill).min(MAX_CREDITS).cast_signed();
        Some(Self { capacity, unit, refill, tick_us, max_debt, queue: false })
    }

    /// The most units it holds.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Until an empty bucket is full, in microseconds.
    pub const fn fill_us(&self) -> u64 {
        self.full().unsigned_abs().div_ceil(self.refill) * self.tick_us
    }

    /// The numbers that the Lua twin takes, in its order.
    pub(crate) fn numbers(&self) -> [u64; 5] {
        [self.capacity, self.unit, self.refill, self.tick_us, u64::from(self.queue)]
    }

    const fn full(&self) -> i64 {
        (self.capacity * self.unit).cast_signed()
    }

    /// Answers, and changes the state where the question commits; a denial and a look change nothing but instants
    /// from a clock that stepped back.
    // Called from two places, and costs less than the call would.
    #[inline(always)]
    #[allow(clippy::inline_always)]
    pub fn decide(&self, state: &mut Option<State>, question: &Question) -> Verdict {
        let Question { now_us, verb, cost, commit } = *question;
        let mut level = self.level(state.as_ref(), now_us);
        let (mut allowed, mut changes) = (true, false);
        let (mut delay_us, mut retry_after_us) = (0, 0);
        match verb {
            Verb::Refund => {
                changes = commit && level.stored;
                if changes {
                    self.give_back(&mut level, cost);
                }
            }
            _ if cost > self.capacity => (allowed, retry_after_us) = (false, NEVER_US),
            // Nothing is leased from a bucket: it would refill while the units are out.
            Verb::Allow | Verb::Lease { .. } | Verb::Return { .. } => {
                retry_after_us = self.wait_us(&level, (cost * self.unit).cast_signed(), now_us);
            }
            Verb::Reserve { max_wait_us } => {
                (delay_us, retry_after_us) =
                    self.reservation(&level, (cost * self.unit).cast_signed(), max_wait_us, now_us);
            }
        }
        if verb != Verb::Refund && retry_after_us != NEVER_US {
            allowed = retry_after_us == 0;
            changes = allowed && commit;
            if changes {
                level.credits -= (cost * self.unit).cast_signed();
            }
            retry_after_us = Self::told_us(&level, retry_after_us, now_us);
        }
        let whole_us = self.wait_us(&level, self.full(), now_us);
        let stores = changes || level.repaired;
        let reset_after_us = if stores { whole_us } else { Self::told_us(&level, whole_us, now_us) };
        if stores {
            let words = [level.credits, self.unit.cast_signed(), level.updated_at_us.cast_signed()];
            *state = (level.credits < self.full()).then_some(State { words, whole_at_us: now_us + whole_us });
        }
        let remaining = u64::try_from(level.credits).unwrap_or(0) / self.unit;
        Verdict { allowed, remaining, retry_after_us, reset_after_us, delay_us }
    }

    /// When the taker of `need` credits may start, and until when the reservation has to be put off.
    fn reservation(&self, level: &Level, need: i64, max_wait_us: u64, now_us: u64) -> (u64, u64) {
        let waits_us = self.wait_us(level, need, now_us);
        let (delay_us, put_off_us) = if self.queue {
            // The queue holds `capacity` units; a place in it starts when all before it have left.
            let delay_us = self.wait_us(level, self.full(), now_us);
            (delay_us, waits_us.max(delay_us.saturating_sub(max_wait_us)))
        } else {
            // Until the debt would be small enough, and the wait short enough.
            let owes_us = self.wait_us(level, need - self.max_debt, now_us);
            (waits_us, owes_us.max(waits_us.saturating_sub(max_wait_us)))
        };
        (if put_off_us == 0 { delay_us } else { 0 }, put_off_us)
    }

    fn give_back(&self, level: &mut Level, cost: u64) {
        let missing = self.full() - level.credits;
        if cost >= missing.unsigned_abs().div_ceil(self.unit) {
            level.credits = self.full();
        } else {
            level.credits += (cost * self.unit).cast_signed();
        }
    }

    /// A wait as it is told when nothing is stored: no longer than until what is stored is forgotten.
    fn told_us(level: &Level, wait_us: u64, now_us: u64) -> u64 {
        if level.repaired { wait_us } else { wait_us.min(level.forgotten_at_us - now_us) }
    }

    /// What the bucket holds at `now_us`, refilled by whole ticks. A full bucket forgets its phase.
    #[inline]
    fn level(&self, state: Option<&State>, now_us: u64) -> Level {
        let fresh = Level {
            credits: self.full(),
            updated_at_us: now_us,
            stored: false,
            repaired: false,
            forgotten_at_us: u64::MAX,
        };
        let Some(([credits, unit, updated_at], whole_at_us)) = State::live_words(state, now_us) else { return fresh };
        let (unit, updated_at_us) = (unit.unsigned_abs(), updated_at.unsigned_abs());
        if unit == 0 {
            // Nobody wrote that, but what is in a shared file may be anything.
            return fresh;
        }
        let credits = if unit == self.unit { credits } else { self.convert(credits, unit) };
        let credits = credits.clamp(-self.max_debt, self.full());
        let repaired = updated_at_us > now_us;
        let updated_at_us = updated_at_us.min(now_us);
        let elapsed_us = now_us - updated_at_us;
        // A division costs more than all the rest, and most ticks are microseconds.
        let ticks = if self.tick_us == 1 { elapsed_us } else { elapsed_us / self.tick_us };
        if ticks.saturating_mul(self.refill) >= (self.full() - credits).unsigned_abs() {
            return Level { stored: true, repaired, ..fresh };
        }
        Level {
            credits: credits + (ticks * self.refill).cast_signed(),
            updated_at_us: updated_at_us + ticks * self.tick_us,
            stored: true,
            repaired,
            forgotten_at_us: whole_at_us,
        }
    }

    /// Credits of another policy's unit in this one's, rounded toward zero: the policy changed, the units stay.
    fn convert(&self, credits: i64, unit: u64) -> i64 {
        let (units, part) = (credits.unsigned_abs() / unit, credits.unsigned_abs() % unit);
        if units > self.capacity {
            // More than fits is cut by the caller, whichever way.
            return if credits < 0 { -MAX_CREDITS.cast_signed() } else { self.full() };
        }
        let part = u128::from(part) * u128::from(self.unit) / u128::from(unit);
        // The part is below one unit, so it fits.
        let converted = (units * self.unit + u64::try_from(part).unwrap_or(0)).cast_signed();
        if credits < 0 { -converted } else { converted }
    }

    /// Until the bucket holds `credits`; 0 when it does.
    #[inline]
    fn wait_us(&self, level: &Level, credits: i64, now_us: u64) -> u64 {
        if credits <= level.credits {
            return 0;
        }
        let ticks = (credits - level.credits).unsigned_abs().div_ceil(self.refill);
        level.updated_at_us + ticks * self.tick_us - now_us
    }
}
