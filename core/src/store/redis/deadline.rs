//! How long one call may take.

use std::time::{Duration, Instant};

use crate::store::dsn::RedisOptions;

/// The time of one call: each exchange has the timeout, connecting (with all that finding the server takes) has the
/// connect timeout, and all together never take longer than the two.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    started: Instant,
    timeout: Duration,
    connect_timeout: Duration,
}

impl Deadline {
    pub(super) fn start(options: &RedisOptions) -> Self {
        let RedisOptions { timeout, connect_timeout, .. } = *options;
        Self { started: Instant::now(), timeout, connect_timeout }
    }

    pub(super) fn started(&self) -> Instant {
        self.started
    }

    /// What an exchange that begins at `now` may take.
    pub(super) fn of_exchange(&self, now: Instant) -> Duration {
        self.left(now).min(self.timeout)
    }

    /// What connecting may take, from `now` on.
    pub(super) fn of_connecting(&self, now: Instant) -> Duration {
        self.left(now).min(self.connect_timeout)
    }

    /// Half of what is left, from `now` on: who is asked with it leaves time for another.
    pub(super) fn halved(&self, now: Instant) -> Self {
        let half = self.left(now) / 2;
        Self { started: now, timeout: half.min(self.timeout) / 2, connect_timeout: half.min(self.connect_timeout) / 2 }
    }

    /// That there is nothing left.
    #[cfg(feature = "tokio")]
    pub(super) fn passed(&self) -> crate::Error {
        let whole = self.timeout + self.connect_timeout;
        crate::Error::unavailable(crate::StoreErrorKind::Timeout, format!("redis did not answer within {whole:?}"))
    }

    /// What is left of the call.
    #[inline]
    pub(super) fn left(&self, now: Instant) -> Duration {
        if now == self.started {
            // The common exchange begins with the call.
            return self.timeout + self.connect_timeout;
        }
        (self.timeout + self.connect_timeout).saturating_sub(now.duration_since(self.started))
    }
}
