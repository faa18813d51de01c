//! A table that starts small: sets are added one at a time, and take over some of the keys of one other set each.
//!
//! That is linear hashing. The number of sets is one word; whoever has locked a set looks at it again, and so knows whether
//! the key still falls into it. Only memory of one process grows; a file has all its sets from the start.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use smallvec::smallvec;

use super::Table;
use super::layout::{MIN_SETS, SLOTS};
use super::lock::{Owner, unlock};
use super::slot::{Place, Time};
use crate::error::Result;

/// Words of the header that belong to the growth.
const SETS: usize = 24;
const GROWTH_LOCK: usize = 25;

impl<O: Owner> Table<O> {
    /// The set that a key falls into.
    #[inline]
    pub(super) fn index(&self, place: Place) -> usize {
        if O::GROWS { place.of_growing(self.sets()) } else { place.of_fixed(self.layout.sets) }
    }

    /// How many sets there are by now.
    #[inline]
    pub(super) fn sets(&self) -> usize {
        if O::GROWS {
            let sets = usize::try_from(self.region[SETS].load(Acquire)).unwrap_or(0);
            sets.max(MIN_SETS).min(self.layout.sets)
        } else {
            self.layout.sets
        }
    }

    /// Whether a set, which is ours, has no room for so many more keys unless one that counts goes, and the table can
    /// still grow.
    #[inline]
    pub(super) fn is_crowded(&self, index: usize, more: usize, time: Time) -> bool {
        // More than half of a set is not worth to double the table for.
        O::GROWS && more > 0 && !self.set(index).has_room(more.min(SLOTS / 2), time) && self.sets() < self.layout.sets
    }

    /// Adds sets until the keys of that one have another to move to; nothing when somebody else did since there were so
    /// many.
    #[cold]
    pub(super) fn grow(&self, index: usize, sets: usize, me: u64) -> Result<()> {
        let lock = &self.region[GROWTH_LOCK];
        self.lock_word(lock, me, Duration::MAX)?;
        if self.sets() == sets {
            for next in sets..self.layout.sets {
                let source = next - (next + 1).next_power_of_two() / 2;
                self.split(source, next, me)?;
                if source == index {
                    break;
                }
            }
        }
        unlock(lock, me);
        Ok(())
    }

    /// Moves the keys that fall into the next set there, and makes it one of the table's.
    fn split(&self, source: usize, next: usize, me: u64) -> Result<()> {
        let _locked = self.lock_all(smallvec![source, next], me, Duration::MAX)?;
        let (from, to) = (self.set(source), self.set(next));
        // What a forked child's parent was about to move.
        to.tagged().for_each(|slot| to.remove(slot));
        let moving = || from.tagged().filter(|slot| from.fingerprint(*slot).place().of_growing(next + 1) == next);
        for (slot, free) in moving().zip(0..SLOTS) {
            to.write_raw(free, from.read_raw(slot));
        }
        self.region[SETS].store(next as u64 + 1, Release);
        moving().for_each(|slot| from.remove(slot));
        Ok(())
    }

    /// Drops from a set what falls into another one: it is there already.
    pub(super) fn drop_strangers(&self, index: usize) {
        let set = self.set(index);
        let strangers = set.tagged().filter(|slot| self.index(set.fingerprint(*slot).place()) != index);
        strangers.for_each(|slot| set.remove(slot));
    }
}
