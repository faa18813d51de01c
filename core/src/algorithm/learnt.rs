//! Budgets that are not set but learnt: what somebody else's API said about its own limits.
//!
//! Two things are done with one: a request is taken from it, and a response is written into it. Both are a step like that
//! of any policy, so that a request can be taken from several of them, and from policies of one's own, all or nothing.
//! A step that writes always passes.

use super::{MAX_SPAN_US, MAX_UNITS, Question, State, Verb, Verdict};

/// A claim that nothing is known, whose holder goes and finds out.
const CLAIMED: i64 = -1;

/// The API was asked and told nothing.
const SILENT: i64 = -2;

/// Two ends of a window this close to each other are the same one, told in whole seconds or a little later.
const SAME_WINDOW_US: u64 = 1_100_000;

/// A bucket that is full again is remembered for so long, since its numbers still hold.
const KEPT_FULL_US: u64 = 60_000_000;

/// How long a window that is over when it is told of, with units left, is used: nothing better is known.
const OVER_US: u64 = 1_000_000;

/// One learnt budget, and what is done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Learnt(Step);

/// What is done: five numbers at most, which the Lua twin takes as they are.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// Take a request from a budget. Where nothing is known, only one caller may in `claim_us`, to find out.
    Take { kind: Kind, claim_us: u64 },
    /// Nobody goes for `wait_us`, and for `spread_us` more one at a time, `spacing_us` apart.
    Pause { wait_us: u64, spacing_us: u64, spread_us: u64 },
    /// So many are left in a window that ends in `reset_us`; no new one is expected for `buffer_us` more.
    Window { limit: u64, remaining: u64, reset_us: u64, buffer_us: u64 },
    /// So many are left, and one more comes every `unit_us`; 0: as known, else every `else_us`.
    Gradual { limit: u64, remaining: u64, unit_us: u64, else_us: u64 },
    /// Closed for `closed_us`; 0: open.
    Gate { closed_us: u64 },
    /// The API told nothing. Who waits to learn something need not, for `silent_us`; 0: somebody else may find out.
    Silence { silent_us: u64 },
}

/// How a learnt budget comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A time in which nothing goes.
    Pause = 1,
    /// All at once, at an end.
    Window = 2,
    /// Bit by bit.
    Gradual = 3,
    /// Not counted, only open or closed.
    Gate = 4,
}

impl Learnt {
    /// Takes a request.
    pub(crate) fn take(kind: Kind, claim_us: u64) -> Self {
        Self(Step::Take { kind, claim_us: span(claim_us) })
    }

    /// Pauses everyone.
    pub(crate) fn pause(wait_us: u64, spacing_us: u64, spread_us: u64) -> Self {
        Self(Step::Pause { wait_us: span(wait_us), spacing_us: span(spacing_us), spread_us: span(spread_us) })
    }

    /// Writes a window.
    pub(crate) fn window(limit: u64, remaining: u64, reset_us: u64, buffer_us: u64) -> Self {
        let (limit, remaining) = (limit.min(MAX_UNITS), remaining.min(MAX_UNITS));
        Self(Step::Window { limit, remaining, reset_us: span(reset_us), buffer_us: span(buffer_us) })
    }

    /// Writes a bucket that fills bit by bit.
    pub(crate) fn gradual(limit: u64, remaining: u64, unit_us: u64, else_us: u64) -> Self {
        let (unit_us, else_us) = (span(unit_us), span(else_us).max(1));
        // The product of both has to be counted exactly.
        let limit = limit.clamp(1, (MAX_SPAN_US / unit_us.max(else_us)).clamp(1, MAX_UNITS));
        Self(Step::Gradual { limit, remaining: remaining.min(limit), unit_us, else_us })
    }

    /// Opens or closes a gate.
    pub(crate) fn gate(closed_us: u64) -> Self {
        Self(Step::Gate { closed_us: span(closed_us) })
    }

    /// Forgets what was known, of whatever kind.
    pub(crate) fn forget() -> Self {
        Self::gate(0)
    }

    /// Writes that nothing was told.
    pub(crate) fn silence(silent_us: u64) -> Self {
        Self(Step::Silence { silent_us: span(silent_us) })
    }

