use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;
use ratelimit_core::clock::MAX_INSTANT_US;
use ratelimit_core::policy::Algorithm;
use ratelimit_core::store::{self, Store};
use ratelimit_core::{Call, Decision, Limiter, Policy};
use ratelimit_tests::histories::{Act, History, histories};
use ratelimit_tests::random::check;
use ratelimit_tests::shared::nameless_store;
use ratelimit_tests::vectors::EPOCH_US;

/// A policy with a store and a key of its own.
struct Subject {
    key: String,
    /// Whether it has handed out slots ahead of time: then waits are as long as the debt.
    in_debt: bool,
    store: Arc<dyn Store>,
    limiter: Limiter,
}

impl Subject {
    fn new(policy: &Policy) -> Self {
        Self::on(store::memory(1_000).expect("a store"), policy)
    }

    /// On a store where others have keys, too.
    fn on(store: Arc<dyn Store>, policy: &Policy) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let key = format!("key-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let limiter = Limiter::new(policy.clone(), store.clone()).expect("a limiter");
        Self { key, in_debt: false, limiter, store }
    }

    fn decide(&self, call: Call<'_>, now_us: u64) -> Decision {
        self.limiter.decide(call.at_us(now_us)).expect("a decision")
    }

    fn allow(&self, cost: i64, now_us: u64) -> Decision {
        self.decide(Call::allow(&self.key, cost), now_us)
    }

    fn peek(&self, cost: i64, now_us: u64) -> Decision {
        self.decide(Call::peek(&self.key, cost), now_us)
    }

    /// Plays a history; gives its last policy back, and the instant at which it ended.
    fn play(&mut self, history: &History) -> (Policy, u64) {
        let mut policy = history.policy.clone();
        let mut now_us = EPOCH_US;
        for (at_us, act) in &history.steps {
            now_us = *at_us;
            match act {
                Act::Allow(cost) => drop(self.allow(*cost, now_us)),
                Act::Peek(cost) => drop(self.peek(*cost, now_us)),
                // A window refuses reservations; that is no decision to look at.
                Act::Reserve(cost, wait) => {
                    let slot = self.limiter.decide(Call::reserve(&self.key, *cost, *wait).at_us(now_us));
                    self.in_debt |= slot.is_ok_and(|slot| !slot.delay().is_zero());
                }
                Act::Refund(cost) => drop(self.decide(Call::refund(&self.key, *cost), now_us)),
                Act::Once(cost, token) => {
                    drop(self.decide(Call::allow(&self.key, *cost).token(&[b'a' + token]), now_us));
                }
                Act::Reset => self.limiter.reset(&self.key).expect("a reset"),
                Act::Become(next) => {
                    policy = next.clone();
                    self.limiter = Limiter::new(policy.clone(), self.store.clone()).expect("a limiter");
                }
            }
        }
        (policy, now_us)
    }
}

/// Checks a law after each of many random histories, in memory and in shared memory.
fn for_all_histories(law: impl Fn(&Subject, &Policy, u64, i64) -> Result<(), TestCaseError>) {
    let shared = nameless_store();
    check(3_000, &(histories(25), 1..12_i64, any::<bool>()), |(history, cost, is_shared)| {
        let mut subject =
            if is_shared { Subject::on(shared.clone(), &history.policy) } else { Subject::new(&history.policy) };
        let (policy, now_us) = subject.play(&history);
        law(&subject, &policy, now_us, cost)
    });
}

#[test]
fn the_wait_is_enough_and_not_more() {
    for_all_histories(|subject, policy, now_us, cost| {
        let decision = subject.allow(cost, now_us);
        if decision.allowed() {
            prop_assert_eq!(decision.retry_after_us(), 0);
            return Ok(());
        }
        let Some(wait) = decision.retry_after() else {
            prop_assert!(cost.unsigned_abs() > policy.limit());
            return Ok(());
        };
        let wait_us = decision.retry_after_us();
        prop_assert!(!wait.is_zero(), "a denial never says 0");
        // A sliding counter weighs until the end of the window after its own.
        let counter = matches!(policy.algorithm(), Algorithm::SlidingWindowCounter(_));
        let longest_us = if counter { 2 * policy.window_us() } else { policy.window_us() };
        prop_assert!(subject.in_debt || wait_us <= longest_us, "no wait is longer than a full refill");
        prop_assert!(!subject.allow(cost, now_us + wait_us - 1).allowed(), "a microsecond less is too little");
        prop_assert!(subject.allow(cost, now_us + wait_us).allowed(), "the wait is enough");
        Ok(())
    });
}

#[test]
fn a_reservation_may_be_made_after_the_wait_and_not_before() {
    for_all_histories(|subject, policy, now_us, cost| {
        if !policy.reserves() {
            return Ok(());
        }
        let longest_us = policy.window_us() / 7;
        let reserve = |at_us| subject.decide(Call::reserve(&subject.key, cost, longest_us), at_us);
        let slot = reserve(now_us);
        let longest_delay_us = if slot.allowed() { longest_us } else { 0 };
        prop_assert!(slot.delay_us() <= longest_delay_us);
        if let (false, Some(_)) = (slot.allowed(), slot.retry_after()) {
            let after_us = now_us + slot.retry_after_us();
            if after_us < MAX_INSTANT_US {
                prop_assert!(!reserve(after_us - 1).allowed(), "a microsecond less is too little");
                prop_assert!(reserve(after_us).allowed(), "the wait is enough");
            }
        }
        Ok(())
    });
}

