//! Limit, remaining and reset in a field each: the commonest family, under many names.

use std::borrow::Cow;

use super::reader::{Draft, Naming, Reader, Rule};
use super::value::{self, Moment};
use crate::outbound::observation::Quota;
use crate::outbound::preset::HeaderNames;

/// The names of a triple and what goes with it; an empty name is none.
pub(super) struct Names {
    limit: &'static str,
    remaining: &'static str,
    used: &'static str,
    /// Seconds from now, and nothing else; goes before `reset`.
    reset_after: &'static str,
    reset: &'static str,
    /// A second name of the reset, where the first is not there.
    other_reset: &'static str,
    bucket: &'static str,
    scope: &'static str,
}

const NONE: Names =
    Names { limit: "", remaining: "", used: "", reset_after: "", reset: "", other_reset: "", bucket: "", scope: "" };

/// `X-RateLimit-…`.
pub(super) const X_RATELIMIT: Names = Names {
    limit: "x-ratelimit-limit",
    remaining: "x-ratelimit-remaining",
    used: "x-ratelimit-used",
    reset_after: "x-ratelimit-reset-after",
    reset: "x-ratelimit-reset",
    ..NONE
};

/// `X-Rate-Limit-…`, with one dash more.
pub(super) const X_RATE_LIMIT: Names =
    Names { limit: "x-rate-limit-limit", remaining: "x-rate-limit-remaining", reset: "x-rate-limit-reset", ..NONE };

/// `RateLimit-…`, of the drafts up to -06. Some APIs write an instant into the reset, which only its size tells.
pub(super) const DRAFT_3: Names =
    Names { limit: "ratelimit-limit", remaining: "ratelimit-remaining", reset: "ratelimit-reset", ..NONE };

/// GitHub counts by resource.
pub(super) const GITHUB: Names = Names { bucket: "x-ratelimit-resource", ..X_RATELIMIT };

/// GitLab counts by throttle.
pub(super) const GITLAB: Names =
    Names { used: "ratelimit-observed", other_reset: "ratelimit-resettime", bucket: "ratelimit-name", ..DRAFT_3 };

/// Discord counts by bucket, which it names with a hash.
pub(super) const DISCORD: Names =
    Names { bucket: "x-ratelimit-bucket", scope: "x-ratelimit-scope", used: "", ..X_RATELIMIT };

/// Reads a triple; whether there was one.
pub(super) fn read(reader: &Reader<'_>, draft: &mut Draft, names: &Names) -> bool {
    draft.bucket = reader.get(names.bucket).filter(|bucket| !bucket.is_empty()).map(Into::into);
    draft.scope = reader.get(names.scope).filter(|scope| !scope.is_empty()).map(Into::into);
    let Some(mut quota) = quota(reader, names) else { return false };
    quota.window_us = window_us(reader, &quota);
    draft.quotas.push(quota);
    true
}

/// Reads a triple under names of somebody's own.
pub(super) fn read_names(reader: &Reader<'_>, draft: &mut Draft, names: &HeaderNames) {
    let name = |name: &'_ Option<Cow<'static, str>>| name.clone().unwrap_or_default();
    draft.bucket = reader.get(&name(&names.bucket)).map(Into::into);
    draft.scope = reader.get(&name(&names.scope)).map(Into::into);
    let mut quota = Quota {
        limit: reader.get(&names.limit).and_then(value::first_count),
        remaining: reader.count(&names.remaining),
        ..Quota::default()
    };
    reader.reset(&mut quota, reader.get(&names.reset).and_then(value::moment));
    if quota != Quota::default() {
        draft.quotas.push(quota);
    }
}

fn quota(reader: &Reader<'_>, names: &Names) -> Option<Quota> {
    let used = reader.count(names.used);
    // Of several lines the one that leaves least counts.
    let remaining = reader.lines(names.remaining).filter_map(value::count).min_by(f64::total_cmp);
    let limit = reader.get(names.limit).and_then(value::first_count);
    let mut quota = Quota {
        limit: limit.or_else(|| Some(used? + remaining?)),
        remaining: remaining.or_else(|| Some((limit? - used?).max(0.0))),
        ..Quota::default()
    };
    let reset_after = reader.get(names.reset_after).and_then(value::seconds_us).map(Moment::After);
    let reset = reset_after
        .or_else(|| reader.get(names.reset).and_then(value::moment))
        .or_else(|| reader.get(names.other_reset).and_then(value::moment));
    reader.reset(&mut quota, reset);
    (quota != Quota::default()).then_some(quota)
}

/// The window of the policy whose quota is this one's, as drafts -03 to -06 append it.
fn window_us(reader: &Reader<'_>, quota: &Quota) -> Option<u64> {
    let limit = quota.limit?;
    let limits = reader.list("ratelimit-limit");
    let policies = limits.iter().chain(reader.list("ratelimit-policy").as_ref()).cloned().collect::<Vec<_>>();
    let members = policies.iter().flat_map(|list| list.split(','));
    members.filter(|member| value::first_count(member) == Some(limit)).find_map(|member| {
        let window = member.split(';').find_map(|parameter| parameter.trim().strip_prefix("w="))?;
        value::seconds_us(window).filter(|us| *us > 0)
    })
}

/// X counts in windows of a quarter of an hour, and beside them by the day, for the app and for the user.
pub(super) fn read_twitter(reader: &Reader<'_>, draft: &mut Draft) {
    const WINDOWS: [(&str, Names); 3] = [
        ("window", X_RATE_LIMIT),
        (
            "app-24h",
            Names {
                limit: "x-app-limit-24hour-limit",
                remaining: "x-app-limit-24hour-remaining",
                reset: "x-app-limit-24hour-reset",
                ..NONE
            },
        ),
        (
            "user-24h",
            Names {
                limit: "x-user-limit-24hour-limit",
                remaining: "x-user-limit-24hour-remaining",
                reset: "x-user-limit-24hour-reset",
                ..NONE
            },
        ),
    ];
    for (name, names) in &WINDOWS {
        if let Some(quota) = quota(reader, names) {
            // The usual window needs no name of its own.
            let name = (*name != "window").then(|| (*name).into());
            draft.quotas.push(Quota { name, ..quota });
        }
    }
    draft.named_by = Naming::Scope;
}

/// Sentry's API: a window, and how many requests may be in flight.
pub(super) fn read_sentry(reader: &Reader<'_>, draft: &mut Draft) -> bool {
    const WINDOW: Names = Names {
        limit: "x-sentry-rate-limit-limit",
        remaining: "x-sentry-rate-limit-remaining",
        reset: "x-sentry-rate-limit-reset",
        ..NONE
    };
    const CONCURRENT: Names = Names {
        limit: "x-sentry-rate-limit-concurrentlimit",
        remaining: "x-sentry-rate-limit-concurrentremaining",
        ..NONE
    };
    let window = quota(reader, &WINDOW);
    let concurrent = quota(reader, &CONCURRENT).map(|quota| Quota {
        name: Some("concurrent".into()),
        unit: crate::outbound::observation::Unit::Other,
        ..quota
    });
    let known = window.is_some() || concurrent.is_some();
    if known {
        draft.rule = Rule::FirstUnlessExhausted;
        draft.quotas.extend(window.into_iter().chain(concurrent));
    }
    known
}
