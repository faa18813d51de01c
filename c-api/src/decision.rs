//! Decisions: the answers.

use std::mem::MaybeUninit;

use ratelimit_core::algorithm::Verdict;
use ratelimit_core::{Error, Result};

use crate::ffi::{self, invalid};

/// A wait that never ends: the cost is above what can ever pass. The `retry_after_us` of such a denial.
pub const RL_NEVER: u64 = u64::MAX;

/// Where an answer came from.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The store.
    Store = 0,
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

/// The sources by their names in C.
const SOURCES: [(Source, ratelimit_core::Source); 6] = [
    (Source::Store, ratelimit_core::Source::Store),
    (Source::DenyCache, ratelimit_core::Source::DenyCache),
    (Source::Lease, ratelimit_core::Source::Lease),
    (Source::Local, ratelimit_core::Source::Local),
    (Source::FailOpen, ratelimit_core::Source::FailOpen),
    (Source::FailClosed, ratelimit_core::Source::FailClosed),
];

impl TryFrom<ratelimit_core::Source> for Source {
    type Error = Error;

    fn try_from(source: ratelimit_core::Source) -> Result<Self> {
        let known = SOURCES.iter().find(|(_, known)| *known == source);
        known.map(|&(name, _)| name).ok_or_else(|| Error::internal(format!("no name for {source:?} in C")))
    }
}

/// The answer to one call. A snapshot: by the time it is read somebody else may have spent what remained, so schedule
/// by `retry_after_us`, not by `remaining`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
// Where C may have put something else, whatever is there becomes a bool or an enum only after it has been looked at.
pub struct Decision {
    /// Whether the call may go ahead.
    pub allowed: MaybeUninit<bool>,
    /// Whether the store could not be asked and the failure rule answered instead.
    pub degraded: MaybeUninit<bool>,
    /// Where the answer came from.
    pub source: MaybeUninit<Source>,
    /// The index of the policy that ruled, in the order given to `rl_limiter_new`: of those that refused the one with
    /// the longest wait, else the one with the least left in proportion to its limit.
    pub policy: u32,
    /// The largest cost that can ever pass.
    pub limit: u64,
    /// The largest cost that would pass now, 0 to `limit`.
    pub remaining: u64,
    /// Microseconds until the same call passes if nobody else calls: 0 when allowed, `RL_NEVER` when it never can.
    pub retry_after_us: u64,
    /// Microseconds until the budget is whole again.
    pub reset_after_us: u64,
    /// Microseconds until the caller may start, from `rl_reserve`; 0 from what takes only what is there.
    pub delay_us: u64,
}

impl TryFrom<&ratelimit_core::Decision> for Decision {
    type Error = Error;

    fn try_from(decision: &ratelimit_core::Decision) -> Result<Self> {
        Ok(Self {
            allowed: MaybeUninit::new(decision.allowed()),
            degraded: MaybeUninit::new(decision.degraded()),
            source: MaybeUninit::new(decision.source().try_into()?),
            policy: u32::try_from(decision.policy()).map_err(|error| Error::internal(error.to_string()))?,
            limit: decision.limit(),
            remaining: decision.remaining(),
            retry_after_us: decision.retry_after_us(),
            reset_after_us: decision.reset_after_us(),
            delay_us: decision.delay_us(),
        })
    }
}

impl TryFrom<&Decision> for ratelimit_core::Decision {
    type Error = Error;

    fn try_from(decision: &Decision) -> Result<Self> {
        let number = ffi::number(&decision.source);
        let Some(&(_, source)) = SOURCES.iter().find(|(name, _)| *name as u32 == number) else {
            return Err(invalid("decision", format!("must be one of this library, got the source {number}")));
        };
        let verdict = Verdict {
            allowed: ffi::flag(&decision.allowed),
            remaining: decision.remaining,
            retry_after_us: decision.retry_after_us,
            reset_after_us: decision.reset_after_us,
            delay_us: decision.delay_us,
        };
        Ok(Self::new(verdict, decision.limit, decision.policy, source))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_is_what_the_core_calls_never() {
        assert_eq!(RL_NEVER, ratelimit_core::algorithm::NEVER_US);
    }

    #[test]
    fn every_source_has_its_number() {
        use ratelimit_core::Source as Core;
        let sources = [Core::Store, Core::DenyCache, Core::Lease, Core::Local, Core::FailOpen, Core::FailClosed];
        for (number, source) in sources.into_iter().enumerate() {
            assert_eq!(Source::try_from(source).map(|source| source as usize), Ok(number), "{source:?}");
        }
    }
}
