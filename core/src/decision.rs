//! The answer to one call.

use std::sync::Arc;
use std::time::Duration;

use crate::algorithm::{NEVER_US, Verdict};

/// The outcome of one call: whether it may go ahead, and the numbers that go with it.
///
/// A decision is a snapshot: by the time you read it another process may have spent what remained. Schedule by
/// [`retry_after`](Self::retry_after), not by `remaining`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    verdict: Verdict,
    limit: u64,
    policy: u32,
    source: Source,
    /// One per policy, where there are several.
    each: Option<Arc<[Decision]>>,
}

/// Where an answer came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Source {
    /// The store.
    Store,
    /// A denial remembered in this process.
    DenyCache,
    /// Units leased to this host.
    Lease,
    /// The store failed; the fallback store of this host decided.
    Local,
    /// The store failed, and the failure rule lets calls pass.
    FailOpen,
    /// The store failed, and the failure rule refuses calls.
    FailClosed,
}

impl Source {
    /// Every source.
    pub const ALL: [Self; 6] =
        [Self::Store, Self::DenyCache, Self::Lease, Self::Local, Self::FailOpen, Self::FailClosed];

    /// The name used in every language: `store`, `deny_cache`, `lease`, `local`, `fail_open` or `fail_closed`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::DenyCache => "deny_cache",
            Self::Lease => "lease",
            Self::Local => "local",
            Self::FailOpen => "fail_open",
            Self::FailClosed => "fail_closed",
        }
    }
}

impl Decision {
    /// A decision made of its numbers, for bindings that hand one out as numbers and take it back.
    pub const fn new(verdict: Verdict, limit: u64, policy: u32, source: Source) -> Self {
        Self { verdict, limit, policy, source, each: None }
    }

    /// The decision over those of several policies: allowed when all are, ruled by the refusing one with the longest wait, else by the
    /// one with the least left in proportion to its limit.
    ///
    /// # Panics
    ///
    /// When there is none.
    pub fn over(each: Vec<Self>) -> Self {
        let refusing = each.iter().filter(|decision| !decision.allowed());
        // Of equals the first rules: `max_by_key` would give the last.
        let ruling = refusing
            .min_by_key(|decision| u64::MAX - decision.verdict.retry_after_us)
            .or_else(|| each.iter().min_by(|a, b| (a.remaining() * b.limit).cmp(&(b.remaining() * a.limit))))
            .expect("there is at least one policy");
        let delay_us = each.iter().map(|decision| decision.verdict.delay_us).max().unwrap_or(0);
        let verdict = Verdict { delay_us: if ruling.allowed() { delay_us } else { 0 }, ..ruling.verdict };
        Self { verdict, each: None, ..*ruling }.with_each(each)
    }

    fn with_each(self, each: Vec<Self>) -> Self {
        Self { each: Some(each.into()), ..self }
    }

    /// Whether the call may go ahead.
    pub const fn allowed(&self) -> bool {
        self.verdict.allowed
    }

    /// The largest cost that can ever pass.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The largest cost that would pass now, from 0 to `limit`.
    pub const fn remaining(&self) -> u64 {
        self.verdict.remaining
    }

    /// Until the same call passes, if nobody else calls: zero when allowed, `None` when it never can.
    pub const fn retry_after(&self) -> Option<Duration> {
        match self.verdict.retry_after_us {
            NEVER_US => None,
            us => Some(Duration::from_micros(us)),
        }
    }

    /// Until the budget is whole again.
    pub const fn reset_after(&self) -> Duration {
        Duration::from_micros(self.verdict.reset_after_us)
    }

    /// Until the caller may start, for the verbs that hand out slots; else zero.
    pub const fn delay(&self) -> Duration {
        Duration::from_micros(self.verdict.delay_us)
    }

    /// The position of the policy that ruled: refused with the longest wait, or has least left.
    pub const fn policy(&self) -> usize {
        self.policy as usize
    }

    /// One decision per policy, in the order given to the limiter.
    pub fn each(&self) -> &[Self] {
        match &self.each {
            Some(each) => each,
            None => std::slice::from_ref(self),
        }
    }

    /// Where the answer came from.
    pub const fn source(&self) -> Source {
        self.source
    }

    /// Whether the store could not be asked and a failure rule answered instead.
    pub const fn degraded(&self) -> bool {
        matches!(self.source, Source::Local | Source::FailOpen | Source::FailClosed)
    }

    /// [`retry_after`](Self::retry_after) in microseconds, [`NEVER_US`] when it never passes; for bindings.
    pub const fn retry_after_us(&self) -> u64 {
        self.verdict.retry_after_us
    }

    /// [`reset_after`](Self::reset_after) in microseconds; for bindings.
    pub const fn reset_after_us(&self) -> u64 {
        self.verdict.reset_after_us
    }

    /// [`delay`](Self::delay) in microseconds; for bindings.
    pub const fn delay_us(&self) -> u64 {
        self.verdict.delay_us
    }
}
