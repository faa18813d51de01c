//! What is answered when the store cannot be asked.

mod rule;

pub use rule::FailureRule;
pub(crate) use rule::Fallback;
