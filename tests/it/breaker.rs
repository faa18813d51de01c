use std::time::{Duration, Instant};

use ratelimit_core::{BreakerState, FailureRule, Limiter, Policy, Source, StoreErrorKind, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::cluster::Cluster;
use ratelimit_tests::server::eventually;
use ratelimit_tests::wire::{Fate, Wire};

const TIMEOUTS: &str = "?timeout=0.1&connect_timeout=0.1";

fn limiter(dsn: &str, rule: FailureRule) -> Limiter {
    let policy = Policy::token_bucket(100_000, 1.0, 3600.0).expect("a policy");
    let store = store::open(dsn).expect("a store");
    Limiter::builder(policy).store(store).on_error(rule).build().expect("a limiter")
}

#[test]
fn a_server_that_hangs_is_left_alone_and_asked_again_as_soon_as_it_answers() {
    let server = RedisServer::start();
    for rule in [FailureRule::Open, FailureRule::Closed] {
        let limiter = limiter(&format!("{}{TIMEOUTS}&client_name={rule:?}", server.dsn()), rule);
        assert_eq!(limiter.allow("key", 1).expect("a decision").source(), Source::Store);
        server.signal("STOP");
        for _ in 0..10 {
            let started = Instant::now();
            let decision = limiter.allow("key", 1).expect("the rule's answer");
            assert!(decision.degraded());
            assert!(started.elapsed() < Duration::from_millis(300), "{:?}", started.elapsed());
        }
        assert_eq!(limiter.store().breaker(), BreakerState::Open);
        // Now and then a call is let through; the others are answered at once.
        let mut took: Vec<Duration> = (0..101)
            .map(|_| {
                let started = Instant::now();
                limiter.allow("key", 1).expect("the rule's answer");
                started.elapsed()
            })
            .collect();
        took.sort_unstable();
        assert!(took[50] < Duration::from_millis(5), "{took:?}");
        server.signal("CONT");
        eventually("a real answer", || limiter.allow("key", 1).expect("an answer").source() == Source::Store);
        assert_eq!(limiter.store().breaker(), BreakerState::Closed);
        assert_eq!(limiter.allow("key", 1).expect("a decision").source(), Source::Store);
    }
}

#[test]
fn a_server_that_answers_with_errors_or_refuses_is_asked_every_time() {
    let server = RedisServer::start();
    let wire = Wire::start(Some(server.port()), |number| match number {
        0..=19 => Fate::Answer(b"-BUSY Redis is busy running a script.\r\n".to_vec()),
        20..=39 => Fate::DropBefore,
        _ => Fate::Pass,
    });
    let limiter = limiter(&wire.dsn(TIMEOUTS), FailureRule::Throw);
    for _ in 0..40 {
        let error = limiter.allow("key", 1).expect_err("no decision");
        assert_ne!(error.store_kind(), Some(StoreErrorKind::Timeout), "{error}");
        assert_eq!(limiter.store().breaker(), BreakerState::Closed);
    }
    assert!(limiter.allow("key", 1).is_ok());
}

#[test]
fn where_no_knock_is_heard_a_call_is_let_through_now_and_then() {
    let server = RedisServer::start();
    // What is not a whole command never gets through this relay, and so no knock does.
    let wire = Wire::start(Some(server.port()), |number| if number < 5 { Fate::Silence } else { Fate::Pass });
    let limiter = limiter(&wire.dsn(TIMEOUTS), FailureRule::Throw);
    for _ in 0..5 {
        assert_eq!(limiter.allow("key", 1).expect_err("silence").store_kind(), Some(StoreErrorKind::Timeout));
    }
    let error = limiter.allow("key", 1).expect_err("left alone");
    assert!(error.to_string().contains("did not answer 5 times in a row"), "{error}");
    eventually("a probe", || limiter.allow("key", 1).is_ok());
    assert_eq!(limiter.store().breaker(), BreakerState::Closed);
}

#[test]
fn one_node_of_a_cluster_that_hangs_keeps_nobody_from_the_others() {
    let mut cluster = Cluster::start_with(2, false, &["--cluster-require-full-coverage", "no"]);
    let limiter = limiter(&cluster.dsn(TIMEOUTS), FailureRule::Throw);
    let key_on = |cluster: &Cluster, node: usize| {
        let key = |number: u32| format!("user:{number}");
        let stored = |number: u32| format!("rl:tb:default:{{{}}}", key(number));
        (0..1_000).find(|number| cluster.owner(cluster.slot(&stored(*number))) == node).map(key).expect("a key")
    };
    let keys = [key_on(&cluster, 0), key_on(&cluster, 1)];
    for key in &keys {
        assert!(limiter.allow(key, 1).is_ok());
    }
    cluster.nodes()[0].signal("STOP");
    for _ in 0..8 {
        assert!(limiter.allow(&keys[0], 1).is_err());
    }
    assert_eq!(limiter.store().breaker(), BreakerState::Open);
    for _ in 0..20 {
        let started = Instant::now();
        assert!(limiter.allow(&keys[1], 1).is_ok(), "the other node is asked");
        assert!(started.elapsed() < Duration::from_millis(300), "{:?}", started.elapsed());
    }
    cluster.nodes()[0].signal("CONT");
    eventually("a real answer", || limiter.allow(&keys[0], 1).is_ok());
}
