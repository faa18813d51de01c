use std::sync::{Arc, Barrier};
use std::thread;

use ratelimit_core::store::{self, Store};
use ratelimit_core::{Limiter, Policy};
use ratelimit_tests::RedisServer;
use ratelimit_tests::shared::nameless_store;

/// 50 threads, one cold key, five tokens, 20 times over.
fn exactly_five_pass(store: &Arc<dyn Store>) {
    let policy = Policy::token_bucket(5, 1.0, 3600.0).expect("a policy");
    for round in 0..20 {
        let barrier = Arc::new(Barrier::new(50));
        let threads: Vec<_> = (0..50)
            .map(|_| {
                let limiter = Limiter::new(policy.clone(), store.clone()).expect("a limiter");
                let barrier = barrier.clone();
                thread::spawn(move || {
                    barrier.wait();
                    limiter.allow(format!("cold-{round}"), 1).expect("a decision")
                })
            })
            .collect();
        let decisions = threads.into_iter().map(|thread| thread.join().expect("no panic"));
        let mut remaining: Vec<_> =
            decisions.filter(ratelimit_core::Decision::allowed).map(|d| d.remaining()).collect();
        remaining.sort_unstable();
        assert_eq!(remaining, [0, 1, 2, 3, 4], "round {round}");
    }
}

#[test]
fn memory_lets_exactly_five_of_fifty_threads_pass() {
    exactly_five_pass(&store::memory(1_000).expect("a store"));
}

#[test]
fn shared_memory_lets_exactly_five_of_fifty_threads_pass() {
    exactly_five_pass(&nameless_store());
}

#[test]
fn redis_lets_exactly_five_of_fifty_threads_pass() {
    let server = RedisServer::start();
    exactly_five_pass(&store::open(&format!("{}?timeout=5&connect_timeout=5", server.dsn())).expect("a store"));
}

#[test]
fn a_crowd_leaves_no_more_connections_behind_than_the_pool_holds() {
    let server = RedisServer::start();
    let store = store::open(&format!("{}?timeout=5&connect_timeout=5&pool=3", server.dsn())).expect("a store");
    exactly_five_pass(&store);
    assert!(store.idle_connections() <= 3, "{}", store.idle_connections());
}

#[test]
fn a_full_memory_store_forgets_what_is_closest_to_whole() {
    let store = store::memory(1_000).expect("a store");
    let slow =
        Limiter::new(Policy::token_bucket(1, 1.0, 86_400.0).expect("a policy"), store.clone()).expect("a limiter");
    let quick = Limiter::new(Policy::token_bucket(1, 1.0, 60.0).expect("a policy"), store).expect("a limiter");
    for number in 0..100 {
        assert!(slow.allow(format!("slow-{number}"), 1).expect("a decision").allowed());
    }
    for number in 0..100_000 {
        quick.allow(format!("quick-{number}"), 1).expect("a decision");
    }
    let still_refused = (0..100).filter(|n| !slow.allow(format!("slow-{n}"), 1).expect("a decision").allowed()).count();
    assert_eq!(still_refused, 100, "a flood of keys frees nobody who waits for longer");
}
