//! Units that a server gave this host in advance: one pool per key, which all processes of the host spend from.
//!
//! A pool lasts at most until the window ends in which its units were counted. It grows with what is asked for: each lease
//! is the double of the one before as long as that was spent quickly, so a key that is asked for now and then leases
//! nothing that it will not spend. There is no twin in Lua: pools are never on a server.

use super::{MAX_UNITS, Question, State, Verdict};

/// A lease older than this is given back by whoever comes past; one that was spent in half the time is doubled.
pub(crate) const LIFE_US: u64 = 100_000;

/// After so long without a lease the next one is as small as the first.
const FORGOTTEN_US: u64 = 10 * LIFE_US;

/// How long a pool without units is remembered: how large its leases were, and who is on the way for more.
const KEPT_US: u64 = FORGOTTEN_US;

const MAX_DOUBLINGS: u64 = 31;

/// In place of a number of doublings: somebody else has gone for a lease.
pub(crate) const BUSY: u64 = u64::MAX;

// Where things stand in the words of a state, each of which is below 2^53. First the units, and what the server has left:
// so many bits of it, and how many zeros follow.
const UNITS_BITS: u32 = 31;
const PRECISE_BITS: u32 = 17;
const ZEROS_AT: u32 = UNITS_BITS + PRECISE_BITS;

// Then the window's end, and last the instant in ticks, the doublings, and whether it is claimed.
const TICK_US: u64 = 1_024;
const DOUBLINGS_AT: u32 = 43;
const CLAIMED: u64 = 1 << 48;

/// What is done with a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Leased(pub(crate) Step);

/// A step on a pool. What its verdict means stands with each.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Spend the cost. Allowed: `remaining` is what the pool and, when it was last asked, the server had left,
    /// `reset_after` goes to the end of the window, and `delay` is what is left of a lease that is too old. Else
    /// `remaining` is what the pool has, too little.
    Spend,
    /// The same; but where there is too little take what there is, to give it back, and go for at most `most` units,
    /// unless somebody is on the way. Not allowed: `remaining` is what was taken out, of the window that ends at
    /// `retry_after`, here in `reset_after`; `delay` is the number of doublings of the lease to ask for, [`BUSY`] when
    /// somebody else does.
    Claim {
        /// The largest lease.
        most: u64,
    },
    /// Put in what a server gave. Allowed, unless the units are of no window that is still on here, or of an older one than
    /// those in the pool: then they are not put in.
    Deposit(Deposit),
    /// Come back with nothing.
    Release,
    /// Take everything out. Allowed when there was something, or, of `old_only`, something too old: `delay` units, of the
    /// window that ends at `retry_after`, here in `reset_after`. Else `remaining` is what the pool has.
    Drain {
        /// Only what is older than [`LIFE_US`].
        old_only: bool,
    },
}

/// What a server gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Deposit {
    pub(crate) units: u64,
    /// What the server has left.
    pub(crate) remaining: u64,
    /// When the window ends, by the server's clock: its name, so to speak.
    pub(crate) window_end_us: u64,
    /// When it ends at the earliest, by the pool's clock.
    pub(crate) ends_at_us: u64,
    /// Of a lease that was claimed; `None` for units that could not be given back.
    pub(crate) doublings: Option<u64>,
}

/// A pool at one instant.
#[derive(Debug, Clone, Copy)]
struct Pool {
    units: u64,
    remaining: u64,
    window_end_us: u64,
    ends_at_us: u64,
    doublings: u64,
    /// Whether somebody is on the way for more.
    claimed: bool,
    /// When units were put in last, or somebody went for them.
    at_us: u64,
}

