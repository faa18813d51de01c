//! State in memory of this process.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::time::Duration;

use super::shared::Region;
use super::table::Table;
use super::table::layout::Layout;
use super::table::lock::Threads;
use super::{Held, Hold, Operation, Store, StoreInfo, StoreKind, Verdicts, sealed};
use crate::algorithm::Verdict;
use crate::error::{Error, ErrorKind, Result};

/// Keeps the state of keys in this process.
///
/// It has room for `max_keys` live keys, in sets of 62 slots whose number grows with them, and takes memory from the
/// system as they come, some 100 bytes a key. Beyond that, what has expired is forgotten first, and then the states whose
/// loss matters least; [`StoreInfo::evicted`] counts those. Sliding logs have memory beside that, up to 256 bytes a key.
pub struct MemoryStore {
    table: Table<Threads>,
}

impl MemoryStore {
    /// A store for at least `max_keys` keys, which must be one at least.
    pub fn new(max_keys: usize) -> Result<Self> {
        let invalid = |detail: String| Error::argument_error(ErrorKind::InvalidStore, "max_keys", detail);
        if max_keys == 0 {
            return Err(invalid("must be at least 1, got 0".to_owned()));
        }
        let no_room = || invalid(format!("is more than this process can address memory for, got {max_keys}"));
        let layout = Layout::for_keys(max_keys).ok_or_else(no_room)?;
        let region = Region::private(layout.words()).map_err(|_| no_room())?;
        region.prefer_large_pages(layout.later_sets());
        let key = [0, 1].map(|number: u64| RandomState::new().hash_one(number));
        Ok(Self { table: Table::new(region, layout, key, Threads) })
    }
}

impl Store for MemoryStore {
    fn decide(&self, operation: &Operation<'_>) -> Result<Verdicts> {
        self.table.decide(operation, Duration::MAX)
    }

    fn decide_one(&self, operation: &Operation<'_>) -> Result<Verdict> {
        self.table.decide_one(operation, Duration::MAX)
    }

    fn reset(&self, key: &[u8]) -> Result<()> {
        self.table.reset(key, Duration::MAX)
    }

    fn hold(&self, hold: &Hold<'_>) -> Result<Held> {
        self.table.hold(hold, Duration::MAX)
    }

    fn ping(&self) -> Result<Duration> {
        Ok(Duration::ZERO)
    }

    fn kind(&self) -> StoreKind {
        StoreKind::Memory
    }

    fn info(&self) -> Option<StoreInfo> {
        Some(self.table.info())
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").finish_non_exhaustive()
    }
}

impl sealed::Sealed for MemoryStore {}
