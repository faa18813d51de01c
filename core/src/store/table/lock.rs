//! Who works on a set, and what becomes of a set whose owner died.
//!
//! A lock is a word: zero, or the word of the process that has it. An owner that lives keeps it, also while it is
//! stopped: were its lock taken over, it could go on and write what is out of date. Others who need that set are told
//! that it is busy when their patience ends, and nobody else notices.
//!
//! An owner that died in the middle left one of three things: nothing that counts, a journal, or a record over several
//! sets that the commit word of the first of them, the leader, points at. Whoever takes the lock over finishes that.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

#[cfg(modelled)]
use loom::thread::yield_now;
#[cfg(not(modelled))]
use std::thread::yield_now;

use smallvec::SmallVec;

use super::Table;
use super::slot::{Commit, Fingerprint, Place};
use super::word::Word;
use crate::error::{Error, Result};

/// Who works on a table, and who of the others is gone.
pub(crate) trait Owner: Send + Sync {
    /// Whether waiting has no limit, since every owner lives, or is known at once to be dead.
    const WAITS_FOR_EVER: bool;

    /// Whether the table starts small, and grows as it fills: where memory is taken as it is used, and where no step is
    /// interrupted but by a fork.
    const GROWS: bool;

    /// The word that this process has locks by; never zero.
    fn word(&self, region: &[Word]) -> Result<u64>;

    /// Whether the owner with that word is gone for good, so that nobody works by it any more.
    fn is_dead(&self, region: &[Word], word: u64) -> bool;

    /// The error for those who waited for too long.
    fn busy(&self, patience: Duration) -> Error;
}

/// The threads of one process, on memory of its own. In a child of a fork, the parent's threads are gone.
#[derive(Debug)]
pub(crate) struct Threads;

impl Owner for Threads {
    const WAITS_FOR_EVER: bool = true;
    const GROWS: bool = true;

    #[inline]
    fn word(&self, _: &[Word]) -> Result<u64> {
        Ok(u64::from(crate::process::generation()) + 1)
    }

    fn is_dead(&self, _: &[Word], word: u64) -> bool {
        word != u64::from(crate::process::generation()) + 1
    }

    fn busy(&self, patience: Duration) -> Error {
        Error::internal(format!("memory of this process was busy for {} s", patience.as_secs_f64()))
    }
}

/// How often a waiter looks again at once; a decision takes less time than that.
const SPINS: u32 = 100;

/// How often it lets others run, before it sleeps.
const YIELDS: u32 = 20;

const SHORTEST_SLEEP: Duration = Duration::from_micros(20);
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// Somebody who waits for a lock.
pub(super) struct Waiter {
    turns: u32,
    since: Option<Instant>,
    patience: Duration,
}

impl Waiter {
    pub(super) const fn new(patience: Duration) -> Self {
        Self { turns: 0, since: None, patience }
    }

    /// Whether it has waited for longer than a step takes, so that it is worth to ask whether the owner still lives.
    fn is_worried(&self) -> bool {
        self.turns > SPINS + YIELDS
    }

    /// Waits a little, and the longer, the longer it has waited. Fails when its patience is at its end.
    pub(super) fn pause<O: Owner>(&mut self, owner: &O) -> Result<()> {
        self.turns = self.turns.saturating_add(1);
        if cfg!(modelled) {
            // The model has no time.
            yield_now();
            return Ok(());
        }
        if self.turns <= SPINS {
            std::hint::spin_loop();
            return Ok(());
        }
        if !O::WAITS_FOR_EVER && self.since.get_or_insert_with(Instant::now).elapsed() >= self.patience {
            return Err(owner.busy(self.patience));
        }
        match self.turns - SPINS {
            ..=YIELDS => yield_now(),
            turns => std::thread::sleep(LONGEST_SLEEP.min(SHORTEST_SLEEP * (turns - YIELDS))),
        }
        Ok(())
    }
}

/// Sets that a step has locked, lowest first; the first is the leader.
pub(super) struct Locked<'a, O: Owner> {
    pub(super) table: &'a Table<O>,
    pub(super) me: u64,
    pub(super) sets: SmallVec<[usize; 4]>,
}

/// One locked set, for the common step.
pub(super) struct LockedOne<'a> {
    lock: &'a Word,
    me: u64,
}

impl Drop for LockedOne<'_> {
    #[inline]
    fn drop(&mut self) {
        unlock(self.lock, self.me);
    }
}

impl<O: Owner> Drop for Locked<'_, O> {
    fn drop(&mut self) {
        let Some((&leader, members)) = self.sets.split_first() else { return };
        if let Commit::Record(record) = self.table.set(leader).commit() {
            // Only if a step was left in the middle.
            self.table.finish(leader, record);
        }
        for &member in members {
            self.table.set(member).set_commit(Commit::Nothing);
            unlock(self.table.set(member).lock(), self.me);
        }
        unlock(self.table.set(leader).lock(), self.me);
    }
}

#[inline]
pub(super) fn unlock(lock: &Word, me: u64) {
    // Another owner only if this process was taken for dead: its record locks were lost with a descriptor.
    if lock.load(Relaxed) == me {
        lock.store(0, Release);
    }
}

