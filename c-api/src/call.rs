//! One question to a limiter, with everything that can be said about it.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use ratelimit_core::{Call as Core, Keys, Result};

use crate::decision::Decision;
use crate::error::Status;
use crate::ffi::{self, invalid};
use crate::limiter::{self, Limiter, OnError};
use crate::panic::boundary;

/// What can be asked of a limiter. What each does is said at the function of its name.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// `rl_allow`.
    Allow = 0,
    /// `rl_peek`.
    Peek,
    /// `rl_reserve`.
    Reserve,
    /// `rl_wait`.
    Wait,
    /// `rl_refund`; answers nothing.
    Refund,
    /// `rl_reset`; answers nothing.
    Reset,
}

/// Every verb, in the order of its number.
const VERBS: [Verb; 6] = [Verb::Allow, Verb::Peek, Verb::Reserve, Verb::Wait, Verb::Refund, Verb::Reset];

/// The key that one policy of a limiter is charged to.
#[repr(C)]
#[derive(Debug)]
pub struct Key {
    /// The policy's name, ended by a zero byte.
    pub policy: *const c_char,
    /// Whose budget: any bytes.
    pub key: *const u8,
    /// Bytes at `key`.
    pub key_len: usize,
}

/// Names of policies with their keys.
type Pairs<'a> = Vec<(&'a str, &'a [u8])>;

/// One call, for `rl_decide`. Zero it (`= {0}` or `memset`), set `struct_size`, then what the call needs: a member that
/// is zero is not used.
#[repr(C)]
#[derive(Debug)]
pub struct Call {
    /// `sizeof(rl_call)`. Tells the library which members the program knows.
    pub struct_size: u32,
    /// What is asked; `RL_VERB_ALLOW` is 0.
    // Whatever number C has put there: it becomes an enum only after it has been looked at.
    pub verb: MaybeUninit<Verb>,
    /// Whose budget, for all policies: any bytes.
    pub key: *const u8,
    /// Bytes at `key`.
    pub key_len: usize,
    /// Instead of `key`: exactly one key for each policy of the limiter, in any order.
    pub keys: *const Key,
    /// Elements at `keys`.
    pub keys_len: usize,
    /// Units, 1 to 2147483647. It has no default: 0 is refused. `RL_VERB_RESET` has none.
    pub cost: i64,
    /// The longest wait that is accepted, for `RL_VERB_RESERVE` and `RL_VERB_WAIT`; `RL_NEVER` is any.
    pub max_wait_us: u64,
    /// As of this instant, in microseconds since 1970 and below 2^52, instead of the store's clock: for tests, and for
    /// replaying a log. Calls on one key must not mix the two, since an embedded store's own clock does not count from
    /// 1970. Not for `RL_VERB_WAIT`, which sleeps. 0: now.
    pub now_us: u64,
    /// An idempotency token, any bytes but none: what a call with the same token on the same key has taken within the
    /// last minute is not taken again, and its decision is given again. So a call that timed out may be sent again.
    /// What was given back is remembered apart from what was taken: a refund may bear the token of the call it undoes.
    /// `RL_VERB_PEEK` and `RL_VERB_RESET` have no use for a token.
    pub token: *const u8,
    /// Bytes at `token`.
    pub token_len: usize,
    /// What to answer when the store gives no usable answer to this call, in place of what the limiter's options say;
    /// `NULL`: as they say. `RL_VERB_RESET` has no use for it.
    pub on_error: *const MaybeUninit<OnError>,
}