impl Leased {
    /// Answers, and changes the state where the question commits.
    pub(crate) fn decide(&self, state: &mut Option<State>, question: &Question) -> Verdict {
        let (now_us, cost) = (question.now_us, question.cost);
        let mut pool = Pool::of(state.as_ref(), now_us);
        let verdict = match &self.0 {
            Step::Spend | Step::Claim { .. } if cost <= pool.units => pool.spend(question),
            Step::Spend => refused(pool.units),
            Step::Claim { most } => pool.claim(cost, *most, now_us),
            Step::Deposit(deposit) => pool.put_in(deposit, now_us),
            Step::Release => {
                pool.claimed = false;
                passes(pool.units)
            }
            Step::Drain { old_only } => pool.drain(*old_only, now_us),
        };
        let looked = !verdict.allowed && matches!(self.0, Step::Spend | Step::Drain { .. });
        if question.commit && !looked {
            *state = Some(pool.state(now_us));
        }
        verdict
    }
}

impl Pool {
    fn of(state: Option<&State>, now_us: u64) -> Self {
        let Some((words, whole_at_us)) = State::live_words(state, now_us) else {
            let (ends_at_us, at_us) = (now_us, now_us.saturating_sub(FORGOTTEN_US + 1));
            return Self { units: 0, remaining: 0, window_end_us: 0, ends_at_us, doublings: 0, claimed: false, at_us };
        };
        let [counts, window_end_us, claim] = words.map(i64::cast_unsigned);
        let ends_at_us = whole_at_us - KEPT_US;
        // What was not spent in its window is lost.
        let units = if now_us < ends_at_us { counts & MAX_UNITS } else { 0 };
        Self {
            units,
            remaining: (counts >> UNITS_BITS & ((1 << PRECISE_BITS) - 1)) << (counts >> ZEROS_AT),
            window_end_us,
            ends_at_us,
            doublings: claim >> DOUBLINGS_AT & MAX_DOUBLINGS,
            claimed: claim & CLAIMED != 0,
            at_us: (claim & ((1 << DOUBLINGS_AT) - 1)) * TICK_US,
        }
    }

    fn state(&self, now_us: u64) -> State {
        let claimed = if self.claimed { CLAIMED } else { 0 };
        // Rounded down, where it is so much that nobody will miss it.
        let zeros = (u64::BITS - self.remaining.leading_zeros()).saturating_sub(PRECISE_BITS);
        let counts = self.units | self.remaining >> zeros << UNITS_BITS | u64::from(zeros) << ZEROS_AT;
        let claim = (self.at_us / TICK_US) | self.doublings << DOUBLINGS_AT | claimed;
        let ends_at_us = if self.units > 0 { self.ends_at_us } else { now_us };
        State { words: [counts, self.window_end_us, claim].map(u64::cast_signed), whole_at_us: ends_at_us + KEPT_US }
    }

