//! A decision as a command, and its reply as verdicts.

use smallvec::smallvec;

use super::resp::{self, Reply};
use crate::algorithm::{MAX_EXACT, MAX_SPAN_US, NEVER_US, State, Verdict};
use crate::clock::MAX_INSTANT_US;
use crate::error::Result;
use crate::lua::{self, Machine, Naming, Script};
use crate::resilience::Snapshot;
use crate::store::{Action, Charge, Operation, TOKEN_LIFETIME, Verdicts};

/// What a script says.
pub(super) enum Answer {
    /// The decision, and where nothing is left what it was made of.
    Verdicts(Verdicts, Option<Snapshot>),
    /// By the server's time another window of the calendar is on; nothing was done.
    Elsewhen(u64),
}

/// The script that carries an operation out.
pub(super) fn script_of(operation: &Operation<'_>) -> &'static Script {
    match operation.charges {
        [charge] => Script::of(charge.policy.machine()),
        charges => Script::several(charges.iter().any(|charge| charge.policy.machine() == Machine::Learnt)),
    }
}

/// Appends the command of a decision. `now_us` is for windows that only this side can find in the calendar.
pub(super) fn encode(
    command: &mut Vec<u8>,
    prefix: &[u8],
    naming: Naming,
    operation: &Operation<'_>,
    now_us: u64,
) -> Result<()> {
    let Operation { action, charges, cost, token, .. } = *operation;
    let several = charges.len() > 1;
    // The common call is spared its own numbers: the script takes them for these.
    let usual = (action, cost, operation.now_us, token, several) == (Action::Allow, 1, None, None, false);
    let keys = charges.len() + usize::from(token.is_some());
    script_of(operation).write_head(command, naming, keys, charges.len() + usize::from(!usual));
    for key in charges.iter().map(|charge| charge.key).chain(token) {
        resp::bulk_joined(command, prefix, key);
    }
    let (verb, max_wait_us) = match action {
        Action::Peek => (0, 0),
        Action::Allow => (1, 0),
        Action::Reserve { max_wait_us } => (2, max_wait_us.min(MAX_SPAN_US)),
        Action::Refund => (3, 0),
        Action::Lease { most } => (4, most),
        Action::Return { window_end_us } => (5, window_end_us),
    };
    let lifetime_ms = token.map_or(0, |_| u64::try_from(TOKEN_LIFETIME.as_millis()).unwrap_or(0));
    let call = [verb, cost, max_wait_us, operation.now_us.unwrap_or(0), lifetime_ms];
    if several {
        lua::numbers(command, call.into_iter());
    }
    charges.iter().try_for_each(|charge| charge.policy.write_lua_numbers(command, now_us, several))?;
    if !several && !usual {
        lua::numbers(command, call.into_iter());
    }
    Ok(())
}

/// Appends the command that forgets a key.
pub(super) fn delete(command: &mut Vec<u8>, prefix: &[u8], key: &[u8]) {
    resp::array(command, 2);
    resp::bulk(command, b"DEL");
    resp::bulk_joined(command, prefix, key);
}

/// Appends a command of one word.
pub(super) fn word(command: &mut Vec<u8>, word: &[u8]) {
    resp::array(command, 1);
    resp::bulk(command, word);
}

/// A script's reply as verdicts, if it can be some.
pub(super) fn answer(reply: &Reply, operation: &Operation<'_>) -> Option<Answer> {
    let count = operation.charges.len();
    let bytes = match reply {
        Reply::Bulk(bytes) if bytes.len() == count * 40 => bytes,
        Reply::Bulk(bytes) if bytes.len() == count * 72 + 8 => {
            let (verdicts, state) = bytes.split_at(count * 40);
            return Some(Answer::Verdicts(verdicts_of(verdicts, operation)?, snapshot(state, operation)));
        }
        &Reply::Integer(now_us) if operation.charges.iter().any(|charge| charge.policy.needs_wall_clock()) => {
            return u64::try_from(now_us).ok().filter(|&now_us| now_us < MAX_INSTANT_US).map(Answer::Elsewhen);
        }
        _ => return None,
    };
    verdicts_of(bytes, operation).map(|verdicts| Answer::Verdicts(verdicts, None))
}

fn verdicts_of(bytes: &[u8], operation: &Operation<'_>) -> Option<Verdicts> {
    if let [charge] = operation.charges {
        // The common case, without iterators that the compiler does not see through.
        return limited(bytes, charge, operation).map(|verdict| smallvec![verdict]);
    }
    let verdicts = bytes.chunks_exact(40).zip(operation.charges);
    verdicts.map(|(bytes, charge)| limited(bytes, charge, operation)).collect()
}

/// The time of the decision and the states after it; none where they are no such thing.
fn snapshot(bytes: &[u8], operation: &Operation<'_>) -> Option<Snapshot> {
    let mut numbers = bytes.chunks_exact(8).map(|bytes| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes));
    let now_us = exact(numbers.next()?)?;
    let state = |_: &Charge<'_>| {
        let words = [signed(numbers.next()?)?, signed(numbers.next()?)?, signed(numbers.next()?)?];
        Some(State { words, whole_at_us: exact(numbers.next()?)? })
    };
    Some(Snapshot { now_us, states: operation.charges.iter().map(state).collect::<Option<_>>()? })
}

/// A double as the whole number it has to be, of less than 2^53 either way.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::float_cmp)]
fn signed(number: f64) -> Option<i64> {
    let whole = number as i64;
    (whole.unsigned_abs() < MAX_EXACT && whole as f64 == number).then_some(whole)
}

/// One verdict, within the limit of its policy.
fn limited(bytes: &[u8], charge: &Charge<'_>, operation: &Operation<'_>) -> Option<Verdict> {
    let limit = charge.policy.limit();
    let mut verdict = verdict(bytes, operation)?;
    if operation.token.is_some() {
        // What is remembered may be of a policy with a higher limit.
        verdict.remaining = verdict.remaining.min(limit);
    }
    (verdict.remaining <= limit).then_some(verdict)
}

fn verdict(bytes: &[u8], operation: &Operation<'_>) -> Option<Verdict> {
    let mut numbers = bytes.chunks_exact(8).map(|bytes| bytes.try_into().map_or(f64::NAN, f64::from_le_bytes));
    let allowed = match exact(numbers.next()?)? {
        flag @ (0 | 1) => flag == 1,
        _ => return None,
    };
    let remaining = exact(numbers.next()?)?;
    let retry_after_us = match numbers.next()? {
        -1.0 => NEVER_US,
        us => exact(us)?,
    };
    let (reset_after_us, delay_us) = (exact(numbers.next()?)?, exact(numbers.next()?)?);
    // Passing means waiting for nothing, and the other way round, and nobody is leased less than he asked for or more:
    // whatever says otherwise is no decision of ours.
    let makes_sense = match operation.action {
        Action::Lease { most } if allowed => (operation.cost..=most.max(operation.cost)).contains(&retry_after_us),
        _ => allowed == (retry_after_us == 0),
    };
    makes_sense.then_some(Verdict { allowed, remaining, retry_after_us, reset_after_us, delay_us })
}

/// A double as the whole number it has to be, below 2^53.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::float_cmp)]
#[inline]
pub(super) fn exact(number: f64) -> Option<u64> {
    // A cast from float saturates, and takes NaN to 0; neither gives the same float again. To a signed integer it is one
    // instruction of the processor.
    let whole = number as i64;
    (whole as f64 == number).then_some(whole.cast_unsigned()).filter(|&whole| whole < MAX_EXACT)
}
