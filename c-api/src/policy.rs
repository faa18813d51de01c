//! Policies: how much is allowed.

use std::ffi::c_char;

use crate::error::Status;
use crate::ffi::Handle;
use crate::panic::boundary;

/// How much is allowed: an algorithm with its numbers and a name. Any number of limiters may be made from it, from
/// any thread; only `rl_policy_set_name` wants it for itself.
#[derive(Debug)]
pub struct Policy(pub(crate) ratelimit_core::Policy);

impl Handle for Policy {}

/// A token bucket: holds up to `capacity` tokens and is full at first; a call takes its cost in tokens.
///
/// @param capacity           Tokens, 1 to 2147483647.
/// @param refill_rate        Tokens that come back per interval, positive and finite; 0.1 is exactly a tenth.
/// @param refill_interval_s  Seconds, positive and finite.
/// @param continuous         false: the tokens come at the end of each interval. true: they trickle in all the time.
/// @param out                The policy, named `default`; to be freed with `rl_policy_free`.
/// @return `RL_ERR_INVALID_POLICY` for numbers out of range, or too far apart to be counted exactly.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_token_bucket(
    capacity: u64,
    refill_rate: f64,
    refill_interval_s: f64,
    continuous: bool,
    out: *mut *mut Policy,
) -> Status {
    boundary(|| {
        let out = output!(out)?;
        // A negative number that C has turned into a huge one is refused, and named as it was written.
        let capacity = capacity.cast_signed();
        out.give(Policy(if continuous {
            ratelimit_core::Policy::token_bucket_continuous(capacity, refill_rate, refill_interval_s)?
        } else {
            ratelimit_core::Policy::token_bucket(capacity, refill_rate, refill_interval_s)?
        }));
        Ok(())
    })
}

/// Gives a policy another name. The name is part of the stored key: policies with different names never share a
/// budget. Limiters that exist keep the old one.
///
/// Nobody else may use the policy during this call.
///
/// @param name  1 to 100 printable ASCII characters; copied.
/// @return `RL_ERR_INVALID_POLICY` for another name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_set_name(policy: *mut Policy, name: *const c_char) -> Status {
    boundary(|| {
        let policy = exclusive!(policy)?;
        policy.0 = policy.0.named(text!(name)?)?;
        Ok(())
    })
}

/// Frees a policy. Limiters made with it go on working. `NULL` is a no-op; freeing twice is an error of the program
/// that is not detected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_free(policy: *mut Policy) {
    boundary(|| {
        release!(policy);
        Ok(())
    });
}
