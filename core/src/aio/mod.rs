//! Deciding without blocking, for programs on tokio, and for hosts whose event loop is another one.

mod limiter;

mod lock;

mod concurrency;

mod runtime;

pub use concurrency::Concurrency;
pub use limiter::Limiter;
pub use lock::Lock;
pub use runtime::spawn;
