//! Limits on how much is under way at a time.

use std::ffi::c_char;

use crate::decision::Decision;
use crate::error::Status;
use crate::ffi::Handle;
use crate::lock::{RL_HOLDER_LEN, write_holder};
use crate::panic::boundary;
use crate::store::Store;

/// Lets at most so many pieces of work on a key be under way at a time, whoever does them. May be used from any thread at
/// the same time, and after `fork` by parent and child.
///
/// Each holds a lease, which ends by itself after the time of a lease where its holder dies.
#[derive(Debug)]
pub struct Concurrency(ratelimit_core::Concurrency);

impl Handle for Concurrency {}

/// Makes a limit on what is under way. Asks the store nothing.
///
/// @param limit        Leases on each key, 1 to 2147483647. An embedded store looks at all of a key in every step, so limits
///                     beyond some thousands belong on Redis.
/// @param lease_ttl_s  Seconds after which a lease ends by itself, from 0.001, unless it is extended.
/// @param store        Kept by the limit.
/// @param name         1 to 100 printable ASCII characters; two names share no leases. `NULL`: `default`.
/// @param out          The limit, to be freed with `rl_concurrency_free`.
/// @return `RL_ERR_INVALID_POLICY` for numbers out of range and a name that is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_concurrency_new(
    limit: i64,
    lease_ttl_s: f64,
    store: *mut Store,
    name: *const c_char,
    out: *mut *mut Concurrency,
) -> Status {
    boundary(|| {
        let (store, out) = (shared!(store)?, output!(out)?);
        let mut concurrency = ratelimit_core::Concurrency::new(limit, lease_ttl_s, store.0.clone())?;
        if !name.is_null() {
            concurrency = concurrency.named(text!(name)?)?;
        }
        out.give(Concurrency(concurrency));
        Ok(())
    })
}

/// Frees the handle; leases that are held stay so. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of
/// the program that is not detected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_concurrency_free(concurrency: *mut Concurrency) {
    boundary(|| {
        release!(concurrency);
        Ok(())
    });
}

/// Takes a lease, sleeping on this thread while all are taken. A signal does not end the sleep, and those who wait are in
/// no queue.
///
/// @param key          On what: any bytes, `key_len` of them; `NULL` only when `key_len` is 0.
/// @param max_wait_us  0 is one try, `RL_NEVER` as long as it takes.
/// @param lease        Memory of `RL_HOLDER_LEN` bytes for the text by which it is extended and released, in this process or
///                     in another, whatever its language; empty where all are taken.
/// @param acquired     Whether there was one.
/// @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer: a lease may be taken then, until its time is over.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_concurrency_acquire(
    concurrency: *mut Concurrency,
    key: *const u8,
    key_len: usize,
    max_wait_us: u64,
    lease: *mut c_char,
    acquired: *mut bool,
) -> Status {
    boundary(|| {
        let (concurrency, key) = (shared!(concurrency)?, slice!(key, key_len)?);
        let (lease, acquired) = (outputs!(lease, RL_HOLDER_LEN)?, output!(acquired)?);
        let taken = concurrency.0.acquire(key, max_wait_us)?;
        write_holder(lease, taken.as_ref());
        acquired.write(taken.is_some());
        Ok(())
    })
}

/// Makes a lease last anew.
///
/// @param key       As for `rl_concurrency_acquire`.
/// @param lease     What `rl_concurrency_acquire` wrote.
/// @param extended  False where its time was over before, or nobody has it.
/// @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_concurrency_extend(
    concurrency: *mut Concurrency,
    key: *const u8,
    key_len: usize,
    lease: *const c_char,
    extended: *mut bool,
) -> Status {
    boundary(|| {
        let (concurrency, key, lease, extended) =
            (shared!(concurrency)?, slice!(key, key_len)?, text!(lease)?, output!(extended)?);
        extended.write(concurrency.0.extend(key, lease)?);
        Ok(())
    })
}

/// Gives a lease back.
///
/// @param key       As for `rl_concurrency_acquire`.
/// @param lease     What `rl_concurrency_acquire` wrote.
/// @param released  False where its time was over before, or nobody has it.
/// @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer; the lease ends by itself then.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_concurrency_release(
    concurrency: *mut Concurrency,
    key: *const u8,
    key_len: usize,
    lease: *const c_char,
    released: *mut bool,
) -> Status {
    boundary(|| {
        let (concurrency, key, lease, released) =
            (shared!(concurrency)?, slice!(key, key_len)?, text!(lease)?, output!(released)?);
        released.write(concurrency.0.release(key, lease)?);
        Ok(())
    })
}

/// Says how many leases are left, and takes none.
///
/// @param key  As for `rl_concurrency_acquire`.
/// @param out  `remaining` of `limit` are left; where none is, `retry_after_us` is how long it is at most until one is.
/// @return `RL_ERR_STORE_UNAVAILABLE` when the store gives no answer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_concurrency_peek(
    concurrency: *mut Concurrency,
    key: *const u8,
    key_len: usize,
    out: *mut Decision,
) -> Status {
    boundary(|| {
        let (concurrency, key, out) = (shared!(concurrency)?, slice!(key, key_len)?, output!(out)?);
        out.write(Decision::try_from(&concurrency.0.peek(key)?)?);
        Ok(())
    })
}
