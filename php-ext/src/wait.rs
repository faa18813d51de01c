//! The sleep of `Limiter::wait()`: in pieces, so that signals are handled while it lasts, and what they may do to it.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::time::{Duration, Instant};

use ext_php_rs::exception::PhpResult;
use ext_php_rs::zend::{CatchError, ExecutorGlobals, try_catch};

use crate::engine;

/// The longest piece. A signal ends a piece, unless it comes just before the piece begins: then it is handled after it.
const PIECE: Duration = Duration::from_millis(50);

/// Sleeps, and lets signal handlers run meanwhile, as PHP does between two statements. The exception of a handler ends
/// the sleep and goes to the caller.
pub(crate) fn sleep_us(us: u64) -> PhpResult {
    let (started, sleep) = (Instant::now(), Duration::from_micros(us));
    loop {
        engine::handle_interrupt();
        if ExecutorGlobals::has_exception() {
            // The pending exception is the one the caller gets; this one is never thrown.
            return Err("a signal handler threw".into());
        }
        let left = sleep.saturating_sub(started.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        engine::sleep(left.min(PIECE));
    }
}

/// Lets time pass, during which the script's own code may run. Where that code ends the wait, `give_up` is called first:
/// before the exception or the `exit` goes on, and before the engine leaves by a jump, as it does after a fatal error and
/// at the time limit.
pub(crate) fn unless_given_up(pass: impl FnOnce() -> PhpResult, give_up: impl FnOnce()) -> PhpResult {
    let passed = try_catch(AssertUnwindSafe(pass));
    if !matches!(passed, Ok(Ok(()))) {
        give_up();
    }
    match passed {
        Ok(passed) => passed,
        Err(CatchError::Bailout) => engine::bail_out(),
        // Caught once more where the method began, and thrown as an error there.
        Err(panic) => resume_unwind(Box::new(panic.to_string())),
    }
}
