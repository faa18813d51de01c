//! From a response to an [`Observation`]: one file per family of headers.
//!
//! A parser never fails. What cannot be read is left out, since a limiter that falls over a header does more harm than
//! one that learns nothing from it.

mod azure;

mod body;

mod categories;

mod fields;

mod interval;

mod named;

mod reader;

mod triple;

mod used;

pub(crate) mod value;

use self::reader::{Draft, Reader, Rule};
use super::observation::{Observation, Response};
use super::preset::{Family, Preset};

/// How long GitHub asks to wait at least when it says no more than "slow down".
const GITHUB_SECONDARY_US: u64 = 60_000_000;

/// How long Sentry's clients wait after a 429 that says nothing.
const SENTRY_BARE_US: u64 = 60_000_000;

/// Reads what a response says about limits. `None` when it says nothing; never an error.
///
/// `now_us` is the client's clock in microseconds since 1970. Where the response has a `Date`, instants are counted from
/// that one, so that a client whose clock is wrong waits as long as one whose clock is right. A response that has been
/// in a cache (`Age`) says nothing about now.
pub fn parse_headers(preset: Preset, response: &Response<'_>, now_us: u64) -> Option<Observation> {
    let reader = Reader::new(response, now_us);
    if reader.is_aged() {
        return None;
    }
    let mut draft = Draft { retry_after_us: reader.retry_after_us(), ..Draft::default() };
    draft.rate_limited = preset.limits_with(response.status) && (response.status != 503 || reader.has("retry-after"));
    read(preset, &reader, &mut draft);
    draft.finish()
}

/// Header names of one's own: `limit`, `remaining` and `reset` of any API, the rest as in the generic preset.
pub(crate) fn parse_names(
    names: &super::preset::HeaderNames,
    response: &Response<'_>,
    now_us: u64,
) -> Option<Observation> {
    let reader = Reader::new(response, now_us);
    if reader.is_aged() {
        return None;
    }
    let mut draft = Draft {
        retry_after_us: names
            .retry_after
            .as_deref()
            .and_then(|name| reader.named_retry_after_us(name))
            .or_else(|| reader.retry_after_us()),
        rate_limited: response.status == 429,
        ..Draft::default()
    };
    triple::read_names(&reader, &mut draft, names);
    draft.finish()
}

fn read(preset: Preset, reader: &Reader<'_>, draft: &mut Draft) {
    match preset.family() {
        Family::Generic => generic(reader, draft),
        Family::Ietf => {
            if !fields::read(reader, draft) {
                triple::read(reader, draft, &triple::DRAFT_3);
            }
            fields::read_problem(reader, draft);
        }
        Family::Github => github(reader, draft),
        Family::Gitlab => {
            triple::read(reader, draft, &triple::GITLAB);
        }
        Family::Discord => {
            triple::read(reader, draft, &triple::DISCORD);
            body::read_discord(reader, draft);
        }
        Family::Reddit => {
            triple::read(reader, draft, &triple::X_RATELIMIT);
        }
        Family::Twitter => triple::read_twitter(reader, draft),
        Family::Shopify => {
            used::read(reader, draft);
            body::read_shopify(reader, draft);
        }
        Family::Slack => body::read_slack(reader, draft),
        Family::Stripe => body::read_stripe(reader, draft),
        Family::OpenAi => {
            named::read_openai(reader, draft);
            body::read_openai(reader, draft);
        }
        Family::Anthropic => named::read_anthropic(reader, draft),
        Family::Linear => {
            named::read_linear(reader, draft);
            body::read_linear(reader, draft);
        }
        Family::AzureArm => azure::read(reader, draft),
        Family::Twitch | Family::MsGraph => {
            triple::read(reader, draft, &triple::DRAFT_3);
        }
        Family::Aws => body::read_aws(reader, draft),
        Family::Google => body::read_google(reader, draft),
        Family::Sentry => sentry(reader, draft),
        Family::Okta => {
            triple::read(reader, draft, &triple::X_RATE_LIMIT);
            // The limit on requests in flight answers 0 of 0, beside which the real limit still stands.
            if draft.quotas.iter().any(|quota| quota.limit == Some(0.0)) {
                draft.scope("concurrent");
            }
        }
        Family::Zendesk => categories::read_zendesk(reader, draft),
        Family::Hubspot => {
            interval::read_hubspot(reader, draft);
            body::read_hubspot(reader, draft);
        }
        Family::Notion => body::read_notion(reader, draft),
        Family::Atlassian => interval::read_atlassian(reader, draft),
        Family::Cloudflare => {
            if !fields::read(reader, draft) {
                triple::read(reader, draft, &triple::X_RATELIMIT);
            }
        }
    }
}

/// Whatever is understood by many: the standard's fields, then the three older families.
fn generic(reader: &Reader<'_>, draft: &mut Draft) {
    let known = fields::read(reader, draft)
        || triple::read(reader, draft, &triple::X_RATELIMIT)
        || triple::read(reader, draft, &triple::X_RATE_LIMIT)
        || triple::read(reader, draft, &triple::DRAFT_3);
    if !known {
        named::read_openai(reader, draft);
    }
    fields::read_problem(reader, draft);
}

/// GitHub has two limits: a primary one, told in headers, and a secondary one that is only met. Either may answer 403,
/// which otherwise says that something is not permitted.
fn github(reader: &Reader<'_>, draft: &mut Draft) {
    triple::read(reader, draft, &triple::GITHUB);
    let exhausted = draft.quotas.first().is_some_and(super::observation::Quota::exhausted);
    let says_secondary = reader.body_mentions(&["secondary rate limit", "abuse detection"]);
    let refused = match reader.status() {
        429 => true,
        403 => exhausted || says_secondary || reader.has("retry-after"),
        200 => body::is_github_graphql_refusal(reader),
        _ => false,
    };
    draft.rate_limited = refused;
    if !refused {
        return;
    }
    let primary = exhausted && !says_secondary && draft.retry_after_us.is_none();
    draft.scope(if primary { "primary" } else { "secondary" });
    // The window's end says nothing about the secondary limit.
    draft.escalating = !exhausted;
    draft.wait_without_retry_after(if exhausted { None } else { Some(GITHUB_SECONDARY_US) });
}

fn sentry(reader: &Reader<'_>, draft: &mut Draft) {
    let known = categories::read_sentry(reader, draft) | triple::read_sentry(reader, draft);
    if draft.rate_limited && !known {
        draft.wait_without_retry_after(Some(SENTRY_BARE_US));
    }
    if draft.quotas.iter().any(|quota| quota.limit.is_some()) {
        draft.rule = Rule::FirstUnlessExhausted;
    }
}
