//! What only the body says.

use serde_json::Value;

use super::reader::{Draft, Reader};
use super::value;
use crate::algorithm::MAX_SPAN_US;
use crate::clock::seconds_to_us;
use crate::outbound::observation::{Quota, Unit};

/// GraphQL answers 200 with an error when its points are used up.
pub(super) fn is_github_graphql_refusal(reader: &Reader<'_>) -> bool {
    // Most answers have no such word, and need not be taken apart.
    reader.body_mentions(&["rate_limited"])
        && errors(reader).any(|error| error.get("type").and_then(Value::as_str) == Some("RATE_LIMITED"))
}

/// Discord: exact seconds, and whether the limit is on everything.
pub(super) fn read_discord(reader: &Reader<'_>, draft: &mut Draft) {
    let flag = reader.get("x-ratelimit-global").is_some_and(|text| text.eq_ignore_ascii_case("true"));
    if reader.status() == 429 {
        let json = reader.json();
        draft.global = flag || json.and_then(|json| json.get("global")).and_then(Value::as_bool) == Some(true);
        let exact = json.and_then(|json| json.get("retry_after")).and_then(Value::as_f64).and_then(wait_us);
        // The header is rounded up, the body is exact: whoever waits for both waits long enough.
        draft.retry_after_us = draft.retry_after_us.max(exact);
    }
    draft.global |= draft.scope.as_deref() == Some("global");
    if draft.global {
        draft.scope("global");
    }
}

/// Shopify's GraphQL: points that come back at a rate, and what this query asked for.
pub(super) fn read_shopify(reader: &Reader<'_>, draft: &mut Draft) {
    if !draft.quotas.is_empty() {
        return;
    }
    let Some(cost) = reader.json().and_then(|json| json.pointer("/extensions/cost")) else { return };
    let number = |pointer: &str| cost.pointer(pointer).and_then(Value::as_f64).filter(|number| *number >= 0.0);
    let (Some(limit), Some(remaining)) =
        (number("/throttleStatus/maximumAvailable"), number("/throttleStatus/currentlyAvailable"))
    else {
        return;
    };
    let remaining = remaining.min(limit);
    let mut quota = Quota { limit: Some(limit), remaining: Some(remaining), unit: Unit::Other, ..Quota::default() };
    let rate = number("/throttleStatus/restoreRate").filter(|rate| *rate > 0.0);
    let until = |missing: f64| rate.and_then(|rate| wait_us(missing.max(0.0) / rate));
    reader.reset(&mut quota, until(limit - remaining).map(value::Moment::After));
    quota.refill_us = until(1.0).filter(|us| *us > 0);
    draft.quotas.push(quota);
    draft.bucket = Some("shop-graphql".into());
    let throttled = |error: &Value| error.pointer("/extensions/code").and_then(Value::as_str) == Some("THROTTLED");
    if errors(reader).any(throttled) {
        draft.rate_limited = true;
        if let Some(wait_us) = number("/requestedQueryCost").and_then(|requested| until(requested - remaining)) {
            draft.wait(draft.retry_after_us.unwrap_or(wait_us));
        }
    }
}

/// Slack says `ratelimited`, whatever the status.
pub(super) fn read_slack(reader: &Reader<'_>, draft: &mut Draft) {
    draft.rate_limited |= reader.json_text("/error") == Some("ratelimited");
}

/// Stripe names the limit; a lock on an object answers 429, too, and is none.
pub(super) fn read_stripe(reader: &Reader<'_>, draft: &mut Draft) {
    let reason = reader.get("stripe-rate-limited-reason").filter(|reason| !reason.is_empty());
    draft.scope = reason.map(Into::into);
    draft.retryable = match reader.get("stripe-should-retry") {
        Some("true") => Some(true),
        Some("false") => Some(false),
        _ => None,
    };
    if reason.is_none() && reader.json_text("/error/code") == Some("lock_timeout") {
        draft.rate_limited = false;
        draft.retryable = draft.retryable.or(Some(true));
    }
}

/// OpenAI answers 429 also when the account has no money left, which no wait helps.
pub(super) fn read_openai(reader: &Reader<'_>, draft: &mut Draft) {
    let said = |pointer| reader.json_text(pointer) == Some("insufficient_quota");
    if reader.status() == 429 && (said("/error/code") || said("/error/type")) {
        draft.rate_limited = false;
        draft.retryable = Some(false);
    }
}

