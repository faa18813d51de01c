use std::sync::Arc;

use ratelimit_core::store::{self, Store};
use ratelimit_core::{Call, Decision, Keys, Limiter, Policy};
use ratelimit_tests::RedisServer;
use ratelimit_tests::shared::nameless_store;
use ratelimit_tests::vectors::{
    Case, EPOCH_US, Expectation, SeveralCase, SeveralExpectation, SeveralStep, Verb, policy_cases, several_cases,
};

#[test]
fn memory_answers_every_vector() {
    run_all(&store::memory(1_000).expect("a store"));
}

#[test]
fn shared_memory_answers_every_vector() {
    run_all(&nameless_store());
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

#[test]
fn several_policies_answer_their_vectors_on_every_store() {
    let server = RedisServer::start();
    for store in [store::memory(1_000), Ok(nameless_store()), store::open(&server.dsn())] {
        let store = store.expect("a store");
        for case in several_cases() {
            run_several(&case, &store);
        }
    }
}

fn run_several(case: &SeveralCase, store: &Arc<dyn Store>) {
    let policies: Vec<Policy> = case
        .policies
        .iter()
        .map(|it| it.numbers.policy().and_then(|policy| policy.named(&it.name)).expect(&case.name))
        .collect();
    let limiter = Limiter::new(policies, store.clone()).expect("a limiter");
    for (number, SeveralStep { step, keys, expect }) in case.steps.iter().enumerate() {
        let own: Vec<(&str, String)> =
            keys.iter().flatten().map(|(name, key)| (name.as_str(), format!("{} {key}", case.name))).collect();
        let pairs: Vec<(&str, &[u8])> = own.iter().map(|(name, key)| (*name, key.as_bytes())).collect();
        let keys = if pairs.is_empty() { Keys::from(&case.name) } else { Keys::Each(&pairs) };
        let call = match step.verb {
            Verb::Allow => Call::allow(keys, step.cost),
            Verb::Peek => Call::peek(keys, step.cost),
            Verb::Reserve => Call::reserve(keys, step.cost, step.max_wait_us.unwrap_or(u64::MAX)),
            Verb::Refund => Call::refund(keys, step.cost),
            Verb::Reset => panic!("{}: no resets among several policies", case.name),
        };
        let decision = limiter.decide(call.at_us(EPOCH_US + step.at_us)).expect(&case.name);
        if step.verb != Verb::Refund {
            let policy = limiter.policies()[decision.policy()].name().to_owned();
            let each = decision.each().iter().map(seen).collect();
            let seen = SeveralExpectation { top: seen(&decision), policy, each };
            assert_eq!(Some(&seen), expect.as_ref(), "{}, step {number}", case.name);
        }
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
