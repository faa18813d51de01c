//! APIs that tell the length of a window, and not when it ends.

use super::fields;
use super::reader::{Draft, Naming, Reader, Rule};
use super::triple;
use super::value;
use crate::outbound::observation::Quota;

/// A day in microseconds.
const DAY_US: u64 = 86_400_000_000;

/// HubSpot: a short window and, for private apps, a day.
pub(super) fn read_hubspot(reader: &Reader<'_>, draft: &mut Draft) {
    let interval = Quota {
        name: Some("interval".into()),
        limit: reader.count("x-hubspot-ratelimit-max"),
        remaining: reader.count("x-hubspot-ratelimit-remaining"),
        window_us: reader.get("x-hubspot-ratelimit-interval-milliseconds").and_then(value::milliseconds_us),
        ..Quota::default()
    };
    let daily = Quota {
        name: Some("daily".into()),
        limit: reader.count("x-hubspot-ratelimit-daily"),
        remaining: reader.count("x-hubspot-ratelimit-daily-remaining"),
        window_us: Some(DAY_US),
        ..Quota::default()
    };
    draft
        .quotas
        .extend([interval, daily].into_iter().filter(|quota| quota.limit.is_some() || quota.remaining.is_some()));
    draft.named_by = Naming::Scope;
}

/// Atlassian: Cloud tells an instant, at times only to the minute; Data Center the fill of a bucket.
pub(super) fn read_atlassian(reader: &Reader<'_>, draft: &mut Draft) {
    let known = triple::read(reader, draft, &triple::X_RATELIMIT);
    if !known {
        fields::read(reader, draft);
    }
    if let Some(quota) = draft.quotas.first_mut() {
        let seconds = reader.get("x-ratelimit-interval-seconds").and_then(value::seconds_us);
        let fill = reader.count("x-ratelimit-fillrate").filter(|fill| *fill >= 1.0);
        if let (Some(interval_us), Some(fill)) = (seconds, fill) {
            let interval = crate::clock::us_to_seconds(interval_us);
            quota.refill_us = Some(crate::clock::seconds_to_us(interval / fill)).filter(|us| *us > 0);
        }
    }
    draft.scope = reader.get("ratelimit-reason").filter(|reason| !reason.is_empty()).map(Into::into);
    draft.retry_after_us = draft.retry_after_us.or_else(|| reader.named_retry_after_us("beta-retry-after"));
    draft.rule = Rule::Tightest;
}
