//! Locks and leases: who is at work on a key. They are never forgotten to make room, since somebody relies on them.
//!
//! A lock is the three words of its slot. Leases are a list in the log area, which the slot's words refer to. A lease is
//! there, or over, with one store, of the instant at which it ends; whoever dies before that store holds nothing.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use super::Table;
use super::layout::BLOCK;
use super::lock::Owner;
use super::log::block_of;
use super::slot::{Content, Flags, Kind, Place, Time};
use super::word::Word;
use crate::algorithm::in_flight::{Act, Held, Lease, Places};
use crate::error::{Error, Result, StoreErrorKind};
use crate::store::{Hold, Kept};

/// Words of a lease: when it is over, and its holder.
const LEASE: usize = 3;

impl<O: Owner> Table<O> {
    /// One step on the leases of a key; see [`Store::hold`](crate::store::Store::hold).
    pub(crate) fn hold(&self, hold: &Hold<'_>, patience: Duration) -> Result<Held> {
        let me = self.owner.word(&self.region)?;
        let fingerprint = self.fingerprint(hold.key);
        let (index, locked) = self.lock_for(fingerprint, me, patience)?;
        let set = self.set(index);
        let time = Time::of(hold.now_us, false);
        let slot = set.find(fingerprint);
        if O::GROWS && slot.is_none() && self.is_crowded(index, 1, time) {
            let sets = self.sets();
            drop(locked);
            self.grow(index, sets, me)?;
            return self.hold(hold, patience);
        }
        let before = slot.and_then(|slot| set.content(slot));
        let of_kind = |wanted| before.and_then(|(kind, content)| (kind == wanted).then_some(content));
        match hold.kept {
            Kept::AsLock => {
                let mut lock = Single::of(of_kind(Kind::Lock));
                let (answer, until_us) = hold.request.decide(&mut lock, time.now_us)?;
                if hold.request.act != Act::Count {
                    self.publish(set, slot, fingerprint, lock.content(until_us, time).as_ref(), time)?;
                }
                Ok(answer)
            }
            Kept::AsLeases => {
                let place = fingerprint.place();
                let mut list = List::open(self, (place, me, patience, time), of_kind(Kind::Leases).as_ref());
                let (answer, until_us) = hold.request.decide(&mut list, time.now_us)?;
                if hold.request.act != Act::Count {
                    self.publish(set, slot, fingerprint, list.content(until_us).as_ref(), time)?;
                    list.clean_up(until_us);
                }
                Ok(answer)
            }
        }
    }
}

/// A lock's place, which is the slot itself.
struct Single(Option<Lease>);

impl Single {
    fn of(content: Option<Content>) -> Self {
        Self(content.map(|content| {
            let [high, low, _] = content.words.map(i64::cast_unsigned);
            Lease { holder: u128::from(high) << 64 | u128::from(low), until_us: content.whole_at_us }
        }))
    }

    #[allow(clippy::cast_possible_truncation)]
    fn content(&self, until_us: u64, time: Time) -> Option<Content> {
        let Lease { holder, .. } = self.0.filter(|_| until_us > time.now_us)?;
        let words = [(holder >> 64) as u64, holder as u64, 0].map(u64::cast_signed);
        Some(held_until(Kind::Lock, words, until_us, time))
    }
}

impl Places for Single {
    fn len(&self) -> usize {
        usize::from(self.0.is_some())
    }

    fn lease(&self, _: usize) -> Lease {
        self.0.unwrap_or(NOBODY)
    }

    fn end(&mut self, _: usize, until_us: u64) {
        if let Some(lease) = &mut self.0 {
            lease.until_us = until_us;
        }
    }

    fn put(&mut self, _: usize, lease: Lease) -> Result<()> {
        self.0 = Some(lease);
        Ok(())
    }
}

const NOBODY: Lease = Lease { holder: 0, until_us: 0 };

fn held_until(kind: Kind, words: [i64; 3], until_us: u64, time: Time) -> Content {
    Content {
        words,
        whole_at_us: until_us,
        flags: Flags::new(kind, time.since_1970, false, 0),
        written_at_us: time.now_us,
    }
}

