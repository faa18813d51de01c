//! Locks: one holder per key.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use crate::error::Status;
use crate::ffi::Handle;
use crate::panic::boundary;
use crate::store::Store;

/// The memory that the text of a holder takes: 32 hexadecimal digits, and the zero byte that ends them.
pub const RL_HOLDER_LEN: usize = 33;

/// Locks by key, in a store. May be used from any thread at the same time, and after `fork` by parent and child.
///
/// A lock ends by itself after the time it was taken or extended for, so that a holder that dies blocks nobody for longer.
/// On Redis it is as safe as that one server: a failover may lose it.
#[derive(Debug)]
pub struct Lock(ratelimit_core::Lock);

impl Handle for Lock {}

/// Makes locks in a store. Asks the store nothing.
///
/// @param store  Kept by the locks.
/// @param out    The locks, to be freed with `rl_lock_free`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_lock_new(store: *mut Store, out: *mut *mut Lock) -> Status {
    boundary(|| {
        let (store, out) = (shared!(store)?, output!(out)?);
        out.give(Lock(ratelimit_core::Lock::new(store.0.clone())));
        Ok(())
    })
}

/// Frees the handle; locks that are held stay so. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of
/// the program that is not detected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_lock_free(lock: *mut Lock) {
    boundary(|| {
        release!(lock);
        Ok(())
    });
}

/// Takes a lock, sleeping on this thread while somebody else holds it. A signal does not end the sleep, and those who wait
/// are in no queue.
///
/// @param key          What is locked: any bytes, `key_len` of them; `NULL` only when `key_len` is 0.
/// @param ttl_s        Seconds until it ends by itself, from 0.001.
/// @param max_wait_us  0 is one try, `RL_NEVER` as long as it takes.
/// @param holder       Memory of `RL_HOLDER_LEN` bytes for the text by which it is extended and released, in this process
///                     or in another, whatever its language; empty where somebody else holds the lock.
/// @param acquired     Whether it was taken.
/// @return `RL_ERR_INVALID_ARGUMENT` for a time that is none, with nothing asked or taken; `RL_ERR_STORE_UNAVAILABLE` when
///         the store gives no answer: the lock may be taken then, until its time is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_lock_acquire(
    lock: *mut Lock,
    key: *const u8,
    key_len: usize,
    ttl_s: f64,
    max_wait_us: u64,
    holder: *mut c_char,
    acquired: *mut bool,
) -> Status {
    boundary(|| {
        let (lock, key) = (shared!(lock)?, slice!(key, key_len)?);
        let (holder, acquired) = (outputs!(holder, RL_HOLDER_LEN)?, output!(acquired)?);
        let taken = lock.0.acquire(key, ttl_s, max_wait_us)?;
        write_holder(holder, taken.as_ref());
        acquired.write(taken.is_some());
        Ok(())
    })
}

/// Makes a lock that is held end `ttl_s` seconds from now.
///
/// @param key       As for `rl_lock_acquire`.
/// @param holder    What `rl_lock_acquire` wrote.
/// @param ttl_s     Seconds, from 0.001.
/// @param extended  False where it is not, or not any more, this holder's.
/// @return As for `rl_lock_acquire`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_lock_extend(
    lock: *mut Lock,
    key: *const u8,
    key_len: usize,
    holder: *const c_char,
    ttl_s: f64,
    extended: *mut bool,
) -> Status {
    boundary(|| {
        let (lock, key, holder, extended) = (shared!(lock)?, slice!(key, key_len)?, text!(holder)?, output!(extended)?);
        extended.write(lock.0.extend(key, holder, ttl_s)?);
        Ok(())
    })
}

/// Lets a lock go.
///
/// @param key       As for `rl_lock_acquire`.
/// @param holder    What `rl_lock_acquire` wrote.
/// @param released  False where it was not, or not any more, this holder's: what it was to protect may have been done by
///                  two at once.
/// @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer; the lock ends by itself then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_lock_release(
    lock: *mut Lock,
    key: *const u8,
    key_len: usize,
    holder: *const c_char,
    released: *mut bool,
) -> Status {
    boundary(|| {
        let (lock, key, holder, released) = (shared!(lock)?, slice!(key, key_len)?, text!(holder)?, output!(released)?);
        released.write(lock.0.release(key, holder)?);
        Ok(())
    })
}

/// Whether anybody holds a lock.
///
/// @param key   As for `rl_lock_acquire`.
/// @param held  The answer, which may be out of date when it arrives.
/// @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_lock_is_held(lock: *mut Lock, key: *const u8, key_len: usize, held: *mut bool) -> Status {
    boundary(|| {
        let (lock, key, held) = (shared!(lock)?, slice!(key, key_len)?, output!(held)?);
        held.write(lock.0.is_held(key)?);
        Ok(())
    })
}

/// Writes the text of a holder into memory of [`RL_HOLDER_LEN`] bytes, or an empty one.
pub(crate) fn write_holder(memory: &mut [MaybeUninit<c_char>], holder: Option<&ratelimit_core::Holder>) {
    let digits = holder.map_or("", |holder| holder.as_str()).bytes();
    for (byte, digit) in memory.iter_mut().zip(digits.chain([0])) {
        byte.write(digit.cast_signed());
    }
}
