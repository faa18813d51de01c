//! Refusals as problem details.

use std::ffi::c_char;

use ratelimit_core::http::problem;

use crate::decision::Decision;
use crate::error::Status;
use crate::ffi::invalid;
use crate::limiter::Limiter;
use crate::panic::boundary;
use crate::text;

/// Writes the body of a refusal: problem details (RFC 9457), a JSON object with a zero byte at the end. Its `Content-Type`
/// is `application/problem+json`; send `Cache-Control: no-store` with it, so that no cache keeps it.
///
/// @param limiter   The limiter that decided.
/// @param decision  What it decided: a denial.
/// @param each      The decisions of all its policies, in their order, from `rl_decide`, so that all that refused are
///                  named. `NULL`: the one that ruled is.
/// @param each_len  Elements at `each`.
/// @param type      `NULL` or `quota-exceeded`, `temporary-reduced-capacity`, or `abnormal-usage-detected`. Where the
///                  failure rule refused since the store is away it is always `temporary-reduced-capacity`.
/// @param buf       Where to write; `NULL` to write nothing.
/// @param len       Bytes at `buf`. 1024 are enough for one policy of any name.
/// @param needed    The bytes that the text takes, its zero byte included.
/// @param status    The status of the response: 429, or 503 for `temporary-reduced-capacity`.
/// @return `RL_ERR_INVALID_ARGUMENT` when `len` is less than that, for another type, for a decision that let the call
///         pass, or for one that is none of this limiter's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_problem(
    limiter: *const Limiter,
    decision: *const Decision,
    each: *const Decision,
    each_len: usize,
    r#type: *const c_char,
    buf: *mut c_char,
    len: usize,
    needed: *mut usize,
    status: *mut u32,
) -> Status {
    boundary(|| {
        let (limiter, decision) = (shared!(limiter)?, shared!(decision)?);
        let (needed, status) = (output!(needed)?, output!(status)?);
        let type_ = r#type;
        let type_ = if type_.is_null() { None } else { Some(text!(type_)?.parse()?) };
        let decision = limiter.decision_of(decision, slice!(each, each_len)?)?;
        let Some(problem) = problem(&decision, limiter.0.policies(), type_) else {
            return Err(invalid("decision", "must be a denial, got one that let the call pass"));
        };
        text::write(&problem.json(), buffer!(buf, len), needed)?;
        status.write(problem.status.into());
        Ok(())
    })
}
