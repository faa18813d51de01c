//! What limiters have done, as counters that a monitoring system collects.
//!
//! The counters are in memory that a process shares with the children it forks from then on: where a server forks its
//! workers, as php-fpm does, each worker tells the sum over all of them. [`touch`] has them made before the fork. Labels
//! are the policy's name, the answer's source and the kind of an error, of governors the preset and the reason; never a key.

mod board;

pub(crate) mod outbound;

mod text;

use std::time::Duration;

use crate::decision::{Decision, Source};
use crate::error::StoreErrorKind;

pub(crate) use board::PolicyCounters;
pub use text::{families, text};

use board::board;

/// Upper bounds of the latencies' classes, in microseconds; beyond the last there is one more.
const LATENCY_BOUNDS_US: [u64; 13] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000];

/// Makes the counters, so that processes forked from now on count together.
pub fn touch() {
    let _ = board();
}

/// The counters of a policy.
pub(crate) fn of_policy(name: &str) -> PolicyCounters {
    board().map_or(PolicyCounters::NONE, |board| board.policy(name))
}

/// Counts a decision that took something, or would have.
#[inline]
pub(crate) fn count(counters: PolicyCounters, decision: &Decision) {
    if let Some(board) = board() {
        board.count(counters, decision.source(), decision.allowed());
    }
}

/// Counts a question that the store did not answer.
#[cold]
pub(crate) fn count_error(kind: StoreErrorKind) {
    if let Some(board) = board() {
        board.count_error(kind);
    }
}

/// Counts what was to be given back and could not be.
#[cold]
pub(crate) fn count_dropped_refund() {
    if let Some(board) = board() {
        board.count_dropped_refund();
    }
}

/// Counts a callback that failed.
#[cold]
pub(crate) fn count_callback_failure() {
    if let Some(board) = board() {
        board.count_callback_failure();
    }
}

/// Counts that a server is left alone from now on.
#[cold]
pub(crate) fn count_opened_breaker() {
    if let Some(board) = board() {
        board.count_opened_breaker();
    }
}

/// Counts a connection to a server that has been set up.
#[cold]
pub(crate) fn count_connection() {
    if let Some(board) = board() {
        board.count_connection();
    }
}

/// Counts how long a server took to answer.
#[inline]
pub(crate) fn observe(latency: Duration) {
    if let Some(board) = board() {
        board.observe(latency);
    }
}

/// The number of an answer's source among [`Source::ALL`].
const fn source_index(source: Source) -> usize {
    source as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_the_number_of_its_place() {
        for (index, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(source_index(source), index);
        }
    }
}
