//! What a slot holds, and the bits that say what its words mean.

use siphasher::sip128::Hash128;

use super::layout::SLOTS;

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

/// Which set a key falls into, in 31 bits; a run of the log area says by them whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place(pub(super) u64);

impl Place {
    pub(super) const BITS: u32 = 31;

    /// The set, of so many that all are there from the start.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub(super) const fn of_fixed(self, sets: usize) -> usize {
        // Below `sets`, so nothing is cut off.
        ((self.0 as u128 * sets as u128) >> Self::BITS) as usize
    }

    /// The set, of so many by now. When they become one more, the keys of a single set move, some of them, to the new one.
    #[inline]
    #[allow(clippy::cast_possible_truncation)]
    pub(super) const fn of_growing(self, sets: usize) -> usize {
        let doubled = self.0 as usize & (sets.next_power_of_two() - 1);
        if doubled < sets { doubled } else { doubled & (sets.next_power_of_two() / 2 - 1) }
    }
}

impl Fingerprint {
    /// The fingerprint of what belongs to the same key by number. It falls into the same set.
    pub(super) const fn numbered(self, number: u64) -> Self {
        Self { second: self.second.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)), ..self }
    }

    /// The part that says into which set it falls.
    #[inline]
    pub(super) const fn place(self) -> Place {
        Place(self.first >> (64 - Place::BITS))
    }

    /// The slot it is looked for first.
    #[inline]
    pub(super) const fn home(self) -> usize {
        (((self.second & 0xffff_ffff) * SLOTS as u64) >> 32) as usize
    }

    #[inline]
    pub(super) const fn tag(self) -> u64 {
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
    /// The holder of a lock.
    Lock,
    /// Where the leases of a key are.
    Leases,
}

impl Kind {
    /// Whether the words are numbers of a model, none beyond what can be counted exactly.
    pub(super) const fn counts(self) -> bool {
        matches!(self, Self::Words | Self::Verdict)
    }

    /// Whether the first word says where a run of the log area is.
    pub(super) const fn has_run(self) -> bool {
        matches!(self, Self::Log | Self::Leases)
    }

    /// Whether somebody relies on its being there.
    pub(super) const fn is_held(self) -> bool {
        matches!(self, Self::Lock | Self::Leases)
    }
}

/// What is known about a slot in bits: kind, clock, how full the budget was, and for a verdict how many there are and
/// what remained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Flags(u64);

impl Flags {
    /// The bits, to be kept in a word.
    pub(super) const fn bits(self) -> u64 {
        self.0
    }

    /// From a word.
    pub(super) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Whether the budget comes back steadily.
    pub(super) const fn drains(self) -> bool {
        self.0 & Self::DRAINS != 0
    }

    const SINCE_1970: u64 = 1 << 4;
    const DRAINS: u64 = 1 << 5;

    /// `fullness` is from 0 for used up to 255. `drains` says that it comes back steadily, and not all at once.
    #[inline]
    pub(super) const fn new(kind: Kind, since_1970: bool, drains: bool, fullness: u64) -> Self {
        let kind = match kind {
            Kind::Words => 1,
            Kind::Log => 2,
            Kind::Verdict => 3,
            Kind::Lock => 4,
            Kind::Leases => 5,
        };
        let since_1970 = if since_1970 { Self::SINCE_1970 } else { 0 };
        let drains = if drains { Self::DRAINS } else { 0 };
        Self(kind | since_1970 | drains | (fullness & 0xff) << 8)
    }

    pub(super) const fn of_verdict(since_1970: bool, count: u64, remaining: u64) -> Self {
        Self(Self::new(Kind::Verdict, since_1970, false, 255).0 | (count & 0xff) << 16 | remaining << 32)
    }

    #[inline]
    pub(super) const fn kind(self) -> Option<Kind> {
        match self.0 & 0xf {
            1 => Some(Kind::Words),
            2 => Some(Kind::Log),
            3 => Some(Kind::Verdict),
            4 => Some(Kind::Lock),
            5 => Some(Kind::Leases),
            _ => None,
        }
    }

    pub(super) const fn since_1970(self) -> bool {
        self.0 & Self::SINCE_1970 != 0
    }

    pub(super) const fn count(self) -> u64 {
        self.0 >> 16 & 0xff
    }

    pub(super) const fn remaining(self) -> u64 {
        self.0 >> 32
    }

    pub(super) const fn fullness(self) -> u64 {
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
    pub(super) const fn of(word: u64) -> Self {
        let number = (word >> 8) as usize;
        match word & 0xff {
            1 => Self::Slot { slot: number & 0xff, flags: Flags(word >> 32) },
            2 => Self::Record(number),
            3 => Self::Member { leader: number },
            _ => Self::Nothing,
        }
    }

    pub(super) const fn word(self) -> u64 {
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
