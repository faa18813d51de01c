//! Several secrets of the key hash at once, while one takes over from another.
//!
//! A call is charged to its keys under all of them, as if each key had a policy of its own: all or nothing, in one step
//! of the store. Where that cannot be one step it is one after the other, the oldest secret's first, since the count
//! under it is the one that is complete for as long as there are processes that have no other. Nothing is let pass that
//! one of the counts refuses, so the worst that happens is that a unit is held for the moment until it is given back.

use std::ops::Range;
use std::ptr;

use smallvec::SmallVec;

use super::prepared::{Manner, Prepared};
use super::{Call, Keys, Limiter};
use crate::decision::{Decision, Source};
use crate::error::Result;
use crate::key::{self, KeySpace, StoredKey};
use crate::metrics;
use crate::policy::Policy;
use crate::store::{Action, Charge, Operation, StoreKind, Verdicts};

/// A key under one of the newer secrets, with the position of its policy.
pub(super) type NewerKey = (usize, StoredKey);

/// The steps of a call that cannot be one.
pub(super) type Steps<'a> = SmallVec<[Operation<'a>; 2]>;

/// The position of the policy that is charged among those of its limiter.
pub(crate) fn position(policies: &[Policy], charge: &Charge<'_>) -> usize {
    policies.iter().position(|policy| ptr::eq(policy, charge.policy)).unwrap_or(0)
}

/// One verdict per policy: over all keys that it was charged to.
#[inline]
pub(crate) fn folded(policies: &[Policy], charges: &[Charge<'_>], mut verdicts: Verdicts) -> Verdicts {
    if verdicts.len() > policies.len() {
        for (charge, at) in charges.iter().zip(0..verdicts.len()).skip(policies.len()) {
            let policy = position(policies, charge);
            verdicts[policy] = verdicts[policy].and(verdicts[at]);
        }
        verdicts.truncate(policies.len());
    }
    verdicts
}

impl Limiter {
    /// The keys of a call under the newer secrets, of whose arguments is known that they are right. A key that is stored
    /// as it is has no others.
    pub(super) fn newer_keys(&self, keys: &Keys<'_>) -> Vec<NewerKey> {
        let key_of = |policy: &Policy| match keys {
            Keys::One(key) => *key,
            Keys::Each(pairs) => pairs.iter().find(|(name, _)| *name == policy.name()).map_or(&[][..], |(_, key)| key),
        };
        let mut newer = Vec::new();
        for style in &self.newer {
            let each =
                self.policies.iter().zip(&self.spaces).map(|(policy, space)| (space, key_of(policy))).enumerate();
            let hashed = each.filter(|(_, (_, key))| !style.keeps(key));
            newer.extend(hashed.map(|(at, (space, key)): (_, (&KeySpace, _))| (at, space.key(style, key))));
        }
        newer
    }

    /// Where answers to a token are remembered beside the keys under the newer secrets.
    pub(super) fn newer_tokens(&self, newer: &[NewerKey], token: &[u8], action: Action) -> Vec<StoredKey> {
        let by_secret = newer.chunks((newer.len() / self.newer.len().max(1)).max(1));
        let token_of =
            |(keys, style): (&[NewerKey], _)| key::token_key(&keys[0].1, style, token, action == Action::Refund);
        by_secret.zip(&self.newer).map(token_of).collect()
    }

    /// All stored keys of a call.
    pub(super) fn all_keys(&self, keys: &Keys<'_>) -> Result<Vec<StoredKey>> {
        let stored = self.keys(keys)?;
        Ok(stored.into_iter().chain(self.newer_keys(keys).into_iter().map(|(_, key)| key)).collect())
    }

    /// Where the answers to a call with a token are remembered.
    pub(super) fn tokens_of(&self, call: &Call<'_>) -> Result<Vec<StoredKey>> {
        let Some(token) = call.token else { return Ok(Vec::new()) };
        let first = self.token(&self.keys(&call.keys)?, token, Action::Allow)?;
        let newer = self.newer_tokens(&self.newer_keys(&call.keys), token, Action::Allow);
        Ok([first].into_iter().chain(newer).collect())
    }

    /// The steps of a call with keys under several secrets, where it cannot be one: on a cluster, whose nodes have one key
    /// each, and with a token, whose answer is remembered for each of the keys so that it is found by whoever has one of
    /// the secrets.
    pub(super) fn steps<'a>(&self, prepared: &'a Prepared, charges: &'a [Charge<'a>]) -> Option<Steps<'a>> {
        let newer = charges.len() - self.policies.len();
        if newer == 0 || (prepared.token().is_none() && self.store.kind() != StoreKind::Cluster) {
            return None;
        }
        let (oldest, newer_charges) = charges.split_at(self.policies.len());
        let by_secret = newer_charges.chunks(newer / self.newer.len());
        let mut tokens = prepared.newer_tokens().iter();
        let mut step = |charges| Operation { token: tokens.next().map(|it| &**it), ..prepared.operation(charges) };
        let newer: Steps<'a> = by_secret.map(&mut step).collect();
        Some([prepared.operation(oldest)].into_iter().chain(newer).collect())
    }

    /// Carries the steps out, one after the other, until one of them refuses.
    pub(super) fn carry_out_in_steps(
        &self,
        whole: &Operation<'_>,
        steps: &[Operation<'_>],
        manner: Manner,
    ) -> Result<Decision> {
        let mut course = Course::default();
        for (count, step) in steps.iter().enumerate() {
            let (verdicts, source) = match self.store.refusal(step) {
                Some(refusal) => (refusal, Source::DenyCache),
                None => match self.store.decide(step) {
                    Ok(verdicts) => (verdicts, Source::Store),
                    Err(error) => return self.fall_back(error, whole, manner),
                },
            };
            if course.hear(step, verdicts, source) == Next::GiveBack {
                for (taken, place) in steps[..count].iter().zip(course.places.clone()) {
                    // First, so that nobody is answered from what is being given back.
                    let _ = taken.token.map(|token| self.store.reset(token));
                    course.has_given_back(place, self.store.decide(&given_back(taken)));
                }
                break;
            }
        }
        Ok(self.concluded(whole, self.decision(whole, course.verdicts, course.source), manner))
    }

    /// [`carry_out_in_steps`](Self::carry_out_in_steps) without blocking.
    #[cfg(feature = "tokio")]
    pub(super) async fn carry_out_in_steps_async(
        &self,
        store: &dyn crate::store::AsyncStore,
        whole: &Operation<'_>,
        steps: &[Operation<'_>],
        manner: Manner,
    ) -> Result<Decision> {
        let mut course = Course::default();
        for (count, step) in steps.iter().enumerate() {
            let (verdicts, source) = match self.store.refusal(step) {
                Some(refusal) => (refusal, Source::DenyCache),
                None => match store.decide(step).await {
                    Ok(verdicts) => (verdicts, Source::Store),
                    Err(error) => return self.fall_back(error, whole, manner),
                },
            };
            if course.hear(step, verdicts, source) == Next::GiveBack {
                for (taken, place) in steps[..count].iter().zip(course.places.clone()) {
                    if let Some(token) = taken.token {
                        let _ = store.reset(token).await;
                    }
                    course.has_given_back(place, store.decide(&given_back(taken)).await);
                }
                break;
            }
        }
        Ok(self.concluded(whole, self.decision(whole, course.verdicts, course.source), manner))
    }
}

/// What gives back what a step has taken.
fn given_back<'a>(step: &Operation<'a>) -> Operation<'a> {
    Operation { action: Action::Refund, token: None, ..*step }
}

