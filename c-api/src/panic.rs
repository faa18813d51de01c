//! The border that no panic crosses.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

use ratelimit_core::{Error, Result};

use crate::error::{Status, report};

/// Runs a function's body and returns its status; an error is kept for `rl_last_error`, a panic becomes one.
pub(crate) fn boundary(body: impl FnOnce() -> Result<()>) -> Status {
    // A panic leaves nothing half changed: results are written last, and the core's locks are never poisoned.
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::RL_OK,
        Ok(Err(error)) => report(&error),
        Err(payload) => report(&Error::internal(format!("a defect of ratelimit: {}", text(&*payload)))),
    }
}

fn text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic without a text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::tests::last_error;

    #[test]
    fn a_panic_becomes_an_internal_error_with_its_text() {
        assert_eq!(boundary(|| panic!("the {} is on fire", "server")), Status::RL_ERR_INTERNAL);
        assert_eq!(last_error(), "a defect of ratelimit: the server is on fire");
        assert_eq!(boundary(|| std::panic::panic_any(7)), Status::RL_ERR_INTERNAL);
        assert_eq!(last_error(), "a defect of ratelimit: a panic without a text");
    }

    #[test]
    fn the_next_call_after_a_panic_works() {
        assert_eq!(boundary(|| panic!("once")), Status::RL_ERR_INTERNAL);
        assert_eq!(boundary(|| Ok(())), Status::RL_OK);
    }
}
