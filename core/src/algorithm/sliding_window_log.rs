//! The sliding window log: at most `limit` units in any span as long as the window. Exact, at the price of remembering
//! every grant: memory grows with the limit.
//!
//! State: a queue of grants, each with its instant and the units granted before it, so that sums and waits are found
//! without adding up, and a grant is never changed by the ones that follow.

use super::{NEVER_US, Question, Verb, Verdict, units, window_us};
use crate::error::Result;

/// The numbers of a sliding log, checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlidingWindowLog {
    limit: u64,
    window_us: u64,
}

/// One grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grant {
    /// When it was given.
    pub at_us: u64,
    /// The units of all grants before this one, since the log was empty.
    pub before: u64,
    /// When the log is empty again, if nothing follows.
    pub whole_at_us: u64,
}

/// Grants, oldest first, as a store keeps them.
pub trait Grants {
    /// How many there are.
    fn len(&self) -> usize;

    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of them; the oldest has index 0. Out of range it may be anything.
    fn grant(&self, index: usize) -> Grant;

    /// The units of all grants since the log was empty, up to and with the newest.
    fn total(&self) -> u64;

    /// Makes one a grant of another instant.
    fn move_to(&mut self, index: usize, at_us: u64, whole_at_us: u64);

    /// Drops so many of the oldest.
    fn drop_oldest(&mut self, count: usize);

    /// Keeps so many of the oldest, with so many units up to the last of them.
    fn truncate(&mut self, count: usize, total: u64);

    /// Adds one, with the units up to and with it. Fails where there is no room.
    fn push(&mut self, grant: Grant, total: u64) -> Result<()>;
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

    /// Answers, and changes the log where the question commits. What has left the window is dropped in any case. Fails
    /// only where the log has no room for one more grant; nothing is granted then.
    pub fn decide(&self, log: &mut impl Grants, question: &Question) -> Result<Verdict> {
        let Question { now_us, verb, cost, commit } = *question;
        if whole_at_us(log) <= now_us {
            log.truncate(0, 0);
        }
        let repaired = self.bring_down(log, now_us);
        self.forget(log, now_us);
        let forgotten_at_us = whole_at_us(log);

        let left = self.limit.saturating_sub(units_of(log));
        let mut allowed = true;
        match verb {
            Verb::Refund if commit => {
                give_back(log, cost);
                // What is left may be of a policy whose windows were shorter, and whole by now.
                if whole_at_us(log) <= now_us {
                    log.truncate(0, 0);
                }
            }
            Verb::Refund => {}
            Verb::Allow | Verb::Reserve { .. } | Verb::Lease { .. } | Verb::Return { .. } => {
                allowed = cost <= left;
                if allowed && commit {
                    let before = if log.is_empty() { 0 } else { log.total() };
                    let grant = Grant { at_us: now_us, before, whole_at_us: now_us + self.window_us };
                    log.push(grant, before.saturating_add(cost))?;
                }
            }
        }
        // What is not stored anew is forgotten when it was to be empty, also under a policy with longer windows.
        let changed = commit && allowed || repaired;
        let until_us = |at_us: u64| {
            let leaves_us = at_us + self.window_us;
            (if changed { leaves_us } else { leaves_us.min(forgotten_at_us) }).saturating_sub(now_us)
        };
        Ok(Verdict {
            allowed,
            remaining: self.limit.saturating_sub(units_of(log)),
            retry_after_us: match allowed {
                true => 0,
                false if cost > self.limit => NEVER_US,
                false => until_us(reaches(log, units_of(log).saturating_add(cost) - self.limit)),
            },
            reset_after_us: newest(log).map_or(0, |newest| until_us(newest.at_us)),
            delay_us: 0,
        })
    }

    /// Grants from a clock that stepped back become grants of now.
    fn bring_down(&self, log: &mut impl Grants, now_us: u64) -> bool {
        let mut later = log.len();
        while later > 0 && log.grant(later - 1).at_us > now_us {
            later -= 1;
            log.move_to(later, now_us, now_us + self.window_us);
        }
        later < log.len()
    }

    /// Drops what has left the window (now − window, now].
    fn forget(&self, log: &mut impl Grants, now_us: u64) {
        let gone = (0..log.len()).take_while(|&index| log.grant(index).at_us + self.window_us <= now_us).count();
        if gone > 0 {
            log.drop_oldest(gone);
        }
    }
}

fn newest(log: &impl Grants) -> Option<Grant> {
    log.len().checked_sub(1).map(|last| log.grant(last))
}

/// The instant from which the log equals none.
pub(crate) fn whole_at_us(log: &impl Grants) -> u64 {
    newest(log).map_or(0, |newest| newest.whole_at_us)
}

/// The units of all grants it holds.
fn units_of(log: &impl Grants) -> u64 {
    if log.is_empty() { 0 } else { log.total().saturating_sub(log.grant(0).before) }
}

/// Takes units back from the newest grants.
fn give_back(log: &mut impl Grants, mut units: u64) {
    let (mut count, mut total) = (log.len(), log.total());
    while count > 0 && units > 0 {
        let before = log.grant(count - 1).before;
        let granted = total.saturating_sub(before);
        if units < granted {
            total -= units;
            break;
        }
        units -= granted;
        (count, total) = (count - 1, before);
    }
    log.truncate(count, total);
}

/// The instant of the grant with which so many of the oldest units have left.
fn reaches(log: &impl Grants, units: u64) -> u64 {
    let (mut low, mut high) = (0, log.len());
    let first = log.grant(0).before;
    while low < high {
        let middle = low.midpoint(high);
        let up_to = if middle + 1 < log.len() { log.grant(middle + 1).before } else { log.total() };
        if up_to.saturating_sub(first) < units {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if low < log.len() { log.grant(low).at_us } else { 0 }
}
