//! The log area: runs of blocks, each with a word that says how long it is and which set uses it.
//!
//! Every change of who has what is one store, so a process that dies leaves at most a run that nobody uses. Such runs,
//! and those of logs that have expired, are found by looking when room gets short. Runs are taken by one process at a
//! time, and given back by whoever has their set.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use super::Table;
use super::layout::SLOTS;
use super::lock::{Owner, unlock};
use super::log::block_of;
use super::set::{Kind, Time};
use crate::error::Result;

/// Words of the header that belong to the area.
const AREA_LOCK: usize = 16;
const CURSOR: usize = 17;
const USED: usize = 18;
const NEXT_SWEEP: usize = 19;

const IN_USE: u64 = 1 << 63;

/// How many runs are looked at where not all are.
const SAMPLE: usize = 256;

/// All are looked at this often at most, since that takes a while.
const SWEEP_EVERY_US: u64 = 1_000_000;

/// A run that could be taken from a live log.
struct Candidate {
    at: usize,
    length: usize,
    set: usize,
    standing: u64,
}

/// What is known about a run after a look at its owner.
enum Fate {
    Free,
    Kept,
    Live { set: usize, standing: u64 },
}

impl<O: Owner> Table<O> {
    /// How many blocks the run has that begins with this block, if that set uses it.
    pub(super) fn run_length(&self, block: usize, set: usize) -> Option<usize> {
        let run = self.runs().get(block)?.load(Acquire);
        let (length, owner) = (self.length(block, run), owner(run)?);
        (owner == set).then_some(length)
    }

    /// Gives back a run of a set that is ours.
    pub(super) fn free_run(&self, block: usize, set: usize) {
        if let Some(length) = self.run_length(block, set) {
            self.runs()[block].store(length as u64, Release);
            self.region[USED].fetch_sub(length as u64, Relaxed);
        }
    }

    /// Takes a run of so many blocks for a set that is ours: a free one, else one whose log is gone or expired, else
    /// that of the log whose loss matters least among some. Says where it begins and how long it is.
    pub(super) fn allocate_run(
        &self,
        blocks: usize,
        set: usize,
        time: Time,
        me: u64,
        patience: Duration,
    ) -> Result<Option<(usize, usize)>> {
        if blocks > self.layout.blocks {
            return Ok(None);
        }
        let lock = &self.region[AREA_LOCK];
        self.lock_word(lock, me, patience)?;
        let found = self.find_run(blocks, time, me);
        if let Some(at) = found {
            self.runs()[at].store(IN_USE | (set as u64) << 32 | blocks as u64, Release);
            self.region[USED].fetch_add(blocks as u64, Relaxed);
        }
        unlock(lock, me);
        Ok(found.map(|at| (at, blocks)))
    }

    /// A run of exactly so many blocks that nobody uses.
    fn find_run(&self, blocks: usize, time: Time, me: u64) -> Option<usize> {
        let used = usize::try_from(self.region[USED].load(Relaxed)).unwrap_or(usize::MAX);
        if self.layout.blocks.saturating_sub(used) >= blocks
            && let Some(at) =
                self.walk(blocks, usize::MAX, |_, run| if owner(run).is_none() { Fate::Free } else { Fate::Kept }).0
        {
            return Some(at);
        }
        // Sets have clocks of their own; this one only spaces out the sweeps.
        let now_us = crate::clock::boot_time_us();
        let next_us = self.region[NEXT_SWEEP].load(Relaxed);
        let due = now_us >= next_us || next_us > now_us.saturating_add(SWEEP_EVERY_US);
        if due {
            self.region[NEXT_SWEEP].store(now_us + SWEEP_EVERY_US, Relaxed);
        }
        let look = |at: usize, run: u64| self.fate(at, run, time, me);
        let (found, candidate) = self.walk(blocks, if due { usize::MAX } else { SAMPLE }, look);
        found.or_else(|| {
            let candidate = candidate?;
            self.evict(&candidate, me).then(|| self.cut(candidate.at, candidate.length, blocks))
        })
    }

