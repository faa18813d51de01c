//! What is answered when the store cannot be asked, and when it need not be.

mod breaker;

mod deny_cache;

mod rule;

pub use breaker::BreakerState;
pub(crate) use breaker::{Breaker, Knock};
pub(crate) use deny_cache::{DenyCache, Snapshot};
pub use rule::FailureRule;
pub(crate) use rule::Fallback;
