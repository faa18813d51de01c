//! Stores: where state lives.

use std::ffi::c_char;
use std::sync::Arc;

use ratelimit_core::store;

use crate::error::Status;
use crate::ffi::Handle;
use crate::panic::boundary;

/// Where the state of every key lives: memory of this process, or Redis or Valkey servers. May be used from any thread
/// at the same time, and after `fork` by parent and child.
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
/// | `redis+sentinel://[user:password@]host[:port],.../master[/database]` | the primary that sentinels name; `?sentinel_username=`, `?sentinel_password=` |
/// | `redis+cluster://[user:password@]host[:port],...` | a cluster, found through these nodes |
///
/// `valkey` may stand for `redis`. `rediss` and `valkeys` are encrypted, also with `+sentinel` and `+cluster`: `?ca=`,
/// `?cert=` and `?key=` name files, of the authorities that are trusted (the system's without it) and of the client's
/// own certificate; `?server_name=` is the name to be certified, and `?insecure=1` takes any certificate.
///
/// Redis stores take `?timeout=` and `?connect_timeout=` (seconds, 0.2 each), `?prefix=` (of every key, `rl:`), `?pool=`
/// (idle connections kept per server, 64), `?deny_cache=` (used-up keys that are refused without asking, 10000; 0 for
/// none), `?protocol=` (`resp2` or `resp3`), `?client_name=`, and `?clock=caller` for services that refuse `TIME` in
/// scripts. The same DSN names the same store within a process, however often it is opened.
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

/// How full a store is that holds its state itself. All zero for a server.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct StoreInfo {
    /// States it can hold.
    pub slots: u64,
    /// States it holds that still count.
    pub used: u64,
    /// States that have expired; their slots are taken as others are needed.
    pub expired: u64,
    /// Live states forgotten to make room, since the store was made. Above zero it is too small for its keys.
    pub evicted: u64,
    /// Memory it may take, in bytes.
    pub bytes: u64,
}

/// How full a store is. Looks at every slot.
///
/// @param store  `memory:` or `shared:`; of a server nothing is known.
/// @param out    The numbers, about right at no single instant, since others go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_store_get_info(store: *const Store, out: *mut StoreInfo) -> Status {
    boundary(|| {
        let (store, out) = (shared!(store)?, output!(out)?);
        let info = store.0.info().unwrap_or_default();
        let store::StoreInfo { slots, used, expired, evicted, bytes } = info;
        out.write(StoreInfo { slots, used, expired, evicted, bytes });
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
