//! What one response told about a remote API's limits.

/// What one response told about a remote API's limits: plain data, in which whatever the server did not say is `None`.
///
/// ```
/// use ratelimit_core::outbound::{Preset, Response, parse_headers};
///
/// let headers = [("x-ratelimit-limit", "60"), ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000042")];
/// let response = Response { status: 429, headers: &headers, body: b"" };
/// let observation = parse_headers(Preset::GENERIC, &response, 1_700_000_000_000_000).expect("it says something");
/// assert_eq!(observation.remaining(), Some(0.0));
/// assert_eq!(observation.wait_us(), Some(42_000_000));
/// ```
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Observation {
    pub(crate) quotas: Vec<Quota>,
    /// Which of the quotas the caller meets first.
    pub(crate) ruling: Option<usize>,
    pub(crate) retry_after_us: Option<u64>,
    pub(crate) bucket: Option<Box<str>>,
    pub(crate) scope: Option<Box<str>>,
    pub(crate) rate_limited: bool,
    pub(crate) global: bool,
    pub(crate) retryable: Option<bool>,
    pub(crate) wait_us: Option<u64>,
    /// Whether the next wait after this one should be longer.
    pub(crate) escalating: bool,
}

impl Observation {
    /// Every quota that the response speaks of.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// The quota that runs out first; the numbers below are its own.
    pub fn ruling(&self) -> Option<&Quota> {
        self.quotas.get(self.ruling?)
    }

    /// Units per window.
    pub fn limit(&self) -> Option<f64> {
        self.ruling()?.limit
    }

    /// Units left in the window, as told, also where that is more than the limit. Some APIs count in fractions.
    pub fn remaining(&self) -> Option<f64> {
        self.ruling()?.remaining
    }

    /// Until the quota is whole again, in microseconds; 0 when that instant is past.
    pub fn reset_after_us(&self) -> Option<u64> {
        self.ruling()?.reset_after_us
    }

    /// The instant of the reset, in microseconds since 1970, by the server's clock where it named an instant.
    pub fn reset_at_us(&self) -> Option<u64> {
        self.ruling()?.reset_at_us
    }

    /// What `Retry-After`, or what the API has in its place, asks for, in microseconds. Also successes may have one.
    pub fn retry_after_us(&self) -> Option<u64> {
        self.retry_after_us
    }

    /// What the API counts this request under, where it says so.
    pub fn bucket(&self) -> Option<&str> {
        self.bucket.as_deref()
    }

    /// Which of the API's limits it is about, in the API's own words.
    pub fn scope(&self) -> Option<&str> {
        self.scope.as_deref()
    }

    /// Whether the request was turned away because of a rate limit.
    pub fn rate_limited(&self) -> bool {
        self.rate_limited
    }

    /// Whether the limit is on everything this identity sends, not only on this bucket.
    pub fn global(&self) -> bool {
        self.global
    }

    /// Whether sending again can help, where the API says so in as many words.
    pub fn retryable(&self) -> Option<bool> {
        self.retryable
    }

    pub(crate) fn escalates(&self) -> bool {
        self.escalating
    }

    /// How long to wait before sending again, in microseconds; `None` when the request was not turned away, or when
    /// nothing says how long, so that the caller has to back off on its own account.
    pub fn wait_us(&self) -> Option<u64> {
        self.wait_us
    }
}

/// One of the things that a remote API counts.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Quota {
    pub(crate) name: Option<Box<str>>,
    pub(crate) limit: Option<f64>,
    pub(crate) remaining: Option<f64>,
    pub(crate) reset_after_us: Option<u64>,
    pub(crate) reset_at_us: Option<u64>,
    pub(crate) window_us: Option<u64>,
    pub(crate) refill_us: Option<u64>,
    pub(crate) unit: Unit,
    /// Splits one policy's callers; two partitions never share a count.
    pub(crate) partition: Option<Box<[u8]>>,
}

impl Quota {
    /// What the API calls it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Units per window.
    pub fn limit(&self) -> Option<f64> {
        self.limit
    }

    /// Units left.
    pub fn remaining(&self) -> Option<f64> {
        self.remaining
    }

    /// Until it is whole again, in microseconds.
    pub fn reset_after_us(&self) -> Option<u64> {
        self.reset_after_us
    }

    /// The length of its window in microseconds.
    pub fn window_us(&self) -> Option<u64> {
        self.window_us
    }

    /// The time in which one unit comes back, in microseconds, where the API says so.
    pub fn refill_us(&self) -> Option<u64> {
        self.refill_us
    }

    /// What it counts.
    pub fn unit(&self) -> Unit {
        self.unit
    }

    /// Whether it is used up.
    pub fn exhausted(&self) -> bool {
        self.remaining.is_some_and(|remaining| remaining < 1.0)
    }
}

/// What a quota counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Requests: each takes one.
    #[default]
    Requests,
    /// Bytes, tokens, points: a request takes an amount that only the server knows. Such a quota is never counted down
    /// here; while the server says that it is used up, requests wait.
    Other,
}

/// One response, as far as limits are concerned.
#[derive(Clone, Copy)]
pub struct Response<'a> {
    /// The HTTP status.
    pub status: u16,
    /// Names and values, in the order they came in; a field on several lines stands here several times.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body, or its beginning, where there is one at hand; empty is fine.
    pub body: &'a [u8],
}

impl std::fmt::Debug for Response<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers and bodies may hold secrets, which stay out of logs.
        f.debug_struct("Response").field("status", &self.status).finish_non_exhaustive()
    }
}
