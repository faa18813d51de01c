//! What is told of each decision, and of each failure of a store, to whoever wants to hear it.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//! use ratelimit_core::{Limiter, Policy, store};
//!
//! let denied = Arc::new(Mutex::new(Vec::new()));
//! let heard = denied.clone();
//! let limiter = Limiter::builder(Policy::parse("1/m")?.named("login")?)
//!     .store(store::memory(1_000)?)
//!     .on_decision(Arc::new(move |event| {
//!         if !event.decision.allowed() {
//!             heard.lock().unwrap().push((event.policy.name().to_owned(), event.asked.key));
//!         }
//!     }))
//!     .build()?;
//! limiter.allow("user:42", 1)?;
//! limiter.allow("user:42", 1)?;
//! let denied = denied.lock().unwrap();
//! assert_eq!((denied.len(), denied[0].0.as_str()), (1, "login"));
//! # Ok::<(), ratelimit_core::Error>(())
//! ```
//!
//! A callback runs on the thread of the call, after the decision has been made and while no lock is held, so it may ask
//! the same limiter; of what it asks itself, nothing is told. A callback that panics changes nothing: the decision is
//! still given, and `rate_limiter_callback_failures_total` counts it. A limiter without callbacks spends nothing on them.
//!
//! No event holds a raw key, but a [`Fingerprint`].

mod fingerprint;

mod recorder;

#[cfg(feature = "tracing")]
mod trace;

use std::cell::Cell;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use once_cell::race::OnceBox;

use crate::decision::Decision;
use crate::error::{Error, ErrorKind, Result};
use crate::metrics;
use crate::policy::Policy;
use crate::store::{Action, StoreKind};

pub use fingerprint::Fingerprint;
pub use recorder::{Recorded, record, take};

/// The examples of the page on events.
#[cfg(doctest)]
#[doc = include_str!("../../docs/events.md")]
struct Page;

/// Hears of decisions.
pub type DecisionCallback = Arc<dyn Fn(&DecisionEvent<'_>) + Send + Sync>;

/// Hears of stores that gave no usable answer.
pub type StoreErrorCallback = Arc<dyn Fn(&StoreErrorEvent<'_>) + Send + Sync>;

/// A decision has been made.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DecisionEvent<'a> {
    /// What was asked.
    pub asked: Asked,
    /// The policy that ruled.
    pub policy: &'a Policy,
    /// The decision.
    pub decision: &'a Decision,
}

/// A store has given no usable answer. Unless the failure rule is `throw`, a [`DecisionEvent`] follows.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct StoreErrorEvent<'a> {
    /// What was asked.
    pub asked: Asked,
    /// The limiter's policy; of several the first.
    pub policy: &'a Policy,
    /// What went wrong; its [`store_kind`](Error::store_kind) is there.
    pub error: &'a Error,
}

/// What an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Asked {
    /// `allow`, `peek`, `reserve`, `refund` or `reset`. A wait is told as what it asks at each step: `reserve` where its
    /// policies hand out slots, else `allow`.
    pub verb: &'static str,
    /// Units; 0 for `reset`.
    pub cost: u64,
    /// Whose budget: the key that the policy of the event was charged to.
    pub key: Fingerprint,
    /// The kind of the limiter's store, whoever answered in the end.
    pub store: StoreKind,
    /// How long it took until the answer was there; for one of many calls, until all answers were.
    pub duration: Duration,
}

/// The verb's name in events.
pub(crate) const fn verb(action: Action) -> &'static str {
    match action {
        Action::Peek => "peek",
        Action::Allow | Action::Lease { .. } => "allow",
        Action::Reserve { .. } => "reserve",
        Action::Refund | Action::Return { .. } => "refund",
    }
}

/// The callbacks of a limiter.
#[derive(Default)]
pub(crate) struct Listeners {
    on_decision: OnceBox<DecisionCallback>,
    on_store_error: OnceBox<StoreErrorCallback>,
}

impl Listeners {
    pub(crate) fn set_on_decision(&self, callback: DecisionCallback) -> Result<()> {
        self.on_decision.set(Box::new(callback)).map_err(|_| set_already("on_decision"))
    }

    pub(crate) fn set_on_store_error(&self, callback: StoreErrorCallback) -> Result<()> {
        self.on_store_error.set(Box::new(callback)).map_err(|_| set_already("on_store_error"))
    }
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (decision, error) = (self.on_decision.get().is_some(), self.on_store_error.get().is_some());
        f.debug_struct("Listeners").field("on_decision", &decision).field("on_store_error", &error).finish()
    }
}

fn set_already(argument: &'static str) -> Error {
    Error::argument_error(ErrorKind::InvalidArgument, argument, "is set already")
}

/// Whether somebody hears of all limiters, by way of `tracing`.
#[inline]
pub(crate) fn traced() -> bool {
    #[cfg(feature = "tracing")]
    return trace::enabled();
    #[cfg(not(feature = "tracing"))]
    false
}

pub(crate) fn tell_decision(listeners: Option<&Listeners>, event: &DecisionEvent<'_>) {
    tell(|| {
        #[cfg(feature = "tracing")]
        trace::decision(event);
        if let Some(callback) = listeners.and_then(|listeners| listeners.on_decision.get()) {
            callback(event);
        }
    });
}

pub(crate) fn tell_store_error(listeners: Option<&Listeners>, event: &StoreErrorEvent<'_>) {
    tell(|| {
        #[cfg(feature = "tracing")]
        trace::store_error(event);
        if let Some(callback) = listeners.and_then(|listeners| listeners.on_store_error.get()) {
            callback(event);
        }
    });
}

thread_local! {
    /// Whether this thread is inside a callback.
    static TELLING: Cell<bool> = const { Cell::new(false) };
}

/// Calls callbacks, unless this is a call of one of them: it would be called for its own call, and again for that one.
fn tell(callbacks: impl FnOnce()) {
    // At the end of a thread its slots are gone, and nobody hears of what it still does.
    if TELLING.try_with(Cell::get).unwrap_or(true) {
        return;
    }
    if catch_unwind(AssertUnwindSafe(|| quietly(callbacks))).is_err() {
        count_failure();
    }
}

/// Does something of which no event is told; for bindings, whose callbacks are called by them.
pub fn quietly<R>(act: impl FnOnce() -> R) -> R {
    struct Reset(bool);
    impl Drop for Reset {
        fn drop(&mut self) {
            let _ = TELLING.try_with(|telling| telling.set(self.0));
        }
    }
    let _reset = Reset(TELLING.try_with(|telling| telling.replace(true)).unwrap_or(true));
    act()
}

/// Counts a callback that failed; for bindings, whose callbacks are called by them.
#[cold]
pub fn count_failure() {
    metrics::count_callback_failure();
}
