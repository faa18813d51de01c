use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use ratelimit_core::store::{self, Store};
use ratelimit_core::{Call, Decision, Limiter, ManualClock, Policy, Source};
use ratelimit_tests::RedisServer;
use ratelimit_tests::histories::{Act, histories};
use ratelimit_tests::random::check;

fn open(server: &RedisServer, options: &str) -> Arc<dyn Store> {
    store::open(&format!("{}?timeout=5&connect_timeout=5{options}", server.dsn())).expect("a store")
}

/// The numbers of a decision, without where they come from.
fn numbers(decision: &Decision) -> Vec<[u64; 5]> {
    let one = |it: &Decision| {
        [u64::from(it.allowed()), it.remaining(), it.retry_after_us(), it.reset_after_us(), it.delay_us()]
    };
    decision.each().iter().map(one).collect()
}

#[test]
fn decisions_are_those_of_a_store_without_it() {
    let server = RedisServer::start();
    let stores = [open(&server, "&prefix=with:"), open(&server, "&prefix=without:&deny_cache=0")];
    let mut number = 0;
    let refused_here = std::cell::Cell::new(0_u64);
    let numbered = std::cell::RefCell::new(&mut number);
    check(1_500, &histories(40), |history| {
        let key = {
            let mut number = numbered.borrow_mut();
            **number += 1;
            format!("history-{number}")
        };
        let mut policy = history.policy;
        for (step, (now_us, act)) in history.steps.iter().enumerate() {
            let name;
            let call = match act {
                Act::Become(other) => {
                    policy = other.clone();
                    continue;
                }
                Act::Reset => {
                    for store in &stores {
                        let limiter = Limiter::new(policy.clone(), store.clone()).expect("a limiter");
                        limiter.reset(&key).expect("a reset");
                    }
                    continue;
                }
                Act::Allow(cost) => Call::allow(&key, *cost),
                Act::Peek(cost) => Call::peek(&key, *cost),
                Act::Reserve(cost, max_wait_us) => Call::reserve(&key, *cost, *max_wait_us),
                Act::Refund(cost) => Call::refund(&key, *cost),
                Act::Once(cost, token) => {
                    name = format!("token-{token}");
                    Call::allow(&key, *cost).token(name.as_bytes())
                }
            };
            let [with, without] = stores.each_ref().map(|store| {
                let limiter = Limiter::new(policy.clone(), store.clone()).expect("a limiter");
                limiter.decide(call.at_us(*now_us))
            });
            match (with, without) {
                (Ok(with), Ok(without)) => {
                    refused_here.set(refused_here.get() + u64::from(with.source() == Source::DenyCache));
                    if !matches!(act, Act::Refund(_)) {
                        prop_assert_eq!(numbers(&with), numbers(&without), "step {}: {:?}", step, act);
                    }
                    prop_assert_eq!(without.source(), Source::Store);
                }
                (with, without) => prop_assert_eq!(with.is_err(), without.is_err(), "step {}: {:?}", step, act),
            }
        }
        Ok(())
    });
    assert!(refused_here.get() > 1_000, "{} refusals without the server", refused_here.get());
}

/// A client a hundred times over its limit, for ten windows.
#[test]
fn an_attack_on_one_key_hardly_reaches_the_server() {
    let server = RedisServer::start();
    for (name, policy) in [
        ("bucket", Policy::token_bucket_continuous(5, 10.0, 1.0)),
        ("interval", Policy::token_bucket(10, 10.0, 1.0)),
        ("gcra", Policy::gcra(10, 1.0, None)),
        ("window", Policy::fixed_window(10, 1.0)),
        ("counter", Policy::sliding_window_counter(10, 1.0)),
    ] {
        let clock = Arc::new(ManualClock::new(1_700_000_000.0));
        let policy = policy.and_then(|policy| policy.named(name)).expect("a policy");
        let limiter =
            Limiter::builder(policy).store(open(&server, "")).clock(clock.clone()).build().expect("a limiter");
        let mut sources: HashMap<Source, u32> = HashMap::new();
        let before = server.calls("evalsha");
        for _ in 0..10_000 {
            *sources.entry(limiter.allow("attacker", 1).expect("a decision").source()).or_default() += 1;
            clock.advance_us(1_000);
        }
        let reached = server.calls("evalsha") - before;
        assert!(reached < 200, "{name}: {reached} of 10000 calls reached the server");
        assert_eq!(u64::from(sources[&Source::Store]), reached, "{name}");
    }
}

#[test]
fn larger_costs_and_several_policies_are_refused_with_the_exact_wait() {
    let server = RedisServer::start();
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let policies = vec![
        Policy::token_bucket(3, 1.0, 10.0).and_then(|policy| policy.named("own")).expect("a policy"),
        Policy::fixed_window(100, 60.0).and_then(|policy| policy.named("all")).expect("a policy"),
    ];
    let limiter = Limiter::builder(policies).store(open(&server, "")).clock(clock.clone()).build().expect("a limiter");
    assert!(limiter.allow("key", 3).expect("a decision").allowed());
    assert_eq!(limiter.allow("key", 1).expect("a decision").source(), Source::Store);
    clock.advance(2.0);
    let refused = limiter.allow("key", 2).expect("a decision");
    assert_eq!((refused.source(), refused.allowed()), (Source::DenyCache, false));
    assert_eq!(refused.retry_after_us(), 18_000_000);
    assert_eq!(refused.each()[1].remaining(), 97);
}

#[test]
fn what_is_given_back_or_reset_is_seen_at_once() {
    let server = RedisServer::start();
    let policy = Policy::token_bucket(2, 1.0, 3600.0).expect("a policy");
    let limiter = Limiter::new(policy, open(&server, "")).expect("a limiter");
    let refused_here = || {
        let decision = limiter.allow("key", 1).expect("a decision");
        assert!(!decision.allowed());
        assert_eq!(decision.source(), Source::DenyCache);
    };
    assert!(limiter.allow("key", 2).expect("a decision").allowed());
    refused_here();
    limiter.refund("key", 1).expect("a refund");
    assert!(limiter.allow("key", 1).expect("a decision").allowed());
    refused_here();
    limiter.reset("key").expect("a reset");
    assert!(limiter.allow("key", 2).expect("a decision").allowed());
    refused_here();

    // Of what others do in the meantime a second is not noticed, and no more.
    let other = Limiter::new(limiter.policies()[0].clone(), open(&server, "&client_name=other")).expect("a limiter");
    other.reset("key").expect("a reset");
    refused_here();
    std::thread::sleep(Duration::from_millis(1_010));
    assert!(limiter.allow("key", 1).expect("a decision").allowed());
}

#[test]
fn more_keys_than_it_holds_are_asked_for() {
    let server = RedisServer::start();
    let policy = Policy::token_bucket(1, 1.0, 3600.0).expect("a policy");
    let limiter = Limiter::new(policy, open(&server, "&deny_cache=80")).expect("a limiter");
    let sources: Vec<Source> = (0..4_000)
        .map(|number| {
            let key = format!("user:{}", number % 2_000);
            limiter.allow(key, 1).expect("a decision").source()
        })
        .collect();
    let here = sources.iter().filter(|source| **source == Source::DenyCache).count();
    assert!((1..=160).contains(&here), "{here}");
}