/// Linear's GraphQL answers 400, or 200, with an error.
pub(super) fn read_linear(reader: &Reader<'_>, draft: &mut Draft) {
    let limited = |error: &Value| error.pointer("/extensions/code").and_then(Value::as_str) == Some("RATELIMITED");
    draft.rate_limited |= errors(reader).any(limited);
}

/// AWS: the error's code says whether it was a limit; a wait is in milliseconds.
pub(super) fn read_aws(reader: &Reader<'_>, draft: &mut Draft) {
    const CODES: [&str; 15] = [
        "Throttling",
        "ThrottlingException",
        "ThrottledException",
        "RequestThrottledException",
        "RequestThrottled",
        "TooManyRequestsException",
        "ProvisionedThroughputExceededException",
        "TransactionInProgressException",
        "RequestLimitExceeded",
        "BandwidthLimitExceeded",
        "LimitExceededException",
        "PriorRequestNotComplete",
        "EC2ThrottledException",
        "SlowDown",
        "ThrottlingError",
    ];
    let exact = reader.lines("x-amz-retry-after").filter_map(value::milliseconds_us).max();
    draft.retry_after_us = exact.or(draft.retry_after_us);
    if reader.status() < 400 {
        return;
    }
    let codes = [reader.get("x-amzn-errortype"), reader.json_text("/__type"), reader.json_text("/code")];
    // `com.amazon.coral#ThrottlingException:http://…`
    let bare = |code: &str| code.split(':').next().and_then(|code| code.rsplit('#').next()).map(str::to_owned);
    let beginning = reader.beginning();
    let xml = beginning.split_once("<code>").and_then(|(_, rest)| rest.split_once("</code>")).map(|(code, _)| code);
    let mut codes = codes.into_iter().flatten().filter_map(bare).chain(xml.map(str::to_owned));
    draft.rate_limited =
        reader.status() == 429 || codes.any(|code| CODES.iter().any(|known| known.eq_ignore_ascii_case(&code)));
}

/// Google: a wait in the error's details; 403 is a limit when its reason says so.
pub(super) fn read_google(reader: &Reader<'_>, draft: &mut Draft) {
    const REASONS: [&str; 4] =
        ["rateLimitExceeded", "userRateLimitExceeded", "RATE_LIMIT_EXCEEDED", "USER_RATE_LIMIT_EXCEEDED"];
    if reader.status() < 400 {
        return;
    }
    let list = |pointer: &str| reader.json().and_then(|json| json.pointer(pointer)).and_then(Value::as_array);
    let texts = |list: Option<&'_ Vec<Value>>, key: &str| -> Vec<String> {
        let found = list.into_iter().flatten().filter_map(|it| it.get(key).and_then(Value::as_str));
        found.map(str::to_owned).collect()
    };
    let reasons = [texts(list("/error/errors"), "reason"), texts(list("/error/details"), "reason")].concat();
    if let Some(reason) = reasons.iter().find(|reason| REASONS.contains(&reason.as_str())) {
        draft.scope(reason);
        draft.rate_limited = true;
    }
    draft.rate_limited |= reader.json_text("/error/status") == Some("RESOURCE_EXHAUSTED");
    let delays = texts(list("/error/details"), "retryDelay");
    draft.retry_after_us = draft.retry_after_us.or(delays.iter().filter_map(|text| value::duration_us(text)).max());
}

/// HubSpot names the policy.
pub(super) fn read_hubspot(reader: &Reader<'_>, draft: &mut Draft) {
    if let Some(policy) = reader.json_text("/policyName").filter(|_| reader.status() == 429) {
        draft.scope(policy);
    }
}

/// Notion names the reason.
pub(super) fn read_notion(reader: &Reader<'_>, draft: &mut Draft) {
    if let Some(reason) = reader.json_text("/additional_data/rate_limit_reason") {
        draft.scope(reason);
    }
}

fn errors<'r>(reader: &'r Reader<'_>) -> impl Iterator<Item = &'r Value> {
    reader.json().and_then(|json| json.get("errors")).and_then(Value::as_array).into_iter().flatten()
}

/// Seconds of a body in microseconds, rounded to the nearest; negative ones are none.
fn wait_us(seconds: f64) -> Option<u64> {
    (seconds.is_finite() && seconds >= 0.0).then(|| seconds_to_us(seconds).min(MAX_SPAN_US))
}