    /// Goes over the runs once, from where the last walk ended, and joins free ones until one is long enough.
    fn walk(
        &self,
        blocks: usize,
        most: usize,
        mut fate: impl FnMut(usize, u64) -> Fate,
    ) -> (Option<usize>, Option<Candidate>) {
        let runs = self.runs();
        // The start of the last walk may be in the middle of a run since; the area's begin never is.
        let start =
            usize::try_from(self.region[CURSOR].swap(0, Relaxed)).ok().filter(|at| *at < runs.len()).unwrap_or(0);
        let mut candidate: Option<Candidate> = None;
        let (mut at, mut left, mut wrapped, mut seen) = (start, runs.len(), false, 0);
        while left > 0 && seen < most {
            let run = runs[at].load(Acquire);
            let mut length = self.length(at, run);
            seen += 1;
            match fate(at, run) {
                Fate::Kept => {}
                Fate::Live { set, standing } => {
                    if length >= blocks && candidate.as_ref().is_none_or(|other| standing < other.standing) {
                        candidate = Some(Candidate { at, length, set, standing });
                    }
                }
                Fate::Free => {
                    while length < blocks && at + length < runs.len() && seen < most {
                        let next = runs[at + length].load(Acquire);
                        seen += 1;
                        if !matches!(fate(at + length, next), Fate::Free) {
                            break;
                        }
                        length += self.length(at + length, next);
                    }
                    if length >= blocks {
                        return (Some(self.cut(at, length, blocks)), None);
                    }
                    runs[at].store(length as u64, Release);
                }
            }
            at += length;
            left = left.saturating_sub(length);
            if at >= runs.len() {
                at = 0;
                if wrapped {
                    break;
                }
                wrapped = true;
            }
        }
        self.region[CURSOR].store(at as u64, Relaxed);
        (None, candidate)
    }

    /// Makes a free run as long as wanted, and what remains of it a run of its own.
    fn cut(&self, at: usize, length: usize, blocks: usize) -> usize {
        let runs = self.runs();
        let end = at + blocks;
        if length > blocks {
            runs[end].store((length - blocks) as u64, Release);
        }
        self.region[CURSOR].store(if end < runs.len() { end as u64 } else { 0 }, Relaxed);
        at
    }

    /// Looks whether the log that a run belongs to is still there, and frees the run if it is not.
    fn fate(&self, at: usize, run: u64, time: Time, me: u64) -> Fate {
        let Some(index) = owner(run) else { return Fate::Free };
        if index >= self.layout.sets {
            return Fate::Free;
        }
        // Whoever has the set may be about to use the run.
        let Some(_locked) = self.try_lock(index, me) else { return Fate::Kept };
        let set = self.set(index);
        let slot = self.slot_of_run(index, at);
        let standing = slot.and_then(|slot| set.standing(slot, &time));
        match (slot, standing) {
            (_, Some(standing)) => return Fate::Live { set: index, standing },
            (Some(slot), None) => set.remove(slot),
            (None, None) => {}
        }
        self.free_run(at, index);
        Fate::Free
    }

    fn evict(&self, candidate: &Candidate, me: u64) -> bool {
        let Some(_locked) = self.try_lock(candidate.set, me) else { return false };
        let Some(slot) = self.slot_of_run(candidate.set, candidate.at) else { return false };
        let set = self.set(candidate.set);
        set.remove(slot);
        set.count_eviction();
        self.free_run(candidate.at, candidate.set);
        true
    }

    fn slot_of_run(&self, index: usize, at: usize) -> Option<usize> {
        let set = self.set(index);
        let refers = |slot: &usize| {
            set.is_used(*slot)
                && matches!(set.content(*slot), Some((Kind::Log, content)) if block_of(&content) == Some(at))
        };
        (0..SLOTS).find(refers)
    }

    /// At least one, and not beyond the end. Zeros are one free run.
    fn length(&self, at: usize, run: u64) -> usize {
        let rest = self.layout.blocks - at;
        match (run & 0xffff_ffff) as usize {
            0 => rest,
            length => length.min(rest),
        }
    }

    fn runs(&self) -> &[AtomicU64] {
        &self.region[self.layout.runs()]
    }
}

/// The set that uses a run.
const fn owner(run: u64) -> Option<usize> {
    if run & IN_USE == 0 { None } else { Some((run >> 32 & 0x7fff_ffff) as usize) }
}
