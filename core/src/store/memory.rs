//! State in memory of this process.

use std::fmt;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hashbrown::HashTable;

use super::{Operation, Store, StoreKind, sealed};
use crate::algorithm::{Change, State, Verdict};
use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::key::StoredKey;

const SHARDS: usize = 32;

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
    /// Whether the instants are the caller's. They share no origin with this store's, so neither expires the other.
    caller_time: bool,
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

    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        // The table uses the low bits.
        let index = usize::try_from(hash >> 48).unwrap_or(0) % self.shards.len();
        // No step leaves a shard half changed, so a panic elsewhere does not spoil it.
        self.shards[index].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for MemoryStore {
    fn decide(&self, operation: &Operation<'_>) -> Result<Verdict> {
        let hash = self.hasher.hash_one(operation.key);
        let mut shard = self.shard(hash);
        // Read under the lock, so that the instants of one key never go back.
        let now_us = operation.now_us.unwrap_or_else(clock::boot_time_us);
        let entry = shard.entries.find_mut(hash, |entry| entry.key.as_slice() == operation.key);
        let state = entry.as_ref().map(|entry| entry.state);
        let (change, verdict) = operation.policy.decide(state.as_ref(), now_us, operation.cost, operation.verb);
        match (change, entry) {
            (Change::Put(state), Some(entry)) => {
                entry.state = state;
                entry.caller_time = operation.now_us.is_some();
            }
            (Change::Put(state), None) => {
                let caller_time = operation.now_us.is_some();
                let entry = Entry { key: StoredKey::from_slice(operation.key), state, caller_time };
                shard.insert(entry, hash, now_us, &self.hasher);
            }
            (Change::Clear, Some(_)) => shard.remove(hash, operation.key),
            (Change::Clear, None) | (Change::Keep, _) => {}
        }
        Ok(verdict)
    }

    fn reset(&self, key: &[u8]) -> Result<()> {
        let hash = self.hasher.hash_one(key);
        self.shard(hash).remove(hash, key);
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
    fn insert(&mut self, entry: Entry, hash: u64, now_us: u64, hasher: &RandomState) {
        if self.entries.len() >= self.sweep_at {
            self.sweep(entry.caller_time, now_us);
        }
        self.entries.insert_unique(hash, entry, |entry| hasher.hash_one(entry.key.as_slice()));
    }

    /// Drops what has expired, and, if that leaves less than an eighth free, the eighth that is closest to whole.
    fn sweep(&mut self, caller_time: bool, now_us: u64) {
        let expired = |entry: &Entry| entry.caller_time == caller_time && entry.state.whole_at_us <= now_us;
        self.entries.retain(|entry| !expired(entry));
        let eighth = (self.max_keys / 8).max(1);
        if self.entries.len() > self.max_keys - eighth {
            let mut whole_at: Vec<u64> = self.entries.iter().map(|entry| entry.state.whole_at_us).collect();
            let (_, &mut last, _) = whole_at.select_nth_unstable(eighth - 1);
            let mut to_drop = eighth;
            self.entries.retain(|entry| {
                let drop = entry.state.whole_at_us <= last && to_drop > 0;
                to_drop -= usize::from(drop);
                !drop
            });
        }
        self.sweep_at = (self.entries.len() * 2).max(MIN_SWEEP).min(self.max_keys);
    }

    fn remove(&mut self, hash: u64, key: &[u8]) {
        if let Ok(entry) = self.entries.find_entry(hash, |entry| entry.key.as_slice() == key) {
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