/// Answers one call that has more to say than the functions for each verb take: a key per policy, an idempotency token,
/// an instant or a failure rule of its own, or a decision per policy wanted back.
///
/// ```c
/// rl_decision decision, each[2];
/// rl_key keys[] = {{"per user", user, user_len}, {"everybody", NULL, 0}};
/// rl_call call = {.struct_size = sizeof call, .verb = RL_VERB_ALLOW, .keys = keys, .keys_len = 2, .cost = 1};
/// rl_status status = rl_decide(limiter, &call, &decision, each, 2);
/// ```
///
/// @param call      What is asked.
/// @param out       The decision over all policies, as from the function for the verb. Not written by `RL_VERB_REFUND`
///                  and `RL_VERB_RESET`, and may be `NULL` for them; so may `each`.
/// @param each      Where to write one decision per policy, in the order given to `rl_limiter_new`; `NULL`: nowhere.
///                  It must not overlap `out`.
/// @param each_len  Elements at `each`: at least the number of policies, or 0 with `NULL`.
/// @return What the function for the verb returns, and `RL_ERR_INVALID_ARGUMENT` for a member that is wrong: a policy
///         with no key or with two, a key without a policy, both `key` and `keys`, an empty token, or an `each` too
///         short.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_decide(
    limiter: *mut Limiter,
    call: *const Call,
    out: *mut Decision,
    each: *mut Decision,
    each_len: usize,
) -> Status {
    boundary(|| {
        let limiter = shared!(limiter)?;
        let Some(call) = sized!(call)? else { return Err(ffi::null("call")) };
        let verb = call.verb()?;
        let pairs = call.pairs()?;
        let keys = call.keys(pairs.as_deref())?;
        if verb == Verb::Reset {
            return limiter.0.reset(keys);
        }
        let question = call.question(verb, keys)?;
        if verb == Verb::Refund {
            return limiter.0.decide(question).map(drop);
        }
        let (out, each) = (output!(out)?, outputs!(each, each_len)?);
        let policies = limiter.0.policies().len();
        if !each.is_empty() && each.len() < policies {
            return Err(invalid("each_len", format!("must be at least {policies}, one per policy, got {each_len}")));
        }
        let decision = match verb {
            Verb::Wait => limiter.0.wait_for(question, call.max_wait_us)?,
            _ => limiter.0.decide(question)?,
        };
        let parts = decision.each().iter().take(each.len()).map(Decision::try_from).collect::<Result<Vec<_>>>()?;
        out.write(Decision::try_from(&decision)?);
        each[..parts.len()].write_copy_of_slice(&parts);
        Ok(())
    })
}

impl Call {
    fn verb(&self) -> Result<Verb> {
        let number = ffi::number(&self.verb);
        let verb = VERBS.into_iter().find(|verb| *verb as u32 == number);
        verb.ok_or_else(|| invalid("verb", format!("must be one of rl_verb, got {number}")))
    }

    /// The keys by policy, as pairs; none where there is one key for all.
    fn pairs(&self) -> Result<Option<Pairs<'_>>> {
        let &Self { keys, keys_len, .. } = self;
        if keys.is_null() && keys_len == 0 {
            return Ok(None);
        }
        let pair = |&Key { policy, key, key_len }| Ok((text!(policy)?, slice!(key, key_len)?));
        slice!(keys, keys_len)?.iter().map(pair).collect::<Result<_>>().map(Some)
    }

    fn keys<'a>(&'a self, pairs: Option<&'a [(&'a str, &'a [u8])]>) -> Result<Keys<'a>> {
        let &Self { key, key_len, .. } = self;
        match pairs {
            None => Ok(Keys::One(slice!(key, key_len)?)),
            Some(pairs) if key.is_null() => Ok(Keys::Each(pairs)),
            Some(_) => Err(invalid("key", "must be NULL where keys are given")),
        }
    }

    fn question<'a>(&'a self, verb: Verb, keys: Keys<'a>) -> Result<Core<'a>> {
        let &Self { cost, max_wait_us, now_us, token, token_len, on_error, .. } = self;
        if verb == Verb::Wait && now_us != 0 {
            return Err(invalid("now_us", format!("must be 0 for a wait, which sleeps, got {now_us}")));
        }
        let mut question = match verb {
            Verb::Peek => Core::peek(keys, cost),
            Verb::Reserve => Core::reserve(keys, cost, max_wait_us),
            Verb::Refund => Core::refund(keys, cost),
            _ => Core::allow(keys, cost),
        };
        if now_us != 0 {
            question = question.at_us(now_us);
        }
        if !(token.is_null() && token_len == 0) {
            question = question.token(slice!(token, token_len)?);
        }
        if !on_error.is_null() {
            question = question.on_error(limiter::rule(*shared!(on_error)?)?);
        }
        Ok(question)
    }
}
