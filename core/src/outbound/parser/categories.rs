//! Limits by category or by endpoint, in a little language of the API's own.

use super::reader::{Draft, Naming, Reader, Rule};
use super::triple;
use super::value::{self, Moment};
use crate::outbound::observation::{Quota, Unit};

/// More categories than this are not read from one response.
const MAX_QUOTAS: usize = 32;

/// `X-Sentry-Rate-Limits: 60:transaction:key, 2700:default;error:organization`: seconds, then the categories that are
/// closed for so long (none: all), then a scope; whatever follows is ignored.
pub(super) fn read_sentry(reader: &Reader<'_>, draft: &mut Draft) -> bool {
    let Some(text) = reader.list("x-sentry-rate-limits") else { return false };
    let mut longest = None;
    for limit in text.split(',').take(MAX_QUOTAS) {
        let mut parts = limit.trim().split(':');
        let Some(us) = parts.next().and_then(value::seconds_us) else { continue };
        longest = longest.max(Some(us));
        for category in parts.next().unwrap_or_default().split(';') {
            let name = if category.is_empty() { "all" } else { category };
            let mut quota = Quota { name: Some(name.into()), unit: Unit::Other, ..Quota::default() };
            reader.reset(&mut quota, Some(Moment::After(us)));
            // The same category may be closed twice; the longer one counts.
            match draft.quotas.iter_mut().find(|other| other.name == quota.name) {
                Some(other) if other.reset_after_us < quota.reset_after_us => *other = quota,
                Some(_) => {}
                None => draft.quotas.push(quota),
            }
        }
    }
    draft.quotas.truncate(MAX_QUOTAS);
    // Says more than the `Retry-After` beside it.
    draft.retry_after_us = longest.or(draft.retry_after_us);
    draft.rule = Rule::None;
    longest.is_some()
}

/// Zendesk: the account's limit under two names, and endpoints as `total=100; remaining=99; resets=41`.
pub(super) fn read_zendesk(reader: &Reader<'_>, draft: &mut Draft) {
    triple::read(reader, draft, &triple::DRAFT_3);
    let account = Quota {
        limit: reader.count("x-rate-limit"),
        remaining: reader.count("x-rate-limit-remaining"),
        ..draft.quotas.pop().unwrap_or_default()
    };
    let known = Quota { limit: account.limit.or(reader.count("ratelimit-limit")), ..account };
    let known = Quota { remaining: known.remaining.or(reader.count("ratelimit-remaining")), ..known };
    if known != Quota::default() {
        draft.quotas.push(known);
    }
    for (field, text) in reader.fields() {
        let Some(name) = field.strip_prefix("zendesk-ratelimit-") else { continue };
        let part = |key: &str| {
            let mut parts = text.split(';').filter_map(|part| part.trim().split_once('='));
            parts.find(|(name, _)| *name == key).map(|(_, value)| value)
        };
        let mut quota = Quota {
            name: Some(name.into()),
            limit: part("total").and_then(value::count),
            remaining: part("remaining").and_then(value::count),
            ..Quota::default()
        };
        reader.reset(&mut quota, part("resets").and_then(value::moment));
        if quota.remaining.is_some() && draft.quotas.len() < MAX_QUOTAS {
            draft.quotas.push(quota);
        }
    }
    draft.rule = Rule::FirstUnlessExhausted;
    draft.named_by = Naming::Scope;
}
