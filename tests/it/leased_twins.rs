use proptest::collection::vec;
use proptest::prelude::*;
use ratelimit_core::algorithm::{FixedWindow, Question, SlidingWindowCounter, State, Verb, Verdict};
use ratelimit_core::lua::scripts;
use ratelimit_tests::RedisServer;
use ratelimit_tests::random::check;
use ratelimit_tests::vectors::EPOCH_US;

#[derive(Debug, Clone)]
enum Act {
    Allow(u64),
    Lease(u64, u64),
    /// Gives units back to the window of the last lease, or of one a little off.
    Return(u64, i64),
    Refund(u64),
}

#[allow(clippy::cast_precision_loss)]
fn doubles(numbers: [u64; 5]) -> Vec<u8> {
    numbers.iter().flat_map(|number| (*number as f64).to_le_bytes()).collect()
}

#[allow(clippy::cast_possible_truncation)]
fn answer(bytes: &[u8]) -> Vec<i64> {
    bytes[..40].chunks_exact(8).map(|bytes| f64::from_le_bytes(bytes.try_into().expect("8 bytes")) as i64).collect()
}

fn numbers(verdict: &Verdict) -> Vec<i64> {
    let Verdict { allowed, remaining, retry_after_us, reset_after_us, delay_us } = *verdict;
    // Never is -1 on the wire.
    [u64::from(allowed), remaining, retry_after_us, reset_after_us, delay_us].map(u64::cast_signed).to_vec()
}

#[test]
fn scripts_and_models_lease_and_take_back_alike() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let mut number = 0;
    let text = |name: &str| scripts().find(|script| script.name() == name).expect("a script").text();
    let act = prop_oneof![
        2 => (1..9_u64).prop_map(Act::Allow),
        3 => (1..9_u64, 1..30_u64).prop_map(|(cost, most)| Act::Lease(cost, most)),
        3 => (1..30_u64, prop_oneof![6 => Just(0_i64), 1 => -2..3_i64]).prop_map(|(cost, off)| Act::Return(cost, off)),
        1 => (1..9_u64).prop_map(Act::Refund),
    ];
    let pause = prop_oneof![8 => 0..200_000_i64, 1 => -2_000_000..0_i64, 1 => 0..3_000_000_i64];
    let connection = std::cell::RefCell::new(&mut connection);
    let number = std::cell::RefCell::new(&mut number);
    check(1_500, &(8..60_u64, 0..3_u8, vec((pause, act), 1..40)), |(limit, kind, steps)| {
        let key = {
            let mut number = number.borrow_mut();
            **number += 1;
            format!("twin-{number}")
        };
        let signed = i64::try_from(limit).expect("a small number");
        let window = FixedWindow::new(signed, 1.0, kind == 1).expect("a window");
        let counter = SlidingWindowCounter::new(signed, 1.0).expect("a counter");
        let (name, policy) = match kind {
            2 => ("sliding_window_counter", [limit, 1_000_000, 1, 0, 0]),
            _ => ("fixed_window", [limit, 1_000_000, u64::from(kind), 0, 0]),
        };
        let (mut state, mut now_us, mut end_us): (Option<State>, u64, u64) = (None, EPOCH_US, 0);
        for (step, (pause_us, act)) in steps.into_iter().enumerate() {
            now_us = now_us.saturating_add_signed(pause_us);
            let (wire, cost, extra, verb) = match act {
                Act::Allow(cost) => (1, cost, 0, Verb::Allow),
                Act::Lease(cost, most) => (4, cost, most, Verb::Lease { most }),
                Act::Refund(cost) => (3, cost, 0, Verb::Refund),
                Act::Return(cost, off) => {
                    let window_end_us = end_us.saturating_add_signed(off);
                    (5, cost, window_end_us, Verb::Return { window_end_us })
                }
            };
            let question = Question { now_us, verb, cost, commit: true };
            let verdict = match kind {
                2 => counter.decide(&mut state, &question),
                _ => window.decide(&mut state, &question).expect("a verdict"),
            };
            let told: Vec<u8> = redis::cmd("EVAL")
                .arg(text(name))
                .arg(1)
                .arg(&key)
                .arg(doubles(policy))
                .arg(doubles([wire, cost, extra, now_us, 0]))
                .query(*connection.borrow_mut())
                .expect("an answer");
            prop_assert_eq!(answer(&told), numbers(&verdict), "step {}: {:?}", step, verb);
            if let (Verb::Lease { most }, true) = (verb, verdict.allowed) {
                prop_assert!((cost..=most.max(cost)).contains(&verdict.retry_after_us));
                prop_assert!(now_us < verdict.delay_us);
                end_us = verdict.delay_us;
            }
        }
        Ok(())
    });
}
