//! Stores: where state lives.

use std::ffi::c_char;
use std::sync::Arc;

use ratelimit_core::store;

use crate::error::Status;
use crate::ffi::Handle;
use crate::panic::boundary;

/// Where the state of every key lives: memory of this process, or a Redis or Valkey server. May be used from any
/// thread at the same time, and after `fork` by parent and child.
#[derive(Debug)]
pub struct Store(pub(crate) Arc<dyn store::Store>);

impl Handle for Store {}

/// Opens the store that `dsn` names; connects on first use, so a server that is away is no error here.
///
/// | DSN | store |
/// |---|---|
/// | `shared:`, `shared:/path` | every process of this user; `?size=` (64MiB), `?timeout=` (seconds, 0.2) |
/// | `memory:` | this process; `?max_keys=` (1000000) |
/// | `redis://[user:password@]host[:port][/database]` | a server over TCP |
/// | `redis+unix:///path/to/socket` | a server on this host; `?db=`, `?username=`, `?password=` |
///
/// Redis stores take `?timeout=` and `?connect_timeout=` (seconds, 0.2 each), `?prefix=` (of every key, `rl:`) and
/// `?pool=` (idle connections kept, 64). The same DSN names the same store within a process, however often it is
/// opened.
///
/// @param dsn  UTF-8. `NULL`: the environment variable `RATELIMIT_STORE`, and without that `shared:`.
/// @param out  The store, to be freed with `rl_store_free`.
/// @return `RL_ERR_INVALID_STORE` for a DSN that names none; the sentence says which part is wrong.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_store_open(dsn: *const c_char, out: *mut *mut Store) -> Status {
    boundary(|| {
        let out = output!(out)?;
        let store = if dsn.is_null() { store::open_default(None)? } else { store::open(text!(dsn)?)? };
        out.give(Store(store));
        Ok(())
    })
}

/// Frees a store. Limiters made with it go on working, and whoever opens the same DSN later finds its memory or its idle
/// connections as they were. `NULL` is a no-op; freeing twice is an error of the program that is not detected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_store_free(store: *mut Store) {
    boundary(|| {
        release!(store);
        Ok(())
    });
}