    fn age_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.at_us)
    }

    fn spend(&mut self, question: &Question) -> Verdict {
        let before = self.units;
        self.units -= question.cost;
        let old = self.age_us(question.now_us) > LIFE_US;
        Verdict {
            allowed: true,
            remaining: self.remaining + if question.commit { self.units } else { before },
            retry_after_us: 0,
            reset_after_us: self.ends_at_us - question.now_us,
            delay_us: if old { self.units } else { 0 },
        }
    }

    fn claim(&mut self, cost: u64, most: u64, now_us: u64) -> Verdict {
        let (units, age_us) = (std::mem::take(&mut self.units), self.age_us(now_us));
        let taken_out = Verdict {
            retry_after_us: self.window_end_us,
            reset_after_us: self.ends_at_us.saturating_sub(now_us),
            delay_us: BUSY,
            ..refused(units)
        };
        if self.claimed && age_us <= LIFE_US {
            return taken_out;
        }
        let doublings = if self.claimed {
            // Somebody has gone and never come back.
            self.doublings
        } else if age_us <= LIFE_US / 2 && size(cost, self.doublings, most) < most {
            (self.doublings + 1).min(MAX_DOUBLINGS)
        } else if age_us <= LIFE_US {
            self.doublings
        } else if age_us <= FORGOTTEN_US {
            self.doublings.saturating_sub(1)
        } else {
            0
        };
        (self.claimed, self.at_us) = (true, now_us);
        Verdict { delay_us: doublings, ..taken_out }
    }

    fn put_in(&mut self, deposit: &Deposit, now_us: u64) -> Verdict {
        self.at_us = now_us;
        if let Some(doublings) = deposit.doublings {
            (self.claimed, self.doublings) = (false, doublings);
        }
        let same = self.window_end_us == deposit.window_end_us;
        let replaces = self.units == 0 || self.window_end_us < deposit.window_end_us;
        if now_us >= deposit.ends_at_us || !(same || replaces) {
            return refused(self.units);
        }
        let (kept, ends_at_us) = if same && self.units > 0 { (self.units, self.ends_at_us) } else { (0, 0) };
        self.units = (kept + deposit.units).min(MAX_UNITS);
        self.remaining = deposit.remaining.min(MAX_UNITS);
        self.window_end_us = deposit.window_end_us;
        // Both are known to be no later than the end.
        self.ends_at_us = ends_at_us.max(deposit.ends_at_us);
        passes(self.units)
    }

    fn drain(&mut self, old_only: bool, now_us: u64) -> Verdict {
        if self.units == 0 || old_only && self.age_us(now_us) <= LIFE_US {
            return refused(self.units);
        }
        self.doublings = self.doublings.saturating_sub(1);
        Verdict {
            retry_after_us: self.window_end_us,
            reset_after_us: self.ends_at_us - now_us,
            delay_us: std::mem::take(&mut self.units),
            ..passes(0)
        }
    }
}

/// How many units a lease is of.
pub(crate) fn size(cost: u64, doublings: u64, most: u64) -> u64 {
    (cost << doublings.min(MAX_DOUBLINGS)).min(most).max(cost)
}

fn passes(remaining: u64) -> Verdict {
    Verdict { allowed: true, remaining, retry_after_us: 0, reset_after_us: 0, delay_us: 0 }
}

fn refused(remaining: u64) -> Verdict {
    Verdict { allowed: false, ..passes(remaining) }
}

#[cfg(test)]
mod tests {
    use super::super::{MAX_EXACT, Verb};
    use super::*;

    const NOW_US: u64 = 1_700_000_000_000_000;
    const END_US: u64 = NOW_US + 60_000_000;

    fn step(state: &mut Option<State>, step: Step, now_us: u64, cost: u64) -> Verdict {
        let verdict = Leased(step).decide(state, &Question { now_us, verb: Verb::Allow, cost, commit: true });
        assert!(state.iter().all(|state| state.words.iter().all(|word| (0..MAX_EXACT.cast_signed()).contains(word))));
        verdict
    }

    fn deposit(units: u64, window_end_us: u64, doublings: u64) -> Step {
        let doublings = Some(doublings);
        Step::Deposit(Deposit { units, remaining: 70, window_end_us, ends_at_us: window_end_us, doublings })
    }

    #[test]
    fn what_two_put_in_adds_up_and_is_spent_once() {
        let mut state = None;
        for units in [3, 4] {
            assert!(step(&mut state, deposit(units, END_US, 1), NOW_US, 1).allowed);
        }
        let spent = step(&mut state, Step::Spend, NOW_US, 5);
        assert_eq!((spent.allowed, spent.remaining, spent.reset_after_us), (true, 72, 60_000_000));
        let refused = step(&mut state, Step::Spend, NOW_US, 3);
        assert_eq!((refused.allowed, refused.remaining), (false, 2));
        assert!(step(&mut state, Step::Spend, NOW_US, 2).allowed);
    }

