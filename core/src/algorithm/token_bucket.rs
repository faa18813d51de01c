//! The token bucket: holds up to `capacity` tokens, refilled at a steady rate; a call takes its cost.
//!
//! By interval the tokens of an interval arrive at its end and nothing in between, as in redis.io's guide; continuously
//! they arrive all the time.

use super::ratio::Ratio;
use super::{Bucket, positive, units};
use crate::error::{Error, Result};

/// The numbers of a token bucket, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenBucket {
    refill_rate: f64,
    refill_interval: f64,
    continuous: bool,
    bucket: Bucket,
}

impl TokenBucket {
    /// `refill_rate` tokens for every `refill_interval` seconds: at the end of each interval, or continuously.
    ///
    /// Fails with [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) when a number is out of range.
    pub fn new(capacity: i64, refill_rate: f64, refill_interval: f64, continuous: bool) -> Result<Self> {
        let capacity = units("capacity", capacity)?;
        let rate = positive("refill_rate", refill_rate)?;
        Self::exact(capacity, rate, refill_rate, refill_interval, continuous)
    }

    /// The same bucket for one of `share` equal parts of a fleet: capacity and rate divided, at least one token.
    pub(crate) fn divided(&self, share: u32) -> Result<Self> {
        let capacity = (self.capacity() / u64::from(share)).max(1);
        let rate = positive("refill_rate", self.refill_rate)?.divided_by(share);
        Self::exact(capacity, rate, self.refill_rate / f64::from(share), self.refill_interval, self.continuous)
    }

    fn exact(capacity: u64, rate: Ratio, refill_rate: f64, refill_interval: f64, continuous: bool) -> Result<Self> {
        let interval = positive("refill_interval", refill_interval)?;
        let bucket = if continuous {
            Bucket::continuous(capacity, rate, interval)
        } else {
            Bucket::by_interval(capacity, rate, crate::clock::seconds_to_us(refill_interval))
        };
        let bucket = bucket.ok_or_else(|| {
            let given = format!("{capacity} tokens, {refill_rate} every {refill_interval} s");
            let why = "the interval must be at least a microsecond, a full refill at most 71 years, and the capacity \
                       times the rate's denominator at most 2^52";
            Error::policy("refill_rate", format!("does not fit the other numbers ({given}): {why}"))
        })?;
        Ok(Self { refill_rate, refill_interval, continuous, bucket })
    }

    /// The most tokens it holds.
    pub const fn capacity(&self) -> u64 {
        self.bucket.capacity()
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

    /// The machine it is.
    pub const fn bucket(&self) -> &Bucket {
        &self.bucket
    }
}
