//! A response to read from, and the observation as it comes together.

use std::cell::OnceCell;

use serde_json::Value;

use super::value::{self, Moment};
use crate::clock::MAX_INSTANT_US;
use crate::outbound::observation::{Observation, Quota, Response};

/// Bodies beyond this are not looked into: no API says in so many words that a limit was met.
const MAX_BODY: usize = 1 << 20;

/// As much of a body is searched for words.
const MAX_SEARCHED: usize = 4096;

/// An instant further before the server's own `Date` than this was not written by that clock.
const MAX_DATE_GAP_US: u64 = 86_400_000_000;

/// A response, with its clock.
pub(super) struct Reader<'a> {
    response: &'a Response<'a>,
    now_us: u64,
    /// What the server's clock showed when it answered.
    date_us: Option<u64>,
    json: OnceCell<Option<Value>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(response: &'a Response<'a>, now_us: u64) -> Self {
        let mut reader =
            Self { response, now_us: now_us.min(MAX_INSTANT_US - 1), date_us: None, json: OnceCell::new() };
        reader.date_us = reader.get("date").and_then(value::http_date_us);
        reader
    }

    pub(super) fn status(&self) -> u16 {
        self.response.status
    }

    /// Every field, with its name in lower case.
    pub(super) fn fields(&self) -> impl Iterator<Item = (String, &'a str)> {
        self.response.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.trim_matches([' ', '\t'])))
    }

    /// The lines of a field.
    pub(super) fn lines(&self, name: &str) -> impl Iterator<Item = &'a str> {
        let headers = self.response.headers.iter();
        let lines = headers.filter(move |(other, _)| !name.is_empty() && other.eq_ignore_ascii_case(name));
        lines.map(|(_, value)| value.trim_matches([' ', '\t']))
    }

    /// The first line of a field.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.lines(name).next()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// The lines of a field as one list.
    pub(super) fn list(&self, name: &str) -> Option<String> {
        let lines: Vec<&str> = self.lines(name).collect();
        (!lines.is_empty()).then(|| lines.join(", "))
    }

    pub(super) fn count(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(value::count)
    }

    /// Whether the response has been in a cache, so that what it says is of another time.
    pub(super) fn is_aged(&self) -> bool {
        self.count("age").is_some_and(|age| age > 0.0)
    }

    /// Milliseconds where they are given, else seconds or a date; of several lines the longest wait.
    pub(super) fn retry_after_us(&self) -> Option<u64> {
        let exact = self.lines("retry-after-ms").filter_map(value::milliseconds_us).max();
        exact.or_else(|| self.named_retry_after_us("retry-after"))
    }

    pub(super) fn named_retry_after_us(&self, name: &str) -> Option<u64> {
        self.lines(name).filter_map(value::retry_after).map(|moment| self.after_us(moment)).max()
    }

    /// How far off a moment is. The server's own clock counts, where it is known, and not this machine's.
    pub(super) fn after_us(&self, moment: Moment) -> u64 {
        match (moment, self.date_us) {
            (Moment::After(us), _) => us,
            (Moment::At(at_us), Some(date_us)) if at_us.saturating_add(MAX_DATE_GAP_US) >= date_us => {
                at_us.saturating_sub(date_us)
            }
            (Moment::At(at_us), _) => at_us.saturating_sub(self.now_us),
        }
    }

    /// Puts a reset into a quota.
    pub(super) fn reset(&self, quota: &mut Quota, moment: Option<Moment>) {
        let Some(moment) = moment else { return };
        quota.reset_after_us = Some(self.after_us(moment));
        quota.reset_at_us = Some(match moment {
            Moment::After(us) => self.now_us.saturating_add(us).min(MAX_INSTANT_US - 1),
            Moment::At(at_us) => at_us,
        });
    }

    /// The body as JSON, if it is some.
    pub(super) fn json(&self) -> Option<&Value> {
        let parse = || {
            let body = self.response.body;
            let object = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{');
            (object && body.len() <= MAX_BODY).then(|| serde_json::from_slice(body).ok()).flatten()
        };
        self.json.get_or_init(parse).as_ref()
    }

    /// A text in the body's JSON, by its path.
    pub(super) fn json_text(&self, pointer: &str) -> Option<&str> {
        self.json()?.pointer(pointer)?.as_str()
    }

    /// Whether the beginning of the body has one of these words, whatever their case.
    pub(super) fn body_mentions(&self, words: &[&str]) -> bool {
        let body = self.beginning();
        words.iter().any(|word| body.contains(word))
    }

    /// The beginning of the body in lower case.
    pub(super) fn beginning(&self) -> String {
        let body = self.response.body;
        String::from_utf8_lossy(&body[..body.len().min(MAX_SEARCHED)]).to_lowercase()
    }
}

