//! Where everything stands in the region. All of it follows from the number of sets and blocks, so that nothing a file
//! says can point outside it.
//!
//! ```text
//! header    one page: what the file is, the key of the fingerprints, the state of the log area
//! registry  one entry per process that has the file open
//! records   what steps that change several slots write down before they do
//! runs      one word per block of the log area: whether it is used, by which set, and up to where
//! sets      one page each: a line with the lock and the journal, a line of tags, 62 slots of a line each
//! blocks    the log area
//! ```

use std::ops::Range;

/// Words of a page. The model checker has a table of its own size, or it would check for ever.
pub(super) const PAGE: usize = if cfg!(modelled) { 32 } else { 512 };

/// Words of a cache line.
pub(super) const LINE: usize = 8;

/// Slots of a set.
pub(crate) const SLOTS: usize = (PAGE - 2 * LINE) / LINE;

/// Keys that a set is made for. The number that fall into one scatters by the root of this, and so more than 62 are
/// some four deviations away.
const KEYS_PER_SET: usize = 36;

/// Processes that can have a file open at a time.
pub(crate) const PROCESSES: usize = if cfg!(modelled) { 1 } else { 4096 };

/// Words of a process's entry in the registry.
pub(crate) const PROCESS: usize = 2;

/// Steps on several slots that can be under way at a time.
pub(super) const RECORDS: usize = if cfg!(modelled) { 2 } else { 64 };

/// Changes that one step can make.
pub(super) const CHANGES: usize = if cfg!(modelled) { 2 } else { 64 };

/// Words of a record.
pub(super) const RECORD: usize = if cfg!(modelled) { 32 } else { 640 };

/// Words of a block of the log area.
pub(super) const BLOCK: usize = 32;

/// Blocks in which a log of a million grants fits, at least; memory of a process is only taken as it is used.
const MIN_PRIVATE_BLOCKS: usize = 1 << 17;

/// Sets for some ten thousand keys.
const FEW_SETS: usize = 256;

/// Sets that a table which grows has at least; one of fewer would be full sooner than the average.
pub(super) const MIN_SETS: usize = 4;

const REGISTRY_AT: usize = PAGE;
const RECORDS_AT: usize = REGISTRY_AT + PROCESSES * PROCESS;
const RUNS_AT: usize = RECORDS_AT + RECORDS * RECORD;

/// Of a file, so much is the log area.
const LOG_SHARE: usize = 4;

/// How many sets and blocks there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Sets of 62 slots.
    pub(crate) sets: usize,
    /// Blocks of the log area.
    pub(crate) blocks: usize,
}

impl Layout {
    /// For so many keys, with room to spare, so that none is forgotten early. Sets become more one at a time, up to a power
    /// of two.
    pub(crate) fn for_keys(keys: usize) -> Option<Self> {
        let sets = keys.div_ceil(KEYS_PER_SET).max(MIN_SETS).checked_next_power_of_two()?;
        let blocks = keys.max(MIN_PRIVATE_BLOCKS);
        let layout = Self { sets, blocks };
        (sets <= u32::MAX as usize / 2 && blocks <= u32::MAX as usize / 2).then_some(layout)
    }

    /// For a file of so many bytes; `None` when they are too few, or too many to be addressed.
    pub(crate) fn for_bytes(bytes: u64) -> Option<Self> {
        let words = usize::try_from(bytes / 8).ok().filter(|words| *words < 1 << 40)?;
        let left = words.checked_sub(RUNS_AT)?;
        // A block has a word in front of the sets that says whose it is.
        let blocks = left / LOG_SHARE / (BLOCK + 1);
        let layout = Self { sets: 0, blocks };
        let sets = words.checked_sub(layout.sets_at())?.checked_sub(blocks * BLOCK)? / PAGE;
        (sets > 0 && blocks > 0 && blocks <= u32::MAX as usize / 2).then_some(Self { sets, blocks })
    }

    /// Words of the whole region.
    pub(crate) const fn words(&self) -> usize {
        self.blocks_at() + self.blocks * BLOCK
    }

    /// The entry of a process.
    pub(crate) const fn process(id: usize) -> Range<usize> {
        let at = REGISTRY_AT + id * PROCESS;
        at..at + PROCESS
    }

    /// A record.
    pub(super) const fn record(index: usize) -> Range<usize> {
        let at = RECORDS_AT + index * RECORD;
        at..at + RECORD
    }

    /// The words that say whose the blocks are.
    pub(super) const fn runs(&self) -> Range<usize> {
        RUNS_AT..RUNS_AT + self.blocks
    }

    /// A set.
    #[inline]
    pub(super) const fn set(&self, index: usize) -> Range<usize> {
        let at = self.sets_at() + index * PAGE;
        at..at + PAGE
    }

    /// All sets but the first ones: a table of few keys should not take a large page.
    pub(crate) const fn later_sets(&self) -> Range<usize> {
        let first = if self.sets < FEW_SETS { self.sets } else { FEW_SETS };
        self.set(first).start..self.blocks_at()
    }

    /// The blocks.
    pub(super) const fn block_words(&self) -> Range<usize> {
        self.blocks_at()..self.blocks_at() + self.blocks * BLOCK
    }

    #[inline]
    const fn sets_at(&self) -> usize {
        (RUNS_AT + self.blocks).next_multiple_of(PAGE)
    }

    const fn blocks_at(&self) -> usize {
        self.sets_at() + self.sets * PAGE
    }
}

const _: () = assert!(RECORD >= LINE + CHANGES * (LINE + 1));
