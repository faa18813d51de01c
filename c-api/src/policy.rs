//! Policies: how much is allowed.

use std::ffi::c_char;

use ratelimit_core::Policy as Core;

use crate::error::Status;
use crate::ffi::Handle;
use crate::panic::boundary;

/// How much is allowed: an algorithm with its numbers and a name. Any number of limiters may be made from it, from
/// any thread; only `rl_policy_set_name` wants it for itself.
///
/// Limits, capacities and bursts are 1 to 2147483647. Windows, periods and intervals are seconds, from a millisecond
/// (an interval: a microsecond) to 71 years. Numbers that are out of range, or too far apart to be counted exactly
/// together, are `RL_ERR_INVALID_POLICY`.
#[derive(Debug)]
pub struct Policy(pub(crate) Core);

impl Handle for Policy {}

/// A token bucket: holds up to `capacity` tokens and is full at first; a call takes its cost in tokens.
///
/// @param capacity           Tokens.
/// @param refill_rate        Tokens that come back per interval, positive and finite; 0.1 is exactly a tenth.
/// @param refill_interval_s  The interval.
/// @param continuous         false: the tokens come at the end of each interval. true: they trickle in all the time.
/// @param out                The policy, named `default`; to be freed with `rl_policy_free`.
/// @return `RL_ERR_INVALID_POLICY` naming the number at fault.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_token_bucket(
    capacity: u64,
    refill_rate: f64,
    refill_interval_s: f64,
    continuous: bool,
    out: *mut *mut Policy,
) -> Status {
    let make = if continuous { Core::token_bucket_continuous } else { Core::token_bucket };
    boundary(|| {
        output!(out)?.give(Policy(make(units(capacity), refill_rate, refill_interval_s)?));
        Ok(())
    })
}

/// A fixed window: at most `limit` units in each window. Around the edge of two windows up to twice the limit may pass
/// within one window's length. Days, weeks and months of a time zone: `rl_policy_parse`.
///
/// @param limit     Units.
/// @param window_s  How long a window is.
/// @param aligned   false: a window is opened by the first hit. true: windows stand at multiples of `window_s` since
///                  1970.
/// @param out       The policy, named `default`; to be freed with `rl_policy_free`.
/// @return `RL_ERR_INVALID_POLICY` naming the number at fault.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_fixed_window(
    limit: u64,
    window_s: f64,
    aligned: bool,
    out: *mut *mut Policy,
) -> Status {
    let make = if aligned { Core::fixed_window_aligned } else { Core::fixed_window };
    boundary(|| {
        output!(out)?.give(Policy(make(units(limit), window_s)?));
        Ok(())
    })
}

/// A sliding window log: at most `limit` units in any `window_s` seconds. Exact; remembers every grant, so a key takes
/// memory in proportion to the limit.
///
/// @param limit     Units.
/// @param window_s  How far back it looks.
/// @param out       The policy, named `default`; to be freed with `rl_policy_free`.
/// @return `RL_ERR_INVALID_POLICY` naming the number at fault.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_sliding_window_log(limit: u64, window_s: f64, out: *mut *mut Policy) -> Status {
    boundary(|| {
        output!(out)?.give(Policy(Core::sliding_window_log(units(limit), window_s)?));
        Ok(())
    })
}

/// A sliding window counter: about `limit` units in any `window_s` seconds, from the counts of two windows, as if the
/// hits of the previous one had been spread evenly.
///
/// @param limit     Units.
/// @param window_s  How far back it looks.
/// @param out       The policy, named `default`; to be freed with `rl_policy_free`.
/// @return `RL_ERR_INVALID_POLICY` naming the number at fault.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_sliding_window_counter(limit: u64, window_s: f64, out: *mut *mut Policy) -> Status {
    boundary(|| {
        output!(out)?.give(Policy(Core::sliding_window_counter(units(limit), window_s)?));
        Ok(())
    })
}

/// A leaky bucket: a call pours its cost in, and is refused when the bucket would overflow. `rl_reserve` and `rl_wait`
/// use it as a queue, whose starts are spaced evenly.
///
/// @param capacity         Units it holds.
/// @param leak_rate_per_s  Units that leak out per second, positive and finite; 0.1 is exactly a tenth.
/// @param out              The policy, named `default`; to be freed with `rl_policy_free`.
/// @return `RL_ERR_INVALID_POLICY` naming the number at fault.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_leaky_bucket(capacity: u64, leak_rate_per_s: f64, out: *mut *mut Policy) -> Status {
    boundary(|| {
        output!(out)?.give(Policy(Core::leaky_bucket(units(capacity), leak_rate_per_s)?));
        Ok(())
    })
}

/// GCRA, the generic cell rate algorithm: `limit` units per `period_s` seconds, evenly spaced, some of them at once.
///
/// @param limit     Units per period.
/// @param period_s  The period.
/// @param burst     Units that may come at once; 0 is as many as `limit`.
/// @param out       The policy, named `default`; to be freed with `rl_policy_free`.
/// @return `RL_ERR_INVALID_POLICY` naming the number at fault.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_gcra(limit: u64, period_s: f64, burst: u64, out: *mut *mut Policy) -> Status {
    boundary(|| {
        output!(out)?.give(Policy(Core::gcra(units(limit), period_s, (burst != 0).then(|| units(burst)))?));
        Ok(())
    })
}

/// Reads a policy from a text, such as one of a configuration file.
///
/// | text | policy |
/// |---|---|
/// | `100/m`, `5 per 10 minutes` | fixed window, opened by the first hit |
/// | `100/h aligned` | fixed window at multiples of an hour |
/// | `1000/day aligned Europe/Berlin` | fixed window: the days (`week`, `month`) of a time zone |
/// | `100/h sliding` | sliding window counter |
/// | `100/h log` | sliding window log |
/// | `10/s burst 20`, `10/s gcra` | GCRA, 20 (10) at once |
/// | `20 burst, 5/s` | token bucket of 20 tokens, 5 arriving at the end of each second |
/// | `20 burst, 5/s continuous` | token bucket, the tokens arriving all the time |
/// | `10 burst, 2/s leaky` | leaky bucket of 10 units, leaking 2 per second |
///
/// Units of time are `us`, `ms`, `s`, `m`, `h`, `d`, `w`, or the words for them.
///
/// @param text  UTF-8.
/// @param out   The policy, named `default`; to be freed with `rl_policy_free`.
/// @return `RL_ERR_INVALID_POLICY` for another text; the sentence points at the place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_policy_parse(text: *const c_char, out: *mut *mut Policy) -> Status {
    boundary(|| {
        output!(out)?.give(Policy(Core::parse(text!(text)?)?));
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

/// A number of units as the core takes it. A negative number that C has turned into a huge one is refused there, and
/// named as it was written.
const fn units(number: u64) -> i64 {
    number.cast_signed()
}
