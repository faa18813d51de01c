//! What a response changes: it is written into the budgets, and tells whether to send again.

use smallvec::{SmallVec, smallvec};

use super::governor::Governor;
use super::observation::{Observation, Quota, Response, Unit};
use super::parser::{parse_headers, parse_names};
use super::preset::Refill;
use super::retry::{RetryContext, is_retryable};
use super::route::KnownQuota;
use super::state::{self, Charged, Keys};
use super::ticket::{After, Outcome, Reason, Ticket, Way};
use crate::algorithm::Learnt;
use crate::error::Result;
use crate::store::Action;

/// An API that told nothing is taken to have no limit that it tells of for so long.
const SILENT_US: u64 = 60_000_000;

/// The same after an answer that need not be the API's own, such as a gateway's error.
const BROKEN_US: u64 = 1_000_000;

/// A bucket that fills bit by bit, of which nothing says how fast, is taken to fill in this time.
const USUAL_FILL_US: u64 = 60_000_000;

/// After a pause requests go one at a time, this far apart at most.
const MAX_SPACING_US: u64 = 1_000_000;

/// So many of them.
const SPREAD: u64 = 10;

impl Governor {
    /// Tells what came back. Everyone who shares the store learns from it.
    ///
    /// Fails with [`StoreUnavailable`](crate::ErrorKind::StoreUnavailable) when the store gives no answer and the options
    /// say [`Throw`](crate::FailureRule::Throw).
    pub fn after(&self, ticket: Box<Ticket>, response: &Response<'_>) -> Result<After> {
        if ticket.way.is_none() {
            return Ok(After { outcome: Outcome::Return, observation: None, invalid_limit_reached: false });
        }
        let observation = self.read(response);
        let (outcome, invalid_limit_reached) = self.learn(ticket, response.status, observation.as_ref())?;
        Ok(After { outcome, observation, invalid_limit_reached })
    }

    /// What comes of a response that told so much.
    // Not inlined: where nothing was told, the compiler would read ahead what there is not, which memory checkers report.
    #[inline(never)]
    fn learn(&self, mut ticket: Box<Ticket>, status: u16, told: Option<&Observation>) -> Result<(Outcome, bool)> {
        let Some(mut way) = ticket.way.take() else { return Ok((Outcome::Return, false)) };
        let retryable = is_retryable(status, told, &self.options.retry_status_codes);
        let limited = is_limited(status, told);
        let delay_us = if retryable || limited {
            let context = RetryContext { status, attempt: ticket.attempt, observation: told };
            let wait = self.options.strategy.wait_us(&context);
            let buffer_us = if wait.until_reset { self.options.safety_buffer_us } else { 0 };
            self.jittered(wait.us.saturating_add(buffer_us))
        } else {
            0
        };

        let bucket = self.settle_bucket(&mut way, told);
        let mut writes = self.written_by(&way, &bucket, status, told, ticket.silent);
        if limited {
            writes.push(self.pause(&way, &bucket, told, delay_us));
        }
        if !writes.is_empty() {
            self.decide(Action::Allow, &writes)?;
        }
        let invalid_limit_reached = self.count_invalid(&way, status, told)?;
        self.arrive(&way, std::mem::take(&mut ticket.on_its_way))?;

        ticket.way = Some(way);
        let outcome = if retryable {
            self.retry(ticket, delay_us, limited, told.is_some_and(|it| it.global))
        } else {
            Outcome::Return
        };
        Ok((outcome, invalid_limit_reached))
    }

    /// What a response tells about limits, read as [`after`](Self::after) reads it. Changes nothing.
    pub fn read(&self, response: &Response<'_>) -> Option<Observation> {
        match &self.options.headers {
            Some(names) => parse_names(names, response, self.now_us()),
            None => parse_headers(self.preset, response, self.now_us()),
        }
    }

    /// Whether [`after`](Self::after) asks the strategy about a response: for a host whose strategy has to be asked
    /// beforehand.
    pub fn asks_strategy(&self, status: u16, told: Option<&Observation>) -> bool {
        is_retryable(status, told, &self.options.retry_status_codes) || is_limited(status, told)
    }

    /// Tells that a request failed before any response came, so that others need not wait for what it would have told.
    pub fn abandon(&self, ticket: &Ticket) -> Result<()> {
        let Some(way) = &ticket.way else { return Ok(()) };
        self.arrive(way, ticket.on_its_way)?;
        let keys = Keys::of(self, way);
        let buckets = [Some(&way.bucket), way.beside.as_ref().filter(|beside| **beside != way.bucket)];
        let writes: SmallVec<[Charged; 8]> =
            buckets.into_iter().flatten().map(|bucket| write(Learnt::silence(0), keys.main(bucket))).collect();
        self.decide(Action::Allow, &writes).map(drop)
    }

