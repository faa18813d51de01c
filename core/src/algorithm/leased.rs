//! Units that a server gave this host in advance: one pool per key, which all processes of the host spend from.
//!
//! A pool lasts at most until the window ends in which its units were counted. It grows with what is asked for: each lease
//! is the double of the one before as long as that was spent quickly, so a key that is asked for now and then leases
//! nothing that it will not spend. There is no twin in Lua: pools are never on a server,
//! so that a word of their state may be a whole one.

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

const CLAIMED: u64 = 1 << 63;
const DOUBLINGS_AT: u32 = 56;
const REMAINING_AT: u32 = 31;

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
        let [counts, window, at_us] = words.map(i64::cast_unsigned);
        let ends_at_us = whole_at_us - KEPT_US;
        // What was not spent in its window is lost.
        let units = if now_us < ends_at_us { counts & MAX_UNITS } else { 0 };
        Self {
            units,
            remaining: counts >> REMAINING_AT,
            window_end_us: window & ((1 << DOUBLINGS_AT) - 1),
            ends_at_us,
            doublings: window >> DOUBLINGS_AT & MAX_DOUBLINGS,
            claimed: window & CLAIMED != 0,
            at_us,
        }
    }

    fn state(&self, now_us: u64) -> State {
        let claimed = if self.claimed { CLAIMED } else { 0 };
        let counts = self.units | self.remaining << REMAINING_AT;
        let window = self.window_end_us | self.doublings << DOUBLINGS_AT | claimed;
        let ends_at_us = if self.units > 0 { self.ends_at_us } else { now_us };
        State { words: [counts, window, self.at_us].map(u64::cast_signed), whole_at_us: ends_at_us + KEPT_US }
    }

    fn age_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.at_us)
    }

    fn spend(&mut self, question: &Question) -> Verdict {
        self.units -= question.cost;
        let old = self.age_us(question.now_us) > LIFE_US;
        Verdict {
            allowed: true,
            remaining: self.units + self.remaining,
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
