//! Limiters: policies bound to a store and to options, and the verbs.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use ratelimit_core::{FailureRule, LimiterBuilder, Result};

use crate::decision::Decision;
use crate::error::Status;
use crate::ffi::{self, Handle, invalid};
use crate::panic::boundary;
use crate::policy::Policy;
use crate::store::Store;

/// Decides by its policies, with the state in its store. May be used from any thread at the same time, and after
/// `fork` by parent and child; calls on a Redis store block until its answer or its time limit, `rl_wait` longer.
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
    /// Instead of `secret`, while one secret takes over from another: `secrets_len` of them, each ended by a zero byte;
    /// copied. First the new one, then those that other processes may still have; 4 at most. A call is charged under
    /// each, all or nothing, so that processes with either share their limits. The old one can be dropped once all have
    /// had both for as long as the longest window. `NULL`: none.
    pub secrets: *const *const c_char,
    /// How many `secrets` there are.
    pub secrets_len: usize,
    /// For keys that are asked for very often: up to so many units at once are taken from Redis, and spent by all
    /// processes of this host without asking it; `source` is `RL_SOURCE_LEASE` then. Never more passes than the policy
    /// allows; a call may be refused while another host has units left. It goes with one policy, a fixed window or a
    /// sliding window counter. 0: one round trip per call.
    pub lease: i64,
}

/// The failure rules by their names in C.
const RULES: [(OnError, FailureRule); 4] = [
    (OnError::Throw, FailureRule::Throw),
    (OnError::Open, FailureRule::Open),
    (OnError::Closed, FailureRule::Closed),
    (OnError::Local, FailureRule::Local),
];

/// The rule that C has named by whatever number.
pub(crate) fn rule(on_error: MaybeUninit<OnError>) -> Result<FailureRule> {
    let number = ffi::number(&on_error);
    let rule = RULES.iter().find(|(on_error, _)| *on_error as u32 == number);
    rule.map(|(_, rule)| *rule).ok_or_else(|| invalid("on_error", format!("must be one of rl_on_error, got {number}")))
}

impl LimiterOptions {
    fn apply(&self, builder: LimiterBuilder) -> Result<LimiterBuilder> {
        let builder = builder.on_error(rule(self.on_error)?);
        let builder = builder.share(self.share.max(1)).hash_keys(ffi::flag(&self.hash_keys));
        let builder = builder.lease(self.lease);
        let secret = optional_bytes!(self.secret);
        if self.secrets.is_null() {
            return Ok(match secret {
                Some(secret) => builder.secret(secret),
                None => builder,
            });
        }
        if secret.is_some() {
            return Err(invalid("secrets", "must be NULL when secret is not"));
        }
        let (secrets, secrets_len) = (self.secrets, self.secrets_len);
        let secrets = slice!(secrets, secrets_len)?.iter();
        let secrets = secrets.map(|&secret| optional_bytes!(secret).ok_or_else(|| ffi::null("secrets")));
        Ok(builder.secrets(secrets.collect::<Result<Vec<_>>>()?))
    }
}

/// Binds policies to a store. Asks the store nothing, so it is cheap and works while the store is away.
///
/// Several policies are charged all or none, in one atomic step: a call that one of them refuses takes nothing from the
/// others.
///
/// @param policies  Pointers to `n` policies. The limiter keeps what it needs: free them when you like.
/// @param n         1 to 32. Those of one algorithm must differ in name or window.
/// @param store     Kept by the limiter as well.
/// @param options   `NULL`: the defaults.
/// @param out       The limiter, to be freed with `rl_limiter_free`.
/// @return `RL_ERR_INVALID_POLICY` for another `n`, for policies that would charge one budget twice, and for one that
///         cannot be divided by `share`; `RL_ERR_INVALID_ARGUMENT` for an option out of range.
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
        let policy = |&policy: &*const Policy| Ok(shared!(policy)?.0.clone());
        let policies: Vec<_> = slice!(policies, n)?.iter().map(policy).collect::<Result<_>>()?;
        let store = shared!(store)?;
        let mut builder = ratelimit_core::Limiter::builder(policies).store(store.0.clone());
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

/// Takes `cost` units of the key's budget, if they are there. One round trip on a Redis store, however many policies.
///
/// @param key   Whose budget, for all policies: any bytes, `key_len` of them; `NULL` only when `key_len` is 0. A long
///              or unprintable key is stored as its hash.
/// @param cost  Units, 1 to 2147483647. More than the limit is no error: it is denied with `RL_NEVER`.
/// @param out   The decision.
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
        out.write(Decision::try_from(&limiter.0.allow(key, cost)?)?);
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
        out.write(Decision::try_from(&limiter.0.peek(key, cost)?)?);
        Ok(())
    })
}

/// Takes `cost` units now, for a start after `delay_us`: ahead of time where they are not there yet. Token bucket and
/// GCRA go into debt; a leaky bucket is a queue, in which each start waits for all before it to leak out, and a full
/// queue denies. Does not sleep.
///
/// @param max_wait_us  The longest delay that is accepted: beyond it the call is denied and takes nothing. `RL_NEVER`
///                     is any.
/// @return As for `rl_allow`; and `RL_ERR_INVALID_ARGUMENT` for a window policy, which hands out no slots: `rl_wait` is
///         for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_reserve(
    limiter: *mut Limiter,
    key: *const u8,
    key_len: usize,
    cost: i64,
    max_wait_us: u64,
    out: *mut Decision,
) -> Status {
    boundary(|| {
        let (limiter, key, out) = (shared!(limiter)?, slice!(key, key_len)?, output!(out)?);
        out.write(Decision::try_from(&limiter.0.reserve(key, cost, max_wait_us)?)?);
        Ok(())
    })
}

/// Takes `cost` units, sleeping on this thread until they are there. Goes for every policy. A signal does not end the
/// sleep.
///
/// Those who wait for the same instant wake spread over a tenth of their wait, at most 0.1 s.
///
/// @param max_wait_us  The longest wait that is accepted; `RL_NEVER` is any.
/// @param out          The decision with which the call passed.
/// @return As for `rl_allow`; and `RL_ERR_WAIT_TOO_LONG`, with nothing taken, as soon as it is known that the wait
///         would be longer, or that the cost can never pass.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_wait(
    limiter: *mut Limiter,
    key: *const u8,
    key_len: usize,
    cost: i64,
    max_wait_us: u64,
    out: *mut Decision,
) -> Status {
    boundary(|| {
        let (limiter, key, out) = (shared!(limiter)?, slice!(key, key_len)?, output!(out)?);
        out.write(Decision::try_from(&limiter.0.wait(key, cost, max_wait_us)?)?);
        Ok(())
    })
}

/// Gives `cost` units back, for work that was not done after all: at most what was taken, never above the limit. What
/// has come back by itself in the meantime is not given twice.
///
/// @param cost  Units, 1 to 2147483647.
/// @return As for `rl_allow`. Under the rules open and closed a refund that does not reach the store is dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_refund(limiter: *mut Limiter, key: *const u8, key_len: usize, cost: i64) -> Status {
    boundary(|| {
        let (limiter, key) = (shared!(limiter)?, slice!(key, key_len)?);
        limiter.0.refund(key, cost)
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

/// Gives back what this process has leased and nobody has spent, of all keys: at the end of a program, or before a
/// pause. Other processes of this host lease anew. Without leases it does nothing.
///
/// @return `RL_ERR_STORE_UNAVAILABLE` when the store did not answer; what was on its way is lost until its window ends.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_return_leases(limiter: *mut Limiter) -> Status {
    boundary(|| shared!(limiter)?.0.return_leases())
}
