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
pub(crate) mod layout;
pub(crate) mod lock;
mod log;
mod record;
mod set;
mod slot;
pub(crate) mod word;

#[cfg(all(test, not(modelled)))]
mod tests;

#[cfg(all(test, modelled))]
mod model;

use std::time::Duration;

use siphasher::sip128::SipHasher13;
use smallvec::{SmallVec, smallvec};

use super::shared::Region;
use super::{Charge, Operation, StoreInfo, TOKEN_LIFETIME, Verdicts};
use crate::algorithm::{Question, State, Verdict};
use crate::clock::{self, Clock as _, SystemClock};
use crate::error::{Error, Result, StoreErrorKind};
use crate::lua::Machine;
use crate::policy::Policy;
use layout::{Layout, PAGE, SLOTS};
use lock::{Locked, Owner};
use log::Ring;
use record::Change;
use set::Set;
use slot::{Content, Fingerprint, Flags, Kind, Place, Time, fullness};
use word::Word;

/// A region with sets of slots, and who works on it.
pub(crate) struct Table<O: Owner> {
    region: Region,
    layout: Layout,
    hasher: SipHasher13,
    owner: O,
}

/// One policy's key in a step over several.
struct Part<'a, O: Owner> {
    policy: &'a Policy,
    fingerprint: Fingerprint,
    set: usize,
    slot: Option<usize>,
    before: Option<Content>,
    held: Held<'a, O>,
}

