//! `Retry-After`: whole seconds, rounded up, at least 1 on a denial.

use super::whole_seconds;
use crate::algorithm::NEVER_US;
use crate::decision::Decision;

/// The field of a denial that a wait can help; nothing when the call was allowed or can never pass.
pub(super) fn field(decision: &Decision) -> Option<(&'static str, String)> {
    let waits = !decision.allowed() && decision.retry_after_us() != NEVER_US;
    waits.then(|| ("Retry-After", whole_seconds(decision.retry_after_us()).max(1).to_string()))
}

/// The wait of a denial; until the budget is whole where no wait helps, since no header can say "never".
pub(super) fn wait_us(decision: &Decision) -> u64 {
    match decision.retry_after_us() {
        NEVER_US => decision.reset_after_us(),
        us => us,
    }
}
