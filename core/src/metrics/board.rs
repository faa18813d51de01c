//! The counters themselves.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use once_cell::race::OnceBox;

use super::{LATENCY_BOUNDS_US, outbound, source_index};
use crate::decision::Source;
use crate::error::StoreErrorKind;
use crate::process;
use crate::store::shared::{Region, Word};

/// Names of policies that are told apart; the rest is counted under one name.
const NAMES: usize = 512;

/// The place after all names.
const NO_NAME: u32 = 512;

/// The name of the rest.
const REST: &str = "other";

/// Room for a name, in words: policies' names have at most 100 bytes, before which a preset's may stand.
const NAME_WORDS: usize = 16;

/// A name: whether it is taken, how long it is, and its bytes.
const NAME_SLOT: usize = 2 + NAME_WORDS;

/// A name is being written, or is there.
const WRITING: u64 = 1;
const WRITTEN: u64 = 2;

/// Each counter is kept several times, in memory far apart, so that threads and processes do not wait for one another.
const STRIPES: usize = 16;

/// Allowed and denied for each source, or what governors count; rounded up to lines of a cache.
const POLICY_WORDS: usize = 24;

/// The latencies' classes, the one beyond, their sum, errors by kind, refunds dropped, failed callbacks, breakers opened,
/// connections made; rounded up.
const GENERAL_WORDS: usize = 32;

const SOURCES: usize = Source::ALL.len();
const SUM: usize = LATENCY_BOUNDS_US.len() + 1;
const ERRORS: usize = SUM + 1;
const DROPPED: usize = ERRORS + StoreErrorKind::ALL.len();
const CALLBACKS: usize = DROPPED + 1;
const OPENED: usize = CALLBACKS + 1;
const CONNECTED: usize = OPENED + 1;

const STRIPE_WORDS: usize = GENERAL_WORDS + (NAMES + 1) * POLICY_WORDS;
const NAME_AREA: usize = NAMES * NAME_SLOT;
const WORDS: usize = NAME_AREA + STRIPES * STRIPE_WORDS;

const _: () = assert!(NO_NAME as usize == NAMES);
const _: () = assert!(SOURCES * 2 <= POLICY_WORDS && outbound::PLACES <= POLICY_WORDS && CONNECTED < GENERAL_WORDS);

/// All counters of this process and those it shares them with.
pub(super) struct Board(Region);

/// Where a policy's counters are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PolicyCounters(u32);

impl PolicyCounters {
    /// Those of the policies whose name has no place.
    pub(crate) const NONE: Self = Self(NO_NAME);
}

/// Numbers of one policy, by source.
pub(super) struct PolicyCounts {
    pub(super) name: String,
    pub(super) allowed: [u64; SOURCES],
    pub(super) denied: [u64; SOURCES],
}

/// Numbers of all policies together.
pub(super) struct GeneralCounts {
    pub(super) latencies: [u64; LATENCY_BOUNDS_US.len() + 1],
    pub(super) latency_sum_us: u64,
    pub(super) errors: [u64; StoreErrorKind::ALL.len()],
    pub(super) dropped_refunds: u64,
    pub(super) callback_failures: u64,
    pub(super) opened_breakers: u64,
    pub(super) connections: u64,
}

impl PolicyCounts {
    /// Adds what was counted in another place under the same name.
    fn add(&mut self, other: &Self) -> bool {
        self.allowed.iter_mut().zip(other.allowed).for_each(|(sum, count)| *sum += count);
        self.denied.iter_mut().zip(other.denied).for_each(|(sum, count)| *sum += count);
        true
    }
}

static BOARD: OnceBox<Option<Board>> = OnceBox::new();

/// The counters; none where the system has no memory for them.
#[inline]
pub(super) fn board() -> Option<&'static Board> {
    BOARD.get_or_init(|| Box::new(Region::inherited(WORDS).ok().map(Board))).as_ref()
}

thread_local! {
    /// Which copy of the counters this thread uses, with the process for which that was settled.
    static STRIPE: Cell<(u32, usize)> = const { Cell::new((u32::MAX, 0)) };
}

static NEXT: AtomicU32 = AtomicU32::new(0);

/// A forked child uses another copy than its parent.
#[inline]
fn stripe() -> usize {
    let generation = process::generation();
    let (settled_for, stripe) = STRIPE.get();
    if settled_for == generation { stripe } else { settle(generation) }
}

#[cold]
fn settle(generation: u32) -> usize {
    let number = std::process::id().wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
    let stripe = number as usize % STRIPES;
    STRIPE.set((generation, stripe));
    stripe
}

