//! What a request is taken from, and what is known of it.

use smallvec::{SmallVec, smallvec};

use super::budget::{GlobalLimit, Limit, Scope};
use super::governor::{Governor, Key};
use super::keys::KeyMaker;
use super::preset::Refill;
use super::route::Route;
use super::ticket::{BucketState, Reason, Way};
use crate::algorithm::learnt::Kind;
use crate::algorithm::{Learnt, MAX_UNITS, Verdict};
use crate::clock::us_to_seconds;
use crate::error::Result;
use crate::policy::{Algorithm, Policy};
use crate::store::Verdicts;

/// How long one request may take to find out what is left before another one tries.
pub(super) const CLAIM_US: u64 = 10_000_000;

/// One thing that a request is taken from.
#[derive(Debug, Clone)]
pub(super) struct Charged {
    pub(super) policy: Policy,
    pub(super) key: Key,
    pub(super) reason: Reason,
}

impl Charged {
    /// Whether the API is known to tell nothing.
    pub(super) fn is_silent(&self, verdict: &Verdict) -> bool {
        self.reason == Reason::Quota && verdict.allowed && verdict.remaining == MAX_UNITS && verdict.delay_us == 0
    }

    /// Whether it is refused because another request is finding out.
    pub(super) fn is_claimed(&self, verdict: &Verdict) -> bool {
        self.reason == Reason::Quota && !verdict.allowed && verdict.reset_after_us == 0
    }
}

/// A step on a learnt budget as a policy.
pub(super) fn policy(learnt: Learnt) -> Policy {
    Algorithm::Learnt(learnt).into()
}

fn take(kind: Kind) -> Policy {
    policy(Learnt::take(kind, CLAIM_US))
}

/// How counted quotas of the governor's API come back.
pub(super) fn counted(governor: &Governor) -> Kind {
    match governor.preset.refill() {
        Refill::Window => Kind::Window,
        Refill::Gradual => Kind::Gradual,
    }
}

/// The keys of one request's learnt budgets.
pub(super) struct Keys<'a> {
    keys: &'a KeyMaker,
    way: &'a Way,
}

impl<'a> Keys<'a> {
    pub(super) fn of(governor: &'a Governor, way: &'a Way) -> Self {
        Self { keys: &governor.keys, way }
    }

    /// The pause of everything that the identity sends to the host.
    pub(super) fn pause_all(&self) -> Key {
        self.keys.learnt("pause", &[&self.way.route.host, &self.way.identity])
    }

    /// The pause of a bucket.
    pub(super) fn pause(&self, bucket: &str) -> Key {
        self.keys.learnt("pause", &[&self.way.route.host, &self.way.identity, &self.way.route.major, bucket])
    }

    /// What rules a bucket.
    pub(super) fn main(&self, bucket: &str) -> Key {
        self.keys.learnt("main", &[&self.way.route.host, &self.way.identity, &self.way.route.major, bucket])
    }

    /// One of several quotas of a bucket.
    pub(super) fn quota(&self, bucket: &str, name: &str) -> Key {
        self.keys.learnt("quota", &[&self.way.route.host, &self.way.identity, &self.way.route.major, bucket, name])
    }

    /// What a bucket's quotas are remembered by within this process.
    pub(super) fn directory(&self, bucket: &str) -> String {
        format!("{}\0{}\0{}\0{bucket}", self.way.route.host, self.way.identity, self.way.route.major)
    }
}

/// Everything learnt that a request is taken from.
pub(super) fn learnt(governor: &Governor, way: &Way) -> SmallVec<[Charged; 8]> {
    let keys = Keys::of(governor, way);
    let kind = counted(governor);
    let mut charged: SmallVec<[Charged; 8]> = smallvec![];
    if !way.exempt {
        charged.push(Charged { policy: take(Kind::Pause), key: keys.pause_all(), reason: Reason::Cooldown });
    }
    let buckets = [Some(&way.bucket), way.beside.as_ref().filter(|beside| **beside != way.bucket)];
    for bucket in buckets.into_iter().flatten() {
        charged.push(Charged { policy: take(Kind::Pause), key: keys.pause(bucket), reason: Reason::Cooldown });
        charged.push(Charged { policy: take(kind), key: keys.main(bucket), reason: Reason::Quota });
        for quota in governor.directory.quotas(&keys.directory(bucket)) {
            let kind = if quota.counted { kind } else { Kind::Gate };
            charged.push(Charged { policy: take(kind), key: keys.quota(bucket, &quota.name), reason: Reason::Quota });
        }
    }
    charged
}

/// The counter of invalid requests.
pub(super) fn invalid(governor: &Governor, way: &Way) -> Option<Charged> {
    let limit = governor.options.invalid_request_limit.as_ref()?;
    // The API shuts out an address, whoever sends from it.
    let key = governor.keys.policy(&limit.policy, &["invalid", &way.route.host]);
    Some(Charged { policy: limit.policy.clone(), key, reason: Reason::InvalidRequests })
}

/// Requests on their way, no more than `room`. One that is never told of is forgotten like a claim.
pub(super) fn on_their_way(governor: &Governor, way: &Way, room: u64) -> Result<Charged> {
    let policy = Policy::sliding_window_log(i64::try_from(room.max(1)).unwrap_or(1), us_to_seconds(CLAIM_US))?;
    let key = governor.keys.policy(&policy, &["on their way", &way.route.host]);
    Ok(Charged { policy, key, reason: Reason::InvalidRequests })
}

pub(super) fn global_key(keys: &KeyMaker, global: &GlobalLimit, way: &Way) -> Key {
    keys.policy(&global.policy, &["global", &way.route.host, &way.identity])
}

pub(super) fn limit_key(keys: &KeyMaker, limit: &Limit, index: usize, route: &Route, identity: &str) -> Key {
    let index = index.to_string();
    let parts: &[&str] = match limit.scope {
        Scope::Identity => &["identity", &index, &route.host, identity],
        Scope::Host => &["host", &index, &route.host],
        Scope::Route => &["route", &index, &route.template, &route.major, identity],
        Scope::Everything => &["everything", &index],
    };
    keys.policy(&limit.policy, parts)
}

/// What is known of the learnt budgets a request would be taken from: the tightest of those that say something.
pub(super) fn describe(charged: &[Charged], verdicts: &Verdicts) -> Option<BucketState> {
    let told = || charged.iter().zip(verdicts).filter(|(charge, _)| charge.reason == Reason::Quota);
    let known = told().map(|(_, verdict)| verdict).filter(|verdict| verdict.delay_us > 0 || verdict.reset_after_us > 0);
    let tightest = known.min_by_key(|verdict| (verdict.remaining, u64::MAX - verdict.reset_after_us));
    let learnt =
        charged.iter().zip(verdicts).filter(|(charge, _)| matches!(charge.reason, Reason::Quota | Reason::Cooldown));
    let retry_after_us = learnt.map(|(_, verdict)| verdict.retry_after_us).max().unwrap_or(0);
    if tightest.is_none() && retry_after_us == 0 {
        return None;
    }
    Some(BucketState {
        limit: tightest.map(|verdict| verdict.delay_us).filter(|limit| *limit > 0),
        remaining: tightest.map(|verdict| verdict.remaining),
        reset_after_us: tightest.map(|verdict| verdict.reset_after_us),
        retry_after_us,
    })
}
