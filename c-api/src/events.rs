//! Callbacks that hear of decisions, and of stores that gave no usable answer.

use std::ffi::{CString, c_char, c_void};
use std::sync::Arc;

use ratelimit_core::{Error, Result, StoreErrorKind, events};

use crate::call::Verb;
use crate::decision::Decision;
use crate::error::Status;
use crate::ffi::{UserData, null};
use crate::limiter::Limiter;
use crate::panic::boundary;

/// A decision has been made. The texts are valid until the callback returns.
#[repr(C)]
#[derive(Debug)]
pub struct DecisionEvent {
    /// What was asked. A wait is told as what it asks at each step: `RL_VERB_RESERVE` where its policies hand out slots,
    /// else `RL_VERB_ALLOW`.
    pub verb: Verb,
    /// Units.
    pub cost: u64,
    /// The name of the policy that ruled.
    pub policy: *const c_char,
    /// Whose budget: 16 characters of the key's hash, the same for each call on the key. With a `secret` it is a keyed
    /// hash; without one an address can be found by trying all of them. Never the key.
    pub key: *const c_char,
    /// The kind of the limiter's store: `memory`, `shared`, `redis`, `sentinel` or `cluster`.
    pub store: *const c_char,
    /// How long it took until the answer was there; for one of many calls, until all answers were.
    pub duration_us: u64,
    /// The decision over all policies.
    pub decision: Decision,
}

/// A store has given no usable answer. Unless the failure rule is `RL_ON_ERROR_THROW`, an event of a decision follows. The
/// texts are valid until the callback returns.
#[repr(C)]
#[derive(Debug)]
pub struct StoreErrorEvent {
    /// What was asked, as in `rl_decision_event`, or `RL_VERB_RESET`.
    pub verb: Verb,
    /// Units; 0 for `RL_VERB_RESET`.
    pub cost: u64,
    /// The name of the limiter's policy; of several the first.
    pub policy: *const c_char,
    /// As in `rl_decision_event`.
    pub key: *const c_char,
    /// As in `rl_decision_event`.
    pub store: *const c_char,
    /// How long it took until the failure was there.
    pub duration_us: u64,
    /// What went wrong, in a word: `timeout`, `refused`, `readonly`, `loading`, `busy`, `noperm`, `oom`, `wrongtype`,
    /// `protocol` or `closed`.
    pub kind: *const c_char,
    /// What went wrong, as a sentence. It holds no key and no password.
    pub message: *const c_char,
}

/// Hears of decisions. Called on the thread of the call, before the call returns, and from several threads at once where
/// they share the limiter. It may ask the same limiter: of what it asks itself, nothing is told. It must not throw and not
/// leave by a jump.
pub type OnDecision = Option<unsafe extern "C" fn(event: *const DecisionEvent, user_data: *mut c_void)>;

/// Hears of stores that gave no usable answer. What is said of `rl_on_decision` goes for it, too.
pub type OnStoreError = Option<unsafe extern "C" fn(event: *const StoreErrorEvent, user_data: *mut c_void)>;

/// Has a function called for each decision of the limiter from now on. Best right after `rl_limiter_new`, before anybody
/// asks it.
///
/// @param callback   The function.
/// @param user_data  Given to it as it is. Must be good for as long as there is the limiter, from any thread that uses it.
/// @return `RL_ERR_INVALID_ARGUMENT` when the limiter has such a function already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_limiter_set_on_decision(
    limiter: *mut Limiter,
    callback: OnDecision,
    user_data: *mut c_void,
) -> Status {
    boundary(|| {
        let (limiter, callback) = (shared!(limiter)?, callback.ok_or_else(|| null("callback"))?);
        let user_data = UserData(user_data);
        limiter.0.set_on_decision(Arc::new(move |event| {
            let told = told(event.asked, event.policy.name()).and_then(|told| {
                let decision = Decision::try_from(event.decision)?;
                let (verb, cost, duration_us) = (told.verb, event.asked.cost, told.duration_us);
                let (policy, key, store) = (told.policy.as_ptr(), told.key.as_ptr(), told.store.as_ptr());
                let event = DecisionEvent { verb, cost, policy, key, store, duration_us, decision };
                user_data.call(callback, &event);
                Ok(())
            });
            told.unwrap_or_else(|_| events::count_failure());
        }))
    })
}

/// Has a function called each time the limiter's store gives no usable answer, from now on. Best right after
/// `rl_limiter_new`, before anybody asks it.
///
/// @param callback   The function.
/// @param user_data  As for `rl_limiter_set_on_decision`.
/// @return `RL_ERR_INVALID_ARGUMENT` when the limiter has such a function already.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rl_limiter_set_on_store_error(
    limiter: *mut Limiter,
    callback: OnStoreError,
    user_data: *mut c_void,
) -> Status {
    boundary(|| {
        let (limiter, callback) = (shared!(limiter)?, callback.ok_or_else(|| null("callback"))?);
        let user_data = UserData(user_data);
        limiter.0.set_on_store_error(Arc::new(move |event| {
            let told = told(event.asked, event.policy.name()).and_then(|told| {
                let kind = text(event.error.store_kind().map_or("", StoreErrorKind::as_str))?;
                let message = text(&event.error.to_string())?;
                let (verb, cost, duration_us) = (told.verb, event.asked.cost, told.duration_us);
                let (policy, key, store) = (told.policy.as_ptr(), told.key.as_ptr(), told.store.as_ptr());
                let (kind, message) = (kind.as_ptr(), message.as_ptr());
                let event = StoreErrorEvent { verb, cost, policy, key, store, duration_us, kind, message };
                user_data.call(callback, &event);
                Ok(())
            });
            told.unwrap_or_else(|_| events::count_failure());
        }))
    })
}

/// What events have in common, as C reads it.
struct Told {
    verb: Verb,
    policy: CString,
    key: CString,
    store: CString,
    duration_us: u64,
}

/// The verbs by their names in events.
const VERBS: [(&str, Verb); 5] = [
    ("allow", Verb::Allow),
    ("peek", Verb::Peek),
    ("reserve", Verb::Reserve),
    ("refund", Verb::Refund),
    ("reset", Verb::Reset),
];

fn told(asked: events::Asked, policy: &str) -> Result<Told> {
    let verb = VERBS.iter().find(|(name, _)| *name == asked.verb).map(|(_, verb)| *verb);
    Ok(Told {
        verb: verb.ok_or_else(|| Error::internal(format!("no name for {} in C", asked.verb)))?,
        policy: text(policy)?,
        key: text(asked.key.as_str())?,
        store: text(asked.store.as_str())?,
        duration_us: u64::try_from(asked.duration.as_micros()).unwrap_or(u64::MAX),
    })
}

fn text(text: &str) -> Result<CString> {
    // A text of C ends at a zero byte; what a server answered may hold one.
    CString::new(text.replace('\0', "\u{fffd}")).map_err(|_| Error::internal("a zero byte that was replaced"))
}
