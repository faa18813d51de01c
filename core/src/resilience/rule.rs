//! The failure rule: decided beforehand, per limiter.

use std::str::FromStr;
use std::sync::Arc;

use once_cell::race::OnceBox;
use smallvec::SmallVec;

use crate::algorithm::Verdict;
use crate::decision::{Decision, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::limiter::{decision, folded, position};
use crate::policy::Policy;
use crate::store::{self, Charge, Operation, Store};

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
    /// Let the shared store of this host decide, by a share of the limit.
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

/// A failure rule with what it needs to answer, and what another one needs that a single call names.
#[derive(Debug)]
pub(crate) struct Fallback {
    rule: FailureRule,
    share: u32,
    /// Made for the first call that needs it, unless the rule of the limiter does.
    local: OnceBox<Local>,
}

/// What the rule `local` decides with.
#[derive(Debug)]
struct Local {
    policies: SmallVec<[Policy; 1]>,
    store: Arc<dyn Store>,
}

impl Fallback {
    pub(crate) fn new(rule: FailureRule, share: u32, policies: &[Policy]) -> Result<Self> {
        if share == 0 {
            let detail = format!("must be between 1 and {}, got 0", u32::MAX);
            return Err(Error::argument_error(ErrorKind::InvalidArgument, "share", detail));
        }
        let fallback = Self { rule, share, local: OnceBox::new() };
        if rule == FailureRule::Local {
            // So that policies that cannot be divided are told at once.
            fallback.local(policies)?;
        }
        Ok(fallback)
    }

    /// The decision in place of the store's, or the store's error again: as `rule` says, or else the limiter's.
    pub(crate) fn decide(
        &self,
        rule: Option<FailureRule>,
        error: Error,
        policies: &[Policy],
        operation: &Operation<'_>,
    ) -> Result<Decision> {
        if error.store_kind().is_none() {
            return Err(error);
        }
        let same_for_all = |verdict| policies.iter().map(|_| verdict).collect();
        match rule.unwrap_or(self.rule) {
            FailureRule::Throw => Err(error),
            FailureRule::Open => Ok(decision(policies, &same_for_all(PASSES), Source::FailOpen)),
            FailureRule::Closed => Ok(decision(policies, &same_for_all(REFUSED), Source::FailClosed)),
            FailureRule::Local => self.local(policies)?.decide(policies, operation),
        }
    }

    fn local(&self, policies: &[Policy]) -> Result<&Local> {
        self.local.get_or_try_init(|| Local::new(policies, self.share).map(Box::new))
    }
}

impl Local {
    fn new(policies: &[Policy], share: u32) -> Result<Self> {
        let policies = policies.iter().map(|policy| policy.divided(share)).collect::<Result<_>>()?;
        Ok(Self { policies, store: store::embedded()? })
    }

    /// `policies` are those that the operation charges; ours are their shares.
    fn decide(&self, policies: &[Policy], operation: &Operation<'_>) -> Result<Decision> {
        let share = |charge: &Charge<'_>| &self.policies[position(policies, charge)];
        let charges = operation.charges.iter();
        let charges: SmallVec<[Charge<'_>; 1]> =
            charges.map(|charge| Charge { policy: share(charge), key: charge.key }).collect();
        let verdicts = self.store.decide(&Operation { charges: &charges, ..*operation })?;
        Ok(decision(&self.policies, &folded(&self.policies, &charges, verdicts), Source::Local))
    }
}

const PASSES: Verdict = Verdict { allowed: true, remaining: 0, retry_after_us: 0, reset_after_us: 0, delay_us: 0 };

const REFUSED: Verdict = Verdict {
    allowed: false,
    remaining: 0,
    retry_after_us: CLOSED_RETRY_US,
    reset_after_us: CLOSED_RETRY_US,
    delay_us: 0,
};
