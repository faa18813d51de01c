//! `Retry-After`: whole seconds, rounded up, at least 1 on a denial.

use super::{Field, whole_seconds};
use crate::algorithm::NEVER_US;
use crate::decision::Decision;

/// The field of a denial that a wait can help; nothing when the call was allowed or can never pass.
pub(super) fn field(decision: &Decision) -> Option<Field> {
    seconds(decision).map(|seconds| ("Retry-After", seconds.to_string()))
}

/// The whole seconds after which a denied call may be tried again, at least 1; none where it was allowed or can never
/// pass.
pub fn seconds(decision: &Decision) -> Option<u64> {
    let waits = !decision.allowed() && decision.retry_after_us() != NEVER_US;
    waits.then(|| whole_seconds(decision.retry_after_us()).max(1))
}

/// The wait of a denial; until the budget is whole where no wait helps, since no header can say "never".
pub(super) fn wait_us(decision: &Decision) -> u64 {
    match decision.retry_after_us() {
        NEVER_US => decision.reset_after_us(),
        us => us,
    }
}
