//! Tells a process from its forked children, without a system call per question.

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};

static GENERATION: AtomicU32 = AtomicU32::new(0);
static REGISTER: Once = Once::new();

/// A number that differs between a process and each child it forks after the first question.
///
/// A connection made under one number must not be used under another: parent and child would read each other's
/// replies. Comparing process ids would do as well, but `getpid` is a system call on current C libraries and the
/// question is asked for every decision.
pub(crate) fn generation() -> u32 {
    REGISTER.call_once(register);
    GENERATION.load(Ordering::Relaxed)
}

#[allow(unsafe_code)]
fn register() {
    // SAFETY: the handler only touches an atomic, which is allowed between fork and exec, and it lives as long as the
    // library is loaded: the C library drops the handlers of a library when it unloads it.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}

extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
}
