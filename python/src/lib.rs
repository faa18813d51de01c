//! The Python module of ratelimit: converts arguments and results, and decides nothing.
//!
//! The module is `ratelimit_rs._native`; what users import is re-exported by the Python package around it, which also
//! holds the exceptions.
//!
//! # The interpreter's lock
//!
//! It is let go around every call that may wait for a server and during every sleep, and kept during a decision of the
//! memory store: that takes less time than letting go and taking it again.

mod limiter;

mod batch;

mod lock;

mod concurrency;

mod holding;

mod held;

mod acquiring;

mod call;

mod wait;

mod aio;

mod mailbox;

mod policy;

mod decision;

mod refusal;

mod client_ip;

mod store;

mod redis_client;

mod metrics;

mod events;

mod clock;

mod token_bucket;

mod outbound;

mod key;

mod number;

mod error;

use ratelimit_core as core;

/// The native half of `ratelimit_rs`. Private: import from `ratelimit_rs`.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::acquiring::{Acquiring, begin_acquire, begin_extend, begin_give_up, begin_release};
    #[pymodule_export]
    use crate::aio::{
        begin_allow_many, begin_call, begin_cancel, begin_ping, begin_reset, begin_return_leases, begin_step,
        begin_take,
    };
    #[pymodule_export]
    use crate::client_ip::ClientIp;
    #[pymodule_export]
    use crate::clock::ManualClock;
    #[pymodule_export]
    use crate::concurrency::{Concurrency, begin_look};
    #[pymodule_export]
    use crate::decision::{Decision, restore_decision};
    #[pymodule_export]
    use crate::events::{DecisionEvent, StoreErrorEvent};
    #[pymodule_export]
    use crate::held::{HeldLease, HeldLock};
    #[pymodule_export]
    use crate::limiter::Limiter;
    #[pymodule_export]
    use crate::lock::{Lock, begin_is_held};
    #[pymodule_export]
    use crate::mailbox::Mailbox;
    #[pymodule_export]
    use crate::metrics::metrics;
    #[pymodule_export]
    use crate::outbound::{
        BucketState, Fail, GlobalLimit, Go, Governor, InvalidRequestLimit, Limit, Observation, Quota, Refuse, Retry,
        Return, Ticket, Wait, parse_headers,
    };
    #[pymodule_export]
    use crate::policy::{Policy, restore_policy};
    #[pymodule_export]
    use crate::refusal::{Refusal, check_answer, unidentified};
    #[pymodule_export]
    use crate::store::{Store, StoreInfo};
    #[pymodule_export]
    use crate::token_bucket::TokenBucket;
    #[pymodule_export]
    use crate::wait::Waiting;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        // Before anybody forks.
        crate::core::metrics::touch();
        module.add("__version__", crate::core::VERSION)?;
        module.add("SHARED_KEY", crate::core::http::MissingIdentity::SHARED_KEY)
    }
}
