//! The sliding window log: at most `limit` units in any span as long as the window. Exact, at the price of remembering
//! every grant: memory grows with the limit.
//!
//! State: a queue of grants, each with its instant, its units, and the units granted up to and with it, so that sums
//! and waits are found without adding up.

use std::collections::VecDeque;

use super::{NEVER_US, Question, State, Verb, Verdict, units, window_us};
use crate::error::Result;

/// The numbers of a sliding log, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindowLog {
    limit: u64,
    window_us: u64,
}

/// Grants, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Log {
    grants: VecDeque<Grant>,
}

/// One grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Grant {
    at_us: u64,
    units: u64,
    /// The units of all grants up to and with this one, since the log was empty.
    total: u64,
    /// When the log is empty again, if nothing follows.
    whole_at_us: u64,
}

impl SlidingWindowLog {
    /// At most `limit` units in any `window` seconds.
    ///
    /// Fails with [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) when a number is out of range.
    pub fn new(limit: i64, window: f64) -> Result<Self> {
        Ok(Self { limit: units("limit", limit)?, window_us: window_us("window", window)? })
    }

    /// The same for one of `share` equal parts of a fleet.
    pub(crate) fn divided(&self, share: u32) -> Self {
        Self { limit: (self.limit / u64::from(share)).max(1), ..*self }
    }

    /// Units per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window in microseconds.
    pub const fn window_us(&self) -> u64 {
        self.window_us
    }

    /// The numbers that the Lua twin takes, in its order.
    pub(crate) const fn numbers(&self) -> [u64; 5] {
        [self.limit, self.window_us, 0, 0, 0]
    }

    /// Answers, and changes the state where the question commits. What has left the window is dropped in any case.
    pub fn decide(&self, state: &mut Option<State>, question: &Question) -> Verdict {
        let Question { now_us, verb, cost, commit } = *question;
        let mut log = match state.take() {
            Some(State::Log(log)) if now_us < log.whole_at_us() => log,
            _ => Log::default(),
        };
        let repaired = log.bring_down(now_us, self.window_us);
        log.forget(now_us, self.window_us);
        let forgotten_at_us = log.whole_at_us();

        let left = self.limit.saturating_sub(log.units());
        let mut allowed = true;
        match verb {
            Verb::Refund if commit => {
                log.give_back(cost);
                // What is left may be of a policy whose windows were shorter, and whole by now.
                if log.whole_at_us() <= now_us {
                    log = Log::default();
                }
            }
            Verb::Refund => {}
            Verb::Allow | Verb::Reserve { .. } => {
                allowed = cost <= left;
                if allowed && commit {
                    log.push(now_us, cost, now_us + self.window_us);
                }
            }
        }
        // What is not stored anew is forgotten when it was to be empty, also under a policy with longer windows.
        let changed = commit && allowed || repaired;
        let until_us = |at_us: u64| {
            let leaves_us = at_us + self.window_us;
            (if changed { leaves_us } else { leaves_us.min(forgotten_at_us) }) - now_us
        };
        let verdict = Verdict {
            allowed,
            remaining: self.limit.saturating_sub(log.units()),
            retry_after_us: match allowed {
                true => 0,
                false if cost > self.limit => NEVER_US,
                false => until_us(log.reaches(log.units() + cost - self.limit)),
            },
            reset_after_us: log.grants.back().map_or(0, |newest| until_us(newest.at_us)),
            delay_us: 0,
        };
        *state = (!log.grants.is_empty()).then_some(State::Log(log));
        verdict
    }
}

impl Log {
    /// The instant from which the log equals none.
    pub(super) fn whole_at_us(&self) -> u64 {
        self.grants.back().map_or(0, |newest| newest.whole_at_us)
    }

    /// How many grants it holds.
    pub fn len(&self) -> usize {
        self.grants.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.grants.is_empty()
    }

    /// The units of all grants it holds.
    fn units(&self) -> u64 {
        match (self.grants.front(), self.grants.back()) {
            (Some(oldest), Some(newest)) => newest.total - oldest.total + oldest.units,
            _ => 0,
        }
    }

    /// Grants from a clock that stepped back become grants of now.
    fn bring_down(&mut self, now_us: u64, window_us: u64) -> bool {
        let later = self.grants.iter().rev().take_while(|grant| grant.at_us > now_us).count();
        let all = self.grants.len();
        for grant in self.grants.range_mut(all - later..) {
            grant.at_us = now_us;
            grant.whole_at_us = now_us + window_us;
        }
        later > 0
    }

    /// Drops what has left the window (now − window, now].
    fn forget(&mut self, now_us: u64, window_us: u64) {
        while self.grants.front().is_some_and(|oldest| oldest.at_us + window_us <= now_us) {
            self.grants.pop_front();
        }
    }

    fn push(&mut self, at_us: u64, units: u64, whole_at_us: u64) {
        let total = self.grants.back().map_or(0, |newest| newest.total) + units;
        self.grants.push_back(Grant { at_us, units, total, whole_at_us });
    }

    /// Takes units back from the newest grants.
    fn give_back(&mut self, mut units: u64) {
        while let Some(newest) = self.grants.back_mut() {
            if units < newest.units {
                newest.units -= units;
                newest.total -= units;
                return;
            }
            units -= newest.units;
            self.grants.pop_back();
        }
    }

    /// The instant of the grant with which so many of the oldest units have left.
    fn reaches(&self, units: u64) -> u64 {
        let before = self.grants.front().map_or(0, |oldest| oldest.total - oldest.units);
        let index = self.grants.partition_point(|grant| grant.total - before < units);
        self.grants.get(index).map_or(0, |grant| grant.at_us)
    }
}
