//! The sleep of `Limiter::wait()`: in pieces, so that signals are handled while it lasts.

use std::time::{Duration, Instant};

use ext_php_rs::exception::PhpResult;
use ext_php_rs::zend::ExecutorGlobals;

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
