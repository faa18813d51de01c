//! The state of all keys, in a region of memory that threads or processes share: fixed in size, bounded whatever comes.
//!
//! A key is found by a keyed fingerprint of 128 bits, in one of many sets of 62 slots. A decision locks the set, reads
//! the clock, runs the model and publishes what it left by one store; see [`set`], [`lock`] and [`record`] for how that
//! stays whole when a process dies at any moment.
//!
//! A set that is full forgets what has expired, and else the state whose loss matters least: never one that is used up
//! while there is another.

mod area;
mod growth;
mod hold;
pub(crate) mod layout;
pub(crate) mod lock;
mod log;
mod record;
mod set;
mod several;
mod slot;
pub(crate) mod word;

#[cfg(all(test, not(modelled)))]
mod tests;

#[cfg(all(test, modelled))]
mod model;

use std::time::Duration;

use siphasher::sip128::SipHasher13;
use smallvec::smallvec;

use super::shared::Region;
use super::{Operation, StoreInfo, Verdicts};
use crate::algorithm::{Question, State, Verdict};
use crate::clock::{self, Clock as _, SystemClock};
use crate::error::{Error, Result, StoreErrorKind};
use crate::lua::Machine;
use crate::policy::Policy;
use layout::{Layout, PAGE, SLOTS};
use lock::Owner;
use set::Set;
use several::Part;
use slot::{Content, Fingerprint, Flags, Kind, Time, fullness};
use word::Word;

/// A region with sets of slots, and who works on it.
pub(crate) struct Table<O: Owner> {
    region: Region,
    layout: Layout,
    hasher: SipHasher13,
    owner: O,
}

impl<O: Owner> Table<O> {
    /// The table in a region that is at least as long as the layout says. The key makes fingerprints.
    pub(crate) fn new(region: Region, layout: Layout, key: [u64; 2], owner: O) -> Self {
        assert!(region.len() >= layout.words(), "the region holds the table");
        Self { region, layout, hasher: SipHasher13::new_with_keys(key[0], key[1]), owner }
    }

    /// Who works on it.
    pub(crate) fn owner(&self) -> &O {
        &self.owner
    }

    /// One atomic step; see [`Store::decide`](super::Store::decide).
    pub(crate) fn decide(&self, operation: &Operation<'_>, patience: Duration) -> Result<Verdicts> {
        match operation {
            Operation { charges: [_], token: None, .. } => Ok(smallvec![self.decide_one(operation, patience)?]),
            _ => self.decide_several(operation, patience),
        }
    }

    /// The same for one policy without a token; see [`Store::decide_one`](super::Store::decide_one).
    #[inline]
    pub(crate) fn decide_one(&self, operation: &Operation<'_>, patience: Duration) -> Result<Verdict> {
        let Operation { charges: [charge], token: None, .. } = operation else {
            return Err(Error::internal("a step on one policy has one policy"));
        };
        let me = self.owner.word(&self.region)?;
        let fingerprint = self.fingerprint(charge.key);
        let (index, locked) = self.lock_for(fingerprint, me, patience)?;
        let set = self.set(index);
        // Read under the lock, so that the instants of one key never go back.
        let time = Time::of(operation.now_us, charge.policy.needs_wall_clock());
        let (verb, commit) = operation.action.verb();
        let question = Question { now_us: time.now_us, verb, cost: operation.cost, commit };
        let slot = set.find(fingerprint);
        if O::GROWS && slot.is_none() && self.is_crowded(index, 1, time) {
            let sets = self.sets();
            drop(locked);
            self.grow(index, sets, me)?;
            return self.decide_one(operation, patience);
        }
        if charge.policy.log().is_some() {
            let part = self.part(charge, (index, fingerprint), time, me, patience);
            return self.decide_log(part, &question, time);
        }
        let mut state = slot.and_then(|slot| set.state(slot));
        let verdict = match charge.policy.bucket() {
            // Inlined here, so that it is spared the way through memory.
            Some(bucket) => bucket.decide(&mut state, &question),
            None => charge.policy.decide(&mut state, &question)?,
        };
        match (slot, &state) {
            (Some(slot), Some(state)) if set.holds_state(slot, state) => {}
            (None, None) => {}
            (Some(slot), Some(state)) => set.update(slot, &content(charge.policy, state, verdict.remaining, time)),
            (slot, state) => {
                let content = state.as_ref().map(|state| content(charge.policy, state, verdict.remaining, time));
                self.publish(set, slot, fingerprint, content.as_ref(), time)?;
            }
        }
        Ok(verdict)
    }

