use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ratelimit_core::store;
use ratelimit_core::{Call, Limiter, Policy};
use ratelimit_tests::RedisServer;
use ratelimit_tests::histories::{Act, histories};

/// Histories per run; `make soak` sets more.
fn cases() -> u32 {
    std::env::var("RATELIMIT_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(2_000)
}

#[test]
fn redis_and_the_model_give_the_same_decisions() {
    let server = RedisServer::start();
    let redis = store::open(&format!("{}?timeout=5", server.dsn())).expect("a store");
    let memory = store::memory(10_000).expect("a store");
    let number = std::cell::Cell::new(0_u64);
    let config = Config { cases: cases(), failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&histories(40), |history| {
            number.set(number.get() + 1);
            let key = format!("history-{}", number.get());
            let limiters = |policy: &Policy| {
                [&memory, &redis].map(|store| Limiter::new(policy.clone(), store.clone()).expect("a limiter"))
            };
            let mut current = limiters(&history.policy);
            for (step, (now_us, act)) in history.steps.iter().enumerate() {
                let call = match act {
                    Act::Become(policy) => {
                        current = limiters(policy);
                        continue;
                    }
                    Act::Reset => {
                        for limiter in &current {
                            limiter.reset(&key).expect("a reset");
                        }
                        continue;
                    }
                    Act::Allow(cost) => Call::allow(&key, *cost),
                    Act::Peek(cost) => Call::peek(&key, *cost),
                };
                let [model, script] = current.each_ref().map(|limiter| limiter.decide(call.at_us(*now_us)));
                prop_assert_eq!(model.expect("a decision"), script.expect("a decision"), "step {}", step);
            }
            Ok(())
        })
        .unwrap_or_else(|error| panic!("{error}"));
}