    #[test]
    fn units_end_with_their_window_and_are_not_mixed_with_those_of_another() {
        let mut state = None;
        step(&mut state, deposit(3, END_US, 0), NOW_US, 1);
        assert!(!step(&mut state, deposit(9, END_US - 1, 0), NOW_US, 1).allowed, "of an older window");
        assert!(step(&mut state, Step::Spend, END_US - 1, 1).allowed);
        assert_eq!(step(&mut state, Step::Spend, END_US, 1).remaining, 0);
        assert!(!step(&mut state, deposit(9, END_US, 0), END_US, 1).allowed, "of a window that is over");
        assert!(step(&mut state, deposit(4, END_US + 10, 0), END_US, 1).allowed);
        assert!(step(&mut state, deposit(5, END_US + 20, 0), END_US, 1).allowed);
        assert_eq!(step(&mut state, Step::Drain { old_only: false }, END_US, 1).delay_us, 5, "of the later window");
    }

    #[test]
    fn one_goes_for_more_and_takes_along_what_is_too_little() {
        let (mut state, claim) = (None, Step::Claim { most: 100 });
        step(&mut state, deposit(3, END_US, 0), NOW_US, 1);
        let first = step(&mut state, claim.clone(), NOW_US + 10_000, 5);
        assert_eq!((first.allowed, first.remaining, first.retry_after_us, first.delay_us), (false, 3, END_US, 1));
        let second = step(&mut state, claim.clone(), NOW_US + 10_000, 5);
        assert_eq!((second.remaining, second.delay_us), (0, BUSY));
        step(&mut state, Step::Release, NOW_US + 10_000, 1);
        assert_ne!(step(&mut state, claim.clone(), NOW_US + 10_000, 5).delay_us, BUSY);
        // Whoever went has died.
        let late_us = NOW_US + 10_000 + LIFE_US + 2 * TICK_US;
        assert_ne!(step(&mut state, claim.clone(), late_us, 5).delay_us, BUSY);
    }

    #[test]
    fn leases_grow_while_they_are_spent_quickly_and_shrink_when_they_are_not() {
        let (mut state, mut now_us, mut sizes) = (None, NOW_US, Vec::new());
        for pause_us in [1_000, 1_000, 1_000, 1_000, 80_000, 300_000, 300_000, 2_000_000] {
            let doublings = step(&mut state, Step::Claim { most: 10 }, now_us, 1).delay_us;
            sizes.push(size(1, doublings, 10));
            step(&mut state, deposit(0, END_US, doublings), now_us, 1);
            now_us += pause_us;
        }
        assert_eq!(sizes, [1, 2, 4, 8, 10, 10, 8, 4]);
        assert_eq!(step(&mut state, Step::Claim { most: 10 }, now_us, 1).delay_us, 0, "forgotten");
        assert_eq!(size(20, 5, 10), 20, "never less than the cost");
    }

    #[test]
    fn what_the_server_has_left_is_remembered_rounded_down() {
        for (told, remembered) in [(0, 0), (131_071, 131_071), (131_073, 131_072), (MAX_UNITS, MAX_UNITS - 16_383)] {
            let deposit = Deposit {
                units: 1,
                remaining: told,
                window_end_us: END_US,
                ends_at_us: END_US,
                doublings: Some(MAX_DOUBLINGS),
            };
            let mut state = None;
            step(&mut state, Step::Deposit(deposit), NOW_US, 1);
            assert_eq!(step(&mut state, Step::Spend, NOW_US, 1).remaining, remembered);
        }
    }

    #[test]
    fn only_what_is_too_old_is_taken_out_as_old() {
        let mut state = None;
        step(&mut state, deposit(8, END_US, 3), NOW_US, 1);
        let old_only = || Step::Drain { old_only: true };
        assert_eq!(step(&mut state, old_only(), NOW_US + LIFE_US - TICK_US, 1).remaining, 8);
        let late_us = NOW_US + LIFE_US + 2 * TICK_US;
        assert_eq!(step(&mut state, Step::Spend, late_us, 1).delay_us, 7);
        let drained = step(&mut state, old_only(), late_us, 1);
        assert_eq!((drained.delay_us, drained.retry_after_us), (7, END_US));
        assert!(!step(&mut state, old_only(), late_us, 1).allowed, "only once");
    }
}