impl Board {
    /// Finds a policy's counters by its name, or gives it some.
    pub(super) fn policy(&self, name: &str) -> PolicyCounters {
        let first = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        let first = usize::try_from(first % NAMES as u64).unwrap_or(0);
        for index in (first..NAMES).chain(0..first) {
            let slot = &self.0[index * NAME_SLOT..(index + 1) * NAME_SLOT];
            let taken = slot[0].compare_exchange(0, WRITING, Ordering::Acquire, Ordering::Acquire);
            match taken {
                Ok(_) => {
                    write_name(slot, name);
                    return PolicyCounters(u32::try_from(index).unwrap_or(u32::MAX));
                }
                Err(WRITTEN) if read_name(slot) == name => {
                    return PolicyCounters(u32::try_from(index).unwrap_or(u32::MAX));
                }
                // Another name, or one that is being written, perhaps for ever: its writer may have been killed.
                Err(_) => {}
            }
        }
        PolicyCounters::NONE
    }

    #[inline]
    pub(super) fn count(&self, counters: PolicyCounters, source: Source, allowed: bool) {
        let place = source_index(source) * 2 + usize::from(allowed);
        self.add(GENERAL_WORDS + counters.0 as usize * POLICY_WORDS + place, 1);
    }

    /// Counts under a name of [`outbound`]. What has no place of its own is not counted: it would be taken for decisions.
    pub(super) fn count_outbound(&self, counters: PolicyCounters, place: usize, times: u64) {
        if counters != PolicyCounters::NONE {
            self.add(GENERAL_WORDS + counters.0 as usize * POLICY_WORDS + place, times);
        }
    }

    pub(super) fn count_error(&self, kind: StoreErrorKind) {
        let index = StoreErrorKind::ALL.iter().position(|it| *it == kind).unwrap_or(0);
        self.add(ERRORS + index, 1);
    }

    pub(super) fn count_dropped_refund(&self) {
        self.add(DROPPED, 1);
    }

    pub(super) fn count_callback_failure(&self) {
        self.add(CALLBACKS, 1);
    }

    pub(super) fn count_opened_breaker(&self) {
        self.add(OPENED, 1);
    }

    pub(super) fn count_connection(&self) {
        self.add(CONNECTED, 1);
    }

    pub(super) fn observe(&self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let class = LATENCY_BOUNDS_US.iter().position(|bound| us <= *bound).unwrap_or(LATENCY_BOUNDS_US.len());
        self.add(class, 1);
        self.add(SUM, us);
    }

    #[inline]
    fn add(&self, place: usize, count: u64) {
        self.0[NAME_AREA + stripe() * STRIPE_WORDS + place].fetch_add(count, Ordering::Relaxed);
    }

    /// A counter summed over its copies.
    fn sum(&self, place: usize) -> u64 {
        let copies =
            (0..STRIPES).map(|stripe| self.0[NAME_AREA + stripe * STRIPE_WORDS + place].load(Ordering::Relaxed));
        copies.fold(0, u64::wrapping_add)
    }

    /// The places of all names.
    fn names(&self) -> impl Iterator<Item = (usize, String)> {
        (0..NAMES).filter_map(|index| {
            let slot = &self.0[index * NAME_SLOT..(index + 1) * NAME_SLOT];
            (slot[0].load(Ordering::Acquire) == WRITTEN).then(|| (index, read_name(slot)))
        })
    }

    /// What governors have counted, in the order of the names.
    pub(super) fn outbound(&self) -> Vec<(String, [u64; outbound::PLACES])> {
        let names = self.names().filter(|(_, name)| outbound::is_outbound(name));
        let at = |index: usize, place: usize| self.sum(GENERAL_WORDS + index * POLICY_WORDS + place);
        let mut counts: Vec<_> =
            names.map(|(index, name)| (name, std::array::from_fn(|place| at(index, place)))).collect();
        counts.sort();
        // Processes that met a name at the same moment may have given it a place each.
        counts.dedup_by(|(other, more), (name, sums)| {
            let same = other == name;
            if same {
                sums.iter_mut().zip(&*more).for_each(|(sum, count): (&mut u64, &u64)| *sum += count);
            }
            same
        });
        counts
    }

