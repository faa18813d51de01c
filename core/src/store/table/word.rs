//! The words that a table consists of: atomics, since others may be at them at any time.
//!
//! For the unit tests a word is one that lets a thread die before any store, as a kill does. For the model checker it is
//! the checker's own.

#[cfg(not(any(test, loom)))]
pub(crate) use std::sync::atomic::AtomicU64 as Word;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::AtomicU64 as Word;

#[cfg(all(test, not(loom)))]
pub(crate) use mortal::Word;

#[cfg(all(test, not(loom)))]
pub(crate) mod mortal {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A word whose writer may die before it writes.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct Word(AtomicU64);

    thread_local! {
        /// The writes that are left until this thread dies.
        static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    }

    /// Why the thread went away.
    struct Killed;

    /// Does something until so many words are written; nothing when it was killed before its end. The dead write nothing
    /// any more, also not in what they clean up on their way out.
    pub(crate) fn killed_after<R>(writes: u64, act: impl FnOnce() -> R) -> Option<R> {
        LEFT.set(writes);
        let result = catch_unwind(AssertUnwindSafe(act));
        LEFT.set(u64::MAX);
        match result {
            Ok(result) => Some(result),
            Err(cause) if cause.is::<Killed>() => None,
            Err(cause) => resume_unwind(cause),
        }
    }

    /// Whether the thread lives long enough to write.
    fn lives() -> bool {
        let left = LEFT.get();
        if left == 0 {
            if !std::thread::panicking() {
                resume_unwind(Box::new(Killed));
            }
            return false;
        }
        if left != u64::MAX {
            LEFT.set(left - 1);
        }
        true
    }

    impl Word {
        pub(crate) fn load(&self, ordering: Ordering) -> u64 {
            self.0.load(ordering)
        }

        pub(crate) fn store(&self, value: u64, ordering: Ordering) {
            if lives() {
                self.0.store(value, ordering);
            }
        }

        pub(crate) fn swap(&self, value: u64, ordering: Ordering) -> u64 {
            if lives() { self.0.swap(value, ordering) } else { self.0.load(Ordering::Relaxed) }
        }

        pub(crate) fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
            if lives() { self.0.fetch_add(value, ordering) } else { self.0.load(Ordering::Relaxed) }
        }

        pub(crate) fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
            if lives() { self.0.fetch_sub(value, ordering) } else { self.0.load(Ordering::Relaxed) }
        }

        pub(crate) fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            if lives() { self.0.compare_exchange(current, new, success, failure) } else { Err(current) }
        }
    }
}
