//! Many calls at once.

use ratelimit_core::{Error, Result};

use crate::decision::Decision;
use crate::error::Status;
use crate::limiter::Limiter;
use crate::panic::boundary;

/// One call of many, for `rl_allow_many`.
#[repr(C)]
#[derive(Debug)]
pub struct BatchItem {
    /// Whose budget, for all policies: any bytes; `NULL` only when `key_len` is 0.
    pub key: *const u8,
    /// Bytes at `key`.
    pub key_len: usize,
    /// Units, 1 to 2147483647. It has no default: 0 is refused.
    pub cost: i64,
}

/// `rl_allow` for each item, in order, in as few round trips as the store allows: one per Redis server. Each decision
/// stands alone, and one that is denied changes nothing for the others; items of one key are charged one after the
/// other.
///
/// A wrong argument fails the whole call before anything is asked, and writes nothing: `cost must be an integer between
/// 1 and 2147483647, got 0, at index 3`. After that each item has an outcome of its own, so that what some of them have
/// been granted is not lost where others have no answer:
///
/// ```c
/// rl_decision decisions[3];
/// rl_status statuses[3];
/// rl_status status = rl_allow_many(limiter, items, 3, decisions, statuses);
/// if (status == RL_ERR_STORE_UNAVAILABLE) {
///   // decisions[i] is there where statuses[i] is RL_OK
/// }
/// ```
///
/// @param items     What is asked.
/// @param n         Elements at `items`; 0 asks nothing and is `RL_OK`.
/// @param out       Where to write `n` decisions. One that is not known stays as it was.
/// @param statuses  Where to write `n` statuses: `RL_OK` where there is a decision. `NULL`: nowhere. Must not overlap
///                  `out`.
/// @return `RL_OK` when every item has its decision; `RL_ERR_INVALID_ARGUMENT` for a wrong argument; else the first
///         status that is not `RL_OK`, and `rl_last_error()` is about that item.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_allow_many(
    limiter: *mut Limiter,
    items: *const BatchItem,
    n: usize,
    out: *mut Decision,
    statuses: *mut Status,
) -> Status {
    boundary(|| {
        let (limiter, items, out) = (shared!(limiter)?, slice!(items, n)?, outputs!(out, n)?);
        let statuses = if statuses.is_null() { &mut [] } else { outputs!(statuses, n)? };
        let calls = items.iter().enumerate().map(|(index, item)| item.call(index)).collect::<Result<Vec<_>>>()?;
        let outcomes: Vec<Result<Decision>> = limiter
            .0
            .allow_many(&calls)?
            .into_iter()
            .map(|decision| decision.and_then(|decision| Decision::try_from(&decision)))
            .collect();
        for (status, outcome) in statuses.iter_mut().zip(&outcomes) {
            status.write(outcome.as_ref().map_or_else(|error| error.kind().into(), |_| Status::RL_OK));
        }
        let mut first: Option<Error> = None;
        for (place, outcome) in out.iter_mut().zip(outcomes) {
            match outcome {
                Ok(decision) => {
                    place.write(decision);
                }
                Err(error) => first = first.or(Some(error)),
            }
        }
        first.map_or(Ok(()), Err)
    })
}

impl BatchItem {
    fn call(&self, index: usize) -> Result<(&[u8], i64)> {
        let &Self { key, key_len, cost } = self;
        Ok((slice!(key, key_len).map_err(|error| error.at_index(index))?, cost))
    }
}
