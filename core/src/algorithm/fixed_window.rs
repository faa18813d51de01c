//! The fixed window: at most `limit` units in each window.
//!
//! A window is opened by the first hit, or stands at multiples of its length since 1970, or is a day, week or month of a
//! calendar. State: the units used, and for windows opened by a hit the instant of that hit.

use super::calendar::Calendar;
use super::{NEVER_US, Question, State, Verb, Verdict, units, window_us};
use crate::error::{Error, ErrorKind, Result};

/// The numbers of a fixed window, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct FixedWindow {
    limit: u64,
    /// Its length; of a calendar's windows the usual one.
    window_us: u64,
    placing: Placing,
}

/// Where windows begin.
#[derive(Debug, Clone, PartialEq)]
pub enum Placing {
    /// At the first hit.
    FirstHit,
    /// At multiples of the window since 1970.
    Aligned,
    /// As a calendar says.
    Calendar(Calendar),
}

impl FixedWindow {
    /// At most `limit` units in `window` seconds.
    ///
    /// Fails with [`InvalidPolicy`](crate::ErrorKind::InvalidPolicy) when a number is out of range.
    pub fn new(limit: i64, window: f64, aligned: bool) -> Result<Self> {
        let placing = if aligned { Placing::Aligned } else { Placing::FirstHit };
        Ok(Self { limit: units("limit", limit)?, window_us: window_us("window", window)?, placing })
    }

    /// At most `limit` units in each window of a calendar.
    pub fn calendar(limit: i64, calendar: Calendar) -> Result<Self> {
        let window_us = calendar.usual_length_us();
        Ok(Self { limit: units("limit", limit)?, window_us, placing: Placing::Calendar(calendar) })
    }

    /// The same for one of `share` equal parts of a fleet.
    pub(crate) fn divided(&self, share: u32) -> Self {
        Self { limit: (self.limit / u64::from(share)).max(1), ..self.clone() }
    }

    /// Units per window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The window's length in microseconds; of a calendar's windows the usual one.
    pub const fn window_us(&self) -> u64 {
        self.window_us
    }

    /// Where windows begin.
    pub const fn placing(&self) -> &Placing {
        &self.placing
    }

    /// The numbers that the Lua twin takes, in its order. Of a calendar it takes the window that is on at `now_us`, by
    /// the caller's clock, and says so when that is not the one.
    pub(crate) fn numbers(&self, now_us: u64) -> Result<[u64; 5]> {
        let (kind, start, end) = match &self.placing {
            Placing::FirstHit => (0, 0, 0),
            Placing::Aligned => (1, 0, 0),
            Placing::Calendar(calendar) => {
                let (start, end) = calendar.window(now_us)?;
                (2, start, end)
            }
        };
        Ok([self.limit, self.window_us, kind, start, end])
    }

    /// Answers, and changes the state where the question commits.
    pub fn decide(&self, state: &mut Option<State>, question: &Question) -> Result<Verdict> {
        let Question { now_us, verb, cost, commit } = *question;
        let live = State::live_words(state.as_ref(), now_us);
        let ([used, opened_at, _], forgotten_at_us) = live.unwrap_or(([0, now_us.cast_signed(), 0], u64::MAX));
        let opened_at_us = opened_at.unsigned_abs();
        // Of a calendar's windows the end says which one it is; a window that was opened by a hit says when.
        let (start_us, end_us) = match &self.placing {
            Placing::FirstHit => (opened_at_us.min(now_us), opened_at_us.min(now_us) + self.window_us),
            Placing::Aligned => {
                let start_us = now_us - now_us % self.window_us;
                (start_us, start_us + self.window_us)
            }
            Placing::Calendar(calendar) => calendar.window(now_us)?,
        };
        // Under a policy with shorter windows the stored one may be over already.
        let over = end_us <= now_us;
        let (start_us, end_us) = if over { (now_us, now_us + self.window_us) } else { (start_us, end_us) };
        let used = if over { 0 } else { used.unsigned_abs() };
        let repaired = used > 0 && (opened_at_us > now_us || forgotten_at_us > end_us);

        let left = self.limit.saturating_sub(used);
        let (allowed, after) = match verb {
            Verb::Refund => (true, used.saturating_sub(cost)),
            // What is stored must be of that window, too: a clock that stepped back looks at a later one's.
            Verb::Return { window_end_us } if window_end_us == end_us && window_end_us == forgotten_at_us => {
                (true, used.saturating_sub(cost))
            }
            Verb::Return { .. } => (true, used),
            Verb::Lease { most } if cost <= left => (true, used + most.clamp(cost, left)),
            _ => (cost <= left, if cost <= left { used + cost } else { used }),
        };
        let taken = after.saturating_sub(used);
        let changes = commit && after != used;
        // What is not stored anew is forgotten when its window was to end, also under a policy with longer ones.
        let end_us = if changes || repaired || used == 0 { end_us } else { end_us.min(forgotten_at_us) };
        let used = if commit { after } else { used };
        if changes || repaired {
            let words = [used.cast_signed(), start_us.cast_signed(), 0];
            *state = (used > 0).then_some(State { words, whole_at_us: end_us });
        }
        let until_end_us = end_us - now_us;
        let leases = allowed && matches!(verb, Verb::Lease { .. });
        Ok(Verdict {
            allowed,
            remaining: self.limit.saturating_sub(used),
            retry_after_us: match allowed {
                true if leases => taken,
                true => 0,
                false if cost > self.limit => NEVER_US,
                false => until_end_us,
            },
            reset_after_us: if used > 0 { until_end_us } else { 0 },
            delay_us: if leases { end_us } else { 0 },
        })
    }
}

/// The error for a reservation in a window.
pub(crate) fn no_reservation(policy: &str) -> Error {
    let detail = "a window policy hands out no slots ahead of time; use wait, which sleeps and asks again";
    Error::argument_error(
        ErrorKind::InvalidArgument,
        "reserve",
        format!("does not go with policy {policy:?}: {detail}"),
    )
}
