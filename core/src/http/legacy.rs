//! The older families: three fields of one integer each.

use super::reset_seconds;
use crate::decision::Decision;

/// Limit, remaining and reset, the reset in whole seconds from now.
pub(super) fn triple(decision: &Decision, names: [&'static str; 3]) -> Vec<(&'static str, String)> {
    let values = [decision.limit(), decision.remaining(), reset_seconds(decision)];
    names.into_iter().zip(values.map(|value| value.to_string())).collect()
}
