//! The failure rule: decided beforehand, per limiter.

use std::str::FromStr;
use std::sync::Arc;

use crate::algorithm::Verdict;
use crate::decision::{Decision, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::policy::Policy;
use crate::store::{self, Store};

/// The wait told to a caller who was refused only because the store is away: a second, until it may be back.
const CLOSED_RETRY_US: u64 = 1_000_000;

/// What to answer when the store gave no usable answer. Every such decision is [`degraded`](Decision::degraded).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FailureRule {
    /// Fail with [`StoreUnavailable`](ErrorKind::StoreUnavailable).
    #[default]
    Throw,
    /// Let the call pass.
    Open,
    /// Refuse the call, to be tried again after a second.
    Closed,
    /// Let this process's memory store decide, by a share of the limit.
    Local,
}

impl FromStr for FailureRule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "throw" => Ok(Self::Throw),
            "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            "local" => Ok(Self::Local),
            _ => Err(Error::argument_error(
                ErrorKind::InvalidArgument,
                "on_error",
                format!("must be throw, open, closed or local, got {text:?}"),
            )),
        }
    }
}

/// A failure rule with what it needs to answer.
#[derive(Debug)]
pub(crate) enum Fallback {
    Throw,
    Open,
    Closed,
    Local { policy: Policy, store: Arc<dyn Store> },
}

impl Fallback {
    pub(crate) fn new(rule: FailureRule, share: u32, policy: &Policy) -> Result<Self> {
        if share == 0 {
            let detail = format!("must be between 1 and {}, got 0", u32::MAX);
            return Err(Error::argument_error(ErrorKind::InvalidArgument, "share", detail));
        }
        Ok(match rule {
            FailureRule::Throw => Self::Throw,
            FailureRule::Open => Self::Open,
            FailureRule::Closed => Self::Closed,
            FailureRule::Local => Self::Local { policy: policy.divided(share)?, store: store::embedded()? },
        })
    }

    /// The decision in place of the store's, or the store's error again.
    pub(crate) fn decide(&self, error: Error, limit: u64, operation: &store::Operation<'_>) -> Result<Decision> {
        if error.store_kind().is_none() {
            return Err(error);
        }
        match self {
            Self::Throw => Err(error),
            Self::Open => Ok(refused_or_not(true, limit, Source::FailOpen)),
            Self::Closed => Ok(refused_or_not(false, limit, Source::FailClosed)),
            Self::Local { policy, store } => {
                let verdict = store.decide(&store::Operation { policy, ..*operation })?;
                Ok(Decision::new(verdict, policy.limit(), 0, Source::Local))
            }
        }
    }
}

fn refused_or_not(allowed: bool, limit: u64, source: Source) -> Decision {
    let retry_after_us = if allowed { 0 } else { CLOSED_RETRY_US };
    let verdict = Verdict { allowed, remaining: 0, retry_after_us, reset_after_us: retry_after_us, delay_us: 0 };
    Decision::new(verdict, limit, 0, source)
}
