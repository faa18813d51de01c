use std::cell::Cell;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use ratelimit_core::store::{self, Store};
use ratelimit_core::{Call, ErrorKind, Limiter, Policy};
use ratelimit_tests::RedisServer;
use ratelimit_tests::histories::{Act, histories, policies};
use ratelimit_tests::random::check;
use ratelimit_tests::shared::nameless_store;
use ratelimit_tests::vectors::EPOCH_US;

/// The same histories on the Rust models, in memory and in shared memory, and on the scripts.
struct Twins {
    _server: RedisServer,
    stores: [Arc<dyn Store>; 3],
    number: Cell<u64>,
}

impl Twins {
    fn start() -> Self {
        let server = RedisServer::start();
        let redis = store::open(&format!("{}?timeout=5&deny_cache=0", server.dsn())).expect("a store");
        let memory = store::memory(10_000_000).expect("a store");
        Self { stores: [memory, nameless_store(), redis], _server: server, number: Cell::new(0) }
    }

    fn limiters(&self, policies: &[Policy]) -> [Limiter; 3] {
        self.stores.each_ref().map(|store| Limiter::new(policies.to_vec(), store.clone()).expect("a limiter"))
    }

    /// A key that no history has used.
    fn key(&self) -> String {
        self.number.set(self.number.get() + 1);
        format!("history-{}", self.number.get())
    }

    fn same(limiters: &[Limiter; 3], key: &str, act: &Act, now_us: u64, step: usize) -> Result<(), TestCaseError> {
        let name;
        let call = match act {
            Act::Become(_) => return Ok(()),
            Act::Reset => {
                for limiter in limiters {
                    limiter.reset(key).expect("a reset");
                }
                return Ok(());
            }
            Act::Allow(cost) => Call::allow(key, *cost),
            Act::Peek(cost) => Call::peek(key, *cost),
            Act::Reserve(cost, max_wait_us) => Call::reserve(key, *cost, *max_wait_us),
            Act::Refund(cost) => Call::refund(key, *cost),
            Act::Once(cost, token) => {
                name = format!("token-{token}");
                Call::allow(key, *cost).token(name.as_bytes())
            }
        };
        let [model, shared, script] = limiters.each_ref().map(|limiter| limiter.decide(call.at_us(now_us)));
        prop_assert_eq!(&model, &shared, "step {}: {:?}, on the two embedded stores", step, act);
        match (model, script) {
            (Ok(model), Ok(script)) if matches!(act, Act::Refund(_)) => drop((model, script)),
            (Ok(model), Ok(script)) => prop_assert_eq!(model, script, "step {}: {:?}", step, act),
            (Err(model), Err(script)) => {
                prop_assert_eq!(&model, &script, "step {}: {:?}", step, act);
                prop_assert_eq!(model.kind(), ErrorKind::InvalidArgument, "only a reservation in a window is refused");
            }
            (model, script) => prop_assert!(false, "step {step}: {act:?}: {model:?} and {script:?}"),
        }
        Ok(())
    }
}

#[test]
fn redis_and_the_models_give_the_same_decisions() {
    let twins = Twins::start();
    check(3_000, &histories(40), |history| {
        let key = twins.key();
        let mut current = twins.limiters(std::slice::from_ref(&history.policy));
        for (step, (now_us, act)) in history.steps.iter().enumerate() {
            if let Act::Become(policy) = act {
                current = twins.limiters(std::slice::from_ref(policy));
            }
            Twins::same(&current, &key, act, *now_us, step)?;
        }
        Ok(())
    });
}

#[test]
fn redis_and_the_models_give_the_same_decisions_on_several_policies() {
    let twins = Twins::start();
    let act = prop_oneof![
        8 => (1..5_i64).prop_map(Act::Allow),
        2 => (1..5_i64).prop_map(Act::Peek),
        1 => (1..5_i64, 0..60_000_000_u64).prop_map(|(cost, wait)| Act::Reserve(cost, wait)),
        1 => (1..5_i64).prop_map(Act::Refund),
        2 => (1..5_i64, 0..3_u8).prop_map(|(cost, token)| Act::Once(cost, token)),
        1 => Just(Act::Reset),
    ];
    let pause = prop_oneof![8 => 0..900_000_i64, 1 => -2_000_000..0_i64, 1 => 0..90_000_000_i64];
    check(1_000, &(vec(policies(), 2..5), vec((pause, act), 1..40)), |(policies, steps)| {
        let named =
            policies.iter().enumerate().map(|(index, policy)| policy.named(&index.to_string()).expect("a name"));
        let limiters = twins.limiters(&named.collect::<Vec<_>>());
        let (key, mut now_us) = (twins.key(), EPOCH_US);
        for (step, (pause_us, act)) in steps.iter().enumerate() {
            now_us = now_us.saturating_add_signed(*pause_us);
            Twins::same(&limiters, &key, act, now_us, step)?;
        }
        Ok(())
    });
}

/// By the server's own clock the scripts write in place and let an expiry stand. With windows of days nothing comes back
/// while this runs, so what passes and what is left do not depend on when it is asked.
#[test]
fn on_the_servers_clock_the_same_passes_and_the_same_is_left() {
    let twins = Twins::start();
    let act = prop_oneof![
        8 => (1..5_i64).prop_map(Act::Allow),
        2 => (1..5_i64).prop_map(Act::Peek),
        2 => (1..5_i64).prop_map(Act::Refund),
        1 => (1..5_i64, 0..3_u8).prop_map(|(cost, token)| Act::Once(cost, token)),
        1 => Just(Act::Reset),
    ];
    let days = 86_400.0 * 5.0;
    let policies = (2..40_i64).prop_map(move |limit| {
        #[allow(clippy::cast_precision_loss)]
        let rate = limit as f64 / days;
        [
            Policy::token_bucket(limit, 1.0, days),
            Policy::leaky_bucket(limit, rate),
            Policy::gcra(limit, days, None),
            Policy::fixed_window(limit, days),
            Policy::sliding_window_log(limit, days),
            Policy::sliding_window_counter(limit, days),
        ]
        .map(|policy| policy.expect("a policy"))
    });
    check(150, &(policies, vec(act, 1..40)), |(policies, acts)| {
        for policies in policies.iter().map(std::slice::from_ref).chain([policies.as_slice()]) {
            let limiters = twins.limiters(policies);
            let key = twins.key();
            for act in &acts {
                let name;
                let call = match act {
                    Act::Reset => {
                        for limiter in &limiters {
                            limiter.reset(&key).expect("a reset");
                        }
                        continue;
                    }
                    Act::Peek(cost) => Call::peek(&key, *cost),
                    Act::Refund(cost) => Call::refund(&key, *cost),
                    Act::Once(cost, token) => {
                        name = format!("token-{token}");
                        Call::allow(&key, *cost).token(name.as_bytes())
                    }
                    Act::Allow(cost) | Act::Reserve(cost, _) => Call::allow(&key, *cost),
                    Act::Become(_) => continue,
                };
                let [model, shared, script] = limiters.each_ref().map(|limiter| {
                    let decision = limiter.decide(call).expect("a decision");
                    decision.each().iter().map(|one| (one.allowed(), one.remaining())).collect::<Vec<_>>()
                });
                if !matches!(act, Act::Refund(_)) {
                    prop_assert_eq!(&model, &script, "{:?}", act);
                    prop_assert_eq!(&model, &shared, "{:?}", act);
                }
            }
        }
        Ok(())
    });
}