    /// The numbers that the Lua twin takes, in its order.
    pub(crate) fn numbers(&self) -> [u64; 5] {
        match self.0 {
            Step::Take { kind, claim_us } => [kind as u64, claim_us, 0, 0, 0],
            Step::Pause { wait_us, spacing_us, spread_us } => [11, wait_us, spacing_us, spread_us, 0],
            Step::Window { limit, remaining, reset_us, buffer_us } => [12, limit, remaining, reset_us, buffer_us],
            Step::Gradual { limit, remaining, unit_us, else_us } => [13, limit, remaining, unit_us, else_us],
            Step::Gate { closed_us } => [14, closed_us, 0, 0, 0],
            Step::Silence { silent_us } => [15, silent_us, 0, 0, 0],
        }
    }

    /// Answers, and changes the state where the question commits.
    ///
    /// Of what is known the verdict's delay is the limit, since nothing is ever delayed here. A denial without a reset is
    /// one by a claim; where the API told nothing, everything remains.
    pub(crate) fn decide(&self, state: &mut Option<State>, question: &Question) -> Verdict {
        let now_us = question.now_us;
        let live = State::live_words(state.as_ref(), now_us);
        let Step::Take { kind, claim_us } = self.0 else {
            if question.commit
                && let Some(written) = self.write(live, now_us)
            {
                *state = Some(written).filter(|state| state.whole_at_us > now_us);
            }
            return passes(0, 0, 0);
        };
        let Some((words, whole_at_us)) = live else {
            if question.commit && question.verb != Verb::Refund && matches!(kind, Kind::Window | Kind::Gradual) {
                *state = Some(State { words: [CLAIMED, 0, 0], whole_at_us: now_us + claim_us });
            }
            return passes(0, 0, 0);
        };
        let budget = Budget { words, whole_at_us };
        let (verdict, after) = match kind {
            _ if words[0] == CLAIMED && matches!(kind, Kind::Window | Kind::Gradual) => {
                (refused(0, whole_at_us - now_us, 0, 0), None)
            }
            _ if words[0] == SILENT => (passes(MAX_UNITS, 0, 0), None),
            Kind::Pause => budget.take_slot(now_us),
            Kind::Window => budget.take_from_window(question),
            Kind::Gradual => budget.take_gradually(question),
            Kind::Gate => (refused(0, whole_at_us - now_us, whole_at_us - now_us, 0), None),
        };
        if question.commit
            && let Some(after) = after
        {
            *state = Some(after);
        }
        verdict
    }

    /// What a response leaves; `None` where it changes nothing.
    fn write(&self, live: Option<([i64; 3], u64)>, now_us: u64) -> Option<State> {
        let known = live.filter(|(words, _)| words[0] >= 0);
        let state = |words: [u64; 3], whole_at_us: u64| Some(State { words: words.map(u64::cast_signed), whole_at_us });
        match self.0 {
            Step::Take { .. } => None,
            Step::Pause { wait_us, spacing_us, spread_us } => {
                // Two refusals that arrive one after the other pause until the later end.
                let next_us = known.map_or(0, |([next, ..], _)| next.cast_unsigned()).max(now_us + wait_us);
                state([next_us, spacing_us, 0], next_us + spread_us)
            }
            Step::Window { limit, remaining, reset_us, buffer_us } => {
                let end_us = now_us + reset_us;
                let Some(([left, _, kept], _)) = known else {
                    return match (reset_us, remaining) {
                        // The window is over; whoever comes next finds out about the next one.
                        (0, 0) => state([0; 3], 0),
                        (0, _) => state([remaining, limit, end_us], now_us + OVER_US),
                        _ => state([remaining, limit, end_us], end_us + buffer_us),
                    };
                };
                let (left, kept_us) = (left.cast_unsigned(), kept.cast_unsigned());
                if end_us + SAME_WINDOW_US < kept_us {
                    // It is about an older window, however late it came.
                    return None;
                }
                if end_us <= kept_us + SAME_WINDOW_US {
                    // What was taken since may not have been counted there yet.
                    let end_us = end_us.min(kept_us);
                    return state([remaining.min(left), limit, end_us], (end_us + buffer_us).max(now_us));
                }
                state([remaining, limit, end_us], end_us + buffer_us)
            }
            Step::Gradual { limit, remaining, unit_us, else_us } => {
                let same = known.filter(|([_, kept, _], _)| *kept == limit.cast_signed());
                let kept_us = same.map(|([_, _, unit], _)| unit.cast_unsigned());
                let unit_us = match (unit_us, kept_us) {
                    (0, None) => else_us,
                    (0, Some(kept_us)) => kept_us,
                    (told_us, None) => told_us,
                    // A time is never told too short, so the shorter one is closer to the truth.
                    (told_us, Some(kept_us)) => told_us.min(kept_us),
                };
                let told_us = now_us + (limit - remaining) * unit_us;
                // What was owed is owed still, in units of the time that is known now. What is no whole unit stays as it
                // is: rounded up each time, it would add up to many units.
                let kept_full_us = same.map_or(0, |([full, ..], _)| {
                    let owed_us = full.cast_unsigned().saturating_sub(now_us);
                    let kept_us = kept_us.unwrap_or(1).max(1);
                    now_us + owed_us / kept_us * unit_us + (owed_us % kept_us).min(unit_us)
                });
                let full_us = kept_full_us.max(told_us).min(now_us + limit * unit_us);
                state([full_us, limit, unit_us], full_us + KEPT_FULL_US)
            }
            Step::Gate { closed_us } => state([0, 0, 0], if closed_us == 0 { 0 } else { now_us + closed_us }),
            Step::Silence { silent_us } => {
                if known.is_some() {
                    return None;
                }
                let whole_at_us = if silent_us == 0 { 0 } else { now_us + silent_us };
                Some(State { words: [SILENT, 0, 0], whole_at_us })
            }
        }
    }
}

