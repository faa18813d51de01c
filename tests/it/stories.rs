use std::sync::{Arc, Barrier};
use std::thread;

use ratelimit_core::store::{self, Store};
use ratelimit_core::{Limiter, ManualClock, Policy};
use ratelimit_tests::RedisServer;
use ratelimit_tests::shared::nameless_store;

/// One policy per algorithm, each of so many units that come back in an hour.
fn hourly(limit: i64) -> Vec<(&'static str, Policy)> {
    #[allow(clippy::cast_precision_loss)]
    let rate = limit as f64;
    [
        ("token bucket", Policy::token_bucket(limit, rate, 3600.0)),
        ("leaky bucket", Policy::leaky_bucket(limit, rate / 3600.0)),
        ("gcra", Policy::gcra(limit, 3600.0, None)),
        ("fixed window", Policy::fixed_window(limit, 3600.0)),
        ("sliding log", Policy::sliding_window_log(limit, 3600.0)),
        ("sliding counter", Policy::sliding_window_counter(limit, 3600.0)),
    ]
    .map(|(name, policy)| (name, policy.expect(name)))
    .into()
}

fn on(store: &Arc<dyn Store>, policy: Policy, clock: &Arc<ManualClock>) -> Limiter {
    Limiter::builder(policy).store(store.clone()).clock(clock.clone()).build().expect("a limiter")
}

/// Runs a story on every store.
fn on_each_store(story: impl Fn(&Arc<dyn Store>, &Arc<ManualClock>)) {
    let server = RedisServer::start();
    let redis = store::open(&format!("{}?timeout=5&connect_timeout=5", server.dsn()));
    for store in [store::memory(100_000), Ok(nameless_store()), redis] {
        story(&store.expect("a store"), &Arc::new(ManualClock::new(1_700_000_000.0)));
    }
}

#[test]
fn fifty_threads_on_a_cold_key_get_exactly_what_is_there() {
    on_each_store(|store, _| {
        for (name, policy) in hourly(5) {
            for round in 0..5 {
                let barrier = Barrier::new(50);
                let limiter = Limiter::new(policy.clone(), store.clone()).expect("a limiter");
                let mut remaining: Vec<u64> = thread::scope(|scope| {
                    let ask = || {
                        barrier.wait();
                        limiter.allow(format!("cold-{round}"), 1).expect("a decision")
                    };
                    let threads: Vec<_> = (0..50).map(|_| scope.spawn(ask)).collect();
                    let decisions = threads.into_iter().map(|thread| thread.join().expect("no panic"));
                    decisions.filter(ratelimit_core::Decision::allowed).map(|decision| decision.remaining()).collect()
                });
                remaining.sort_unstable();
                assert_eq!(remaining, [0, 1, 2, 3, 4], "{name}, round {round}");
            }
        }
    });
}

#[test]
fn asking_for_too_much_leaves_what_is_there() {
    on_each_store(|store, clock| {
        for (name, policy) in hourly(5) {
            let limiter = on(store, policy, clock);
            let allow = |cost| limiter.allow("greedy", cost).expect("a decision");
            assert!(allow(3).allowed(), "{name}");
            for cost in [5, 3, 4, 1_000_000, i64::from(i32::MAX)] {
                let refused = allow(cost);
                assert_eq!((refused.allowed(), refused.remaining()), (false, 2), "{name}, cost {cost}");
                assert_eq!(refused.retry_after().is_none(), cost > 5, "{name}: never, above the limit only");
            }
            assert!(allow(2).allowed(), "{name}");
            assert!(!allow(1).allowed(), "{name}");
        }
    });
}

#[test]
fn each_algorithm_keeps_its_own_state_under_one_name_and_key() {
    on_each_store(|store, clock| {
        for _ in 0..2 {
            for (name, policy) in hourly(2) {
                assert!(on(store, policy, clock).allow("u1", 1).expect(name).allowed(), "{name}");
            }
        }
        for (name, policy) in hourly(2) {
            assert!(!on(store, policy, clock).allow("u1", 1).expect(name).allowed(), "{name}");
        }
    });
}

#[test]
fn after_a_long_silence_a_budget_is_whole_and_no_more_than_whole() {
    on_each_store(|store, clock| {
        for (name, policy) in hourly(10) {
            let limiter = on(store, policy, clock);
            let passed = || (0..15).filter(|_| limiter.allow("silent", 1).expect("a decision").allowed()).count();
            assert_eq!(passed(), 10, "{name}");
            clock.advance(100.0 * 3600.0);
            assert_eq!(limiter.peek("silent", 1).expect("a decision").remaining(), 10, "{name}");
            assert_eq!(passed(), 10, "{name}");
        }
    });
}

#[test]
fn a_clock_ten_minutes_back_costs_a_window_at_most() {
    let policies = [
        ("token bucket", Policy::token_bucket(2, 1.0, 1.0), 2),
        ("gcra", Policy::gcra(1, 1.0, Some(2)), 2),
        ("fixed window", Policy::fixed_window(2, 60.0), 61),
        ("sliding log", Policy::sliding_window_log(2, 60.0), 61),
    ];
    on_each_store(|store, _| {
        for (name, policy, seconds) in &policies {
            let clock = Arc::new(ManualClock::new(1_700_001_000.0));
            let limiter = on(store, policy.clone().expect(name), &clock);
            assert!(limiter.allow("jump", 1).expect(name).allowed() && limiter.allow("jump", 1).expect(name).allowed());
            clock.advance(-600.0);
            let refused = limiter.allow("jump", 1).expect(name);
            let wait = refused.retry_after().expect("a finite wait");
            assert!(!refused.allowed() && wait.as_secs() <= 60, "{name}: {wait:?}");
            clock.advance(f64::from(*seconds));
            assert!(limiter.allow("jump", 1).expect(name).allowed(), "{name}");
        }
    });
}

#[test]
fn a_refusal_at_any_moment_of_a_window_says_at_least_a_second_in_headers() {
    use ratelimit_core::http::{HeaderStyle, headers};
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let limiter = on(&store::memory(10).expect("a store"), Policy::fixed_window(5, 60.0).expect("a policy"), &clock);
    let mut refused = 0;
    for _ in 0..505 {
        let decision = limiter.allow("client", 1).expect("a decision");
        if decision.allowed() {
            continue;
        }
        refused += 1;
        for (_, style) in HeaderStyle::ALL {
            let headers = headers(&decision, limiter.policies(), style);
            let (name, value) = headers.last().expect("a Retry-After");
            assert_eq!(*name, "Retry-After");
            let seconds: u64 = value.parse().expect("a whole number");
            assert!((1..=60).contains(&seconds), "{value}");
            if style == HeaderStyle::XRateLimit {
                assert_eq!(headers[1], ("X-RateLimit-Remaining", "0".to_owned()));
            }
        }
        clock.advance(0.1182);
    }
    assert_eq!(refused, 500);
}