/// A list of leases in the log area.
struct List<'a, O: Owner> {
    table: &'a Table<O>,
    place: Place,
    me: u64,
    patience: Duration,
    time: Time,
    block: Option<usize>,
    capacity: usize,
    len: usize,
    /// The block it moved away from, to be freed once the new words are published.
    left: Option<usize>,
}

impl<'a, O: Owner> List<'a, O> {
    fn open(
        table: &'a Table<O>,
        (place, me, patience, time): (Place, u64, Duration, Time),
        content: Option<&Content>,
    ) -> Self {
        let mut list = Self { table, place, me, patience, time, block: None, capacity: 0, len: 0, left: None };
        if let Some(content) = content
            && let Some(block) = block_of(content)
            && let Some(blocks) = table.run_length(block, place)
        {
            list.block = Some(block);
            list.capacity = blocks * BLOCK / LEASE;
            list.len = usize::try_from(content.words[1]).unwrap_or(0).min(list.capacity);
        }
        list
    }

    /// What the slot is to hold, where the last lease is over at that instant; nothing when no lease is left.
    fn content(&self, until_us: u64) -> Option<Content> {
        let block = self.block.filter(|_| until_us > self.time.now_us)?;
        let words = [block as u64 + 1, self.len as u64, 0].map(u64::cast_signed);
        Some(held_until(Kind::Leases, words, until_us, self.time))
    }

    /// Frees what the published words no longer refer to.
    fn clean_up(mut self, until_us: u64) {
        let unused = self.block.take_if(|_| until_us <= self.time.now_us);
        unused.into_iter().chain(self.left).for_each(|block| self.table.free_run(block, self.place));
    }

    fn words(&self, place: usize) -> Option<&'a [Word; LEASE]> {
        let at = self.block? * BLOCK + place * LEASE;
        self.table.region[self.table.layout.block_words()].get(at..at + LEASE)?.try_into().ok()
    }

    /// Moves to a list twice as long.
    fn grow(&mut self) -> Result<()> {
        let needed = ((self.len + 1) * LEASE).div_ceil(BLOCK);
        let wanted = (2 * self.len * LEASE).div_ceil(BLOCK).max(needed);
        let mut run = None;
        for blocks in [wanted, needed] {
            if run.is_none() {
                run = self.table.allocate_run(blocks, self.place, self.time, self.me, self.patience)?;
            }
        }
        let Some((block, blocks)) = run else { return Err(self.no_room()) };
        let old = List { left: None, ..*self };
        (self.block, self.capacity, self.left) = (Some(block), blocks * BLOCK / LEASE, old.block);
        (0..self.len).for_each(|place| self.write(place, old.lease(place)));
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation)]
    fn write(&self, place: usize, lease: Lease) {
        if let Some([until_us, high, low]) = self.words(place) {
            high.store((lease.holder >> 64) as u64, Release);
            low.store(lease.holder as u64, Release);
            until_us.store(lease.until_us, Release);
        }
    }

    fn no_room(&self) -> Error {
        let bytes = self.table.layout.blocks * BLOCK * 8;
        let detail = format!(
            "the store has {bytes} bytes for leases and sliding logs, and no room left in them for {} leases of one key: \
             give it more memory",
            self.len + 1
        );
        Error::unavailable(StoreErrorKind::Oom, detail)
    }
}

impl<O: Owner> Places for List<'_, O> {
    fn len(&self) -> usize {
        self.len
    }

    fn lease(&self, place: usize) -> Lease {
        let Some([until_us, high, low]) =
            self.words(place).map(|words| words.each_ref().map(|word| word.load(Acquire)))
        else {
            return NOBODY;
        };
        // What is in a shared file may be anything.
        Lease { holder: u128::from(high) << 64 | u128::from(low), until_us: until_us.min(crate::algorithm::MAX_EXACT) }
    }

    fn end(&mut self, place: usize, until_us: u64) {
        if let Some([word, ..]) = self.words(place) {
            word.store(until_us, Release);
        }
    }

    fn put(&mut self, place: usize, lease: Lease) -> Result<()> {
        if place >= self.capacity {
            self.grow()?;
        }
        // Its place is that of one that is over: it is nobody's while its words are of two.
        self.end(place, 0);
        self.write(place, lease);
        self.len = self.len.max(place + 1);
        Ok(())
    }
}
