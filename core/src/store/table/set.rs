//! One set: 62 slots in a page, with a lock and a journal. Everything here is done by whoever has the lock.
//!
//! A slot counts while the first word of its fingerprint is not zero. So one store makes a slot appear, once the rest of
//! it is written, and one store makes it vanish. The words of a slot that is there already are written to the journal
//! first; the one store that counts is that of the commit word. Whoever takes the lock over from an owner that died
//! does what the commit word says, again or for the first time.
//!
//! A byte per slot, the tag, tells where a key may be. It is set before its slot appears and cleared after it vanished,
//! so a tag may be there without a slot, but no slot without its tag.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use siphasher::sip128::Hash128;

use super::layout::{LINE, PAGE, SLOTS};
use crate::algorithm::MAX_EXACT;

pub(super) const LOCK: usize = 0;
const COMMIT: usize = 1;
const JOURNAL: usize = 2;
const EVICTED: usize = 7;
const TAGS: usize = LINE;
const SLOT_WORDS: usize = 2 * LINE;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// A set's words.
#[derive(Clone, Copy)]
pub(super) struct Set<'a>(pub(super) &'a [AtomicU64; PAGE]);

/// What a table knows of a key: 128 bits by a key of its own, from which nobody gets the key back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint {
    pub(super) first: u64,
    pub(super) second: u64,
}

impl From<Hash128> for Fingerprint {
    #[inline]
    fn from(hash: Hash128) -> Self {
        // Zero is for slots that hold nothing.
        Self { first: hash.h1 | 1, second: hash.h2 }
    }
}

impl Fingerprint {
    /// The fingerprint of what belongs to the same key by number. It falls into the same set.
    pub(super) const fn numbered(self, number: u64) -> Self {
        Self { second: self.second.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), ..self }
    }

    /// The set it falls into.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub(super) const fn set(self, sets: usize) -> usize {
        // Below `sets`, so nothing is cut off.
        ((self.first as u128 * sets as u128) >> 64) as usize
    }

    /// The slot it is looked for first.
    #[inline]
    const fn home(self) -> usize {
        (((self.second & 0xffff_ffff) * SLOTS as u64) >> 32) as usize
    }

    #[inline]
    const fn tag(self) -> u64 {
        self.second >> 56 | 0x80
    }
}

/// What a slot holds besides its fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) words: [i64; 3],
    pub(super) whole_at_us: u64,
    pub(super) flags: Flags,
    pub(super) written_at_us: u64,
}

impl Content {
    /// Whether the state is the same; when it was written does not matter.
    #[inline]
    pub(super) fn same_state(&self, other: &Self) -> bool {
        self.words == other.words && self.whole_at_us == other.whole_at_us && self.flags.kind() == other.flags.kind()
    }
}

/// What the words of a slot mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Three words of an algorithm.
    Words,
    /// Where the grants of a sliding log are.
    Log,
    /// One of the verdicts given to a call with an idempotency token.
    Verdict,
}

/// What is known about a slot in bits: kind, clock, how full the budget was, and for a verdict how many there are and
/// what remained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags(u64);

impl Flags {
    const SINCE_1970: u64 = 1 << 4;
    const DRAINS: u64 = 1 << 5;

    /// `fullness` is from 0 for used up to 255. `drains` says that it comes back steadily, and not all at once.
    #[inline]
    pub(super) const fn new(kind: Kind, since_1970: bool, drains: bool, fullness: u64) -> Self {
        let kind = match kind {
            Kind::Words => 1,
            Kind::Log => 2,
            Kind::Verdict => 3,
        };
        let since_1970 = if since_1970 { Self::SINCE_1970 } else { 0 };
        let drains = if drains { Self::DRAINS } else { 0 };
        Self(kind | since_1970 | drains | (fullness & 0xff) << 8)
    }

    pub(super) const fn of_verdict(since_1970: bool, count: u64, remaining: u64) -> Self {
        Self(Self::new(Kind::Verdict, since_1970, false, 255).0 | (count & 0xff) << 16 | remaining << 32)
    }

