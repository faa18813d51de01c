//! The grants of a sliding log, as a ring in the log area.
//!
//! The slot's words say where the ring is and which part of it counts. What is beyond that part may be written at any
//! time, so a grant is there with the one store that publishes the words. A ring that is full moves to one twice as
//! long.

use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::time::Duration;

use smallvec::SmallVec;

use super::Table;
use super::layout::BLOCK;
use super::lock::Owner;
use super::slot::{Content, Flags, Kind, Place, Time};
use super::word::Word;
use crate::algorithm::sliding_window_log::whole_at_us;
use crate::algorithm::{Grant, Grants, MAX_EXACT};
use crate::error::{Error, Result, StoreErrorKind};

/// Words of a grant.
const GRANT: usize = 3;

/// Bits of the word that says which part of the ring counts.
const INDEX_BITS: u32 = 26;
const MAX_GRANTS: usize = (1 << INDEX_BITS) - 1;

/// A ring, as the slot's words describe it.
pub(super) struct Ring<'a, O: Owner> {
    pub(super) table: &'a Table<O>,
    /// The place of its key.
    pub(super) place: Place,
    pub(super) me: u64,
    pub(super) patience: Duration,
    pub(super) time: Time,
    /// The most grants it will ever hold.
    pub(super) limit: u64,
    /// The block it begins with; none while it has never held anything.
    block: Option<usize>,
    capacity: usize,
    head: usize,
    len: usize,
    total: u64,
    /// Blocks that it moved away from, to be freed once the new words are published.
    left: SmallVec<[usize; 1]>,
}

impl<'a, O: Owner> Ring<'a, O> {
    /// The ring that a slot's words describe, or an empty one where they describe none.
    pub(super) fn open(
        table: &'a Table<O>,
        place: Place,
        me: u64,
        patience: Duration,
        time: Time,
        limit: u64,
        content: Option<&Content>,
    ) -> Self {
        let left = SmallVec::new();
        let mut ring =
            Self { table, place, me, patience, time, limit, block: None, capacity: 0, head: 0, len: 0, total: 0, left };
        if let Some(block) = content.and_then(block_of)
            && let Some(blocks) = table.run_length(block, place)
        {
            let [_, part, total] = content.map_or([0; 3], |content| content.words.map(i64::cast_unsigned));
            let number = |bits: u64| usize::try_from(bits).unwrap_or(usize::MAX);
            let (head, len) = (number(part >> INDEX_BITS), number(part & MAX_GRANTS as u64));
            ring.block = Some(block);
            ring.capacity = (blocks * BLOCK / GRANT).min(MAX_GRANTS);
            if head < ring.capacity && len <= ring.capacity {
                (ring.head, ring.len, ring.total) = (head, len, total);
            }
        }
        ring
    }

    /// What the slot is to hold; nothing when no grant is left.
    pub(super) fn content(&self, fullness: u64) -> Option<Content> {
        let block = self.block.filter(|_| self.len > 0)?;
        let part = (self.head as u64) << INDEX_BITS | self.len as u64;
        Some(Content {
            words: [block as u64 + 1, part, self.total].map(u64::cast_signed),
            whole_at_us: whole_at_us(self),
            flags: Flags::new(Kind::Log, self.time.since_1970, false, fullness),
            written_at_us: self.time.now_us,
        })
    }

    /// Frees what the published words no longer refer to.
    pub(super) fn clean_up(&mut self) {
        if self.len == 0 {
            self.left.extend(self.block.take());
        }
        for block in self.left.drain(..) {
            self.table.free_run(block, self.place);
        }
    }

    fn words(&self, index: usize) -> Option<&'a [Word]> {
        let place = (self.head + index) % self.capacity.max(1) * GRANT;
        let at = self.block? * BLOCK + place;
        self.table.region[self.table.layout.block_words()].get(at..at + GRANT)
    }

    fn write(&self, index: usize, grant: Grant) {
        if let Some([at_us, before, whole_at_us]) = self.words(index) {
            // A later instant is brought down again, so the end comes first.
            whole_at_us.store(grant.whole_at_us, Relaxed);
            before.store(grant.before, Relaxed);
            at_us.store(grant.at_us, Relaxed);
        }
    }

    /// Moves to a ring twice as long, if there is one, or at least to a longer one.
    fn grow(&mut self) -> Result<()> {
        let blocks = self.capacity * GRANT / BLOCK;
        let needed = ((self.len + 1) * GRANT).div_ceil(BLOCK);
        let enough = usize::try_from(self.limit).unwrap_or(MAX_GRANTS).saturating_mul(GRANT).div_ceil(BLOCK);
        let wanted = (2 * blocks).min(enough).max(needed);
        let mut block = None;
        for blocks in [wanted, needed] {
            if self.len < MAX_GRANTS && block.is_none() {
                block = self.table.allocate_run(blocks, self.place, self.time, self.me, self.patience)?;
            }
        }
        let Some((block, blocks)) = block else { return Err(self.no_room()) };
        let mut longer = Ring {
            block: Some(block),
            capacity: (blocks * BLOCK / GRANT).min(MAX_GRANTS),
            head: 0,
            left: SmallVec::new(),
            ..*self
        };
        for index in 0..self.len {
            longer.write(index, self.grant(index));
        }
        longer.left.extend(self.left.drain(..).chain(self.block));
        *self = longer;
        Ok(())
    }

    fn no_room(&self) -> Error {
        let (len, bytes) = (self.len, self.table.layout.blocks * BLOCK * 8);
        let detail = format!(
            "the store has {bytes} bytes for sliding logs, and no room left in them for {} grants of one key: give it \
             more memory, or use a sliding window counter",
            len + 1
        );
        Error::unavailable(StoreErrorKind::Oom, detail)
    }
}

/// The block that a slot's words refer to.
pub(super) fn block_of(content: &Content) -> Option<usize> {
    usize::try_from(content.words[0]).ok()?.checked_sub(1)
}

impl<O: Owner> Grants for Ring<'_, O> {
    fn len(&self) -> usize {
        self.len
    }

    fn grant(&self, index: usize) -> Grant {
        let words = self.words(index).and_then(|words| <&[Word; GRANT]>::try_from(words).ok());
        let [at_us, before, whole_at_us] =
            words.map_or([0; GRANT], |words| words.each_ref().map(|word| word.load(Acquire)));
        // What is in a shared file may be anything.
        Grant { at_us: at_us % MAX_EXACT, before, whole_at_us: whole_at_us % MAX_EXACT }
    }

    fn total(&self) -> u64 {
        self.total
    }

    fn move_to(&mut self, index: usize, at_us: u64, whole_at_us: u64) {
        let before = self.grant(index).before;
        self.write(index, Grant { at_us, before, whole_at_us });
    }

    fn drop_oldest(&mut self, count: usize) {
        self.head = (self.head + count) % self.capacity.max(1);
        self.len = self.len.saturating_sub(count);
    }

    fn truncate(&mut self, count: usize, total: u64) {
        self.len = self.len.min(count);
        self.total = total;
    }

    fn push(&mut self, grant: Grant, total: u64) -> Result<()> {
        if self.len >= self.capacity {
            self.grow()?;
        }
        self.write(self.len, grant);
        self.len += 1;
        self.total = total;
        Ok(())
    }
}
