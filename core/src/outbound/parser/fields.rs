//! The structured fields `RateLimit` and `RateLimit-Policy`, in all their drafts.
//!
//! A field that is malformed is ignored as a whole, as its specification asks. Names may be Tokens, which the drafts'
//! own examples use, and the remaining units may be missing if the time is not.

use sfv::{BareItem, Dictionary, InnerList, Item, List, ListEntry, Parameters, Parser};

use super::reader::{Draft, Naming, Reader};
use super::value::Moment;
use crate::outbound::observation::{Quota, Unit};

/// Reads `RateLimit` with its policies; whether there was one.
pub(super) fn read(reader: &Reader<'_>, draft: &mut Draft) -> bool {
    let policies = reader.list("ratelimit-policy").map(|text| policies(&text)).unwrap_or_default();
    let Some(text) = reader.list("ratelimit") else {
        return read_policy(draft, reader, &policies);
    };
    let quotas = items(reader, &text, &policies).or_else(|| dictionary(reader, &text, &policies));
    let Some(quotas) = quotas.filter(|quotas| !quotas.is_empty()) else { return false };
    draft.quotas.extend(quotas);
    draft.named_by = Naming::Bucket;
    true
}

/// A policy alone says how much there is, and nothing about what is left of it. Several are not told apart by anything.
fn read_policy(draft: &mut Draft, reader: &Reader<'_>, policies: &[Quota]) -> bool {
    let [policy] = policies else { return false };
    let older = ["ratelimit-limit", "x-ratelimit-limit", "ratelimit-remaining"].iter().any(|name| reader.has(name));
    if policy.name.is_none() || older {
        return false;
    }
    draft.quotas.push(policy.clone());
    draft.named_by = Naming::Bucket;
    true
}

/// The problem types that come with the fields.
pub(super) fn read_problem(reader: &Reader<'_>, draft: &mut Draft) {
    const PREFIX: &str = "https://iana.org/assignments/http-problem-types#";
    if reader.status() < 400 {
        return;
    }
    let Some(kind) = reader.json_text("/type").and_then(|uri| uri.strip_prefix(PREFIX)) else { return };
    if matches!(kind, "quota-exceeded" | "temporary-reduced-capacity" | "abnormal-usage-detected") {
        draft.scope(kind);
        draft.rate_limited = true;
    }
}

/// Drafts since -08: a list of names with parameters.
fn items(reader: &Reader<'_>, text: &str, policies: &[Quota]) -> Option<Vec<Quota>> {
    let list: List = Parser::new(text).parse().ok()?;
    list.iter().map(|entry| item(reader, entry, policies)).collect()
}

/// One item; `None` where it is not as it has to be.
fn item(reader: &Reader<'_>, entry: &ListEntry, policies: &[Quota]) -> Option<Quota> {
    let ListEntry::Item(Item { bare_item, params }) = entry else { return None };
    let name = name(bare_item)?;
    let (remaining, after) = (unsigned(params, "r").ok()?, unsigned(params, "t").ok()?);
    if remaining.is_none() && after.is_none() {
        return None;
    }
    let partition = bytes(params, "pk");
    let of_name = || policies.iter().filter(|policy| policy.name.as_deref() == Some(name));
    let policy = of_name().find(|policy| policy.partition == partition).or_else(|| of_name().next());
    let mut quota = Quota {
        name: Some(name.into()),
        limit: policy.and_then(|policy| policy.limit),
        remaining: remaining.map(float),
        window_us: policy.and_then(|policy| policy.window_us),
        unit: policy.map_or(Unit::Requests, |policy| policy.unit),
        partition,
        ..Quota::default()
    };
    reader.reset(&mut quota, after.map(|seconds| Moment::After(seconds_us(seconds))));
    Some(quota)
}

/// Draft -07: a dictionary of limit, remaining and reset.
fn dictionary(reader: &Reader<'_>, text: &str, policies: &[Quota]) -> Option<Vec<Quota>> {
    let dictionary: Dictionary = Parser::new(text).parse().ok()?;
    let member = |key: &str| match dictionary.get(key) {
        None => Some(None),
        Some(ListEntry::Item(item)) => natural(&item.bare_item).map(Some),
        Some(ListEntry::InnerList(InnerList { .. })) => None,
    };
    let (limit, remaining, reset) = (member("limit")?, member("remaining")?, member("reset")?);
    if remaining.is_none() && reset.is_none() {
        return None;
    }
    let limit = limit.map(float);
    let policy = policies.iter().find(|policy| policy.name.is_none() && policy.limit == limit);
    let window_us = policy.and_then(|policy| policy.window_us);
    let mut quota = Quota { limit, remaining: remaining.map(float), window_us, ..Quota::default() };
    reader.reset(&mut quota, reset.map(|seconds| Moment::After(seconds_us(seconds))));
    Some(vec![quota])
}

/// `RateLimit-Policy`: names with a quota, or bare quotas in the drafts up to -07; none where the field is malformed.
fn policies(text: &str) -> Vec<Quota> {
    let Ok(list) = Parser::new(text).parse::<List>() else { return Vec::new() };
    list.iter().map(policy).collect::<Option<_>>().unwrap_or_default()
}

fn policy(entry: &ListEntry) -> Option<Quota> {
    let ListEntry::Item(Item { bare_item, params }) = entry else { return None };
    let (name, limit) = match bare_item {
        BareItem::Integer(_) => (None, natural(bare_item)),
        _ => (Some(name(bare_item)?.into()), unsigned(params, "q").ok()?),
    };
    let requests = match params.get("qu") {
        None => true,
        Some(BareItem::String(unit)) => matches!(unit.as_str(), "requests" | "request"),
        Some(_) => false,
    };
    Some(Quota {
        name,
        limit: Some(float(limit?)),
        window_us: unsigned(params, "w").ok()?.map(seconds_us).filter(|us| *us > 0),
        unit: if requests { Unit::Requests } else { Unit::Other },
        partition: bytes(params, "pk"),
        ..Quota::default()
    })
}

fn name(item: &BareItem) -> Option<&str> {
    match item {
        BareItem::String(name) => Some(name.as_str()),
        BareItem::Token(name) => Some(name.as_str()),
        _ => None,
    }
}

/// A parameter that has to be an integer from 0, if it is there.
fn unsigned(params: &Parameters, key: &str) -> Result<Option<u64>, ()> {
    params.get(key).map(|item| natural(item).ok_or(())).transpose()
}

fn natural(item: &BareItem) -> Option<u64> {
    match item {
        BareItem::Integer(number) => u64::try_from(i64::from(*number)).ok(),
        _ => None,
    }
}

fn bytes(params: &Parameters, key: &str) -> Option<Box<[u8]>> {
    match params.get(key) {
        Some(BareItem::ByteSequence(bytes)) => Some(bytes.as_slice().into()),
        _ => None,
    }
}

fn seconds_us(seconds: u64) -> u64 {
    seconds.saturating_mul(1_000_000).min(crate::algorithm::MAX_SPAN_US)
}

/// Integers of the fields have at most 15 digits, which a double holds.
#[allow(clippy::cast_precision_loss)]
fn float(number: u64) -> f64 {
    number as f64
}
