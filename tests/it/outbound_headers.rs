use std::fs;
use std::path::Path;

use proptest::prelude::*;
use ratelimit_core::outbound::{Observation, Preset, Response, parse_headers};
use ratelimit_tests::random::check;
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    preset: String,
    status: u16,
    now: f64,
    headers: Vec<(String, String)>,
    #[serde(default)]
    body: String,
    expect: Expected,
    #[serde(default)]
    quotas: Vec<ExpectedQuota>,
}

#[derive(Debug, Deserialize, PartialEq, Default)]
#[serde(deny_unknown_fields, default)]
struct Expected {
    limit: Option<f64>,
    remaining: Option<f64>,
    reset_after: Option<f64>,
    reset_at: Option<f64>,
    retry_after: Option<f64>,
    bucket: Option<String>,
    scope: Option<String>,
    rate_limited: bool,
    wait: Option<f64>,
}

#[derive(Debug, Deserialize, PartialEq, Default)]
#[serde(deny_unknown_fields, default)]
struct ExpectedQuota {
    name: Option<String>,
    limit: Option<f64>,
    remaining: Option<f64>,
    reset_after: Option<f64>,
    window: Option<f64>,
}

fn seconds(us: Option<u64>) -> Option<f64> {
    us.map(ratelimit_core::clock::us_to_seconds)
}

fn seen(observation: Option<&Observation>) -> Expected {
    let Some(it) = observation else { return Expected::default() };
    Expected {
        limit: it.limit(),
        remaining: it.remaining(),
        reset_after: seconds(it.reset_after_us()),
        reset_at: seconds(it.reset_at_us()),
        retry_after: seconds(it.retry_after_us()),
        bucket: it.bucket().map(str::to_owned),
        scope: it.scope().map(str::to_owned),
        rate_limited: it.rate_limited(),
        wait: seconds(it.wait_us()),
    }
}

#[test]
fn every_header_vector_is_read_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/headers/parse");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).expect("the vectors are there") {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("a file");
        for case in serde_json::from_str::<File>(&text).expect("vectors").cases {
            count += 1;
            let headers: Vec<(&str, &str)> =
                case.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let response = Response { status: case.status, headers: &headers, body: case.body.as_bytes() };
            let preset: Preset = case.preset.parse().expect(&case.name);
            let observation = parse_headers(preset, &response, ratelimit_core::clock::seconds_to_us(case.now));
            let seen = seen(observation.as_ref());
            if seen != case.expect {
                wrong.push(format!(
                    "{}: {}:\n  expected {:?}\n  seen     {seen:?}",
                    case.preset, case.name, case.expect
                ));
            }
            let quotas: Vec<ExpectedQuota> = observation.iter().flat_map(Observation::quotas).map(seen_quota).collect();
            if !case.quotas.is_empty() && quotas.len() != case.quotas.len() {
                wrong.push(format!("{}: {}: quotas {quotas:?}", case.preset, case.name));
            }
            for (seen, expected) in quotas.iter().zip(&case.quotas) {
                let numbers = |it: &ExpectedQuota| (it.limit, it.remaining, it.reset_after, it.window);
                let window = expected.window.and(seen.window);
                let named = seen.name.is_none() || seen.name == expected.name;
                if !named || numbers(&ExpectedQuota { window, name: None, ..*seen }) != numbers(expected) {
                    wrong.push(format!("{}: {}: quota {seen:?}, expected {expected:?}", case.preset, case.name));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count > 100, "the vectors are there");
}

fn seen_quota(quota: &ratelimit_core::outbound::Quota) -> ExpectedQuota {
    ExpectedQuota {
        name: quota.name().map(str::to_owned),
        limit: quota.limit(),
        remaining: quota.remaining(),
        reset_after: seconds(quota.reset_after_us()),
        window: seconds(quota.window_us()),
    }
}

/// Names that some parser looks at.
const NAMES: [&str; 34] = [
    "RateLimit",
    "RateLimit-Policy",
    "RateLimit-Limit",
    "RateLimit-Remaining",
    "RateLimit-Reset",
    "RateLimit-ResetTime",
    "RateLimit-Observed",
    "X-RateLimit-Limit",
    "X-RateLimit-Remaining",
    "X-RateLimit-Used",
    "X-RateLimit-Reset",
    "X-RateLimit-Reset-After",
    "X-RateLimit-Resource",
    "X-RateLimit-Bucket",
    "X-RateLimit-Scope",
    "X-RateLimit-Global",
    "X-Rate-Limit-Limit",
    "X-Rate-Limit-Remaining",
    "X-Rate-Limit-Reset",
    "X-Shopify-Shop-Api-Call-Limit",
    "x-ratelimit-limit-tokens",
    "x-ratelimit-remaining-tokens",
    "x-ratelimit-reset-tokens",
    "anthropic-ratelimit-tokens-limit",
    "anthropic-ratelimit-tokens-reset",
    "x-ms-ratelimit-remaining-resource",
    "x-amz-retry-after",
    "X-Sentry-Rate-Limits",
    "zendesk-ratelimit-x",
    "X-HubSpot-RateLimit-Interval-Milliseconds",
    "Retry-After",
    "retry-after-ms",
    "Date",
    "Age",
];

/// Values as servers send them, nearly so, or not at all.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,24}",
        "-?[0-9]{1,12}(\\.[0-9]{1,9})?",
        "[0-9]{1,6}(ms|s|m|h|us|d)([0-9]{1,3}s)?",
        "\"[a-z,;]{0,4}\";r=[0-9]{1,17};t=-?[0-9]{1,17}(, \"b\";r=0;t=[0-9]{1,9})?",
        "limit=[0-9]{1,9}, remaining=[0-9]{1,9}, reset=[0-9]{1,9}",
        "[0-9]{1,4}/[0-9]{1,4}",
        "[0-9]{1,6}:[a-z;]{0,8}:[a-z]{0,4}(, [0-9]{1,6}::)?",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}(:[0-9]{2})?(Z|\\+01:00)?",
        "(Mon|Tue), [0-3][0-9] Nov (1969|2023|9999) [0-2][0-9]:[0-5][0-9]:00 GMT",
        "total=[0-9]{1,5}; remaining=-?[0-9]{1,5}; resets=[0-9]{1,9}",
        "NaN|Infinity|1e300|soon|true|",
        ".{0,20}",
    ]
}

