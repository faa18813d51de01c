//! The leaky bucket: each call pours its cost in, the bucket leaks at a steady rate, and what would overflow is
//! refused.
//!
//! Seen from the other side, the room that is left is a token bucket refilled all the time. A reservation uses it as a
//! queue: up to `capacity` units wait in it, and each starts when all before it have leaked out, so that starts are
//! spaced evenly.

use super::ratio::Ratio;
use super::{Bucket, positive, units};
use crate::error::{Error, Result};

/// The numbers of a leaky bucket, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LeakyBucket {
    leak_rate: f64,
    bucket: Bucket,
}

impl LeakyBucket {
    /// A bucket of `capacity` units that leaks `leak_rate` of them per second.
    ///
    /// Fails with [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) when a number is out of range.
    pub fn new(capacity: i64, leak_rate: f64) -> Result<Self> {
        Self::exact(units("capacity", capacity)?, positive("leak_rate", leak_rate)?, leak_rate)
    }

    /// The same bucket for one of `share` equal parts of a fleet.
    pub(crate) fn divided(&self, share: u32) -> Result<Self> {
        let capacity = (self.capacity() / u64::from(share)).max(1);
        let rate = positive("leak_rate", self.leak_rate)?.divided_by(share);
        Self::exact(capacity, rate, self.leak_rate / f64::from(share))
    }

    fn exact(capacity: u64, rate: Ratio, leak_rate: f64) -> Result<Self> {
        let bucket = Bucket::continuous(capacity, rate, Ratio::ONE).ok_or_else(|| {
            let given = format!("{capacity} units, {leak_rate} every second");
            let why = "a full bucket must leak out within 71 years, and the capacity times the microseconds per unit \
                       be at most 2^52";
            Error::policy("leak_rate", format!("does not fit the other numbers ({given}): {why}"))
        })?;
        Ok(Self { leak_rate, bucket: bucket.with_queue() })
    }

    /// The most units it holds.
    pub const fn capacity(&self) -> u64 {
        self.bucket.capacity()
    }

    /// Units that leak out per second, as given.
    pub const fn leak_rate(&self) -> f64 {
        self.leak_rate
    }

    /// The machine it is.
    pub const fn bucket(&self) -> &Bucket {
        &self.bucket
    }
}
