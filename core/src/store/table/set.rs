//! One set: 62 slots in a page, with a lock and a journal. Everything here is done by whoever has the lock.
//!
//! A slot counts while the first word of its fingerprint is not zero. So one store makes a slot appear, once the rest of
//! it is written, and one store makes it vanish. The words of a slot that is there already are written to the journal
//! first; the one store that counts is that of the commit word. Whoever takes the lock over from an owner that died
//! does what the commit word says, again or for the first time.
//!
//! A byte per slot, the tag, tells where a key may be. It is set before its slot appears and cleared after it vanished,
//! so a tag may be there without a slot, but no slot without its tag.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use super::layout::{LINE, PAGE, SLOTS};
use super::slot::{Commit, Content, Fingerprint, Flags, Kind, Time};
use super::word::Word;
use crate::algorithm::{MAX_EXACT, State};

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
pub(super) struct Set<'a>(pub(super) &'a [Word; PAGE]);

impl<'a> Set<'a> {
    #[inline]
    pub(super) fn lock(self) -> &'a Word {
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

    /// Fetches what a step on a key needs, before it has the lock. The processor does that for both lines at once; behind
    /// the lock it would fetch one after the other.
    #[inline]
    pub(super) fn warm_up(self, key: Fingerprint) {
        std::hint::black_box((self.lock().load(Relaxed), self.word(key.home(), 0)));
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
        let flags = Flags::from_bits(self.word(slot, 6));
        let written_at_us = self.word(slot, 7);
        let kind = flags.kind()?;
        let largest = words.iter().fold(0, |largest, word| largest | word.unsigned_abs());
        let possible = whole_at_us <= MAX_EXACT && (largest < 2 * MAX_EXACT || !kind.counts());
        possible.then_some((kind, Content { words, whole_at_us, flags, written_at_us }))
    }

    /// The state in a slot, if it holds one.
    #[inline]
    pub(super) fn state(self, slot: usize) -> Option<State> {
        let words = [self.word(slot, 2), self.word(slot, 3), self.word(slot, 4)].map(u64::cast_signed);
        let whole_at_us = self.word(slot, 5);
        let largest = words[0].unsigned_abs() | words[1].unsigned_abs() | words[2].unsigned_abs();
        let possible = whole_at_us <= MAX_EXACT && largest < 2 * MAX_EXACT;
        let kind = Flags::from_bits(self.word(slot, 6)).kind();
        (possible && kind == Some(Kind::Words)).then_some(State { words, whole_at_us })
    }

    /// Whether a slot holds that state already.
    #[inline]
    pub(super) fn holds_state(self, slot: usize, state: &State) -> bool {
        self.word(slot, 2) == state.words[0].cast_unsigned()
            && self.word(slot, 3) == state.words[1].cast_unsigned()
            && self.word(slot, 4) == state.words[2].cast_unsigned()
            && self.word(slot, 5) == state.whole_at_us
    }

    /// Puts new words into a slot that is there.
    #[inline]
    pub(super) fn update(self, slot: usize, content: &Content) {
        self.0[JOURNAL].store(content.words[0].cast_unsigned(), Relaxed);
        self.0[JOURNAL + 1].store(content.words[1].cast_unsigned(), Relaxed);
        self.0[JOURNAL + 2].store(content.words[2].cast_unsigned(), Relaxed);
        self.0[JOURNAL + 3].store(content.whole_at_us, Relaxed);
        self.0[JOURNAL + 4].store(content.written_at_us, Relaxed);
        self.set_commit(Commit::Slot { slot, flags: content.flags });
        in_this_order();
        self.apply(slot, content);
        self.set_commit(Commit::Nothing);
    }

    #[inline]
    fn apply(self, slot: usize, content: &Content) {
        let at = Self::at(slot);
        self.0[at + 2].store(content.words[0].cast_unsigned(), Relaxed);
        self.0[at + 3].store(content.words[1].cast_unsigned(), Relaxed);
        self.0[at + 4].store(content.words[2].cast_unsigned(), Relaxed);
        self.0[at + 5].store(content.whole_at_us, Relaxed);
        self.0[at + 6].store(content.flags.bits(), Relaxed);
        self.0[at + 7].store(content.written_at_us, Relaxed);
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
        in_this_order();
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
            [fingerprint.first, fingerprint.second, first, second, third, whole_at_us, flags.bits(), written_at_us]
        })
    }

    /// Puts a slot's words in place; done again it does the same.
    pub(super) fn write_raw(self, slot: usize, raw: [u64; LINE]) {
        let [first, second, one, two, three, whole_at_us, flags, written_at_us] = raw;
        if first == 0 {
            return self.remove(slot);
        }
        let words = [one, two, three].map(u64::cast_signed);
        let content = Content { words, whole_at_us, flags: Flags::from_bits(flags), written_at_us };
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
            if standing < least.map_or(KEPT, |(_, other)| other) {
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

    /// Whether so many keys have room without one that counts having to go.
    pub(super) fn has_room(self, more: usize, time: Time) -> bool {
        // Tags are zero or have their high bit set, so what this counts are empty ones; two of the last word are no slots.
        let empty = |tags: u64| (tags.wrapping_sub(ONES) & !tags & HIGHS).count_ones() as usize;
        let all_empty = (0..LINE).map(|index| empty(self.0[TAGS + index].load(Relaxed))).sum::<usize>();
        all_empty >= more + (LINE * 8 - SLOTS)
            || (0..SLOTS).filter(|&slot| self.standing(slot, &time).is_none()).nth(more - 1).is_some()
    }

    pub(super) fn fingerprint(self, slot: usize) -> Fingerprint {
        Fingerprint { first: self.word(slot, 0), second: self.word(slot, 1) }
    }

    /// The words of a slot, to be written by [`write_raw`](Self::write_raw).
    pub(super) fn read_raw(self, slot: usize) -> [u64; LINE] {
        std::array::from_fn(|word| self.word(slot, word))
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
        if kind.is_held() {
            return Some(KEPT);
        }
        if kind == Kind::Verdict {
            return Some(left_us);
        }
        let missing = 256 - content.flags.fullness();
        let span_us = content.whole_at_us.saturating_sub(content.written_at_us).max(left_us);
        let drains = content.flags.drains();
        let missing = if drains { part(missing, left_us, span_us) } else { missing };
        let used_up = if missing >= NEARLY_USED_UP { 1 << 63 } else { 0 };
        Some((used_up | left_us.saturating_mul(missing + 1).min((1 << 63) - 1)).min(KEPT - 1))
    }
}

/// Keeps the compiler from writing what follows before what stands above. The processor needs no telling: of a process
/// that is killed it has carried out all up to some instruction, and nothing behind it.
#[inline]
fn in_this_order() {
    std::sync::atomic::compiler_fence(SeqCst);
}

/// How much it matters that a lock is kept: more than anything else, so that it is never forgotten.
pub(super) const KEPT: u64 = u64::MAX;

/// Of 256.
const NEARLY_USED_UP: u64 = 224;

/// `of` times `left` by `span`; both are below 2^54.
const fn part(of: u64, left: u64, span: u64) -> u64 {
    of * left / span
}
