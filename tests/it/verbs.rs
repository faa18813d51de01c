use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_core::clock::Clock as _;
use ratelimit_core::store;
use ratelimit_core::{Call, ErrorKind, Limiter, ManualClock, Policy, WaitStep, Waiting};
use ratelimit_tests::RedisServer;
use ratelimit_tests::shared::nameless_store;
use ratelimit_tests::vectors::EPOCH_US;

const FOREVER: u64 = u64::MAX;

fn limiter(policy: Policy) -> (Limiter, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let store = store::memory(1_000).expect("a store");
    (Limiter::builder(policy).store(store).clock(clock.clone()).build().expect("a limiter"), clock)
}

fn every_policy() -> Vec<Policy> {
    [
        Policy::token_bucket(2, 1.0, 10.0),
        Policy::token_bucket_continuous(2, 1.0, 10.0),
        Policy::leaky_bucket(2, 0.1),
        Policy::gcra(2, 20.0, None),
        Policy::fixed_window(2, 10.0),
        Policy::fixed_window_aligned(2, 10.0),
        Policy::sliding_window_log(2, 10.0),
        Policy::sliding_window_counter(2, 10.0),
        Policy::parse("2/day aligned Europe/Berlin"),
    ]
    .map(|policy| policy.expect("a policy"))
    .into()
}

#[test]
fn waiting_takes_as_long_as_the_wait_that_was_told() {
    for policy in every_policy() {
        let (limiter, clock) = limiter(policy.clone());
        assert!(limiter.allow("key", 2).expect("a decision").allowed());
        let told_us = limiter.peek("key", 1).expect("a decision").retry_after_us();
        assert!(limiter.wait("key", 1, FOREVER).expect("it passes in the end").allowed(), "{policy:?}");
        let queued_us = if policy.to_string().ends_with("leaky") { policy.window_us() } else { told_us };
        assert_eq!(clock.now_us() - EPOCH_US, queued_us.max(told_us), "{policy:?}");
    }
}

#[test]
fn a_wait_that_is_too_long_fails_at_once_and_takes_nothing() {
    for policy in every_policy() {
        let (limiter, clock) = limiter(policy.clone());
        limiter.allow("key", 2).expect("a decision");
        let before = limiter.peek("key", 1).expect("a decision");
        for (cost, max_wait_us) in [(1, 0), (1, before.retry_after_us() - 1), (3, FOREVER), (3, 1_000_000)] {
            let error = limiter.wait("key", cost, max_wait_us).expect_err("too long");
            assert_eq!(error.kind(), ErrorKind::WaitTooLong, "{policy:?}: {error}");
        }
        assert_eq!(clock.now_us(), EPOCH_US, "nobody slept");
        assert_eq!(limiter.peek("key", 1).expect("a decision"), before, "{policy:?}");
    }
}

#[test]
fn a_real_wait_sleeps_for_real_on_every_store() {
    let server = RedisServer::start();
    for store in [store::memory(1_000), Ok(nameless_store()), store::open(&server.dsn())] {
        let limiter = Limiter::new(Policy::gcra(20, 1.0, Some(1)).expect("a policy"), store.expect("a store"));
        let limiter = limiter.expect("a limiter");
        let started = Instant::now();
        for _ in 0..4 {
            assert!(limiter.wait("key", 1, 1_000_000).expect("in time").allowed());
        }
        // Three intervals of 50 ms, less what passed between two calls.
        assert!(started.elapsed() > Duration::from_millis(140), "{:?}", started.elapsed());
    }
}

#[test]
fn those_who_wait_for_one_window_do_not_wake_at_one_instant() {
    let store = store::memory(1_000).expect("a store");
    let limiter = Limiter::new(Policy::fixed_window(1, 3600.0).expect("a policy"), store).expect("a limiter");
    limiter.allow("key", 1).expect("a decision");
    let sleeps: std::collections::BTreeSet<u64> = (0..50)
        .map(|_| match Waiting::new(FOREVER).step(&limiter, Call::allow("key", 1)).expect("a step") {
            WaitStep::Sleep { us } => us / 1000,
            WaitStep::Done(decision) => panic!("{decision:?}"),
        })
        .collect();
    assert!(sleeps.len() > 10, "{sleeps:?}");
}

