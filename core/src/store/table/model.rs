//! Every order in which threads can work on two sets, and every moment at which one of them can die, as the model checker
//! finds them: `scripts/model`.
//!
//! Each step adds one to a number in either set, which stand for two policies of one limiter. Whatever happens, the two
//! are the same for whoever has both locks, and no step that came to its end is lost.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use loom::sync::atomic::{AtomicU64, Ordering};
use smallvec::smallvec;

use super::layout::Layout;
use super::lock::Owner;
use super::record::Change;
use super::slot::{Content, Fingerprint, Flags, Kind};
use super::word::Word;
use super::word::mortal::killed_after;
use super::{Region, Table};
use crate::error::{Error, Result};

loom::thread_local! {
    static ME: Cell<u64> = Cell::new(0);
}

/// Threads by number, of which the first one dies; the kernel says when.
struct Mortals {
    dead: AtomicU64,
}

const MORTAL: u64 = 1;

impl Owner for Mortals {
    const WAITS_FOR_EVER: bool = true;
    const GROWS: bool = false;

    fn word(&self, _: &[Word]) -> Result<u64> {
        Ok(ME.with(Cell::get))
    }

    fn is_dead(&self, _: &[Word], word: u64) -> bool {
        word == MORTAL && self.dead.load(Ordering::Acquire) == 1
    }

    fn busy(&self, _: Duration) -> Error {
        Error::internal("nobody waits for too long in a model")
    }
}

const SETS: [usize; 2] = [0, 1];

fn fingerprint(set: usize) -> Fingerprint {
    Fingerprint { first: 1 + set as u64, second: 0 }
}

fn value(table: &Table<Mortals>, set: usize) -> i64 {
    let slot = table.set(set).find(fingerprint(set));
    slot.and_then(|slot| table.set(set).content(slot)).map_or(0, |(_, content)| content.words[0])
}

fn content(value: i64) -> Content {
    let flags = Flags::new(Kind::Words, true, false, 0);
    Content { words: [value; 3], whole_at_us: 1, flags, written_at_us: 0 }
}

/// Adds one to both numbers, and gives what they are then.
fn add(table: &Table<Mortals>) -> i64 {
    let locked = table.lock_all(smallvec![0, 1], ME.with(Cell::get), Duration::MAX).expect("both locks");
    let [one, two] = SETS.map(|set| value(table, set));
    assert_eq!(one, two, "both or none");
    let changes = SETS.map(|set| Change { set, slot: 0, content: Some((fingerprint(set), content(one + 1))) });
    table.make(&locked, &changes, Duration::MAX).expect("a record");
    one + 1
}

/// Looks at one of the numbers.
fn look(table: &Table<Mortals>, set: usize) -> i64 {
    let _locked = table.lock_one(set, ME.with(Cell::get), Duration::MAX).expect("a lock");
    value(table, set)
}

/// Adds one to the number in one set, which has three copies of it, by the journal.
fn bump(table: &Table<Mortals>, set: usize) -> i64 {
    let _locked = table.lock_one(set, ME.with(Cell::get), Duration::MAX).expect("a lock");
    let it = table.set(set);
    let Some(slot) = it.find(fingerprint(set)) else {
        it.insert(0, fingerprint(set), &content(1));
        return 1;
    };
    let words = it.content(slot).expect("a content").1.words;
    assert_eq!(words, [words[0]; 3], "nothing is torn");
    it.update(slot, &content(words[0] + 1));
    words[0] + 1
}

fn table() -> Arc<Table<Mortals>> {
    let layout = Layout { sets: 2, blocks: 1 };
    let region = Region::private(layout.words()).expect("memory");
    Arc::new(Table::new(region, layout, [1, 2], Mortals { dead: AtomicU64::new(0) }))
}

/// A thread that does something and dies after so many writes, if it gets as far.
fn mortal(
    table: &Arc<Table<Mortals>>,
    writes: u64,
    act: impl Fn(&Table<Mortals>) + Send + 'static,
) -> loom::thread::JoinHandle<bool> {
    let table = table.clone();
    loom::thread::spawn(move || {
        ME.with(|me| me.set(MORTAL));
        let done = killed_after(writes, || act(&table)).is_some();
        table.owner().dead.store(1, Ordering::Release);
        done
    })
}

fn immortal(
    table: &Arc<Table<Mortals>>,
    word: u64,
    act: impl Fn(&Table<Mortals>) + Send + 'static,
) -> loom::thread::JoinHandle<()> {
    let table = table.clone();
    loom::thread::spawn(move || {
        ME.with(|me| me.set(word));
        act(&table);
    })
}

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    builder.check(model);
}

#[test]
fn a_step_of_two_sets_that_dies_anywhere_is_finished_or_never_was() {
    for writes in 0.. {
        let ended = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let seen = ended.clone();
        check(5, move || {
            let table = table();
            let mortal = mortal(&table, writes, |table| _ = add(table));
            ME.with(|me| me.set(2));
            add(&table);
            let done = mortal.join().expect("no panic");
            if done {
                seen.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            let last = add(&table);
            assert!(last == 3 || last == 2 && !done, "{last} after {writes} writes");
        });
        if ended.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
}

#[test]
fn two_who_find_a_dead_ones_step_finish_it_once() {
    for writes in 0..60 {
        check(3, move || {
            let table = table();
            ME.with(|me| me.set(MORTAL));
            let done = killed_after(writes, || add(&table)).is_some();
            table.owner().dead.store(1, Ordering::Release);
            let other = immortal(&table, 2, |table| _ = add(table));
            ME.with(|me| me.set(3));
            let seen = look(&table, 1);
            other.join().expect("no panic");
            let last = add(&table);
            assert!(last == 3 || last == 2 && !done, "{last} after {writes} writes");
            assert!((last - 2..last).contains(&seen), "{seen} and then {last} after {writes} writes");
        });
    }
}

#[test]
fn a_journal_that_is_left_is_carried_out_whole() {
    for writes in 0..40 {
        check(5, move || {
            let table = table();
            ME.with(|me| me.set(2));
            bump(&table, 0);
            let mortal = mortal(&table, writes, |table| {
                bump(table, 0);
                bump(table, 0);
            });
            bump(&table, 0);
            let done = mortal.join().expect("no panic");
            let last = bump(&table, 0);
            assert!((3..=5).contains(&last) && (last == 5 || !done), "{last} after {writes} writes");
        });
    }
}
