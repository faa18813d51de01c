//! GCRA, the generic cell rate algorithm: `limit` calls per `period`, evenly spaced, with up to `burst` at once.
//!
//! The algorithm has two equivalent forms. Virtual scheduling keeps the theoretical arrival time of the next call, the
//! continuous-state leaky bucket keeps how far that is ahead, in units. This is the second: it admits the same calls,
//! and what was used stays used when the period changes.

use super::ratio::Ratio;
use super::{Bucket, positive, units};
use crate::error::{Error, Result};

/// The numbers of GCRA, checked.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gcra {
    limit: u64,
    period: f64,
    bucket: Bucket,
}

impl Gcra {
    /// `limit` units per `period` seconds, of which `burst` may come at once; `None` is as many as the limit.
    ///
    /// Fails with [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) when a number is out of range.
    pub fn new(limit: i64, period: f64, burst: Option<i64>) -> Result<Self> {
        let limit = units("limit", limit)?;
        let burst = burst.map_or(Ok(limit), |burst| units("burst", burst))?;
        Self::exact(limit, period, burst, Ratio { numerator: limit, denominator: 1 })
    }

    /// The same for one of `share` equal parts of a fleet.
    pub(crate) fn divided(&self, share: u32) -> Result<Self> {
        let part = |units: u64| (units / u64::from(share)).max(1);
        let rate = Ratio { numerator: self.limit, denominator: 1 }.divided_by(share);
        Self::exact(part(self.limit), self.period, part(self.burst()), rate)
    }

    fn exact(limit: u64, period: f64, burst: u64, rate: Ratio) -> Result<Self> {
        let bucket = Bucket::continuous(burst, rate, positive("period", period)?).ok_or_else(|| {
            let given = format!("{limit} units every {period} s, {burst} at once");
            let why = "a full burst must come back within 71 years, and the burst times the microseconds per unit be \
                       at most 2^52";
            Error::policy("period", format!("does not fit the other numbers ({given}): {why}"))
        })?;
        Ok(Self { limit, period, bucket })
    }

    /// Units per period, as given.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The period in seconds, as given.
    pub const fn period(&self) -> f64 {
        self.period
    }

    /// Units that may come at once.
    pub const fn burst(&self) -> u64 {
        self.bucket.capacity()
    }

    /// The machine it is.
    pub const fn bucket(&self) -> &Bucket {
        &self.bucket
    }
}