impl<O: Owner> Table<O> {
    /// Locks one set.
    #[inline]
    pub(super) fn lock_one(&self, index: usize, me: u64, patience: Duration) -> Result<LockedOne<'_>> {
        let lock = self.set(index).lock();
        if lock.compare_exchange(0, me, Acquire, Relaxed).is_err() {
            self.lock_slowly(index, me, &mut Waiter::new(patience))?;
        }
        Ok(LockedOne { lock, me })
    }

    /// Locks the set that a key falls into.
    #[inline]
    pub(super) fn lock_for(&self, key: Fingerprint, me: u64, patience: Duration) -> Result<(usize, LockedOne<'_>)> {
        let place = key.place();
        loop {
            let index = self.index(place);
            self.set(index).warm_up(key);
            let locked = self.lock_one(index, me, patience)?;
            // It may have moved in the meantime, but not any more.
            if !O::GROWS || self.index(place) == index {
                return Ok((index, locked));
            }
        }
    }

    /// Locks the sets that several keys fall into.
    pub(super) fn lock_places(&self, places: &[Place], me: u64, patience: Duration) -> Result<Locked<'_, O>> {
        loop {
            let sets: SmallVec<[usize; 4]> = places.iter().map(|place| self.index(*place)).collect();
            let locked = self.lock_all(sets.clone(), me, patience)?;
            if !O::GROWS || places.iter().zip(&sets).all(|(place, set)| self.index(*place) == *set) {
                return Ok(locked);
            }
        }
    }

    /// Locks several sets, in order, so that two who want the same ones do not wait for each other.
    pub(super) fn lock_all(
        &self,
        mut sets: SmallVec<[usize; 4]>,
        me: u64,
        patience: Duration,
    ) -> Result<Locked<'_, O>> {
        sets.sort_unstable();
        sets.dedup();
        let mut locked = Locked { table: self, me, sets: SmallVec::new() };
        // One for all of them: the patience is that of the call.
        let mut waiter = Waiter::new(patience);
        for index in sets {
            if self.set(index).lock().compare_exchange(0, me, Acquire, Relaxed).is_err() {
                self.lock_slowly(index, me, &mut waiter)?;
            }
            locked.sets.push(index);
        }
        Ok(locked)
    }

    /// Locks the set of a place if nobody who lives has it locked.
    pub(super) fn try_lock(&self, place: Place, me: u64) -> Option<(usize, LockedOne<'_>)> {
        let index = self.index(place);
        let lock = self.set(index).lock();
        if let Err(holder) = lock.compare_exchange(0, me, Acquire, Relaxed) {
            let is_free = self.owner.is_dead(&self.region, holder) && self.take_over(index, holder, me);
            is_free.then_some(())?;
        }
        let locked = LockedOne { lock, me };
        (self.index(place) == index).then_some((index, locked))
    }

    #[cold]
    fn lock_slowly(&self, index: usize, me: u64, waiter: &mut Waiter) -> Result<()> {
        let lock = self.set(index).lock();
        loop {
            let holder = lock.load(Acquire);
            if holder == 0 {
                if lock.compare_exchange(0, me, Acquire, Relaxed).is_ok() {
                    return Ok(());
                }
            } else if (O::WAITS_FOR_EVER || waiter.is_worried())
                && self.owner.is_dead(&self.region, holder)
                && self.take_over(index, holder, me)
            {
                return Ok(());
            }
            waiter.pause(&self.owner)?;
        }
    }

    /// Locks a set whose owner is dead, if nobody else did meanwhile, and finishes what the owner began.
    fn take_over(&self, index: usize, dead: u64, me: u64) -> bool {
        let set = self.set(index);
        let Commit::Member { leader } = set.commit() else {
            let taken = set.lock().compare_exchange(dead, me, Acquire, Relaxed).is_ok();
            if taken {
                self.recover(index);
            }
            return taken;
        };
        if leader < self.layout.sets && leader != index {
            let leading = self.set(leader);
            if let Commit::Record(record) = leading.commit()
                && self.record_owner(record) == Some(dead)
            {
                // It is decided that the changes are made: whoever has the leader makes them, here too. If that one
                // died as well, it is us.
                let holder = leading.lock().load(Acquire);
                if holder != 0
                    && self.owner.is_dead(&self.region, holder)
                    && leading.lock().compare_exchange(holder, me, Acquire, Relaxed).is_ok()
                {
                    self.recover(leader);
                    unlock(leading.lock(), me);
                }
                return false;
            }
        }
        // Made already, or never decided.
        let taken = set.lock().compare_exchange(dead, me, Acquire, Relaxed).is_ok();
        if taken {
            set.set_commit(Commit::Nothing);
        }
        taken
    }

    /// Finishes what a dead owner began in a set that is now ours.
    fn recover(&self, index: usize) {
        let set = self.set(index);
        match set.commit() {
            Commit::Nothing | Commit::Member { .. } => {}
            Commit::Slot { slot, flags } => set.redo(slot, flags),
            Commit::Record(record) => self.finish(index, record),
        }
        set.set_commit(Commit::Nothing);
        if O::GROWS {
            self.drop_strangers(index);
        }
    }

    /// Takes a lock that belongs to the table as a whole.
    pub(super) fn lock_word(&self, lock: &Word, me: u64, patience: Duration) -> Result<()> {
        let mut waiter = Waiter::new(patience);
        loop {
            let holder = lock.load(Relaxed);
            let free =
                holder == 0 || (O::WAITS_FOR_EVER || waiter.is_worried()) && self.owner.is_dead(&self.region, holder);
            if free && lock.compare_exchange(holder, me, Acquire, Relaxed).is_ok() {
                return Ok(());
            }
            waiter.pause(&self.owner)?;
        }
    }
}
