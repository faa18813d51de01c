//! The structured fields `RateLimit` and `RateLimit-Policy`.

use sfv::{DictSerializer, Integer, KeyRef, ListSerializer, StringRef, key_ref};

use super::{Field, HeaderOptions, reset_seconds, whole_seconds};
use crate::decision::Decision;
use crate::policy::Policy;

const QUOTA: &KeyRef = key_ref("q");
const QUOTA_UNIT: &KeyRef = key_ref("qu");
const WINDOW: &KeyRef = key_ref("w");
const PARTITION_KEY: &KeyRef = key_ref("pk");
const REMAINING: &KeyRef = key_ref("r");
const TIME: &KeyRef = key_ref("t");

/// The largest Integer of a structured field.
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// One named item per policy: `"default";q=10;w=10` and `"default";r=9;t=1`.
pub(super) fn items(decision: &Decision, policies: &[Policy], options: &HeaderOptions<'_>) -> Vec<Field> {
    let (mut quotas, mut states) = (ListSerializer::new(), ListSerializer::new());
    for (decision, policy) in each(decision, policies) {
        // Names of policies are printable ASCII, so there is always one.
        let Ok(name) = StringRef::from_str(policy.name()) else { continue };
        let mut quota = quotas.bare_item(name).parameter(QUOTA, integer(decision.limit()));
        if let Some(unit) = options.quota_unit {
            quota = quota.parameter(QUOTA_UNIT, unit);
        }
        quota = quota.parameter(WINDOW, integer(whole_seconds(policy.window_us())));
        let mut state = states.bare_item(name).parameter(REMAINING, integer(decision.remaining()));
        state = state.parameter(TIME, integer(reset_seconds(decision)));
        if let Some(key) = options.partition_key {
            let _ = (quota.parameter(PARTITION_KEY, key), state.parameter(PARTITION_KEY, key));
        }
    }
    let fields = [("RateLimit-Policy", quotas.finish()), ("RateLimit", states.finish())];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The dictionary of draft -07: `limit=10, remaining=9, reset=1`, with `10;w=10` for each policy.
pub(super) fn dictionary(decision: &Decision, policies: &[Policy]) -> Vec<Field> {
    let mut quotas = ListSerializer::new();
    for (decision, policy) in each(decision, policies) {
        let window = integer(whole_seconds(policy.window_us()));
        let _ = quotas.bare_item(integer(decision.limit())).parameter(WINDOW, window);
    }
    let mut state = DictSerializer::new();
    let _ = state.bare_item(key_ref("limit"), integer(decision.limit()));
    let _ = state.bare_item(key_ref("remaining"), integer(decision.remaining()));
    let _ = state.bare_item(key_ref("reset"), integer(reset_seconds(decision)));
    let fields = [("RateLimit-Policy", quotas.finish()), ("RateLimit", state.finish())];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// The decisions of the policies, with their policies.
fn each<'a>(decision: &'a Decision, policies: &'a [Policy]) -> impl Iterator<Item = (&'a Decision, &'a Policy)> {
    decision.each().iter().filter_map(|decision| Some((decision, policies.get(decision.policy())?)))
}

fn integer(number: u64) -> Integer {
    Integer::try_from(number.min(MAX_INTEGER)).unwrap_or(Integer::MAX)
}
