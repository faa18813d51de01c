//! Random policies and random histories of calls, for property tests.

use proptest::collection::vec;
use proptest::prelude::*;
use ratelimit_core::Policy;

use crate::vectors::EPOCH_US;

/// What happens at one instant.
#[derive(Debug, Clone)]
pub enum Act {
    /// Take a cost.
    Allow(i64),
    /// Look whether a cost would pass.
    Peek(i64),
    /// Forget the key.
    Reset,
    /// Go on with another policy of the same name.
    Become(Policy),
}

/// A policy and what happens to one key, each with its instant in microseconds since 1970.
#[derive(Debug, Clone)]
pub struct History {
    /// The policy at first.
    pub policy: Policy,
    /// What happens.
    pub steps: Vec<(u64, Act)>,
}

/// Policies of every kind, with numbers from tiny to huge.
pub fn policies() -> impl Strategy<Value = Policy> {
    let capacity = prop_oneof![4 => 1..20_i64, 1 => 1..5_000_i64, 1 => 1..=i64::from(i32::MAX)];
    let rate = prop_oneof![
        4 => (1..20_u32).prop_map(f64::from),
        2 => (1..100_u32, 1..100_u32).prop_map(|(a, b)| f64::from(a) / f64::from(b)),
        1 => 0.001..1_000_000.0_f64,
    ];
    let interval = prop_oneof![
        4 => (1..10_u32).prop_map(f64::from),
        2 => (1..5_000_u32).prop_map(|ms| f64::from(ms) / 1000.0),
        1 => 0.000_001..100_000.0_f64,
    ];
    (capacity, rate, interval, any::<bool>()).prop_filter_map(
        "numbers that make a policy",
        |(capacity, rate, interval, continuous)| {
            if continuous {
                Policy::token_bucket_continuous(capacity, rate, interval).ok()
            } else {
                Policy::token_bucket(capacity, rate, interval).ok()
            }
        },
    )
}

/// Costs around what a policy holds.
fn costs() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 1..4_i64, 2 => 1..25_i64, 1 => 1..=i64::from(i32::MAX)]
}

/// Histories of up to `length` steps. The clock mostly goes on in steps of the policy's size, at times stands still,
/// and now and then steps back.
pub fn histories(length: usize) -> impl Strategy<Value = History> {
    let act = prop_oneof![
        12 => costs().prop_map(Act::Allow),
        3 => costs().prop_map(Act::Peek),
        1 => Just(Act::Reset),
        2 => policies().prop_map(Act::Become),
    ];
    // A step of the clock: parts per thousand of the time a full refill takes, or of an hour.
    let pause = prop_oneof![4 => Just(0_i64), 8 => 0..60_i64, 3 => 0..1_500_i64, 1 => -2_000..0_i64];
    let jitter = 0..3_i64;
    (policies(), vec((pause, jitter, any::<bool>(), act), 1..length)).prop_map(|(policy, parts)| {
        let mut now_us = EPOCH_US;
        let mut window_us = i64::try_from(policy.window_us()).unwrap_or(i64::MAX).min(MAX_WINDOW_US);
        let mut steps = Vec::new();
        for (pause, jitter, exact, act) in parts {
            let step_us = window_us / 1000 * pause + if exact { 0 } else { jitter };
            now_us = now_us.saturating_add_signed(step_us).clamp(EPOCH_US / 2, EPOCH_US * 3);
            if let Act::Become(policy) = &act {
                window_us = i64::try_from(policy.window_us()).unwrap_or(i64::MAX).min(MAX_WINDOW_US);
            }
            steps.push((now_us, act));
        }
        History { policy, steps }
    })
}

/// Steps of the clock are sized by windows up to ten years.
const MAX_WINDOW_US: i64 = 10 * 366 * 86_400 * 1_000_000;
