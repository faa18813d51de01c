//! A retry strategy of the application's: a function that says how long to wait before the next try.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ext_php_rs::convert::{IntoZval as _, IntoZvalDyn};
use ext_php_rs::exception::PhpResult;
use ext_php_rs::types::Zval;
use ext_php_rs::zend::ExecutorGlobals;
use ratelimit_core::clock::seconds_to_us;
use ratelimit_core::outbound::{Governor, Response, Strategy};

use super::observation::{Observation, invalid};
use crate::class::new_object;
use crate::convert::wrong_type;
use crate::engine;

/// What a function says that leaves the wait to the governor.
const USUAL: u64 = u64::MAX;

/// A function, with the place for what it says: the core asks from anywhere, and a function of PHP's can be called from
/// here only. None for null.
pub(super) fn of(given: &Zval) -> PhpResult<Option<(Zval, Arc<AtomicU64>)>> {
    let given = given.dereference();
    if given.is_null() {
        return Ok(None);
    }
    if !given.is_callable() {
        return Err(wrong_type("strategy", "callable|null", &engine::type_name(given)));
    }
    Ok(Some((given.shallow_clone(), Arc::new(AtomicU64::new(USUAL)))))
}

/// A strategy that says what was put there.
pub(super) fn that_says(said: Arc<AtomicU64>) -> Strategy {
    Strategy::Custom(Arc::new(move |_| Some(said.load(Ordering::Relaxed)).filter(|us| *us != USUAL)))
}

/// Asks the function about a response that the core will ask about. Its exception goes to the caller; the usual wait
/// stands in then.
// Seconds that are no longer exact as a float are more than any wait.
#[allow(clippy::cast_precision_loss)]
pub(super) fn ask(
    function: &Zval,
    said: &AtomicU64,
    governor: &Governor,
    attempt: u32,
    response: &Response<'_>,
) -> PhpResult {
    said.store(USUAL, Ordering::Relaxed);
    let told = governor.read(response);
    if !governor.asks_strategy(response.status, told.as_ref()) {
        return Ok(());
    }
    let observation = match told {
        Some(told) => new_object(Observation(told)).into_zval(false)?,
        None => Zval::null(),
    };
    let (status, attempt) = (i64::from(response.status), i64::from(attempt));
    let arguments: Vec<&dyn IntoZvalDyn> = vec![&status, &attempt, &observation];
    let answer = function.try_call(arguments);
    if ExecutorGlobals::has_exception() {
        return Err("the function threw".into());
    }
    let answer = answer.map_err(|error| error.to_string())?;
    let answer = answer.dereference();
    let seconds = answer.double().or_else(|| answer.long().map(|whole| whole as f64));
    match seconds {
        None if answer.is_null() => Ok(()),
        Some(seconds) if seconds.is_finite() && seconds >= 0.0 => {
            said.store(seconds_to_us(seconds), Ordering::Relaxed);
            Ok(())
        }
        Some(seconds) => Err(invalid("strategy", format!("must give seconds or null, got {seconds}"))),
        None => {
            let got = engine::type_name(answer);
            Err(invalid("strategy", format!("must give seconds or null, got {got}")))
        }
    }
}
