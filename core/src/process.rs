//! What a fork does to a process's state, and what is done about it.
//!
//! A child has a copy of everything but the other threads. So connections of the parent must not be used in it: both
//! would read each other's replies. And a lock that another thread held at the fork would never be released in it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many gates there are.
pub(crate) const GATES: usize = 32;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static REGISTERED: AtomicBool = AtomicBool::new(false);

/// Whoever opens a store or looks up a refusal passes one of these, and a fork waits until all are free: the child finds
/// nothing half changed and no lock held by a thread it does not have.
static GATE: [Mutex<()>; GATES] = [const { Mutex::new(()) }; GATES];

thread_local! {
    /// The gates that a forking thread holds, from before the fork until after it, in the parent and in the child.
    static HELD: RefCell<Vec<MutexGuard<'static, ()>>> = const { RefCell::new(Vec::new()) };
}

/// A number that differs between a process and each child it forks after the first question.
///
/// Comparing process ids would do as well, but `getpid` is a system call on current C libraries and the question is
/// asked for every decision.
pub(crate) fn generation() -> u32 {
    register_once();
    GENERATION.load(Ordering::Relaxed)
}

/// A number that differs between the processes of this machine, containers included, and is the same for all copies of
/// this library in a process.
#[allow(unsafe_code)]
pub(crate) fn token() -> u64 {
    // SAFETY: the kernel gives every program it starts the address of 16 random bytes, which stay; none is 0.
    let random = unsafe {
        let bytes = libc::getauxval(libc::AT_RANDOM) as *const u64;
        if bytes.is_null() { 0 } else { bytes.read_unaligned() }
    };
    // Children of a fork have the same bytes.
    random ^ u64::from(std::process::id()).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

/// Passes a gate, for as long as the guard lives. Who needs several takes them in order.
pub(crate) fn gate(index: usize) -> MutexGuard<'static, ()> {
    register_once();
    GATE[index % GATES].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Without `Once`, on which a child forked in the middle of it would wait for ever.
fn register_once() {
    if !REGISTERED.load(Ordering::Relaxed) && !REGISTERED.swap(true, Ordering::SeqCst) {
        register();
    }
}

#[allow(unsafe_code)]
fn register() {
    // SAFETY: the handlers run in the forking thread; they take and release locks of this library's own and touch an
    // atomic, none of which needs another thread to go on in the child. They live as long as the library is loaded: the
    // C library drops the handlers of a library when it unloads it.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
}

extern "C" fn before() {
    let guards = GATE.iter().map(|gate| gate.lock().unwrap_or_else(PoisonError::into_inner)).collect();
    // A thread that is going away forks without its gates held: better than not at all.
    let _ = HELD.try_with(|held| held.replace(guards));
}

extern "C" fn in_parent() {
    let _ = HELD.try_with(|held| held.borrow_mut().clear());
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    in_parent();
}
