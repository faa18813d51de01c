//! What governors have done: requests let go, delays, refusals, retries, by preset and by the name of a limit.

use prometheus::proto::{Metric, MetricFamily, MetricType};

use super::board::{Board, PolicyCounters, board};
use super::text::{counter, family, fraction};
use crate::clock::us_to_seconds;
use crate::outbound::Reason;

/// In front of a preset's name, where the names of policies stand, too; those are printable.
const PRESET: char = '\u{1}';

/// Between a preset's name and that of a limit.
const LIMIT: char = '\u{2}';

/// The reasons of waits, in the order of their counters. Any limit of one's own is one: its name tells which.
const REASONS: [Reason; 7] = [
    Reason::Cooldown,
    Reason::Learning,
    Reason::Quota,
    Reason::Limit(0),
    Reason::Global,
    Reason::InvalidRequests,
    Reason::Store,
];

/// The places of the counters.
const DELAYS: usize = 0;
const REFUSALS: usize = DELAYS + REASONS.len();
const REQUESTS: usize = REFUSALS + REASONS.len();
const DELAY_US: usize = REQUESTS + 1;
const RETRIES: usize = DELAY_US + 1;
const EXCEEDED: usize = RETRIES + 1;

/// How many there are.
pub(super) const PLACES: usize = EXCEEDED + 1;

/// Where the counters of a preset, or of a limit of one's own, are.
pub(crate) type Counters = PolicyCounters;

/// Something to be counted.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// A request was let go.
    Request,
    /// A request was told to wait.
    Delay(Reason),
    /// For so long.
    DelayMicroseconds,
    /// A request was not sent, since the wait was too long.
    Refusal(Reason),
    /// A request was sent again.
    Retry,
    /// A request was given up after it had been refused.
    Exceeded,
}

/// The counters of a preset.
pub(crate) fn of_preset(preset: &str) -> Counters {
    super::of_policy(&format!("{PRESET}{preset}"))
}

/// The counters of a limit of one's own.
pub(crate) fn of_limit(preset: &str, limit: &str) -> Counters {
    super::of_policy(&format!("{PRESET}{preset}{LIMIT}{limit}"))
}

/// Counts an event so many times.
pub(crate) fn count(counters: Counters, event: Event, times: u64) {
    let place = match event {
        Event::Delay(reason) => DELAYS + index(reason),
        Event::Refusal(reason) => REFUSALS + index(reason),
        Event::Request => REQUESTS,
        Event::DelayMicroseconds => DELAY_US,
        Event::Retry => RETRIES,
        Event::Exceeded => EXCEEDED,
    };
    if let Some(board) = board() {
        board.count_outbound(counters, place, times);
    }
}

fn index(reason: Reason) -> usize {
    match reason {
        Reason::Cooldown => 0,
        Reason::Learning => 1,
        Reason::Quota => 2,
        Reason::Limit(_) => 3,
        Reason::Global => 4,
        Reason::InvalidRequests => 5,
        Reason::Store => 6,
    }
}

/// The counters of one preset, or of one limit.
struct Counts {
    preset: String,
    limit: String,
    places: [u64; PLACES],
}

/// The metrics.
pub(super) fn families(board: &Board) -> Vec<MetricFamily> {
    let counts: Vec<Counts> = board.outbound().into_iter().filter_map(|(name, places)| parts(&name, places)).collect();
    let counted = |place: usize| counts.iter().filter(move |it| it.places[place] > 0);
    let total = |name: &str, help: &str, place: usize| {
        let metrics = counted(place).map(|it| counter(&[("preset", &it.preset)], it.places[place]));
        family(name, help, MetricType::COUNTER, metrics.collect())
    };
    let by_reason = |name: &str, help: &str, first: usize| {
        let metrics = counts.iter().flat_map(|it| it.by_reason(first)).collect();
        family(name, help, MetricType::COUNTER, metrics)
    };
    let seconds = counted(DELAY_US).map(|it| fraction(&[("preset", &it.preset)], us_to_seconds(it.places[DELAY_US])));
    vec![
        total("rate_limiter_outbound_requests_total", "Requests to APIs that were let go.", REQUESTS),
        by_reason("rate_limiter_outbound_delays_total", "Waits before a request to an API.", DELAYS),
        family(
            "rate_limiter_outbound_delay_seconds_total",
            "How long these waits were, in seconds.",
            MetricType::COUNTER,
            seconds.collect(),
        ),
        by_reason(
            "rate_limiter_outbound_refusals_total",
            "Requests that were not sent, since they would have had to wait too long.",
            REFUSALS,
        ),
        total("rate_limiter_outbound_retries_total", "Requests that were sent again.", RETRIES),
        total(
            "rate_limiter_outbound_exceeded_total",
            "Requests that were given up after the API had refused them.",
            EXCEEDED,
        ),
    ]
}

impl Counts {
    fn by_reason(&self, first: usize) -> impl Iterator<Item = Metric> {
        let counts = REASONS.iter().zip(&self.places[first..first + REASONS.len()]).filter(|(_, count)| **count > 0);
        counts.map(|(reason, count)| {
            let mut labels = vec![("preset", self.preset.as_str()), ("reason", reason.as_str())];
            if !self.limit.is_empty() {
                labels.insert(0, ("limit", self.limit.as_str()));
            }
            counter(&labels, *count)
        })
    }
}

/// A stored name taken apart.
fn parts(name: &str, places: [u64; PLACES]) -> Option<Counts> {
    let name = name.strip_prefix(PRESET)?;
    let (preset, limit) = name.split_once(LIMIT).unwrap_or((name, ""));
    Some(Counts { preset: preset.to_owned(), limit: limit.to_owned(), places })
}

/// Whether a stored name is one of these, and not a policy's.
pub(super) fn is_outbound(name: &str) -> bool {
    name.starts_with(PRESET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_number_of_its_place() {
        for (place, reason) in REASONS.into_iter().enumerate() {
            assert_eq!(index(reason), place);
        }
    }
}
