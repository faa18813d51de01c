//! The token bucket: holds up to `capacity` tokens, refilled at a steady rate; a call takes its cost.
//!
//! Tokens are counted in *credits*, whole fractions of a token chosen so that each tick adds a whole number of them:
//! refilling needs no division and loses nothing. By interval a tick is the whole interval (nothing in between, as in
//! redis.io's guide); continuously it is a microsecond, or the shortest longer tick whose numbers fit.

use super::ratio::{Ratio, gcd};
use super::{Change, MAX_EXACT, MAX_UNITS, NEVER_US, State, Verb, Verdict};
use crate::error::{Error, Result};

/// A full refill may take this long (142 years), so that an instant plus a wait still fits.
const MAX_FILL_US: u64 = 1 << 52;

/// The ticks of a continuous bucket, finest first.
const TICKS_US: [u64; 3] = [1, 1_000, 1_000_000];

/// The numbers of a token bucket, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenBucket {
    capacity: u64,
    refill_rate: f64,
    refill_interval: f64,
    continuous: bool,
    /// Credits that make one token.
    unit: u64,
    /// Credits that one tick adds.
    refill: u64,
    tick_us: u64,
}

/// What a bucket holds at one instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Level {
    credits: u64,
    updated_at_us: u64,
    /// The stored instant was later than now, and has been brought down.
    repaired: bool,
    /// When what is stored is forgotten, if nothing is stored anew: under a policy that was raised since, earlier than
    /// the bucket fills.
    forgotten_at_us: u64,
}

impl TokenBucket {
    /// One token, one credit, one microsecond: what the numbers are before they are worked out.
    const UNIT: Self =
        Self { capacity: 1, refill_rate: 1.0, refill_interval: 1.0, continuous: false, unit: 1, refill: 1, tick_us: 1 };

    /// `refill_rate` tokens for every `refill_interval` seconds: at the end of each interval, or continuously.
    ///
    /// Fails with [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) when a number is out of range.
    pub fn new(capacity: i64, refill_rate: f64, refill_interval: f64, continuous: bool) -> Result<Self> {
        let capacity = u64::try_from(capacity)
            .ok()
            .filter(|n| (1..=MAX_UNITS).contains(n))
            .ok_or_else(|| Error::policy("capacity", format!("must be between 1 and {MAX_UNITS}, got {capacity}")))?;
        let rate = positive("refill_rate", refill_rate)?;
        let interval = positive("refill_interval", refill_interval)?;
        Self::exact(capacity, rate, interval, Self { capacity, refill_rate, refill_interval, continuous, ..Self::UNIT })
    }

    /// The same bucket for one of `share` equal parts of a fleet: capacity and rate divided, at least one token.
    pub(crate) fn divided(&self, share: u32) -> Result<Self> {
        let capacity = (self.capacity / u64::from(share)).max(1);
        let rate = positive("refill_rate", self.refill_rate)?.divided_by(share);
        let interval = positive("refill_interval", self.refill_interval)?;
        let refill_rate = self.refill_rate / f64::from(share);
        Self::exact(capacity, rate, interval, Self { capacity, refill_rate, ..*self })
    }

    /// `given`, with the credits that its exact rate and interval ask for.
    fn exact(capacity: u64, rate: Ratio, interval: Ratio, given: Self) -> Result<Self> {
        let (unit, refill, tick_us) = if given.continuous {
            continuous_credits(capacity, rate, interval)
        } else {
            interval_credits(capacity, rate, given.refill_interval)
        }
        .ok_or_else(|| given.too_fine())?;
        Ok(Self { unit, refill, tick_us, ..given })
    }

    fn too_fine(&self) -> Error {
        let Self { capacity, refill_rate, refill_interval, .. } = self;
        let given = format!("capacity {capacity}, refill_rate {refill_rate}, refill_interval {refill_interval} s");
        let why = "the interval must be at least a microsecond, a full refill at most 142 years, and the capacity \
                   times the rate's denominator at most 2^53";
        Error::policy("refill_rate", format!("does not fit the other numbers ({given}): {why}"))
    }

    /// The most tokens it holds.
    pub const fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Tokens added per interval, as given.
    pub const fn refill_rate(&self) -> f64 {
        self.refill_rate
    }

    /// The interval in seconds, as given.
    pub const fn refill_interval(&self) -> f64 {
        self.refill_interval
    }

    /// Whether tokens arrive all the time instead of at the end of each interval.
    pub const fn continuous(&self) -> bool {
        self.continuous
    }

    /// Until an empty bucket is full, in microseconds.
    pub const fn fill_us(&self) -> u64 {
        self.full().div_ceil(self.refill) * self.tick_us
    }

    /// The numbers that the Lua twin takes, in its order.
    pub(crate) const fn arguments(&self) -> [u64; 4] {
        [self.capacity, self.unit, self.refill, self.tick_us]
    }

    const fn full(&self) -> u64 {
        self.capacity * self.unit
    }

