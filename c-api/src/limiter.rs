//! Limiters: policies bound to a store and to options, and what can be asked of them.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use ratelimit_core::{Call, FailureRule, LimiterBuilder, Result};

use crate::decision::Decision;
use crate::error::Status;
use crate::ffi::{self, Handle, invalid};
use crate::panic::boundary;
use crate::policy::Policy;
use crate::store::Store;

/// Decides by its policies, with the state in its store. May be used from any thread at the same time, and after
/// `fork` by parent and child; calls on a Redis store block until its answer or its time limit.
#[derive(Debug)]
pub struct Limiter(pub(crate) ratelimit_core::Limiter);

impl Handle for Limiter {}

/// What to answer when the store gives no usable answer.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// Return `RL_ERR_STORE_UNAVAILABLE`.
    Throw = 0,
    /// Let the call pass; `source` is `RL_SOURCE_FAIL_OPEN`.
    Open,
    /// Refuse the call for a second; `source` is `RL_SOURCE_FAIL_CLOSED`.
    Closed,
    /// Decide in memory of this process, by the policy divided by `share`; `source` is `RL_SOURCE_LOCAL`.
    Local,
}

/// Options of a limiter. Zero it (`= {0}` or `memset`), set `struct_size`, then what is to differ: zero means the
/// default everywhere.
#[repr(C)]
#[derive(Debug)]
pub struct LimiterOptions {
    /// `sizeof(rl_limiter_options)`. Tells the library which members the program knows.
    pub struct_size: u32,
    /// What to answer when the store gives no usable answer.
    // Whatever number C has put there: it becomes an enum only after it has been looked at.
    pub on_error: MaybeUninit<OnError>,
    /// With `RL_ON_ERROR_LOCAL`: how many processes share the limit. 0 is 1.
    pub share: u32,
    /// Hash every key, so that no raw identity reaches the store.
    pub hash_keys: MaybeUninit<bool>,
    /// The secret of that hash (HMAC-SHA-256), ended by a zero byte; copied. `NULL`: a plain SHA-256, which hides
    /// nothing that can be guessed.
    pub secret: *const c_char,
}

/// The failure rules by their names in C.
const RULES: [(OnError, FailureRule); 4] = [
    (OnError::Throw, FailureRule::Throw),
    (OnError::Open, FailureRule::Open),
    (OnError::Closed, FailureRule::Closed),
    (OnError::Local, FailureRule::Local),
];

impl LimiterOptions {
    fn apply(&self, builder: LimiterBuilder) -> Result<LimiterBuilder> {
        let number = ffi::number(&self.on_error);
        let Some(&(_, rule)) = RULES.iter().find(|(on_error, _)| *on_error as u32 == number) else {
            return Err(invalid("on_error", format!("must be one of rl_on_error, got {number}")));
        };
        let builder = builder.on_error(rule).share(self.share.max(1)).hash_keys(ffi::flag(&self.hash_keys));
        Ok(match optional_bytes!(self.secret) {
            Some(secret) => builder.secret(secret),
            None => builder,
        })
    }
}

/// Binds a policy to a store. Asks the store nothing, so it is cheap and works while the store is away.
///
/// @param policies  Pointers to `n` policies. The limiter keeps what it needs: free them when you like.
/// @param n         1: a limiter takes one policy.
/// @param store     Kept by the limiter as well.
/// @param options   `NULL`: the defaults.
/// @param out       The limiter, to be freed with `rl_limiter_free`.
/// @return `RL_ERR_INVALID_ARGUMENT` for another `n` or an option out of range, `RL_ERR_INVALID_POLICY` for a policy
///         that cannot be divided by `share`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_limiter_new(
    policies: *const *const Policy,
    n: usize,
    store: *mut Store,
    options: *const LimiterOptions,
    out: *mut *mut Limiter,
) -> Status {
    boundary(|| {
        let out = output!(out)?;
        if n != 1 {
            return Err(invalid("n", format!("must be 1, since a limiter takes one policy, got {n}")));
        }
        let policy = slice!(policies, n)?[0];
        let policy = shared!(policy)?;
        let store = shared!(store)?;
        let mut builder = ratelimit_core::Limiter::builder(policy.0.clone()).store(store.0.clone());
        if let Some(options) = sized!(options)? {
            builder = options.apply(builder)?;
        }
        out.give(Limiter(builder.build()?));
        Ok(())
    })
}