    #[inline]
    const fn kind(self) -> Option<Kind> {
        match self.0 & 0xf {
            1 => Some(Kind::Words),
            2 => Some(Kind::Log),
            3 => Some(Kind::Verdict),
            _ => None,
        }
    }

    const fn since_1970(self) -> bool {
        self.0 & Self::SINCE_1970 != 0
    }

    pub(super) const fn count(self) -> u64 {
        self.0 >> 16 & 0xff
    }

    pub(super) const fn remaining(self) -> u64 {
        self.0 >> 32
    }

    const fn fullness(self) -> u64 {
        self.0 >> 8 & 0xff
    }
}

/// How full a budget is, from 0 for used up to 255, without a division.
#[inline]
pub(super) const fn fullness(remaining: u64, limit: u64) -> u64 {
    let fullness = (remaining << 8) >> (64 - limit.leading_zeros());
    if fullness > 255 { 255 } else { fullness }
}

/// What a set's commit word says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Commit {
    /// Nothing is to be done.
    Nothing,
    /// The journal is what a slot holds from now on.
    Slot { slot: usize, flags: Flags },
    /// The changes in a record are made.
    Record(usize),
    /// Another set's commit word says what is done here.
    Member { leader: usize },
}

impl Commit {
    const fn of(word: u64) -> Self {
        let number = (word >> 8) as usize;
        match word & 0xff {
            1 => Self::Slot { slot: number & 0xff, flags: Flags(word >> 32) },
            2 => Self::Record(number),
            3 => Self::Member { leader: number },
            _ => Self::Nothing,
        }
    }

    const fn word(self) -> u64 {
        match self {
            Self::Nothing => 0,
            Self::Slot { slot, flags } => 1 | (slot as u64) << 8 | flags.0 << 32,
            Self::Record(index) => 2 | (index as u64) << 8,
            Self::Member { leader } => 3 | (leader as u64) << 8,
        }
    }
}

/// The instant of a step, and where it counts from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time {
    pub(super) now_us: u64,
    pub(super) since_1970: bool,
}

