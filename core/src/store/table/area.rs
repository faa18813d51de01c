//! The log area: runs of blocks, each with a word that says how long it is and whose log uses it.
//!
//! Every change of who has what is one store, so a process that dies leaves at most a run that nobody uses. Such runs,
//! and those of logs that have expired, are found by looking when room gets short. Runs are taken by one process at a
//! time, and given back by whoever has their set.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use super::Table;
use super::layout::SLOTS;
use super::lock::{Owner, unlock};
use super::log::block_of;
use super::set::KEPT;
use super::slot::{Place, Time};
use super::word::Word;
use crate::error::Result;

/// Words of the header that belong to the area.
const AREA_LOCK: usize = 16;
const CURSOR: usize = 17;
const USED: usize = 18;
const NEXT_SWEEP: usize = 19;
const OPEN: usize = 20;

/// Blocks that are used at first. The rest is opened as they run out, so that memory is taken as it is needed.
const FIRST_OPEN: usize = 256;

const IN_USE: u64 = 1 << 63;

/// How many runs are looked at where not all are.
const SAMPLE: usize = 256;

/// All are looked at this often at most, since that takes a while.
const SWEEP_EVERY_US: u64 = 1_000_000;

/// A run that could be taken from a live log.
struct Candidate {
    at: usize,
    length: usize,
    place: Place,
    standing: u64,
}

/// What is known about a run after a look at its owner.
enum Fate {
    Free,
    Kept,
    Live { place: Place, standing: u64 },
}

impl<O: Owner> Table<O> {
    /// How many blocks the run has that begins with this block, if a log of that place uses it.
    pub(super) fn run_length(&self, block: usize, place: Place) -> Option<usize> {
        let run = self.runs().get(block)?.load(Acquire);
        let (length, owner) = (self.length(block, run), owner(run)?);
        (owner == place).then_some(length)
    }

    /// Gives back a run of a set that is ours.
    pub(super) fn free_run(&self, block: usize, place: Place) {
        if let Some(length) = self.run_length(block, place) {
            self.runs()[block].store(length as u64, Release);
            self.region[USED].fetch_sub(length as u64, Relaxed);
        }
    }

    /// Takes a run of so many blocks for a set that is ours: a free one, else one whose log is gone or expired, else
    /// that of the log whose loss matters least among some. Says where it begins and how long it is.
    pub(super) fn allocate_run(
        &self,
        blocks: usize,
        place: Place,
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
            self.runs()[at].store(IN_USE | place.0 << 32 | blocks as u64, Release);
            self.region[USED].fetch_add(blocks as u64, Relaxed);
        }
        unlock(lock, me);
        Ok(found.map(|at| (at, blocks)))
    }

    /// A run of exactly so many blocks that nobody uses.
    fn find_run(&self, blocks: usize, time: Time, me: u64) -> Option<usize> {
        let look = |at: usize, run: u64| self.fate(at, run, time, me);
        loop {
            let used = usize::try_from(self.region[USED].load(Relaxed)).unwrap_or(usize::MAX);
            let open = self.open_blocks();
            if open.saturating_sub(used) >= blocks {
                let free = |_, run| if owner(run).is_none() { Fate::Free } else { Fate::Kept };
                if let (Some(at), _) = self.walk(blocks, usize::MAX, free) {
                    return Some(at);
                }
            }
            if open < self.layout.blocks {
                if let (Some(at), _) = self.walk(blocks, SAMPLE, look) {
                    return Some(at);
                }
                self.region[OPEN].store(open.saturating_mul(2) as u64, Relaxed);
                continue;
            }
            // Sets have clocks of their own; this one only spaces out the sweeps.
            let now_us = crate::clock::boot_time_us();
            let next_us = self.region[NEXT_SWEEP].load(Relaxed);
            let due = now_us >= next_us || next_us > now_us.saturating_add(SWEEP_EVERY_US);
            if due {
                self.region[NEXT_SWEEP].store(now_us + SWEEP_EVERY_US, Relaxed);
            }
            let (found, candidate) = self.walk(blocks, if due { usize::MAX } else { SAMPLE }, look);
            return found.or_else(|| {
                let candidate = candidate?;
                self.evict(&candidate, me).then(|| self.cut(candidate.at, candidate.length, blocks))
            });
        }
    }

    /// How many blocks are in use or have been.
    fn open_blocks(&self) -> usize {
        let open = usize::try_from(self.region[OPEN].load(Relaxed)).unwrap_or(usize::MAX);
        open.max(FIRST_OPEN).min(self.layout.blocks)
    }

    /// Goes over the runs once, from where the last walk ended, and joins free ones until one is long enough.
    fn walk(
        &self,
        blocks: usize,
        most: usize,
        mut fate: impl FnMut(usize, u64) -> Fate,
    ) -> (Option<usize>, Option<Candidate>) {
        let (runs, open) = (self.runs(), self.open_blocks());
        // The start of the last walk may be in the middle of a run since; the area's begin never is.
        let start = usize::try_from(self.region[CURSOR].swap(0, Relaxed)).ok().filter(|at| *at < open).unwrap_or(0);
        let mut candidate: Option<Candidate> = None;
        let (mut at, mut left, mut wrapped, mut seen) = (start, open, false, 0);
        while left > 0 && seen < most {
            let run = runs[at].load(Acquire);
            let mut length = self.length(at, run);
            seen += 1;
            match fate(at, run) {
                Fate::Kept => {}
                Fate::Live { place, standing } => {
                    if length >= blocks && candidate.as_ref().is_none_or(|other| standing < other.standing) {
                        candidate = Some(Candidate { at, length, place, standing });
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
            if at >= open {
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
        let Some(place) = owner(run) else { return Fate::Free };
        // Whoever has the set may be about to use the run.
        let Some((index, _locked)) = self.try_lock(place, me) else { return Fate::Kept };
        let set = self.set(index);
        let slot = self.slot_of_run(index, at);
        let standing = slot.and_then(|slot| set.standing(slot, &time));
        match (slot, standing) {
            (_, Some(KEPT)) => return Fate::Kept,
            (_, Some(standing)) => return Fate::Live { place, standing },
            (Some(slot), None) => set.remove(slot),
            (None, None) => {}
        }
        self.free_run(at, place);
        Fate::Free
    }

    fn evict(&self, candidate: &Candidate, me: u64) -> bool {
        let Some((index, _locked)) = self.try_lock(candidate.place, me) else { return false };
        let Some(slot) = self.slot_of_run(index, candidate.at) else { return false };
        let set = self.set(index);
        set.remove(slot);
        set.count_eviction();
        self.free_run(candidate.at, candidate.place);
        true
    }

    fn slot_of_run(&self, index: usize, at: usize) -> Option<usize> {
        let set = self.set(index);
        let refers = |slot: &usize| {
            set.is_used(*slot)
                && matches!(set.content(*slot), Some((kind, content)) if kind.has_run() && block_of(&content) == Some(at))
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

    fn runs(&self) -> &[Word] {
        &self.region[self.layout.runs()]
    }
}

/// The place of the log that uses a run.
const fn owner(run: u64) -> Option<Place> {
    if run & IN_USE == 0 { None } else { Some(Place((run >> 32) & ((1 << Place::BITS) - 1))) }
}