    /// Decides on `cost` at `now_us`; a denial and a look change nothing but instants from a clock that stepped back.
    pub fn decide(&self, state: Option<&State>, now_us: u64, cost: u64, verb: Verb) -> (Change, Verdict) {
        let mut level = self.level(state, now_us);
        let allowed = cost <= self.capacity && level.credits >= cost * self.unit;
        let takes = allowed && verb == Verb::Allow;
        if takes {
            level.credits -= cost * self.unit;
        }
        let stores = takes || level.repaired;
        let reaches_at_us = |credits| match self.reaches_at_us(level, credits) {
            instant if stores => instant,
            instant => instant.min(level.forgotten_at_us),
        };
        let retry_after_us = if allowed {
            0
        } else if cost > self.capacity {
            NEVER_US
        } else {
            reaches_at_us(cost * self.unit) - now_us
        };
        let whole_at_us = reaches_at_us(self.full());
        let verdict = Verdict {
            allowed,
            remaining: level.credits / self.unit,
            retry_after_us,
            reset_after_us: whole_at_us - now_us,
            delay_us: 0,
        };
        let change = match (stores, level.credits == self.full()) {
            (false, _) => Change::Keep,
            (true, true) => Change::Clear,
            (true, false) => Change::Put(State { words: [level.credits, self.unit, level.updated_at_us], whole_at_us }),
        };
        (change, verdict)
    }

    /// What the bucket holds at `now_us`, refilled by whole ticks. A full bucket forgets its phase.
    fn level(&self, state: Option<&State>, now_us: u64) -> Level {
        let full = Level { credits: self.full(), updated_at_us: now_us, repaired: false, forgotten_at_us: u64::MAX };
        let Some(&State { words: [credits, unit, updated_at_us], whole_at_us }) = state else { return full };
        if now_us >= whole_at_us {
            return full;
        }
        let credits = if unit == self.unit { credits } else { self.convert(credits, unit) }.min(self.full());
        let repaired = updated_at_us > now_us;
        let updated_at_us = updated_at_us.min(now_us);
        let ticks = (now_us - updated_at_us) / self.tick_us;
        if ticks >= (self.full() - credits).div_ceil(self.refill) {
            return Level { repaired, ..full };
        }
        Level {
            credits: credits + ticks * self.refill,
            updated_at_us: updated_at_us + ticks * self.tick_us,
            repaired,
            forgotten_at_us: whole_at_us,
        }
    }

    /// Credits of another policy's unit in this one's, rounded down: the policy changed, the tokens stay.
    fn convert(&self, credits: u64, unit: u64) -> u64 {
        let tokens = credits / unit;
        if tokens >= self.capacity {
            return self.full();
        }
        let part = u128::from(credits % unit) * u128::from(self.unit) / u128::from(unit);
        // The part is below one unit, which fits in 64 bits.
        tokens * self.unit + u64::try_from(part).unwrap_or(0)
    }

    /// The instant at which the bucket holds `credits`.
    fn reaches_at_us(&self, level: Level, credits: u64) -> u64 {
        level.updated_at_us + credits.saturating_sub(level.credits).div_ceil(self.refill) * self.tick_us
    }
}

fn positive(argument: &'static str, value: f64) -> Result<Ratio> {
    Ratio::from_float(value).ok_or_else(|| {
        let range = "must be a finite number above 0 that 15 digits can tell from 0";
        Error::policy(argument, format!("{range}, got {value}"))
    })
}

/// Unit, refill and tick of a bucket refilled at the end of each interval.
fn interval_credits(capacity: u64, rate: Ratio, interval_seconds: f64) -> Option<(u64, u64, u64)> {
    let tick_us = crate::clock::seconds_to_us(interval_seconds);
    fitting(capacity, u128::from(rate.denominator), u128::from(rate.numerator), tick_us)
}

/// Unit, refill and tick of a bucket refilled all the time, on the finest tick that fits.
fn continuous_credits(capacity: u64, rate: Ratio, interval: Ratio) -> Option<(u64, u64, u64)> {
    let refill_per_us = u128::from(rate.numerator) * u128::from(interval.denominator);
    let unit = u128::from(rate.denominator) * u128::from(interval.numerator) * 1_000_000;
    TICKS_US.into_iter().find_map(|tick_us| fitting(capacity, unit, refill_per_us * u128::from(tick_us), tick_us))
}

/// The numbers in lowest terms, if each of them, and the time to fill the bucket, can be counted exactly.
fn fitting(capacity: u64, unit: u128, refill: u128, tick_us: u64) -> Option<(u64, u64, u64)> {
    let divisor = gcd(unit, refill);
    let unit = u64::try_from(unit / divisor).ok().filter(|&unit| unit <= MAX_EXACT)?;
    let full = capacity.checked_mul(unit).filter(|&full| full <= MAX_EXACT)?;
    // More than a full bucket per tick is a full bucket per tick.
    let refill = u64::try_from((refill / divisor).min(u128::from(full))).ok()?;
    let fill_us = full.div_ceil(refill).checked_mul(tick_us).filter(|&us| us <= MAX_FILL_US)?;
    (fill_us > 0).then_some((unit, refill, tick_us))
}
