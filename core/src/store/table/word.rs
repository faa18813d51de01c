//! The words that a table consists of: atomics, since others may be at them at any time.
//!
//! In tests a word lets the thread that writes it die before any write, as a kill does; for the model checker it is the
//! checker's own.

#[cfg(not(any(test, modelled)))]
pub(crate) use std::sync::atomic::AtomicU64 as Word;

#[cfg(any(test, modelled))]
pub(crate) use mortal::Word;

#[cfg(any(test, modelled))]
pub(crate) mod mortal {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    #[cfg(modelled)]
    use loom::sync::atomic::{AtomicU64, Ordering};
    #[cfg(not(modelled))]
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A word whose writer may die before it writes.
    #[derive(Debug)]
    #[repr(transparent)]
    pub(crate) struct Word(AtomicU64);

    // The writes that are left until this thread dies.
    #[cfg(not(modelled))]
    thread_local!(static LEFT: Cell<u64> = const { Cell::new(IMMORTAL) });
    #[cfg(modelled)]
    loom::thread_local!(static LEFT: Cell<u64> = Cell::new(IMMORTAL));

    const IMMORTAL: u64 = u64::MAX;
    const DEAD: u64 = u64::MAX - 1;

    /// Why the thread went away.
    struct Killed;

    /// Does something until so many words are written; nothing when it was killed before its end. The dead touch no word
    /// any more, also not in what they clean up on their way out.
    pub(crate) fn killed_after<R>(writes: u64, act: impl FnOnce() -> R) -> Option<R> {
        LEFT.with(|left| left.set(writes));
        let result = catch_unwind(AssertUnwindSafe(act));
        LEFT.with(|left| left.set(IMMORTAL));
        match result {
            Ok(result) => Some(result),
            Err(cause) if cause.is::<Killed>() => None,
            Err(cause) => resume_unwind(cause),
        }
    }

    fn is_dead() -> bool {
        LEFT.with(Cell::get) == DEAD
    }

    /// Whether the thread lives long enough to write.
    fn lives() -> bool {
        let left = LEFT.with(Cell::get);
        match left {
            IMMORTAL => true,
            DEAD => false,
            0 => {
                LEFT.with(|left| left.set(DEAD));
                resume_unwind(Box::new(Killed))
            }
            _ => {
                LEFT.with(|it| it.set(left - 1));
                true
            }
        }
    }

    impl Word {
        #[cfg(modelled)]
        pub(crate) fn new(value: u64) -> Self {
            Self(AtomicU64::new(value))
        }

        pub(crate) fn load(&self, ordering: Ordering) -> u64 {
            if is_dead() { 0 } else { self.0.load(ordering) }
        }

        pub(crate) fn store(&self, value: u64, ordering: Ordering) {
            if lives() {
                self.0.store(value, ordering);
            }
        }

        pub(crate) fn swap(&self, value: u64, ordering: Ordering) -> u64 {
            if lives() { self.0.swap(value, ordering) } else { 0 }
        }

        pub(crate) fn fetch_add(&self, value: u64, ordering: Ordering) -> u64 {
            if lives() { self.0.fetch_add(value, ordering) } else { 0 }
        }

        pub(crate) fn fetch_sub(&self, value: u64, ordering: Ordering) -> u64 {
            if lives() { self.0.fetch_sub(value, ordering) } else { 0 }
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