#[test]
fn a_refund_gives_back_what_was_taken_and_no_more() {
    for_all_histories(|subject, policy, now_us, cost| {
        let before = subject.peek(1, now_us);
        if subject.allow(cost, now_us).allowed() {
            subject.decide(Call::refund(&subject.key, cost), now_us);
            prop_assert_eq!(subject.peek(1, now_us).remaining(), before.remaining());
        }
        // A history of 25 steps can have run up as many of the largest costs.
        for _ in 0..25 {
            subject.decide(Call::refund(&subject.key, i64::from(i32::MAX)), now_us);
        }
        prop_assert_eq!(subject.peek(1, now_us).remaining(), policy.limit());
        Ok(())
    });
}

#[test]
fn a_token_takes_once_and_answers_the_same() {
    for_all_histories(|subject, _, now_us, cost| {
        let once = |now_us| subject.decide(Call::allow(&subject.key, cost).token(b"a token of its own"), now_us);
        let first = once(now_us);
        let between = subject.peek(1, now_us);
        prop_assert_eq!(once(now_us), first);
        prop_assert_eq!(subject.peek(1, now_us), between);
        Ok(())
    });
}

#[test]
fn a_denial_and_a_look_change_nothing() {
    for_all_histories(|subject, policy, now_us, cost| {
        let before = subject.peek(1, now_us);
        for extra in [0, 1, policy.limit().cast_signed()] {
            subject.peek(cost, now_us);
            let more_than_there_is = (before.remaining().cast_signed() + 1 + extra).min(i64::from(i32::MAX));
            prop_assert!(
                !subject.allow(more_than_there_is, now_us).allowed() || more_than_there_is == i64::from(i32::MAX)
            );
        }
        prop_assert_eq!(subject.peek(1, now_us), before);
        Ok(())
    });
}

#[test]
fn remaining_is_the_largest_cost_that_would_pass() {
    for_all_histories(|subject, policy, now_us, _| {
        let remaining = subject.peek(1, now_us).remaining();
        prop_assert!(remaining <= policy.limit());
        prop_assert!(remaining == policy.limit() || !subject.peek(remaining.cast_signed() + 1, now_us).allowed());
        prop_assert!(remaining == 0 || subject.allow(remaining.cast_signed(), now_us).allowed());
        prop_assert_eq!(subject.peek(1, now_us).remaining(), 0);
        Ok(())
    });
}

#[test]
fn a_budget_that_is_whole_again_is_like_one_never_used() {
    for_all_histories(|subject, policy, now_us, cost| {
        let whole_us = now_us + subject.peek(1, now_us).reset_after_us();
        if whole_us + policy.window_us() >= MAX_INSTANT_US {
            return Ok(());
        }
        let fresh = Subject::new(policy);
        for offset_us in [0, 1, policy.window_us() / 3, policy.window_us() / 2] {
            prop_assert_eq!(subject.allow(cost, whole_us + offset_us), fresh.allow(cost, whole_us + offset_us));
        }
        Ok(())
    });
}

#[test]
fn a_clock_that_steps_back_gains_nothing_and_locks_nobody_out() {
    for_all_histories(|subject, policy, now_us, cost| {
        let before = subject.peek(1, now_us);
        let earlier_us = now_us / 2;
        let after = subject.allow(cost, earlier_us);
        let taken = if after.allowed() { cost.unsigned_abs() } else { 0 };
        // A budget that was whole is whole at any time; of another nothing comes back.
        let at_most = if before.reset_after_us() == 0 { policy.limit() } else { before.remaining() };
        prop_assert!(after.remaining() + taken <= at_most);
        // A sliding counter weighs for two windows.
        prop_assert!(subject.in_debt || after.reset_after_us() <= 2 * policy.window_us());
        if !after.allowed() && after.retry_after().is_some() {
            prop_assert!(subject.allow(cost, earlier_us + after.retry_after_us()).allowed());
        }
        Ok(())
    });
}

#[test]
fn never_more_passes_than_the_policy_allows() {
    // A history without changes: whatever the calls, what passed within any span is bounded by what the bucket holds
    // and gains in it.
    let calls = proptest::collection::vec((0..900_000_u64, 1..4_i64), 1..60);
    check(2_000, &(1..30_i64, 1..20_u32, 1..5_u32, any::<bool>(), calls), |input| {
        let (capacity, rate, interval, continuous, calls) = input;
        let (rate, interval) = (f64::from(rate), f64::from(interval));
        let policy = if continuous {
            Policy::token_bucket_continuous(capacity, rate, interval)
        } else {
            Policy::token_bucket(capacity, rate, interval)
        };
        let subject = Subject::new(&policy.expect("a policy"));
        let mut now_us = EPOCH_US;
        let mut granted: Vec<(u64, i64)> = Vec::new();
        for (pause_us, cost) in calls {
            now_us += pause_us;
            if subject.allow(cost, now_us).allowed() {
                granted.push((now_us, cost));
            }
        }
        let interval_us = interval * 1e6;
        for (first, &(from_us, _)) in granted.iter().enumerate() {
            let mut sum = 0;
            for &(to_us, cost) in &granted[first..] {
                sum += cost;
                #[allow(clippy::cast_precision_loss)]
                let gained = if continuous {
                    (to_us - from_us) as f64 / interval_us * rate
                } else {
                    // An interval that began before the span may end in it.
                    (((to_us - from_us) as f64 / interval_us).floor() + 1.0) * rate
                };
                #[allow(clippy::cast_precision_loss)]
                let (sum, bound) = (sum as f64, capacity as f64 + gained + 1e-6);
                prop_assert!(sum <= bound, "{} passed in {} µs, {} may", sum, to_us - from_us, bound);
            }
        }
        Ok(())
    });
}
