//! Where this process has put leased units, so that it can give back what nobody spends.
//!
//! The pools are the host's, and outlive a limiter: with PHP-FPM a limiter lives for one request. So there is one ledger
//! for all of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Leases;
use crate::algorithm::leased::LIFE_US;
use crate::clock::boot_time_us;
use crate::key::StoredKey;
use crate::process;
use crate::store::Store;

/// So many keys at most have leases that this process took.
const MOST_KEYS: usize = 1_024;

/// How often it is looked for what is too old, and how many keys are looked at then.
const LOOK_US: u64 = 10_000;
const AT_ONCE: usize = 32;

/// A pool's key, and which store it is in.
type Place = (StoredKey, usize);

static LEDGER: Mutex<Option<HashMap<Place, Entry>>> = Mutex::new(None);

/// When it is looked through next, in time since boot.
static NEXT_US: AtomicU64 = AtomicU64::new(0);

/// One key's lease.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) leases: Arc<Leases>,
    /// The key as the server knows it.
    pub(super) key: StoredKey,
    /// When it was leased, by the caller's clock if that is the one that decides.
    pub(super) now_us: Option<u64>,
    /// The same, in time since boot.
    pub(super) at_us: u64,
}

/// Whether another lease of a pool would be remembered.
pub(super) fn has_room(leases: &Leases, pool: &StoredKey) -> bool {
    with_ledger(|ledger| ledger.len() < MOST_KEYS || ledger.contains_key(&(pool.clone(), leases.pools_address())))
}

/// Remembers a lease.
pub(super) fn enter(leases: &Leases, pool: &StoredKey, entry: impl FnOnce() -> Entry, now_us: Option<u64>, at_us: u64) {
    with_ledger(|ledger| {
        let entry = ledger.entry((pool.clone(), leases.pools_address())).or_insert_with(entry);
        (entry.now_us, entry.at_us) = (now_us, at_us);
    });
}

/// Leases of one store that are too old, as far as is known here. They are forgotten; who does not take them enters them
/// anew.
pub(super) fn due(store: &Arc<dyn Store>, by_caller: bool) -> Vec<(StoredKey, Entry)> {
    let here_us = boot_time_us();
    let next_us = NEXT_US.load(Ordering::Relaxed);
    if here_us < next_us
        || NEXT_US.compare_exchange(next_us, here_us + LOOK_US, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return Vec::new();
    }
    // By a caller's clock any time may have passed; the pool knows.
    let is_old = |entry: &Entry| by_caller || here_us.saturating_sub(entry.at_us) > LIFE_US;
    let is_due =
        |entry: &Entry| entry.now_us.is_some() == by_caller && is_old(entry) && Arc::ptr_eq(&entry.leases.store, store);
    take(is_due, AT_ONCE)
}

/// All leases of a limiter.
pub(super) fn all(leases: &Leases) -> Vec<(StoredKey, Entry)> {
    let (lessor, pools) = (leases.lessor, leases.pools_address());
    take(|entry| (entry.leases.lessor, entry.leases.pools_address()) == (lessor, pools), MOST_KEYS)
}

fn take(which: impl Fn(&Entry) -> bool, most: usize) -> Vec<(StoredKey, Entry)> {
    with_ledger(|ledger| {
        let places = ledger.iter().filter(|(_, entry)| which(entry)).map(|(place, _)| place.clone());
        let places: Vec<Place> = places.take(most).collect();
        places
            .into_iter()
            .filter_map(|place| ledger.remove_entry(&place).map(|(place, entry)| (place.0, entry)))
            .collect()
    })
}

fn with_ledger<R>(act: impl FnOnce(&mut HashMap<Place, Entry>) -> R) -> R {
    // A fork waits until nobody is in here.
    let _gate = process::gate(3);
    act(LEDGER.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(HashMap::new))
}
