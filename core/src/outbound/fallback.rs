//! What a governor does while its store gives no answer.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::metrics;
use crate::resilience::FailureRule;
use crate::store::{self, Store, Verdicts};

/// A failure rule with what it needs to answer.
#[derive(Debug)]
pub(super) struct Fallback {
    rule: FailureRule,
    /// This host's own store, opened when it is first needed.
    local: OnceLock<Option<Arc<dyn Store>>>,
}

/// What one step came to.
#[derive(Debug)]
pub(super) struct Answer {
    /// None where nobody answered and the caller is to go on without.
    pub(super) verdicts: Option<Verdicts>,
    /// Whether they are not the store's.
    pub(super) degraded: bool,
}

impl Fallback {
    pub(super) fn new(rule: FailureRule) -> Self {
        Self { rule, local: OnceLock::new() }
    }

    /// The answer in place of the store's, or the store's error again.
    #[cold]
    pub(super) fn answer(&self, error: Error, ask: impl FnOnce(&dyn Store) -> Result<Verdicts>) -> Result<Answer> {
        let Some(kind) = error.store_kind() else { return Err(error) };
        metrics::count_error(kind);
        let verdicts = match self.rule {
            FailureRule::Throw => return Err(error),
            FailureRule::Open | FailureRule::Closed => None,
            // Where that one is away, too, requests go: nobody asked for them to be held back.
            FailureRule::Local => {
                self.local.get_or_init(|| store::embedded().ok()).as_deref().and_then(|it| ask(it).ok())
            }
        };
        Ok(Answer { verdicts, degraded: true })
    }
}