/// What the steps of a call have come to so far.
struct Course {
    verdicts: Verdicts,
    /// Where among the verdicts those of each step are.
    places: Vec<Range<usize>>,
    source: Source,
}

/// What follows a step.
#[derive(PartialEq, Eq)]
enum Next {
    /// The next step, if there is one.
    GoOn,
    /// What the steps before took is given back.
    GiveBack,
}

impl Default for Course {
    fn default() -> Self {
        Self { verdicts: Verdicts::new(), places: Vec::new(), source: Source::DenyCache }
    }
}

impl Course {
    /// Takes a step's answer.
    fn hear(&mut self, step: &Operation<'_>, verdicts: Verdicts, source: Source) -> Next {
        if source == Source::Store {
            self.source = source;
        }
        let refuses = verdicts.iter().any(|verdict| !verdict.allowed);
        self.places.push(self.verdicts.len()..self.verdicts.len() + verdicts.len());
        self.verdicts.extend(verdicts);
        let takes = !matches!(step.action, Action::Peek | Action::Refund);
        if refuses && takes { Next::GiveBack } else { Next::GoOn }
    }

    /// Takes over how a step's budgets are after what it took has been given back. Where the store failed in between,
    /// they become whole by themselves, only later.
    fn has_given_back(&mut self, place: Range<usize>, outcome: Result<Verdicts>) {
        match outcome {
            Ok(verdicts) => self.verdicts[place].copy_from_slice(&verdicts),
            Err(error) => {
                metrics::count_dropped_refund();
                error.store_kind().into_iter().for_each(metrics::count_error);
            }
        }
    }
}