#[test]
fn many_who_wait_pass_no_faster_than_the_policy_says() {
    let store = store::memory(1_000).expect("a store");
    let limiter = Limiter::new(Policy::fixed_window(3, 0.2).expect("a policy"), store).expect("a limiter");
    let started = Instant::now();
    let passed: Vec<Duration> = thread::scope(|scope| {
        let waiters: Vec<_> = (0..9)
            .map(|_| {
                scope.spawn(|| {
                    assert!(limiter.wait("key", 1, FOREVER).expect("it passes").allowed());
                    started.elapsed()
                })
            })
            .collect();
        waiters.into_iter().map(|waiter| waiter.join().expect("no panic")).collect()
    });
    let in_time = |seconds: f64| passed.iter().filter(|at| at.as_secs_f64() < seconds).count();
    assert!(in_time(0.199) <= 3 && in_time(0.399) <= 6, "{passed:?}");
}

#[test]
fn a_wait_that_is_given_up_gives_its_slot_back() {
    for policy in every_policy() {
        let (limiter, _) = limiter(policy.clone());
        limiter.allow("key", 2).expect("a decision");
        let before = limiter.peek("key", 1).expect("a decision");
        let mut waiting = Waiting::new(FOREVER);
        let call = Call::allow("key", 1);
        assert!(
            matches!(waiting.step(&limiter, call), Ok(WaitStep::Sleep { .. })) || policy.to_string().ends_with("leaky")
        );
        waiting.cancel(&limiter, call).expect("given back");
        assert_eq!(limiter.peek("key", 1).expect("a decision"), before, "{policy:?}");

        let once = call.token(b"a token");
        let mut waiting = Waiting::new(FOREVER);
        drop(waiting.step(&limiter, once).expect("a step"));
        waiting.cancel(&limiter, once).expect("given back");
        if policy.reserves() && !policy.to_string().ends_with("leaky") {
            let slot = |call: Call<'_>| limiter.decide(call).expect("a decision").delay_us();
            let first = slot(Call::reserve("key", 1, FOREVER).token(b"a token"));
            assert!(slot(Call::reserve("key", 1, FOREVER)) > first, "{policy:?}: the token had been forgotten");
        }
    }
}

#[test]
fn a_refund_under_the_token_of_what_it_undoes_is_made_once() {
    let (limiter, _) = limiter(Policy::fixed_window(5, 60.0).expect("a policy"));
    for _ in 0..2 {
        limiter.decide(Call::allow("key", 3).token(b"order 7")).expect("a decision");
        assert_eq!(limiter.peek("key", 1).expect("a decision").remaining(), 2);
    }
    for _ in 0..2 {
        limiter.decide(Call::refund("key", 1).token(b"order 7")).expect("a decision");
        assert_eq!(limiter.peek("key", 1).expect("a decision").remaining(), 3);
    }
}

#[test]
fn a_window_refuses_to_reserve_and_says_what_to_do() {
    for policy in every_policy().into_iter().filter(|policy| !policy.reserves()) {
        let (limiter, _) = limiter(policy);
        let error = limiter.reserve("key", 1, FOREVER).expect_err("no slots");
        assert_eq!((error.kind(), error.argument()), (ErrorKind::InvalidArgument, Some("reserve")));
        assert!(error.to_string().contains("use wait"), "{error}");
    }
}

#[test]
fn a_call_that_is_sent_again_with_its_token_is_charged_once() {
    let server = RedisServer::start();
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    for store in [store::memory(1_000), Ok(nameless_store()), store::open(&server.dsn())] {
        for policy in every_policy() {
            let builder = Limiter::builder(policy.clone()).store(store.clone().expect("a store")).clock(clock.clone());
            let limiter = builder.build().expect("a limiter");
            let key = format!("{policy:?}");
            let once = |token: &str| limiter.decide(Call::allow(&key, 1).token(token.as_bytes())).expect("a decision");
            let first = once("a");
            assert_eq!(once("a"), first, "the same token, the same answer");
            assert_eq!(once("b").remaining(), 0, "another token is another call");
            assert_eq!(once("a"), first);
            assert!(!once("c").allowed());
            limiter.reset(&key).expect("a reset");
            assert!(once("c").allowed(), "a refusal is not remembered: nothing was charged");
            clock.advance(60.0);
            limiter.reset(&key).expect("a reset");
            assert_eq!(once("a").remaining(), 1, "after a minute the token is as good as new");
            assert_eq!(once("a").remaining(), 1);
            assert!(limiter.decide(Call::allow(&key, 1).token(b"")).is_err());
        }
    }
}
