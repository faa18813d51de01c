//! The older families: three fields of one integer each.

use super::{Field, reset_seconds, reset_us, whole_seconds};
use crate::decision::Decision;

/// The names of draft -03.
pub(super) const DRAFT_3: [&str; 3] = ["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"];

/// The names of nobody's draft, which most APIs use.
pub(super) const X_RATELIMIT: [&str; 3] = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"];

/// Limit, remaining and reset: whole seconds from now, or since 1970 where `now_us` is given. An instant is rounded up as
/// a whole, so it is never before the real one.
pub(super) fn triple(decision: &Decision, names: [&'static str; 3], now_us: Option<u64>) -> Vec<Field> {
    let reset = match now_us {
        None => reset_seconds(decision),
        Some(now_us) => whole_seconds(now_us.saturating_add(reset_us(decision))),
    };
    let values = [decision.limit(), decision.remaining(), reset];
    names.into_iter().zip(values.map(|value| value.to_string())).collect()
}