    fn retry(&self, mut ticket: Box<Ticket>, delay_us: u64, limited: bool, global: bool) -> Outcome {
        let too_long = ticket.max_delay_us.is_some_and(|max| ticket.waited_us.saturating_add(delay_us) > max);
        if too_long || ticket.attempt >= ticket.max_retries {
            // An error that is no limit belongs to the caller.
            self.meter.count_exceeded();
            return if limited && self.options.throw_on_rate_limit {
                Outcome::Fail { retry_after_us: delay_us, global, too_long }
            } else {
                Outcome::Return
            };
        }
        self.meter.count_retry();
        ticket.attempt += 1;
        ticket.polls = 0;
        ticket.waited_us = ticket.waited_us.saturating_add(delay_us);
        Outcome::Retry { delay_us, attempt: ticket.attempt, ticket }
    }

    /// The bucket that a response is about, which its route is counted under from now on.
    fn settle_bucket(&self, way: &mut Way, told: Option<&Observation>) -> String {
        let named = told.and_then(|it| it.bucket.as_deref()).filter(|_| self.preset.discovers() && !way.fixed);
        match named {
            Some(named) => {
                self.directory.learn_bucket(&way.route_key, named);
                named.to_owned()
            }
            None => way.bucket.clone(),
        }
    }

    /// What a response writes into the budgets that its request was taken from.
    fn written_by(
        &self,
        way: &Way,
        bucket: &str,
        status: u16,
        told: Option<&Observation>,
        silent: bool,
    ) -> SmallVec<[Charged; 8]> {
        let keys = Keys::of(self, way);
        let mut writes: SmallVec<[Charged; 8]> = smallvec![];
        // A limit on requests in flight answers with numbers of its own, which are none of the bucket's.
        let quotas = told.filter(|it| it.scope.as_deref() != Some("concurrent")).map_or(&[][..], Observation::quotas);
        let asked_us = told.filter(|it| it.rate_limited).and_then(|it| it.retry_after_us);
        let ruling = rules(quotas, told);
        let buckets = [Some(bucket), way.beside.as_deref().filter(|beside| *beside != bucket)];
        for bucket in buckets.into_iter().flatten() {
            match ruling.and_then(|quota| self.budget_of(quota, asked_us)) {
                Some(learnt) => writes.push(write(learnt, keys.main(bucket))),
                None if silent => {}
                None => {
                    let silent_us = if told.is_none() && status >= 500 { BROKEN_US } else { SILENT_US };
                    writes.push(write(Learnt::silence(silent_us), keys.main(bucket)));
                }
            }
            if quotas.len() > 1 || ruling.is_none() {
                self.write_each(&mut writes, &keys, bucket, quotas, asked_us);
            }
        }
        if bucket != way.bucket && way.beside.as_deref() != Some(&way.bucket) {
            // Whoever waits for news of the bucket it was taken for has to ask for himself.
            writes.push(write(Learnt::silence(0), keys.main(&way.bucket)));
        }
        writes
    }

    fn write_each(
        &self,
        writes: &mut SmallVec<[Charged; 8]>,
        keys: &Keys<'_>,
        bucket: &str,
        quotas: &[Quota],
        asked_us: Option<u64>,
    ) {
        let mut known = Vec::new();
        for quota in quotas {
            let counted = quota.unit == Unit::Requests;
            let learnt = if counted { self.budget_of(quota, asked_us) } else { Some(self.gate_of(quota, asked_us)) };
            let Some(learnt) = learnt else { continue };
            let partition = quota.partition.as_deref().unwrap_or_default();
            let name = format!("{}\0{}", quota.name().unwrap_or_default(), String::from_utf8_lossy(partition));
            writes.push(write(learnt, keys.quota(bucket, &name)));
            known.push(KnownQuota { name, counted });
        }
        self.directory.learn_quotas(&keys.directory(bucket), &known);
    }