/// The state of a key during a step.
enum Held<'a, O: Owner> {
    Words(Option<State>),
    Log(Ring<'a, O>),
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

    /// Several policies, or a token: all sets concerned are locked, in order, then all states are changed or none.
    fn decide_several(&self, operation: &Operation<'_>, patience: Duration) -> Result<Verdicts> {
        let me = self.owner.word(&self.region)?;
        let fingerprints: SmallVec<[Fingerprint; 4]> =
            operation.charges.iter().map(|charge| self.fingerprint(charge.key)).collect();
        let token = operation.token.map(|key| self.fingerprint(key));
        let places: SmallVec<[Place; 4]> = fingerprints.iter().chain(&token).map(|it| it.place()).collect();
        let locked = self.lock_places(&places, me, patience)?;
        let needs_wall_clock = operation.charges.iter().any(|charge| charge.policy.needs_wall_clock());
        let time = Time::of(operation.now_us, needs_wall_clock);
        // Each policy may take a slot of the same set, and so may each remembered verdict.
        let more = 2 * fingerprints.len();
        if let Some(&crowded) = locked.sets.iter().find(|index| self.is_crowded(**index, more, time)) {
            let sets = self.sets();
            drop(locked);
            self.grow(crowded, sets, me)?;
            return self.decide_several(operation, patience);
        }
        if let Some(token) = token
            && let Some(verdicts) = self.remembered(token, operation.charges, time)
        {
            return Ok(verdicts);
        }
        let places = fingerprints.iter().map(|fingerprint| (self.index(fingerprint.place()), *fingerprint));
        let mut parts: SmallVec<[Part<'_, O>; 4]> = operation
            .charges
            .iter()
            .zip(places)
            .map(|(charge, place)| self.part(charge, place, time, me, patience))
            .collect();
        let (verb, commits) = operation.action.verb();
        let mut ask = |commit| -> Result<Verdicts> {
            let question = Question { now_us: time.now_us, verb, cost: operation.cost, commit };
            parts.iter_mut().map(|part| part.ask(&question)).collect()
        };
        let seen = ask(false)?;
        if !commits || !seen.iter().all(|verdict| verdict.allowed) {
            for (part, verdict) in parts.iter_mut().zip(&seen) {
                self.publish_part(part, verdict.remaining, time)?;
            }
            return Ok(seen);
        }
        let verdicts = ask(true)?;
        self.publish_all(&locked, &mut parts, &verdicts, token, time, patience)?;
        Ok(verdicts)
    }

    /// The answer given to a call with this token, if it is remembered.
    fn remembered(&self, token: Fingerprint, charges: &[Charge<'_>], time: Time) -> Option<Verdicts> {
        let set = self.set(self.index(token.place()));
        let each = charges.iter().zip(0..).map(|(charge, number)| {
            let content = match set.content(set.find(token.numbered(number))?)? {
                (Kind::Verdict, content) if content.whole_at_us > time.now_us => content,
                _ => return None,
            };
            let [reset_after, delay, _] = content.words.map(i64::cast_unsigned);
            (content.flags.count() == charges.len() as u64).then(|| Verdict {
                allowed: true,
                // What is remembered may be of a policy with a higher limit.
                remaining: content.flags.remaining().min(charge.policy.limit()),
                retry_after_us: 0,
                reset_after_us: reset_after,
                delay_us: delay,
            })
        });
        each.collect()
    }

    fn part<'a>(
        &'a self,
        charge: &'a Charge<'a>,
        (index, fingerprint): (usize, Fingerprint),
        time: Time,
        me: u64,
        patience: Duration,
    ) -> Part<'a, O> {
        let set = self.set(index);
        let slot = set.find(fingerprint);
        let before = slot.and_then(|slot| set.content(slot));
        let held = match charge.policy.log() {
            None => Held::Words(state_of(before)),
            Some(log) => {
                let content = before.filter(|(kind, _)| *kind == Kind::Log).map(|(_, content)| content);
                Held::Log(Ring::open(self, fingerprint.place(), me, patience, time, log.limit(), content.as_ref()))
            }
        };
        let before = before.map(|(_, content)| content);
        Part { policy: charge.policy, fingerprint, set: index, slot, before, held }
    }

    fn publish_part(&self, part: &mut Part<'_, O>, remaining: u64, time: Time) -> Result<()> {
        let after = part.after(remaining, time);
        if part.changes(after.as_ref()) {
            self.publish(self.set(part.set), part.slot, part.fingerprint, after.as_ref(), time)?;
        }
        part.clean_up();
        Ok(())
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
            Error::unavailable(StoreErrorKind::Oom, format!("one step changes more than {SLOTS} states of one set"))
        })?;
        if is_live {
            set.count_eviction();
        }
        if set.is_used(slot) {
            self.forget(set, slot);
        }
        Ok(slot)
    }

    fn publish_all(
        &self,
        locked: &Locked<'_, O>,
        parts: &mut [Part<'_, O>],
        verdicts: &Verdicts,
        token: Option<Fingerprint>,
        time: Time,
        patience: Duration,
    ) -> Result<()> {
        // Bits of the slots that this step uses, for each of the sets.
        let mut in_use: SmallVec<[u64; 4]> = smallvec![0; locked.sets.len()];
        let at = |set: usize| locked.sets.binary_search(&set).unwrap_or(0);
        for part in parts.iter() {
            in_use[at(part.set)] |= part.slot.map_or(0, |slot| 1 << slot);
        }
        let mut room = |index: usize, fingerprint: Fingerprint, found: Option<usize>| -> Result<usize> {
            let in_use = &mut in_use[at(index)];
            let slot = match found {
                Some(slot) => slot,
                None => self.room(self.set(index), fingerprint, *in_use, time)?,
            };
            *in_use |= 1 << slot;
            Ok(slot)
        };
        let mut changes: SmallVec<[Change; 4]> = SmallVec::new();
        for (part, verdict) in parts.iter_mut().zip(verdicts) {
            let after = part.after(verdict.remaining, time);
            if part.changes(after.as_ref()) {
                let slot = match (part.slot, &after) {
                    (None, None) => continue,
                    (found, _) => room(part.set, part.fingerprint, found)?,
                };
                let content = after.map(|content| (part.fingerprint, content));
                changes.push(Change { set: part.set, slot, content });
            }
        }
        if let Some(token) = token {
            let lifetime_us = u64::try_from(TOKEN_LIFETIME.as_micros()).unwrap_or(u64::MAX);
            let set = self.index(token.place());
            for (verdict, number) in verdicts.iter().zip(0..) {
                let fingerprint = token.numbered(number);
                let slot = room(set, fingerprint, self.set(set).find(fingerprint))?;
                let content = Content {
                    words: [verdict.reset_after_us.cast_signed(), verdict.delay_us.cast_signed(), 0],
                    whole_at_us: time.now_us + lifetime_us,
                    flags: Flags::of_verdict(time.since_1970, verdicts.len() as u64, verdict.remaining),
                    written_at_us: time.now_us,
                };
                changes.push(Change { set, slot, content: Some((fingerprint, content)) });
            }
        }
        self.make(locked, &changes, patience)?;
        parts.iter_mut().for_each(Part::clean_up);
        Ok(())
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
        if let Some((Kind::Log, content)) = old
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

impl<O: Owner> Part<'_, O> {
    fn ask(&mut self, question: &Question) -> Result<Verdict> {
        match (&mut self.held, self.policy.log()) {
            (Held::Log(ring), Some(log)) => log.decide(ring, question),
            (Held::Words(state), _) => self.policy.decide(state, question),
            (Held::Log(_), None) => Err(Error::internal("a ring for a policy without a log")),
        }
    }

    /// What the slot is to hold.
    fn after(&self, remaining: u64, time: Time) -> Option<Content> {
        match &self.held {
            Held::Words(state) => state.as_ref().map(|state| content(self.policy, state, remaining, time)),
            Held::Log(ring) => ring.content(fullness(remaining, self.policy.limit())),
        }
    }

    fn changes(&self, after: Option<&Content>) -> bool {
        match (&self.before, after) {
            (Some(before), Some(after)) => !before.same_state(after),
            (None, None) => self.slot.is_some(),
            _ => true,
        }
    }

    fn clean_up(&mut self) {
        if let Held::Log(ring) = &mut self.held {
            ring.clean_up();
        }
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