/// What is known of a budget.
struct Budget {
    words: [i64; 3],
    whole_at_us: u64,
}

impl Budget {
    /// Words: the next instant at which one may go, and how far apart they go.
    fn take_slot(&self, now_us: u64) -> (Verdict, Option<State>) {
        let [next_us, spacing_us, _] = self.words.map(i64::cast_unsigned);
        if now_us < next_us {
            return (refused(0, next_us - now_us, next_us - now_us, 0), None);
        }
        let words = [now_us + spacing_us, spacing_us, 0].map(u64::cast_signed);
        (passes(0, 0, 0), Some(State { words, whole_at_us: self.whole_at_us }))
    }

    /// Words: units left, the limit, the window's end.
    fn take_from_window(&self, question: &Question) -> (Verdict, Option<State>) {
        let [left, limit, end_us] = self.words.map(i64::cast_unsigned);
        let reset_us = self.whole_at_us - question.now_us;
        let after = match question.verb {
            Verb::Refund => (left + question.cost).min(limit.max(left)),
            _ if question.cost > left => return (refused(left, reset_us, reset_us, limit), None),
            _ => left - question.cost,
        };
        let words = [after, limit, end_us].map(u64::cast_signed);
        let left = if question.commit { after } else { left };
        (passes(left, reset_us, limit), Some(State { words, whole_at_us: self.whole_at_us }))
    }

    /// Words: when it is full, the limit, the time of one unit.
    fn take_gradually(&self, question: &Question) -> (Verdict, Option<State>) {
        let [full_us, limit, unit_us] = self.words.map(i64::cast_unsigned);
        let (now_us, owed_us) = (question.now_us, full_us.saturating_sub(question.now_us));
        let (cost_us, whole_us) = (question.cost * unit_us, limit * unit_us);
        let left = |owed_us: u64| whole_us.saturating_sub(owed_us) / unit_us.max(1);
        let owed_after_us = match question.verb {
            Verb::Refund => owed_us.saturating_sub(cost_us),
            _ if owed_us + cost_us > whole_us => {
                return (refused(left(owed_us), owed_us + cost_us - whole_us, owed_us, limit), None);
            }
            _ => owed_us + cost_us,
        };
        let full_us = now_us + owed_after_us;
        let words = [full_us, limit, unit_us].map(u64::cast_signed);
        let owed_us = if question.commit { owed_after_us } else { owed_us };
        let whole_at_us = self.whole_at_us.max(full_us + KEPT_FULL_US);
        (passes(left(owed_us), owed_us, limit), Some(State { words, whole_at_us }))
    }
}

fn passes(remaining: u64, reset_after_us: u64, limit: u64) -> Verdict {
    Verdict { allowed: true, remaining, retry_after_us: 0, reset_after_us, delay_us: limit }
}

fn refused(remaining: u64, retry_after_us: u64, reset_after_us: u64, limit: u64) -> Verdict {
    Verdict { allowed: false, remaining, retry_after_us: retry_after_us.max(1), reset_after_us, delay_us: limit }
}

fn span(us: u64) -> u64 {
    us.min(MAX_SPAN_US / 4)
}