impl<'a> Set<'a> {
    #[inline]
    pub(super) fn lock(self) -> &'a AtomicU64 {
        &self.0[LOCK]
    }

    pub(super) fn commit(self) -> Commit {
        Commit::of(self.0[COMMIT].load(Acquire))
    }

    #[inline]
    pub(super) fn set_commit(self, commit: Commit) {
        self.0[COMMIT].store(commit.word(), Release);
    }

    /// Live states that were forgotten to make room.
    pub(super) fn evicted(self) -> u64 {
        self.0[EVICTED].load(Relaxed)
    }

    pub(super) fn count_eviction(self) {
        self.0[EVICTED].store(self.evicted().wrapping_add(1), Relaxed);
    }

    #[inline]
    const fn at(slot: usize) -> usize {
        SLOT_WORDS + slot * LINE
    }

    #[inline]
    fn word(self, slot: usize, word: usize) -> u64 {
        self.0[Self::at(slot) + word].load(Relaxed)
    }

    /// Where a key is.
    #[inline]
    pub(super) fn find(self, fingerprint: Fingerprint) -> Option<usize> {
        let home = fingerprint.home();
        if self.holds(home, fingerprint) { Some(home) } else { self.find_by_tag(fingerprint) }
    }

    fn find_by_tag(self, fingerprint: Fingerprint) -> Option<usize> {
        let wanted = fingerprint.tag() * ONES;
        for index in 0..LINE {
            let differs = self.0[TAGS + index].load(Relaxed) ^ wanted;
            // The high bit of every byte that is zero; above such a byte it may be set for nothing.
            let mut equal = differs.wrapping_sub(ONES) & !differs & HIGHS;
            while equal != 0 {
                let slot = index * 8 + equal.trailing_zeros() as usize / 8;
                if slot < SLOTS && self.holds(slot, fingerprint) {
                    return Some(slot);
                }
                equal &= equal - 1;
            }
        }
        None
    }

    #[inline]
    fn holds(self, slot: usize, fingerprint: Fingerprint) -> bool {
        self.word(slot, 0) == fingerprint.first && self.word(slot, 1) == fingerprint.second
    }

    /// Whether a slot holds anything.
    pub(super) fn is_used(self, slot: usize) -> bool {
        self.word(slot, 0) != 0
    }

    /// What a slot holds, if it can be that: no word of a state is beyond what can be counted exactly.
    #[inline]
    pub(super) fn content(self, slot: usize) -> Option<(Kind, Content)> {
        let words = [self.word(slot, 2), self.word(slot, 3), self.word(slot, 4)].map(u64::cast_signed);
        let whole_at_us = self.word(slot, 5);
        let flags = Flags(self.word(slot, 6));
        let written_at_us = self.word(slot, 7);
        let kind = flags.kind()?;
        let largest = words.iter().fold(0, |largest, word| largest | word.unsigned_abs());
        let possible = whole_at_us <= MAX_EXACT && (largest < 2 * MAX_EXACT || kind == Kind::Log);
        possible.then_some((kind, Content { words, whole_at_us, flags, written_at_us }))
    }

    /// Puts new words into a slot that is there.
    #[inline]
    pub(super) fn update(self, slot: usize, content: &Content) {
        let [first, second, third] = content.words.map(i64::cast_unsigned);
        for (index, word) in [first, second, third, content.whole_at_us, content.written_at_us].into_iter().enumerate()
        {
            self.0[JOURNAL + index].store(word, Relaxed);
        }
        self.set_commit(Commit::Slot { slot, flags: content.flags });
        self.apply(slot, content);
        self.set_commit(Commit::Nothing);
    }

    #[inline]
    fn apply(self, slot: usize, content: &Content) {
        let [first, second, third] = content.words.map(i64::cast_unsigned);
        let words = [first, second, third, content.whole_at_us, content.flags.0, content.written_at_us];
        for (index, word) in words.into_iter().enumerate() {
            self.0[Self::at(slot) + 2 + index].store(word, Relaxed);
        }
    }

    /// Does what the journal says, for an owner that died.
    pub(super) fn redo(self, slot: usize, flags: Flags) {
        let journal = |index: usize| self.0[JOURNAL + index].load(Relaxed);
        if slot < SLOTS {
            let words = [journal(0), journal(1), journal(2)].map(u64::cast_signed);
            self.apply(slot, &Content { words, whole_at_us: journal(3), flags, written_at_us: journal(4) });
        }
    }

    /// Makes a slot hold a key, in place of what it holds.
    pub(super) fn insert(self, slot: usize, fingerprint: Fingerprint, content: &Content) {
        self.0[Self::at(slot)].store(0, Release);
        self.set_tag(slot, fingerprint.tag());
        self.0[Self::at(slot) + 1].store(fingerprint.second, Release);
        self.apply(slot, content);
        self.0[Self::at(slot)].store(fingerprint.first, Release);
    }

    /// Makes a slot hold nothing.
    pub(super) fn remove(self, slot: usize) {
        self.0[Self::at(slot)].store(0, Release);
        self.set_tag(slot, 0);
    }

    fn set_tag(self, slot: usize, tag: u64) {
        let (word, shift) = (TAGS + slot / 8, slot % 8 * 8);
        let others = self.0[word].load(Relaxed) & !(0xff << shift);
        self.0[word].store(others | tag << shift, Release);
    }

    /// The words of a slot as they stand, to be written by [`write_raw`](Self::write_raw).
    pub(super) fn raw(slot: Option<(Fingerprint, &Content)>) -> [u64; LINE] {
        slot.map_or([0; LINE], |(fingerprint, content)| {
            let [first, second, third] = content.words.map(i64::cast_unsigned);
            let Content { whole_at_us, flags, written_at_us, .. } = *content;
            [fingerprint.first, fingerprint.second, first, second, third, whole_at_us, flags.0, written_at_us]
        })
    }

    /// Puts a slot's words in place; done again it does the same.
    pub(super) fn write_raw(self, slot: usize, raw: [u64; LINE]) {
        let [first, second, one, two, three, whole_at_us, flags, written_at_us] = raw;
        if first == 0 {
            return self.remove(slot);
        }
        let words = [one, two, three].map(u64::cast_signed);
        let content = Content { words, whole_at_us, flags: Flags(flags), written_at_us };
        self.insert(slot, Fingerprint { first, second }, &content);
    }

    /// The slot for a key that has none: one that is free or expired, else the one whose loss matters least. `taken` has
    /// a bit for every slot that is spoken for. Also says whether what it holds is still live.
    pub(super) fn choose(self, fingerprint: Fingerprint, taken: u64, time: &Time) -> Option<(usize, bool)> {
        let free = |slot: usize| taken >> slot & 1 == 0;
        let home = fingerprint.home();
        if free(home) && self.standing(home, time).is_none() {
            return Some((home, false));
        }
        if let Some(slot) = self.find_empty(taken) {
            return Some((slot, false));
        }
        let mut least: Option<(usize, u64)> = None;
        for slot in (0..SLOTS).filter(|&slot| free(slot)) {
            let Some(standing) = self.standing(slot, time) else { return Some((slot, false)) };
            if least.is_none_or(|(_, other)| standing < other) {
                least = Some((slot, standing));
            }
        }
        least.map(|(slot, _)| (slot, true))
    }

    /// The slots that hold something.
    pub(super) fn tagged(self) -> impl Iterator<Item = usize> + 'a {
        let tags = move |slot: usize| self.0[TAGS + slot / 8].load(Relaxed);
        (0..SLOTS).filter(move |&slot| tags(slot) >> (slot % 8 * 8) & 0xff != 0 && self.is_used(slot))
    }

    fn find_empty(self, taken: u64) -> Option<usize> {
        for index in 0..LINE {
            let tags = self.0[TAGS + index].load(Relaxed);
            let mut empty = tags.wrapping_sub(ONES) & !tags & HIGHS;
            while empty != 0 {
                let slot = index * 8 + empty.trailing_zeros() as usize / 8;
                if slot < SLOTS && taken >> slot & 1 == 0 && !self.is_used(slot) {
                    return Some(slot);
                }
                empty &= empty - 1;
            }
        }
        None
    }

    /// How much it matters that a slot is kept; `None` where it holds nothing, or nothing that counts any more.
    ///
    /// Budgets that are used up, or nearly, come before all others; apart from that it is the part that is missing times
    /// the time until it is back.
    pub(super) fn standing(self, slot: usize, time: &Time) -> Option<u64> {
        if !self.is_used(slot) {
            return None;
        }
        let (kind, content) = self.content(slot)?;
        let left_us = content.whole_at_us.saturating_sub(time.now_us);
        // The instants of two clocks do not compare: neither expires the other.
        let left_us = if content.flags.since_1970() == time.since_1970 { left_us } else { left_us.max(1) };
        if left_us == 0 {
            return None;
        }
        if kind == Kind::Verdict {
            return Some(left_us);
        }
        let missing = 256 - content.flags.fullness();
        let span_us = content.whole_at_us.saturating_sub(content.written_at_us).max(left_us);
        let drains = content.flags.0 & Flags::DRAINS != 0;
        let missing = if drains { part(missing, left_us, span_us) } else { missing };
        let used_up = if missing >= NEARLY_USED_UP { 1 << 63 } else { 0 };
        Some(used_up | left_us.saturating_mul(missing + 1).min((1 << 63) - 1))
    }
}

/// Of 256.
const NEARLY_USED_UP: u64 = 224;

/// `of` times `left` by `span`; both are below 2^54.
const fn part(of: u64, left: u64, span: u64) -> u64 {
    of * left / span
}
