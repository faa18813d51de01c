//! State in memory that all processes of a user share.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::file::{self, SharedTable};
use crate::algorithm::Verdict;
use crate::error::Result;
use crate::store::{Held, Hold, Operation, Store, StoreInfo, StoreKind, Verdicts, sealed};

/// Keeps the state of keys in a file in memory, which every process of the same user that names it works on.
///
/// It has a fixed size. A process that ends at any moment, however it ends, leaves nothing locked and nothing half
/// done. One that is stopped in the middle of a decision keeps what it has locked: a call that needs the same part of the
/// file fails with [`StoreUnavailable`](crate::ErrorKind::StoreUnavailable) at its timeout, all others go on.
pub struct SharedStore {
    table: Arc<SharedTable>,
    timeout: Duration,
}

impl SharedStore {
    /// The store in a file, or in the default place, which is `/dev/shm/ratelimit-` and the user's id; made with so many
    /// bytes where there is none. A step waits for other processes for `timeout` at most.
    ///
    /// Fails with [`InvalidStore`](crate::ErrorKind::InvalidStore) when the file cannot be made, or is not what it
    /// should be: a link, another user's, open to others, of another version or size.
    pub fn open(path: Option<&Path>, bytes: u64, timeout: Duration) -> Result<Self> {
        let table = match path {
            Some(path) => file::at(path, bytes)?,
            None => file::in_default_place(bytes)?,
        };
        Ok(Self { table, timeout })
    }

    /// The file it is in.
    pub fn path(&self) -> &Path {
        self.table.owner().path()
    }
}

impl Store for SharedStore {
    fn decide(&self, operation: &Operation<'_>) -> Result<Verdicts> {
        self.table.decide(operation, self.timeout)
    }

    fn decide_one(&self, operation: &Operation<'_>) -> Result<Verdict> {
        self.table.decide_one(operation, self.timeout)
    }

    fn reset(&self, key: &[u8]) -> Result<()> {
        self.table.reset(key, self.timeout)
    }

    fn hold(&self, hold: &Hold<'_>) -> Result<Held> {
        self.table.hold(hold, self.timeout)
    }

    fn ping(&self) -> Result<Duration> {
        let started = Instant::now();
        self.table.ping(self.timeout)?;
        Ok(started.elapsed())
    }

    fn kind(&self) -> StoreKind {
        StoreKind::Shared
    }

    fn info(&self) -> Option<StoreInfo> {
        Some(self.table.info())
    }
}

impl fmt::Debug for SharedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl sealed::Sealed for SharedStore {}
