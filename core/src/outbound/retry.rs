//! Whether a request is sent again, and when.

use std::fmt;
use std::sync::Arc;

use super::observation::Observation;
use crate::algorithm::MAX_SPAN_US;

/// What a strategy of one's own is told.
#[derive(Debug, Clone, Copy)]
pub struct RetryContext<'a> {
    /// The status of the response.
    pub status: u16,
    /// How many retries there have been.
    pub attempt: u32,
    /// What the response told about limits.
    pub observation: Option<&'a Observation>,
}

/// Says how long to wait, in microseconds, or `None` for the usual wait.
pub type CustomStrategy = Arc<dyn Fn(&RetryContext<'_>) -> Option<u64> + Send + Sync>;

/// How long to wait before the next try, where the API does not say.
#[derive(Clone)]
pub enum Strategy {
    /// Twice as long each time, with a full step of jitter: from `base_us` up to twice that, from there up to four times,
    /// and so on, at most `cap_us`.
    Exponential {
        /// The shortest first wait, in microseconds.
        base_us: u64,
        /// The longest wait, in microseconds.
        cap_us: u64,
    },
    /// What a function says.
    Custom(CustomStrategy),
}

impl Default for Strategy {
    /// From a second up to five minutes.
    fn default() -> Self {
        Self::Exponential { base_us: 1_000_000, cap_us: 300_000_000 }
    }
}

impl Strategy {
    /// The wait before the next try, and whether it is until a reset, so that the buffer belongs on top.
    pub(super) fn wait_us(&self, context: &RetryContext<'_>) -> Wait {
        let told = context.observation.and_then(|it| it.wait_us.map(|us| (it, us)));
        if let Self::Custom(custom) = self
            && let Some(us) = custom(context)
        {
            return Wait { us: us.min(MAX_SPAN_US), until_reset: false };
        }
        match told {
            // Without a `Retry-After` GitHub asks for a minute, and for more each time.
            Some((it, us)) if it.escalates() => Wait { us: doubled(us, context.attempt), until_reset: false },
            // A reset that is past was not what the request ran into.
            Some((it, 0)) if it.retry_after_us.is_none() => {
                Wait { us: self.backoff_us(context.attempt), until_reset: false }
            }
            Some((it, us)) => Wait { us, until_reset: it.retry_after_us.is_none() },
            None => {
                // A 503 may have the header without being about a limit.
                let asked = context.observation.and_then(|it| it.retry_after_us);
                Wait { us: asked.unwrap_or_else(|| self.backoff_us(context.attempt)), until_reset: false }
            }
        }
    }

    fn backoff_us(&self, attempt: u32) -> u64 {
        let (base_us, cap_us) = match self {
            Self::Exponential { base_us, cap_us } => (*base_us, *cap_us),
            Self::Custom(_) => return Self::default().backoff_us(attempt),
        };
        let step_us = doubled(base_us, attempt).min(cap_us.max(1));
        // Jitter over the whole step: no two clients keep in step, and no wait is shorter than the one before it.
        step_us.saturating_add(fastrand::u64(0..step_us.max(1))).min(cap_us)
    }
}

/// A wait before the next try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wait {
    pub(super) us: u64,
    /// Whether it ends where a window does, which is known to the second at best.
    pub(super) until_reset: bool,
}

fn doubled(us: u64, times: u32) -> u64 {
    us.saturating_mul(1_u64.checked_shl(times).unwrap_or(u64::MAX)).min(MAX_SPAN_US)
}

/// Whether a response is one to send again for.
pub(super) fn is_retryable(status: u16, observation: Option<&Observation>, statuses: &[u16]) -> bool {
    match observation.and_then(|it| it.retryable) {
        Some(retryable) => retryable,
        None => statuses.contains(&status) || observation.is_some_and(|it| it.rate_limited),
    }
}

impl fmt::Debug for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exponential { base_us, cap_us } => {
                f.debug_struct("Exponential").field("base_us", base_us).field("cap_us", cap_us).finish()
            }
            Self::Custom(_) => f.write_str("Custom"),
        }
    }
}
