//! Steps on several policies, or with a token; and what a step knows of one key, which sliding logs share.

use std::time::Duration;

use smallvec::{SmallVec, smallvec};

use super::lock::{Locked, Owner};
use super::log::Ring;
use super::record::Change;
use super::slot::{Content, Fingerprint, Flags, Kind, Place, Time, fullness};
use super::{Table, content, state_of};
use crate::algorithm::{Question, State, Verdict};
use crate::error::{Error, Result};
use crate::policy::Policy;
use crate::store::{Charge, Operation, TOKEN_LIFETIME, Verdicts};

/// One policy's key in a step over several.
pub(super) struct Part<'a, O: Owner> {
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
    /// Several policies, or a token: all sets concerned are locked, in order, then all states are changed or none.
    pub(super) fn decide_several(&self, operation: &Operation<'_>, patience: Duration) -> Result<Verdicts> {
        let me = self.owner.word(&self.region)?;
        let fingerprints: SmallVec<[Fingerprint; 4]> =
            operation.charges.iter().map(|charge| self.fingerprint(charge.key)).collect();
        let token = operation.token.map(|key| self.fingerprint(key));
        let places: SmallVec<[Place; 4]> = fingerprints.iter().chain(&token).map(|it| it.place()).collect();
        let locked = self.lock_places(&places, me, patience)?;
        let needs_wall_clock = operation.charges.iter().any(|charge| charge.policy.needs_wall_clock());
        let time = Time::of(operation.now_us, needs_wall_clock);
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
        let crowded = |index: &&usize| self.is_crowded(**index, self.missing(**index, &parts, token), time);
        if let Some(&crowded) = locked.sets.iter().find(crowded) {
            let sets = self.sets();
            drop(parts);
            drop(locked);
            self.grow(crowded, sets, me)?;
            return self.decide_several(operation, patience);
        }
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

    /// How many slots of a set a step may need that it does not have yet: for states, and for verdicts to remember.
    fn missing(&self, set: usize, parts: &[Part<'_, O>], token: Option<Fingerprint>) -> usize {
        let states = parts.iter().filter(|part| part.set == set && part.slot.is_none()).count();
        let token = token.filter(|token| self.index(token.place()) == set);
        let is_missing = |(token, number): &(Fingerprint, u64)| self.set(set).find(token.numbered(*number)).is_none();
        states
            + token
                .into_iter()
                .flat_map(|token| (0..parts.len() as u64).map(move |number| (token, number)))
                .filter(is_missing)
                .count()
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

    /// A policy's key, in a set that is ours.
    pub(super) fn part<'a>(
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

    /// Publishes what a single part has come to.
    pub(super) fn publish_part(&self, part: &mut Part<'_, O>, remaining: u64, time: Time) -> Result<()> {
        let after = part.after(remaining, time);
        if part.changes(after.as_ref()) {
            self.publish(self.set(part.set), part.slot, part.fingerprint, after.as_ref(), time)?;
        }
        part.clean_up();
        Ok(())
    }

    /// Publishes what all parts have come to, and the answer for the token, by one store.
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
}

impl<O: Owner> Part<'_, O> {
    /// Asks the model.
    pub(super) fn ask(&mut self, question: &Question) -> Result<Verdict> {
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
