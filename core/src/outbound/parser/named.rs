//! Several quotas side by side, told apart by a word in the field's name.

use super::reader::{Draft, Naming, Reader};
use super::value::{self, Moment};
use crate::outbound::observation::{Quota, Unit};

/// More quotas than this are not read from one response.
const MAX_QUOTAS: usize = 16;

/// `x-ratelimit-limit-requests`: OpenAI, Azure and whoever speaks their language.
pub(super) fn read_openai(reader: &Reader<'_>, draft: &mut Draft) {
    read(reader, draft, |field| {
        let rest = field.strip_prefix("x-ratelimit-")?;
        let (part, name) = rest.split_once('-')?;
        Some((name.to_owned(), Part::of(part)?))
    });
}

/// `anthropic-ratelimit-requests-limit`.
pub(super) fn read_anthropic(reader: &Reader<'_>, draft: &mut Draft) {
    read(reader, draft, |field| last_word(field.strip_prefix("anthropic-ratelimit-")?));
}

/// `X-RateLimit-Requests-Limit`.
pub(super) fn read_linear(reader: &Reader<'_>, draft: &mut Draft) {
    read(reader, draft, |field| last_word(field.strip_prefix("x-ratelimit-")?));
}

fn last_word(text: &str) -> Option<(String, Part)> {
    let (name, part) = text.rsplit_once('-')?;
    Some((name.to_owned(), Part::of(part)?))
}

/// What a field says of its quota.
enum Part {
    Limit,
    Remaining,
    Reset,
}

impl Part {
    fn of(word: &str) -> Option<Self> {
        match word {
            "limit" => Some(Self::Limit),
            "remaining" => Some(Self::Remaining),
            "reset" => Some(Self::Reset),
            _ => None,
        }
    }
}

fn read(reader: &Reader<'_>, draft: &mut Draft, part_of: impl Fn(&str) -> Option<(String, Part)>) {
    let mut quotas: Vec<(String, Quota, Option<Moment>)> = Vec::new();
    for (field, value) in reader.fields() {
        let Some((name, part)) = part_of(&field) else { continue };
        let index = quotas.iter().position(|(other, ..)| *other == name).unwrap_or_else(|| {
            quotas.push((name, Quota::default(), None));
            quotas.len() - 1
        });
        let (_, quota, reset) = &mut quotas[index];
        match part {
            Part::Limit => quota.limit = value::count(value),
            Part::Remaining => quota.remaining = value::count(value),
            Part::Reset => *reset = value::moment(value),
        }
    }
    for (name, mut quota, reset) in quotas.into_iter().take(MAX_QUOTAS) {
        // Some servers send -1 of -1 with a reset of 0 when they do not know: that is no quota.
        if quota.limit.is_none() && quota.remaining.is_none() {
            continue;
        }
        reader.reset(&mut quota, reset);
        quota.unit = if name.ends_with("requests") { Unit::Requests } else { Unit::Other };
        quota.name = Some(name.into());
        draft.quotas.push(quota);
    }
    // Requests come first, since they are what a caller counts.
    draft.quotas.sort_by_key(|quota| quota.unit == Unit::Other);
    draft.named_by = Naming::Scope;
}