    #[inline(never)]
    fn decide_log(&self, mut part: Part<'_, O>, question: &Question, time: Time) -> Result<Verdict> {
        let verdict = part.ask(question)?;
        self.publish_part(&mut part, verdict.remaining, time)?;
        Ok(verdict)
    }

    /// Makes a slot of a locked set hold a key's new state, or no slot where there is none.
    fn publish(
        &self,
        set: Set<'_>,
        slot: Option<usize>,
        fingerprint: Fingerprint,
        content: Option<&Content>,
        time: Time,
    ) -> Result<()> {
        match (slot, content) {
            (Some(slot), Some(content)) => set.update(slot, content),
            (Some(slot), None) => set.remove(slot),
            (None, Some(content)) => {
                let slot = self.room(set, fingerprint, 0, time)?;
                set.insert(slot, fingerprint, content);
            }
            (None, None) => {}
        }
        Ok(())
    }

    /// An empty slot for a key that has none, in a set that is ours.
    fn room(&self, set: Set<'_>, fingerprint: Fingerprint, taken: u64, time: Time) -> Result<usize> {
        let (slot, is_live) = set.choose(fingerprint, taken, &time).ok_or_else(|| {
            let detail = "no room is left among the locks and leases that are held, or for so many states in one step";
            Error::unavailable(StoreErrorKind::Oom, detail)
        })?;
        if is_live {
            set.count_eviction();
        }
        if set.is_used(slot) {
            self.forget(set, slot);
        }
        Ok(slot)
    }

    /// Forgets a key.
    pub(crate) fn reset(&self, key: &[u8], patience: Duration) -> Result<()> {
        let me = self.owner.word(&self.region)?;
        let fingerprint = self.fingerprint(key);
        let (index, _locked) = self.lock_for(fingerprint, me, patience)?;
        let set = self.set(index);
        if let Some(slot) = set.find(fingerprint) {
            self.forget(set, slot);
        }
        Ok(())
    }

    /// Makes a slot hold nothing, and frees what it had of the log area.
    fn forget(&self, set: Set<'_>, slot: usize) {
        let (place, old) = (set.fingerprint(slot).place(), set.content(slot));
        set.remove(slot);
        if let Some((kind, content)) = old
            && kind.has_run()
            && let Some(block) = log::block_of(&content)
        {
            self.free_run(block, place);
        }
    }

    /// Locks a set, as a decision does, and lets it go.
    pub(crate) fn ping(&self, patience: Duration) -> Result<()> {
        self.lock_one(0, self.owner.word(&self.region)?, patience).map(drop)
    }

    /// What it holds now. Looks at every slot, without stopping anybody.
    pub(crate) fn info(&self) -> StoreInfo {
        let boot = Time { now_us: clock::boot_time_us(), since_1970: false };
        let wall = Time { now_us: SystemClock.now_us(), since_1970: true };
        let bytes = self.region.len() as u64 * 8;
        let mut info = StoreInfo { slots: (self.layout.sets * SLOTS) as u64, used: 0, expired: 0, evicted: 0, bytes };
        for index in 0..self.sets() {
            let set = self.set(index);
            info.evicted = info.evicted.saturating_add(set.evicted());
            for slot in set.tagged() {
                let live = set.standing(slot, &boot).is_some() && set.standing(slot, &wall).is_some();
                info.used += u64::from(live);
                info.expired += u64::from(!live);
            }
        }
        info
    }

    #[inline]
    fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        self.hasher.hash(key).into()
    }

    #[inline]
    fn set(&self, index: usize) -> Set<'_> {
        let words: &[Word] = &self.region[self.layout.set(index)];
        Set(<&[Word; PAGE]>::try_from(words).expect("a set is a page"))
    }
}

impl Time {
    #[inline]
    fn of(caller_us: Option<u64>, needs_wall_clock: bool) -> Self {
        match caller_us {
            Some(now_us) => Self { now_us, since_1970: true },
            // Windows that stand where the wall clock says cannot be found by any other clock.
            None if needs_wall_clock => Self { now_us: SystemClock.now_us(), since_1970: true },
            None => Self { now_us: clock::boot_time_us(), since_1970: false },
        }
    }
}

#[inline]
fn state_of(before: Option<(Kind, Content)>) -> Option<State> {
    match before {
        Some((Kind::Words, Content { words, whole_at_us, .. })) => Some(State { words, whole_at_us }),
        _ => None,
    }
}

#[inline]
fn content(policy: &Policy, state: &State, remaining: u64, time: Time) -> Content {
    let drains = policy.machine() == Machine::Bucket;
    Content {
        words: state.words,
        whole_at_us: state.whole_at_us,
        flags: Flags::new(Kind::Words, time.since_1970, drains, fullness(remaining, policy.limit())),
        written_at_us: time.now_us,
    }
}
