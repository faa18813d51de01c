//! What a governor counts of its own work.

use smallvec::SmallVec;

use super::budget::Limit;
use super::preset::Preset;
use super::ticket::Reason;
use crate::metrics::outbound::{self, Counters, Event};

/// The counters of one governor: by its preset, and by the names of its own limits.
#[derive(Debug, Clone)]
pub(super) struct Meter {
    preset: Counters,
    limits: SmallVec<[Counters; 2]>,
}

impl Meter {
    pub(super) fn new(preset: Preset, limits: &[Limit]) -> Self {
        let name = preset.name();
        Self {
            preset: outbound::of_preset(name),
            limits: limits.iter().map(|limit| outbound::of_limit(name, limit.policy().name())).collect(),
        }
    }

    pub(super) fn count_request(&self) {
        outbound::count(self.preset, Event::Request, 1);
    }

    pub(super) fn count_delay(&self, reason: Reason, delay_us: u64) {
        outbound::count(self.counters(reason), Event::Delay(reason), 1);
        outbound::count(self.preset, Event::DelayMicroseconds, delay_us);
    }

    pub(super) fn count_refusal(&self, reason: Reason) {
        outbound::count(self.counters(reason), Event::Refusal(reason), 1);
    }

    pub(super) fn count_retry(&self) {
        outbound::count(self.preset, Event::Retry, 1);
    }

    pub(super) fn count_exceeded(&self) {
        outbound::count(self.preset, Event::Exceeded, 1);
    }

    fn counters(&self, reason: Reason) -> Counters {
        match reason {
            Reason::Limit(index) => self.limits.get(index).copied().unwrap_or(self.preset),
            _ => self.preset,
        }
    }
}