    /// A quota as it is written; `None` when it says too little for anybody to wait for.
    fn budget_of(&self, quota: &Quota, asked_us: Option<u64>) -> Option<Learnt> {
        let remaining = quota.remaining?;
        let (limit, left) = (units(quota.limit.unwrap_or(0.0)), units(remaining));
        let window_us = quota.window_us.unwrap_or(USUAL_FILL_US);
        if self.preset.refill() == Refill::Gradual && limit > 0 {
            // What is left is told in whole units, so that up to one of the missing ones is back already. Counted this
            // way the time of a unit is never too short, and the more are missing the closer it is.
            let missing = limit.saturating_sub(left).saturating_sub(1);
            let told_us = quota.reset_after_us.filter(|us| *us > 0 && missing > 0).map(|us| us.div_ceil(missing));
            let unit_us = quota.refill_us.or(told_us).unwrap_or(0);
            return Some(Learnt::gradual(limit, left, unit_us, window_us.div_ceil(limit)));
        }
        let reset_us = quota.reset_after_us.or(quota.window_us)?;
        let buffer_us = if reset_us > 0 { self.options.safety_buffer_us } else { 0 };
        if asked_us.is_some() && quota.exhausted() {
            // A server that says how long to wait, beside when the window ends, means the former. The pause sees to it,
            // and then somebody finds out.
            return Some(Learnt::forget());
        }
        let longest_us = self.options.max_store_ttl_us;
        Some(Learnt::window(limit, left, reset_us.min(longest_us), buffer_us.min(longest_us)))
    }

    /// A quota of which nobody knows what a request takes: while it is used up, nothing goes.
    fn gate_of(&self, quota: &Quota, asked_us: Option<u64>) -> Learnt {
        let closed = quota.exhausted() || quota.remaining.is_none();
        let reset_us = asked_us.or(quota.reset_after_us).or(quota.window_us).filter(|us| closed && *us > 0);
        let buffer_us = if asked_us.is_some() { 0 } else { self.options.safety_buffer_us };
        Learnt::gate(reset_us.map_or(0, |us| us.saturating_add(buffer_us).min(self.options.max_store_ttl_us)))
    }

    /// Holds everyone back who would be refused as well, and lets them go one after the other afterwards.
    fn pause(&self, way: &Way, bucket: &str, told: Option<&Observation>, delay_us: u64) -> Charged {
        let keys = Keys::of(self, way);
        let all = told.is_some_and(|it| it.global || it.scope.as_deref() == Some("secondary"));
        let spacing_us = (delay_us / SPREAD / 2).min(MAX_SPACING_US);
        let pause = Learnt::pause(delay_us.min(self.options.max_store_ttl_us), spacing_us, spacing_us * SPREAD);
        let key = if all && !way.exempt { keys.pause_all() } else { keys.pause(bucket) };
        write(pause, key)
    }

    /// Counts a response that the API holds against its sender; whether it was one too many.
    fn count_invalid(&self, way: &Way, status: u16, told: Option<&Observation>) -> Result<bool> {
        let scope = told.and_then(|it| it.scope.as_deref());
        let counts = self.options.invalid_request_limit.as_ref().is_some_and(|limit| limit.counts(status, scope));
        let Some(charged) = state::invalid(self, way).filter(|_| counts) else { return Ok(false) };
        let verdicts = self.decide(Action::Allow, &[charged])?.verdicts;
        Ok(verdicts.is_some_and(|verdicts| !verdicts[0].allowed || verdicts[0].remaining == 0))
    }

    /// A request is no longer on its way; told after it has been counted, so that it is missing nowhere in between.
    fn arrive(&self, way: &Way, on_its_way: bool) -> Result<()> {
        if on_its_way {
            let charged = state::on_their_way(self, way, 1)?;
            self.decide(Action::Refund, &[charged])?;
        }
        Ok(())
    }
}

/// The quota that a bucket is counted by: of those that count requests the one that runs out first.
fn rules<'a>(quotas: &'a [Quota], told: Option<&'a Observation>) -> Option<&'a Quota> {
    let ruling = told.and_then(Observation::ruling).filter(|quota| quota.unit == Unit::Requests);
    let counted = || quotas.iter().filter(|quota| quota.unit == Unit::Requests && quota.remaining.is_some());
    let left = |quota: &Quota| quota.remaining.unwrap_or(f64::MAX);
    ruling.filter(|_| !quotas.is_empty()).or_else(|| counted().min_by(|one, other| left(one).total_cmp(&left(other))))
}

fn is_limited(status: u16, told: Option<&Observation>) -> bool {
    told.map_or(status == 429, |it| it.rate_limited)
}

fn write(learnt: Learnt, key: super::governor::Key) -> Charged {
    Charged { policy: state::policy(learnt), key, reason: Reason::Quota }
}

/// A count as whole units: what is not a whole one is not there.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn units(count: f64) -> u64 {
    count as u64
}
