//! Azure Resource Manager: only what remains, by resource or by scope.

use super::reader::{Draft, Naming, Reader};
use super::value;
use crate::outbound::observation::Quota;

/// More policies than this are not read from one response.
const MAX_QUOTAS: usize = 16;

/// `x-ms-ratelimit-remaining-resource: Policy;197,Other;1297` and `x-ms-ratelimit-remaining-subscription-reads: 42`.
pub(super) fn read(reader: &Reader<'_>, draft: &mut Draft) {
    let resources = reader.list("x-ms-ratelimit-remaining-resource").unwrap_or_default();
    for pair in resources.split(',').take(MAX_QUOTAS) {
        let Some((name, remaining)) = pair.rsplit_once(';') else { continue };
        push(draft, name.trim(), value::count(remaining));
        draft.named_by = Naming::Bucket;
    }
    for (field, text) in reader.fields() {
        match field.strip_prefix("x-ms-ratelimit-remaining-") {
            Some("resource") | None => {}
            Some(_) if draft.named_by == Naming::Bucket || draft.quotas.len() >= MAX_QUOTAS => {}
            Some(name) => {
                push(draft, name, value::count(text));
                draft.named_by = Naming::Scope;
            }
        }
    }
}

fn push(draft: &mut Draft, name: &str, remaining: Option<f64>) {
    if remaining.is_some() && !name.is_empty() {
        draft.quotas.push(Quota { name: Some(name.into()), remaining, ..Quota::default() });
    }
}
