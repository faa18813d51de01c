use std::sync::Arc;

use ratelimit_core::store::{self, Store};
use ratelimit_core::{Call, Decision, Limiter};
use ratelimit_tests::RedisServer;
use ratelimit_tests::vectors::{Case, EPOCH_US, Expectation, Verb, policy_cases};

#[test]
fn memory_answers_every_vector() {
    run_all(&store::memory(1_000).expect("a store"));
}

#[test]
fn redis_answers_every_vector() {
    let server = RedisServer::start();
    run_all(&store::open(&server.dsn()).expect("a store"));
}

fn run_all(store: &Arc<dyn Store>) {
    let cases = policy_cases();
    assert!(cases.len() > 20, "the vectors are there");
    for case in cases {
        run(&case, store);
    }
}

fn run(case: &Case, store: &Arc<dyn Store>) {
    let limiter = |policy| Limiter::new(policy, store.clone()).expect("a limiter");
    let mut current = limiter(case.policy.policy().expect(&case.name));
    for (number, step) in case.steps.iter().enumerate() {
        if let Some(policy) = &step.policy {
            current = limiter(policy.policy().expect(&case.name));
        }
        let call = match step.verb {
            Verb::Allow => Call::allow(&case.name, step.cost),
            Verb::Peek => Call::peek(&case.name, step.cost),
            Verb::Reserve => Call::reserve(&case.name, step.cost, step.max_wait_us.unwrap_or(u64::MAX)),
            Verb::Refund => Call::refund(&case.name, step.cost),
            Verb::Reset => {
                current.reset(&case.name).expect(&case.name);
                continue;
            }
        };
        let decision = current.decide(call.at_us(EPOCH_US + step.at_us)).expect(&case.name);
        if step.verb == Verb::Refund {
            continue;
        }
        assert_eq!(Some(seen(&decision)), step.expect, "{}, step {number}", case.name);
    }
}

fn seen(decision: &Decision) -> Expectation {
    Expectation {
        allowed: decision.allowed(),
        limit: decision.limit(),
        remaining: decision.remaining(),
        retry_after_us: decision.retry_after().map(|_| decision.retry_after_us()),
        reset_after_us: decision.reset_after_us(),
        delay_us: decision.delay_us(),
    }
}
