//! Which processes have the file open, and which of them are gone.
//!
//! A process takes an entry in the registry and, for as long as it lives, the record lock on a byte of the file that
//! stands for the entry. The kernel drops that lock when the process ends, however it ends, and no other way to tell is
//! as good: process ids mean nothing across containers, and are used again. The entry counts who had it before, so that
//! what a dead process left is not taken for its successor's.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use arc_swap::ArcSwap;

use super::{byte_is_locked, lock_byte};
use crate::error::{Error, Result, StoreErrorKind};
use crate::process;
use crate::store::table::layout::{Layout, PROCESSES};
use crate::store::table::lock::Owner;
use crate::store::table::word::Word;

/// The byte of the first entry; far behind the end of any file.
const LOCKS_AT: i64 = 1 << 40;

const INCARNATION: usize = 0;
const TOKEN: usize = 1;

const ID_BITS: u32 = 16;
const INCARNATIONS: u64 = (1 << 47) - 1;

/// This process among those that have a file open.
pub(crate) struct Process {
    /// Never closed: closing any descriptor of the file drops the process's locks.
    file: ArcSwap<File>,
    path: PathBuf,
    identity: (u64, u64),
    /// The word it has locks by.
    word: AtomicU64,
    /// One more than the generation that took the word; a child of a fork takes one of its own.
    generation: AtomicU64,
}

impl Process {
    pub(crate) fn new(file: File, path: &Path, identity: (u64, u64)) -> Self {
        let (word, generation) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { file: ArcSwap::from_pointee(file), path: path.to_owned(), identity, word, generation }
    }

    /// Device and inode of the file.
    pub(crate) const fn identity(&self) -> (u64, u64) {
        self.identity
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Takes an entry of the registry.
    #[cold]
    fn enter(&self, region: &[Word]) -> Result<u64> {
        // A child finds nobody in here.
        let _gate = process::gate(1);
        let generation = u64::from(process::generation()) + 1;
        if self.generation.load(Acquire) == generation {
            return Ok(self.word.load(Relaxed));
        }
        let failed = |error: io::Error| {
            let detail = format!("the shared store {} cannot be locked: {error}", self.path.display());
            Error::unavailable(StoreErrorKind::Closed, detail)
        };
        self.keep_open().map_err(failed)?;
        let token = process::token();
        // So that processes that come at the same time do not all try the same ones.
        let start = usize::try_from(token % PROCESSES as u64).unwrap_or(0);
        for turn in 0..PROCESSES {
            let id = (start + turn) % PROCESSES;
            let entry = &region[Layout::process(id)];
            // Another copy of this library in this process; the kernel does not tell its locks from ours.
            if entry[TOKEN].load(Acquire) == token || !lock_byte(&self.file.load(), byte(id)).map_err(failed)? {
                continue;
            }
            let incarnation = entry[INCARNATION].fetch_add(1, Relaxed).wrapping_add(1) & INCARNATIONS;
            entry[TOKEN].store(token, Release);
            let word = incarnation << ID_BITS | (id as u64 + 1);
            self.word.store(word, Relaxed);
            self.generation.store(generation, Release);
            return Ok(word);
        }
        let detail = format!("the shared store {} is open in {PROCESSES} processes, its most", self.path.display());
        Err(Error::unavailable(StoreErrorKind::Refused, detail))
    }

    /// A daemon that closed all descriptors may have something else open under the number of ours.
    fn keep_open(&self) -> io::Result<()> {
        if self.is_open() {
            return Ok(());
        }
        let file = open(&self.path)?;
        if identity(&file)? != self.identity {
            return Err(io::Error::other("its file was replaced"));
        }
        // The number is somebody else's by now.
        std::mem::forget(self.file.swap(Arc::new(file)));
        Ok(())
    }

    fn is_open(&self) -> bool {
        identity(&self.file.load()).is_ok_and(|identity| identity == self.identity)
    }
}

impl Owner for Process {
    const WAITS_FOR_EVER: bool = false;
    // All of the file is there from the start, and a process may die at any moment.
    const GROWS: bool = false;

    #[inline]
    fn word(&self, region: &[Word]) -> Result<u64> {
        if self.generation.load(Acquire) == u64::from(process::generation()) + 1 {
            return Ok(self.word.load(Relaxed));
        }
        self.enter(region)
    }

    fn is_dead(&self, region: &[Word], word: u64) -> bool {
        let id = usize::try_from((word & ((1 << ID_BITS) - 1)).wrapping_sub(1)).ok().filter(|id| *id < PROCESSES);
        let Some(id) = id else { return true };
        if word == self.word.load(Relaxed) {
            return false;
        }
        let entry = &region[Layout::process(id)];
        if entry[INCARNATION].load(Acquire) & INCARNATIONS != word >> ID_BITS {
            return true;
        }
        entry[TOKEN].load(Acquire) != process::token()
            && self.is_open()
            && byte_is_locked(&self.file.load(), byte(id)).is_ok_and(|locked| !locked)
    }

    fn busy(&self, patience: Duration) -> Error {
        let detail = format!(
            "the shared store {} is busy: for {} s another process has held the part this key is in, and neither goes on \
             nor ends; it may be stopped",
            self.path.display(),
            patience.as_secs_f64()
        );
        Error::unavailable(StoreErrorKind::Busy, detail)
    }
}

/// Opens a file to read and write; no link is followed, and no child inherits it through `exec`.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_CLOEXEC | libc::O_NONBLOCK)
        .open(path)
}

/// Device and inode.
pub(crate) fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata().map(|about| (about.dev(), about.ino()))
}

fn byte(id: usize) -> i64 {
    LOCKS_AT + i64::try_from(id).unwrap_or(0)
}
