//! Deciding without blocking, for programs on tokio, and for hosts whose event loop is another one.

mod limiter;

mod runtime;

pub use limiter::Limiter;
pub use runtime::spawn;
