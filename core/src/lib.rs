//! Decides, in one place, whether a unit of work may go ahead now, later or not at all.
//!
//! A [`Policy`] says how much is allowed, a [`Store`](store::Store) keeps what was used, a [`Limiter`] binds the two
//! and answers with a [`Decision`]:
//!
//! ```
//! use ratelimit_core::{Limiter, Policy, store};
//!
//! let policy = Policy::token_bucket(10, 1.0, 1.0)?; // 10 at once, one more every second
//! let limiter = Limiter::new(policy, store::memory(1_000_000)?)?;
//!
//! let decision = limiter.allow("user:42", 1)?;
//! assert!(decision.allowed());
//! assert_eq!(decision.remaining(), 9);
//! # Ok::<(), ratelimit_core::Error>(())
//! ```
//!
//! The crate knows no host language: the PHP, Python and C bindings convert arguments and results and decide nothing.

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod error;

pub mod policy;

pub mod decision;

pub mod limiter;

pub mod lock;

pub mod concurrency;

pub mod acquiring;

pub mod holder;

mod holding;

pub mod clock;

pub mod algorithm;

pub mod store;

#[cfg(feature = "tokio")]
pub mod aio;

pub mod lua;

pub mod http;

pub mod outbound;

pub mod resilience;

pub mod metrics;

pub mod events;

mod key;

mod process;

pub use acquiring::{AcquireStep, Acquiring};
pub use clock::{Clock, ManualClock};
pub use concurrency::{Concurrency, LeaseGuard};
pub use decision::{Decision, Source};
pub use error::{Error, ErrorKind, Result, StoreErrorKind};
pub use holder::Holder;
pub use limiter::{Call, Keys, Limiter, LimiterBuilder, Policies, WaitStep, Waiting};
pub use lock::{Lock, LockGuard};
pub use policy::Policy;
pub use resilience::{BreakerState, FailureRule};

/// The version of this library, as in `Cargo.toml`.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