    /// The policies that have counted something, in the order of their names.
    pub(super) fn policies(&self) -> Vec<PolicyCounts> {
        let named = self.names().filter(|(_, name)| !outbound::is_outbound(name));
        let mut counts: Vec<PolicyCounts> = named
            .chain([(NAMES, REST.to_owned())])
            .map(|(index, name)| {
                let at = |place: usize| self.sum(GENERAL_WORDS + index * POLICY_WORDS + place);
                PolicyCounts {
                    name,
                    denied: std::array::from_fn(|source| at(source * 2)),
                    allowed: std::array::from_fn(|source| at(source * 2 + 1)),
                }
            })
            .filter(|counts| counts.allowed.iter().chain(&counts.denied).any(|count| *count > 0))
            .collect();
        counts.sort_by(|one, other| one.name.cmp(&other.name));
        // Processes that met a name at the same moment may have given it a place each.
        counts.dedup_by(|other, one| one.name == other.name && one.add(other));
        counts
    }

    pub(super) fn general(&self) -> GeneralCounts {
        GeneralCounts {
            latencies: std::array::from_fn(|class| self.sum(class)),
            latency_sum_us: self.sum(SUM),
            errors: std::array::from_fn(|kind| self.sum(ERRORS + kind)),
            dropped_refunds: self.sum(DROPPED),
            callback_failures: self.sum(CALLBACKS),
            opened_breakers: self.sum(OPENED),
            connections: self.sum(CONNECTED),
        }
    }
}

fn write_name(slot: &[Word], name: &str) {
    let bytes = &name.as_bytes()[..name.len().min(NAME_WORDS * 8)];
    for (word, bytes) in slot[2..].iter().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..bytes.len()].copy_from_slice(bytes);
        word.store(u64::from_le_bytes(padded), Ordering::Relaxed);
    }
    slot[1].store(bytes.len() as u64, Ordering::Relaxed);
    slot[0].store(WRITTEN, Ordering::Release);
}

fn read_name(slot: &[Word]) -> String {
    let length = usize::try_from(slot[1].load(Ordering::Relaxed)).unwrap_or(0).min(NAME_WORDS * 8);
    let mut bytes: Vec<u8> = slot[2..].iter().flat_map(|word| word.load(Ordering::Relaxed).to_le_bytes()).collect();
    bytes.truncate(length);
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_one_place_and_too_many_share_the_last() {
        let board = Board(Region::inherited(WORDS).expect("memory"));
        let long = "n".repeat(100);
        let first = board.policy(&long);
        assert_eq!(board.policy(&long), first);
        assert_ne!(board.policy("other name"), first);
        let places: Vec<_> = (0..600).map(|number| board.policy(&format!("policy {number}"))).collect();
        assert_eq!(places.iter().filter(|place| **place == PolicyCounters::NONE).count(), 600 + 2 - NAMES);
        board.count(first, Source::Store, true);
        board.count(PolicyCounters::NONE, Source::FailOpen, true);
        let counts: Vec<_> = board.policies().into_iter().map(|it| (it.name, it.allowed.iter().sum::<u64>())).collect();
        assert_eq!(counts, [(long, 1), (REST.to_owned(), 1)]);
    }

    #[test]
    fn a_name_that_two_processes_met_at_once_is_told_once_with_the_sum_of_both() {
        let board = Board(Region::inherited(WORDS).expect("memory"));
        let PolicyCounters(first) = board.policy("met at once");
        let slot = &board.0[first as usize * NAME_SLOT..];
        // The other one comes while the name is being written.
        slot[0].store(WRITING, Ordering::Relaxed);
        let second = board.policy("met at once");
        assert_ne!(second, PolicyCounters(first));
        slot[0].store(WRITTEN, Ordering::Relaxed);
        for (place, allowed, times) in [(PolicyCounters(first), true, 3), (second, true, 4), (second, false, 5)] {
            (0..times).for_each(|_| board.count(place, Source::Store, allowed));
        }
        let counts = board.policies();
        assert_eq!(counts.len(), 1);
        let [allowed, denied] = [counts[0].allowed, counts[0].denied].map(|counts| counts.iter().sum::<u64>());
        assert_eq!((allowed, denied), (7, 5));
    }

    #[test]
    fn a_latency_is_in_the_class_of_the_bound_it_does_not_pass() {
        let board = Board(Region::inherited(WORDS).expect("memory"));
        for us in [0, 100, 101, 1_000_000, 1_000_001, u64::MAX] {
            board.observe(Duration::from_micros(us));
        }
        let latencies = board.general().latencies;
        assert_eq!((latencies[0], latencies[1], latencies[12], latencies[13]), (2, 1, 1, 2));
    }
}
