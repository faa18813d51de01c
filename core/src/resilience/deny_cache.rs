//! Refusals that need no server: what was used up a moment ago still is.
//!
//! When a server refuses, or gives out the last unit, it tells the state. Until the model says that the state lets the
//! next call pass, that call is refused here, with the wait that the server would tell. Nothing is ever let pass here, so
//! what other callers do in the meantime can at most make a refusal late to end: by [`LIFE_US`].

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

use crate::algorithm::{Question, State};
use crate::clock::boot_time_us;
use crate::key::StoredKey;
use crate::process;
use crate::store::{Action, Operation, Verdicts};

/// How long a state is believed: somebody else may have given units back.
const LIFE_US: u64 = 1_000_000;

/// How often a full cache is searched for what has expired.
const SWEEP_US: u64 = 100_000;

const SHARDS: usize = 8;

/// The states of a decision, and when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// By the clock that decided.
    pub(crate) now_us: u64,
    /// Per policy; whole where there is none.
    pub(crate) states: SmallVec<[State; 1]>,
}

/// Keys of one store that have nothing left.
#[derive(Debug)]
pub(crate) struct DenyCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// Keys in all, so that a cache with nothing in it costs one look.
    keys: AtomicUsize,
    capacity: usize,
}

#[derive(Debug, Default)]
struct Shard {
    entries: HashMap<StoredKey, Entry>,
    swept_at_us: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    state: State,
    /// The instant of the decision, by the clock that decided, and by this machine's.
    decided_at_us: u64,
    learnt_at_us: u64,
    /// Whether the clock that decided was the caller's.
    by_caller: bool,
}

impl DenyCache {
    /// For so many keys at most; none turns it off.
    pub(crate) fn new(capacity: usize) -> Self {
        Self { shards: Default::default(), hasher: RandomState::new(), keys: AtomicUsize::new(0), capacity }
    }

    /// The refusal that the server would give, if that is sure.
    pub(crate) fn refusal(&self, operation: &Operation<'_>) -> Option<Verdicts> {
        let takes = !matches!(operation.action, Action::Refund | Action::Return { .. });
        if self.keys.load(Ordering::Relaxed) == 0 || operation.token.is_some() || !takes {
            return None;
        }
        let here_us = boot_time_us();
        let (verb, _) = operation.action.verb();
        let mut verdicts = Verdicts::new();
        for charge in operation.charges {
            let entry = self.entry(charge.key, here_us)?;
            let now_us = match operation.now_us {
                Some(now_us) => now_us,
                None => entry.decided_at_us + (here_us - entry.learnt_at_us),
            };
            if entry.by_caller != operation.now_us.is_some() || now_us < entry.decided_at_us {
                return None;
            }
            let question = Question { now_us, verb, cost: operation.cost, commit: false };
            let mut state = Some(entry.state);
            verdicts.push(charge.policy.decide(&mut state, &question).ok()?);
            // The server would put its state in order, as after a change of policy, so it has to be asked.
            if state != Some(entry.state) {
                return None;
            }
        }
        verdicts.iter().any(|verdict| !verdict.allowed).then_some(verdicts)
    }

    /// Takes over what a server told of a decision.
    pub(crate) fn learn(&self, operation: &Operation<'_>, snapshot: Option<&Snapshot>) {
        let Some(snapshot) = snapshot.filter(|_| self.capacity > 0 && operation.token.is_none()) else {
            // Something may be left now; and a look, too, may have put a state in order whose instants lay ahead.
            operation.charges.iter().for_each(|charge| self.forget(charge.key));
            return;
        };
        let learnt_at_us = boot_time_us();
        for (charge, state) in operation.charges.iter().zip(&snapshot.states) {
            let entry = Entry {
                state: *state,
                decided_at_us: snapshot.now_us,
                learnt_at_us,
                by_caller: operation.now_us.is_some(),
            };
            self.insert(charge.key, entry);
        }
    }

    /// Forgets a key.
    pub(crate) fn forget(&self, key: &[u8]) {
        if self.keys.load(Ordering::Relaxed) > 0 {
            self.with_shard(key, |shard| {
                if shard.entries.remove(key).is_some() {
                    self.keys.fetch_sub(1, Ordering::Relaxed);
                }
            });
        }
    }

    fn entry(&self, key: &[u8], here_us: u64) -> Option<Entry> {
        let found = self.with_shard(key, |shard| shard.entries.get(key).cloned())?;
        (here_us.checked_sub(found.learnt_at_us)? < LIFE_US).then_some(found)
    }

    fn insert(&self, key: &[u8], entry: Entry) {
        let most = self.capacity.div_ceil(SHARDS);
        self.with_shard(key, |shard| {
            // By the server's clock the later state counts, in whatever order two threads come with theirs. A caller's
            // clock may have stepped back in between.
            let is_later =
                |kept: &Entry| !kept.by_caller && !entry.by_caller && kept.decided_at_us > entry.decided_at_us;
            if shard.entries.get(key).is_some_and(is_later) {
                return;
            }
            if shard.entries.len() >= most && !shard.entries.contains_key(key) {
                let here_us = entry.learnt_at_us;
                if here_us.saturating_sub(shard.swept_at_us) < SWEEP_US {
                    return;
                }
                shard.swept_at_us = here_us;
                let before = shard.entries.len();
                shard.entries.retain(|_, kept| here_us.saturating_sub(kept.learnt_at_us) < LIFE_US);
                self.keys.fetch_sub(before - shard.entries.len(), Ordering::Relaxed);
                if shard.entries.len() >= most {
                    return;
                }
            }
            if shard.entries.insert(StoredKey::from_slice(key), entry).is_none() {
                self.keys.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    fn with_shard<R>(&self, key: &[u8], act: impl FnOnce(&mut Shard) -> R) -> R {
        let index = usize::try_from(self.hasher.hash_one(key) % SHARDS as u64).unwrap_or(0);
        // A fork waits until nobody is in here.
        let _gate = process::gate(index);
        act(&mut self.shards[index].lock().unwrap_or_else(PoisonError::into_inner))
    }
}
