//! State in memory of this process.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashTable;
use smallvec::{SmallVec, smallvec};

use super::{Charge, Operation, Store, StoreKind, TOKEN_LIFETIME, Verdicts, sealed};
use crate::algorithm::{Question, State, Verdict};
use crate::clock::{self, Clock as _, SystemClock};
use crate::error::{Error, ErrorKind, Result};
use crate::key::StoredKey;
use crate::process;

const SHARDS: usize = process::GATES;

/// A shard smaller than this is not worth sweeping.
const MIN_SWEEP: usize = 256;

/// Keeps the state of at most `max_keys` keys in this process, in shards locked one at a time.
///
/// Expired keys are swept as new ones come, so memory follows the number of live keys. When all are live and one more
/// comes, those closest to whole are forgotten: the least harm, since a key that is whole equals one never seen.
pub struct MemoryStore {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
}

struct Shard {
    entries: HashTable<Entry>,
    /// The number of entries at which the expired ones are swept next.
    sweep_at: usize,
    max_keys: usize,
}

struct Entry {
    key: StoredKey,
    state: State,
    /// Whether its instants count from 1970, or from the boot of this machine: neither expires the other.
    since_1970: bool,
}

impl MemoryStore {
    /// A store for at most `max_keys` keys, at least one.
    pub fn new(max_keys: usize) -> Result<Self> {
        if max_keys == 0 {
            return Err(Error::argument_error(ErrorKind::InvalidStore, "max_keys", "must be at least 1, got 0"));
        }
        let shards = if max_keys < SHARDS * MIN_SWEEP { 1 } else { SHARDS };
        let shard = || {
            let max_keys = max_keys / shards;
            Mutex::new(Shard { entries: HashTable::new(), sweep_at: MIN_SWEEP.min(max_keys), max_keys })
        };
        Ok(Self { hasher: RandomState::new(), shards: (0..shards).map(|_| shard()).collect() })
    }

    fn shard(&self, index: usize) -> Locked<'_> {
        let gate = process::gate(index);
        // No step leaves a shard half changed, so a panic elsewhere does not spoil it.
        Locked { shard: self.shards[index].lock().unwrap_or_else(PoisonError::into_inner), _gate: gate }
    }

    /// Several policies, or a token: all shards concerned are locked, in order, then all states are changed or none.
    fn decide_several(&self, operation: &Operation<'_>) -> Result<Verdicts> {
        let slots: SmallVec<[Slot<'_>; 4]> =
            operation.charges.iter().map(|charge| Slot::of(self, charge.key)).collect();
        let token = operation.token.map(|key| Slot::of(self, key));
        let mut indexes: SmallVec<[usize; 4]> = slots.iter().chain(&token).map(|slot| slot.shard).collect();
        indexes.sort_unstable();
        indexes.dedup();
        let mut shards = Shards(indexes.into_iter().map(|index| (index, self.shard(index))).collect());
        let time = Time::of(operation);

        if let Some(token) = &token
            && let Some(State::Remembered { verdicts, whole_at_us }) = shards.of(token).get(token)
            && *whole_at_us > time.now_us
            && verdicts.len() == slots.len()
        {
            // What is remembered may be of a policy with a higher limit.
            let limited = |(verdict, charge): (&Verdict, &Charge<'_>)| Verdict {
                remaining: verdict.remaining.min(charge.policy.limit()),
                ..*verdict
            };
            return Ok(verdicts.iter().zip(operation.charges).map(limited).collect());
        }
        let (verb, commits) = operation.action.verb();
        let mut ask = |commit| -> Result<Verdicts> {
            let question = Question { now_us: time.now_us, verb, cost: operation.cost, commit };
            let each = operation.charges.iter().zip(&slots).map(|(charge, slot)| {
                shards.of(slot).step(&self.hasher, slot, &time, |state| charge.policy.decide(state, &question))
            });
            each.collect()
        };
        let looked = ask(false)?;
        if !commits || !looked.iter().all(|verdict| verdict.allowed) {
            return Ok(looked);
        }
        let verdicts = ask(true)?;
        if let Some(token) = &token {
            let lifetime_us = u64::try_from(TOKEN_LIFETIME.as_micros()).unwrap_or(u64::MAX);
            let answer =
                State::Remembered { verdicts: verdicts.to_vec().into(), whole_at_us: time.now_us + lifetime_us };
            shards.of(token).step(&self.hasher, token, &time, |state| {
                *state = Some(answer);
                Ok(())
            })?;
        }
        Ok(verdicts)
    }
}

/// Where a key is.
struct Slot<'a> {
    key: &'a [u8],
    hash: u64,
    shard: usize,
}

impl<'a> Slot<'a> {
    fn of(store: &MemoryStore, key: &'a [u8]) -> Self {
        let hash = store.hasher.hash_one(key);
        // The table uses the low bits.
        Self { key, hash, shard: usize::try_from(hash >> 48).unwrap_or(0) % store.shards.len() }
    }
}

