//! What the processes of a storm ask, and how they count.

use std::sync::Arc;

use ratelimit_core::store::Store;
use ratelimit_core::{Concurrency, Limiter, Policy, Result};

/// A limit that nobody reaches.
pub const MANY: i64 = 1_000_000_000;

/// A limit that is reached soon.
pub const FEW: i64 = 5_000;

/// One policy with a high limit, one with a low one, two at once, and a sliding log.
///
/// # Errors
///
/// When the store cannot be had.
pub fn limiters(store: &Arc<dyn Store>) -> Result<[Limiter; 4]> {
    let window = |limit| Policy::fixed_window(limit, 36_000.0);
    let pair = [window(MANY)?.named("one")?, window(MANY)?.named("two")?];
    let all = [
        Limiter::new(window(MANY)?.named("hot")?, store.clone())?,
        Limiter::new(window(FEW)?.named("last")?, store.clone())?,
        Limiter::new(pair.to_vec(), store.clone())?,
        Limiter::new(Policy::sliding_window_log(FEW, 36_000.0)?, store.clone())?,
    ];
    Ok(all)
}

/// How long a lease of a storm lasts.
pub const LEASE_SECONDS: f64 = 0.3;

/// Leases for all who work in a storm.
///
/// # Errors
///
/// When the store cannot be had.
pub fn leases(store: &Arc<dyn Store>) -> Result<Concurrency> {
    Concurrency::new(20, LEASE_SECONDS, store.clone())
}

/// What passed, for each of the limiters, and how it went.
#[derive(Debug, Default, Clone, Copy)]
pub struct Counts {
    /// On the first limiter.
    pub hot: u64,
    /// On the second.
    pub last: u64,
    /// On the third.
    pub pair: u64,
    /// On the fourth.
    pub log: u64,
    /// Calls that were not answered.
    pub errors: u64,
    /// The longest call, in microseconds.
    pub longest_us: u64,
}

impl Counts {
    /// How many bytes they take.
    pub const BYTES: u64 = 48;

    /// As bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let words = [self.hot, self.last, self.pair, self.log, self.errors, self.longest_us];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// From the bytes of many, each of which may be missing: the sums, and the longest of all.
    pub fn sum(bytes: &[u8]) -> Self {
        bytes.chunks_exact(48).fold(Self::default(), |sum, bytes| {
            let word =
                |index: usize| bytes[index * 8..][..8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
            Self {
                hot: sum.hot + word(0),
                last: sum.last + word(1),
                pair: sum.pair + word(2),
                log: sum.log + word(3),
                errors: sum.errors + word(4),
                longest_us: sum.longest_us.max(word(5)),
            }
        })
    }
}