/// Frees a limiter. Nobody may be using it. `NULL` is a no-op; freeing twice is an error of the program that is not
/// detected.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_limiter_free(limiter: *mut Limiter) {
    boundary(|| {
        release!(limiter);
        Ok(())
    });
}

/// Takes `cost` units of the key's budget, if they are there. One round trip on a Redis store.
///
/// @param key      Whose budget: any bytes, `key_len` of them; `NULL` only when `key_len` is 0. A long or unprintable
///                 key is stored as its hash.
/// @param cost     Units, 1 to 2147483647. More than the limit is no error: it is denied with `RL_NEVER`.
/// @param out      The decision.
/// @return `RL_ERR_INVALID_ARGUMENT` for a cost out of range, with nothing asked or taken; `RL_ERR_STORE_UNAVAILABLE`
///         as `on_error` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_allow(
    limiter: *mut Limiter,
    key: *const u8,
    key_len: usize,
    cost: i64,
    out: *mut Decision,
) -> Status {
    boundary(|| {
        let (limiter, key, out) = (shared!(limiter)?, slice!(key, key_len)?, output!(out)?);
        out.write(limiter.0.decide(Call::allow(key, cost))?.try_into()?);
        Ok(())
    })
}

/// Says what `rl_allow` would answer, and takes nothing. Arguments and errors are those of `rl_allow`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_peek(
    limiter: *mut Limiter,
    key: *const u8,
    key_len: usize,
    cost: i64,
    out: *mut Decision,
) -> Status {
    boundary(|| {
        let (limiter, key, out) = (shared!(limiter)?, slice!(key, key_len)?, output!(out)?);
        out.write(limiter.0.decide(Call::peek(key, cost))?.try_into()?);
        Ok(())
    })
}

/// `rl_allow` as of a given instant instead of the store's clock, for tests and for replaying a log. Calls on one key
/// must not mix this with `rl_allow`: an embedded store's own clock does not count from 1970.
///
/// @param now_us  Microseconds since 1970, below 2^53.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_allow_at(
    limiter: *mut Limiter,
    key: *const u8,
    key_len: usize,
    cost: i64,
    now_us: u64,
    out: *mut Decision,
) -> Status {
    boundary(|| {
        let (limiter, key, out) = (shared!(limiter)?, slice!(key, key_len)?, output!(out)?);
        out.write(limiter.0.decide(Call::allow(key, cost).at_us(now_us))?.try_into()?);
        Ok(())
    })
}

/// `rl_peek` as of a given instant; see `rl_allow_at`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_peek_at(
    limiter: *mut Limiter,
    key: *const u8,
    key_len: usize,
    cost: i64,
    now_us: u64,
    out: *mut Decision,
) -> Status {
    boundary(|| {
        let (limiter, key, out) = (shared!(limiter)?, slice!(key, key_len)?, output!(out)?);
        out.write(limiter.0.decide(Call::peek(key, cost).at_us(now_us))?.try_into()?);
        Ok(())
    })
}

/// Forgets what a key has used: its budget is whole again.
///
/// @param key  As for `rl_allow`.
/// @return `RL_ERR_STORE_UNAVAILABLE` whatever `on_error` says: no rule can stand in for forgetting.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_reset(limiter: *mut Limiter, key: *const u8, key_len: usize) -> Status {
    boundary(|| {
        let (limiter, key) = (shared!(limiter)?, slice!(key, key_len)?);
        limiter.0.reset(key)
    })
}