/// The instant of a step, and where it counts from.
struct Time {
    now_us: u64,
    since_1970: bool,
}

impl Time {
    fn of(operation: &Operation<'_>) -> Self {
        match operation.now_us {
            Some(now_us) => Self { now_us, since_1970: true },
            // Windows that stand where the wall clock says cannot be found by any other clock.
            None if operation.charges.iter().any(|charge| charge.policy.needs_wall_clock()) => {
                Self { now_us: SystemClock.now_us(), since_1970: true }
            }
            None => Self { now_us: clock::boot_time_us(), since_1970: false },
        }
    }
}

/// A shard that nobody else touches, and that no fork catches half changed.
struct Locked<'a> {
    shard: MutexGuard<'a, Shard>,
    _gate: MutexGuard<'static, ()>,
}

/// The shards that a step has locked.
struct Shards<'a>(SmallVec<[(usize, Locked<'a>); 4]>);

impl Shards<'_> {
    fn of(&mut self, slot: &Slot<'_>) -> &mut Shard {
        let locked = self.0.iter_mut().find(|(index, _)| *index == slot.shard);
        &mut locked.expect("every shard of the step is locked").1.shard
    }
}

impl Store for MemoryStore {
    fn decide(&self, operation: &Operation<'_>) -> Result<Verdicts> {
        match operation {
            Operation { charges: [charge], token: None, .. } => {
                let slot = Slot::of(self, charge.key);
                let mut locked = self.shard(slot.shard);
                // Read under the lock, so that the instants of one key never go back.
                let time = Time::of(operation);
                let (verb, commit) = operation.action.verb();
                let question = Question { now_us: time.now_us, verb, cost: operation.cost, commit };
                Ok(smallvec![
                    locked.shard.step(&self.hasher, &slot, &time, |state| charge.policy.decide(state, &question))?
                ])
            }
            _ => self.decide_several(operation),
        }
    }

    fn reset(&self, key: &[u8]) -> Result<()> {
        let slot = Slot::of(self, key);
        self.shard(slot.shard).shard.remove(&slot);
        Ok(())
    }

    fn ping(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }
}

impl Shard {
    fn get(&self, slot: &Slot<'_>) -> Option<&State> {
        self.entries.find(slot.hash, |entry| entry.key.as_slice() == slot.key).map(|entry| &entry.state)
    }

    /// Lets `change` look at a key's state and change it, and keeps what it leaves.
    fn step<R>(
        &mut self,
        hasher: &RandomState,
        slot: &Slot<'_>,
        time: &Time,
        change: impl FnOnce(&mut Option<State>) -> Result<R>,
    ) -> Result<R> {
        let mut state = None;
        if let Some(entry) = self.entries.find_mut(slot.hash, |entry| entry.key.as_slice() == slot.key) {
            state = Some(std::mem::replace(&mut entry.state, State::NONE));
            let result = change(&mut state);
            if let Some(state) = state {
                entry.state = state;
                entry.since_1970 = time.since_1970;
            } else {
                self.remove(slot);
            }
            return result;
        }
        let result = change(&mut state)?;
        if let Some(state) = state {
            let entry = Entry { key: StoredKey::from_slice(slot.key), state, since_1970: time.since_1970 };
            if self.entries.len() >= self.sweep_at {
                self.sweep(time);
            }
            self.entries.insert_unique(slot.hash, entry, |entry| hasher.hash_one(entry.key.as_slice()));
        }
        Ok(result)
    }

    /// Drops what has expired, and, if that leaves less than an eighth free, the eighth that is closest to whole.
    fn sweep(&mut self, time: &Time) {
        let expired = |entry: &Entry| entry.since_1970 == time.since_1970 && entry.state.whole_at_us() <= time.now_us;
        self.entries.retain(|entry| !expired(entry));
        let eighth = (self.max_keys / 8).max(1);
        if self.entries.len() > self.max_keys - eighth {
            let mut whole_at: Vec<u64> = self.entries.iter().map(|entry| entry.state.whole_at_us()).collect();
            let (_, &mut last, _) = whole_at.select_nth_unstable(eighth - 1);
            let mut to_drop = eighth;
            self.entries.retain(|entry| {
                let drop = entry.state.whole_at_us() <= last && to_drop > 0;
                to_drop -= usize::from(drop);
                !drop
            });
        }
        self.sweep_at = (self.entries.len() * 2).max(MIN_SWEEP).min(self.max_keys);
    }

    fn remove(&mut self, slot: &Slot<'_>) {
        if let Ok(entry) = self.entries.find_entry(slot.hash, |entry| entry.key.as_slice() == slot.key) {
            entry.remove();
        }
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl sealed::Sealed for MemoryStore {}