fn body() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        "\\{\"retry_after\":-?[0-9]{1,9}\\.?[0-9]{0,3}e?[0-9]{0,3},\"global\":(true|1)\\}",
        "\\{\"extensions\":\\{\"cost\":\\{\"requestedQueryCost\":[0-9]{1,6},\"throttleStatus\":\\{\"maximumAvailable\":[0-9]{1,6},\
         \"currentlyAvailable\":-?[0-9]{1,6},\"restoreRate\":[0-9]{1,3}\\}\\}\\},\"errors\":\\[\\{\"extensions\":\\{\"code\":\"THROTTLED\"\\}\\}\\]\\}",
        "\\{\"error\":\\{\"details\":\\[\\{\"retryDelay\":\"-?[0-9]{1,6}\\.[0-9]s\"\\}\\]\\}\\}",
        ".{0,40}",
    ]
}

#[test]
fn no_response_makes_a_parser_fail_or_wait_a_negative_or_endless_time() {
    let statuses = proptest::sample::select(vec![200_u16, 400, 403, 429, 503, 529]);
    let headers = proptest::collection::vec((proptest::sample::select(NAMES.to_vec()), value()), 0..8);
    let inputs = (statuses, headers, body(), proptest::num::u64::ANY);
    check(2_000, &inputs, |(status, headers, body, now_us)| {
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let response = Response { status, headers: &headers, body: body.as_bytes() };
        for &preset in Preset::ALL {
            let Some(it) = parse_headers(preset, &response, now_us) else { continue };
            let counts = it.quotas().iter().flat_map(|quota| [quota.limit(), quota.remaining()]);
            for count in counts.flatten() {
                prop_assert!(count.is_finite() && count >= 0.0, "{preset:?} {count}");
            }
            let waits =
                it.quotas().iter().flat_map(|quota| [quota.reset_after_us(), quota.window_us(), quota.refill_us()]);
            for wait in waits.chain([it.retry_after_us(), it.wait_us()]).flatten() {
                prop_assert!(wait < ratelimit_core::clock::MAX_INSTANT_US, "{preset:?} {wait}");
            }
            prop_assert!(it.wait_us().is_none() || it.rate_limited());
        }
        Ok(())
    });
}