/// Which of several quotas rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Rule {
    /// The one that runs out first.
    #[default]
    Tightest,
    /// The first, unless another is used up: the others are of a narrower kind.
    FirstUnlessExhausted,
    /// None: they say which categories are closed, and no numbers.
    None,
}

/// An observation as it comes together.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) quotas: Vec<Quota>,
    pub(super) rule: Rule,
    pub(super) retry_after_us: Option<u64>,
    pub(super) bucket: Option<Box<str>>,
    pub(super) scope: Option<Box<str>>,
    /// The ruling quota's name is the scope, or the bucket.
    pub(super) named_by: Naming,
    pub(super) rate_limited: bool,
    pub(super) global: bool,
    pub(super) retryable: Option<bool>,
    pub(super) escalating: bool,
    /// What is waited for when nothing in the headers says how long.
    pub(super) wait_us: Option<u64>,
    /// The wait that stands in for the quota's reset.
    pub(super) instead_us: Option<u64>,
}

/// What the ruling quota's name is to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Naming {
    #[default]
    Nothing,
    Scope,
    Bucket,
}

impl Draft {
    pub(super) fn scope(&mut self, scope: &str) {
        self.scope = Some(scope.into());
    }

    /// The wait of a refusal without a `Retry-After`, in place of the reset.
    pub(super) fn wait_without_retry_after(&mut self, wait_us: Option<u64>) {
        self.instead_us = wait_us;
    }

    /// A wait that the body gives in place of any header.
    pub(super) fn wait(&mut self, wait_us: u64) {
        self.wait_us = Some(wait_us);
    }

    pub(super) fn finish(self) -> Option<Observation> {
        let ruling = match self.rule {
            Rule::None => None,
            Rule::FirstUnlessExhausted if !self.quotas.iter().any(Quota::exhausted) => {
                (!self.quotas.is_empty()).then_some(0)
            }
            _ => tightest(&self.quotas),
        };
        let quota = ruling.map(|index| &self.quotas[index]);
        let name = quota.and_then(|quota| quota.name.clone());
        // A server that says both means the `Retry-After`.
        let wait_us = (self.wait_us)
            .or(self.retry_after_us)
            .or(self.instead_us)
            .or_else(|| quota.filter(|quota| quota.exhausted()).and_then(|quota| quota.refill_us))
            .or_else(|| quota.and_then(|quota| quota.reset_after_us.or(quota.window_us)));
        let observation = Observation {
            ruling,
            retry_after_us: self.retry_after_us,
            bucket: self.bucket.or_else(|| name.clone().filter(|_| self.named_by == Naming::Bucket)),
            scope: self.scope.or_else(|| name.filter(|_| self.named_by == Naming::Scope)),
            rate_limited: self.rate_limited,
            global: self.global,
            retryable: self.retryable,
            escalating: self.escalating && self.retry_after_us.is_none(),
            wait_us: wait_us.filter(|_| self.rate_limited),
            quotas: self.quotas,
        };
        (observation != Observation::default()).then_some(observation)
    }
}

/// The quota that is met first: of those used up the one that stays so longest; else the one with the smallest part
/// left, or simply the fewest units where not all have a limit; else the first.
fn tightest(quotas: &[Quota]) -> Option<usize> {
    let reset = |quota: &Quota| quota.reset_after_us.or(quota.window_us).unwrap_or(0);
    let exhausted = quotas.iter().enumerate().filter(|(_, quota)| quota.exhausted());
    // Of equals the first: `max_by_key` would give the last.
    if let Some((index, _)) = exhausted.rev().max_by_key(|(_, quota)| reset(quota)) {
        return Some(index);
    }
    let counted = || quotas.iter().enumerate().filter_map(|(index, quota)| Some((index, quota, quota.remaining?)));
    let in_proportion = counted().all(|(_, quota, _)| quota.limit.is_some_and(|limit| limit > 0.0));
    let left = |quota: &Quota, remaining: f64| match quota.limit {
        Some(limit) if in_proportion => remaining / limit,
        _ => remaining,
    };
    let fewest = counted().min_by(|(_, one, some), (_, other, more)| left(one, *some).total_cmp(&left(other, *more)));
    fewest.map(|(index, ..)| index).or((!quotas.is_empty()).then_some(0))
}
