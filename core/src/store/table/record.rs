//! Steps that change several slots: all or none, also when the process dies in the middle.
//!
//! What is to be written is put into a record, and then one store, of the leader's commit word, decides that it is
//! done. Writing it twice does no harm. A record belongs to whoever has put its word into it.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::Duration;

use super::Table;
use super::layout::{CHANGES, LINE, Layout, RECORDS, SLOTS};
use super::lock::{Locked, Owner, Waiter};
use super::set::{Commit, Content, Fingerprint, Set};
use crate::error::{Error, Result, StoreErrorKind};

const CLAIM: usize = 0;
const LEADER: usize = 1;
const COUNT: usize = 2;
const CHANGES_AT: usize = LINE;
const CHANGE: usize = LINE + 1;

/// What a slot is to hold; nothing without a content.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) set: usize,
    pub(super) slot: usize,
    pub(super) content: Option<(Fingerprint, Content)>,
}

impl<O: Owner> Table<O> {
    /// Makes all changes, in sets that are locked.
    pub(super) fn make(&self, locked: &Locked<'_, O>, changes: &[Change], patience: Duration) -> Result<()> {
        let Some(&leader) = locked.sets.first() else { return Ok(()) };
        if changes.len() > CHANGES {
            let detail = format!("a step changes {} states, and an embedded store at most {CHANGES}", changes.len());
            return Err(Error::unavailable(StoreErrorKind::Oom, detail));
        }
        let index = self.claim_record(leader, locked.me, patience)?;
        let record = self.record(index);
        for (at, change) in record[CHANGES_AT..].chunks_exact(CHANGE).zip(changes) {
            at[0].store((change.set as u64) << 8 | change.slot as u64, Relaxed);
            let raw = Set::raw(change.content.as_ref().map(|(fingerprint, content)| (*fingerprint, content)));
            at[1..].iter().zip(raw).for_each(|(word, value)| word.store(value, Relaxed));
        }
        record[COUNT].store(changes.len() as u64, Relaxed);
        for &member in &locked.sets[1..] {
            self.set(member).set_commit(Commit::Member { leader });
        }
        self.set(leader).set_commit(Commit::Record(index));
        self.finish(leader, index);
        Ok(())
    }

    /// Makes the changes of a record and lets it go.
    pub(super) fn finish(&self, leader: usize, index: usize) {
        if index < RECORDS {
            let record = self.record(index);
            let owner = record[CLAIM].load(Acquire);
            let count = record[COUNT].load(Relaxed).min(CHANGES as u64);
            let changes = record[CHANGES_AT..].chunks_exact(CHANGE);
            for (at, _) in changes.zip(0..count) {
                let place = at[0].load(Relaxed);
                let (set, slot) = ((place >> 8) as usize, (place & 0xff) as usize);
                // Of a dead owner's sets those that somebody took over have been written before.
                let ours = set == leader || set < self.layout.sets && self.set(set).lock().load(Relaxed) == owner;
                if ours && slot < SLOTS {
                    let mut raw = [0; LINE];
                    raw.iter_mut().zip(&at[1..]).for_each(|(value, word)| *value = word.load(Relaxed));
                    self.set(set).write_raw(slot, raw);
                }
            }
            self.set(leader).set_commit(Commit::Nothing);
            // Not ours any more if its owner was taken for dead.
            let _ = record[CLAIM].compare_exchange(owner, 0, Release, Relaxed);
        }
    }

    /// Whose a record is.
    pub(super) fn record_owner(&self, index: usize) -> Option<u64> {
        (index < RECORDS).then(|| self.record(index)[CLAIM].load(Acquire))
    }

    fn claim_record(&self, leader: usize, me: u64, patience: Duration) -> Result<usize> {
        let mut waiter = Waiter::new(patience);
        loop {
            // In the second round those of the dead.
            for turn in 0..2 * RECORDS {
                let index = (leader + turn) % RECORDS;
                let record = self.record(index);
                let claim = record[CLAIM].load(Relaxed);
                let free =
                    claim == 0 || turn >= RECORDS && self.owner.is_dead(&self.region, claim) && !self.is_wanted(index);
                if free && record[CLAIM].compare_exchange(claim, me, Acquire, Relaxed).is_ok() {
                    record[LEADER].store(leader as u64, Relaxed);
                    return Ok(index);
                }
            }
            waiter.pause(&self.owner)?;
        }
    }

    /// Whether a dead owner's record is still to be made.
    fn is_wanted(&self, index: usize) -> bool {
        let leader = self.record(index)[LEADER].load(Relaxed);
        let leader = usize::try_from(leader).ok().filter(|leader| *leader < self.layout.sets);
        leader.is_some_and(|leader| self.set(leader).commit() == Commit::Record(index))
    }

    fn record(&self, index: usize) -> &[AtomicU64] {
        &self.region[Layout::record(index)]
    }
}
