//! Random policies and random histories of calls, for property tests.

use proptest::collection::vec;
use proptest::prelude::*;
use ratelimit_core::Policy;
use ratelimit_core::policy::Algorithm;

use crate::vectors::EPOCH_US;

/// What happens at one instant.
#[derive(Debug, Clone)]
pub enum Act {
    /// Take a cost.
    Allow(i64),
    /// Look whether a cost would pass.
    Peek(i64),
    /// Take a cost ahead of time, by at most so many microseconds.
    Reserve(i64, u64),
    /// Give a cost back.
    Refund(i64),
    /// Ask with one of a few idempotency tokens.
    Once(i64, u8),
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

/// Limits from tiny to huge.
fn limits() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 1..20_i64, 2 => 1..5_000_i64, 1 => 1..=i64::from(i32::MAX)]
}

/// Rates as people write them, and as they don't.
fn rates() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (1..20_u32).prop_map(f64::from),
        2 => (1..100_u32, 1..100_u32).prop_map(|(a, b)| f64::from(a) / f64::from(b)),
        1 => 0.001..1_000_000.0_f64,
    ]
}

/// Windows, periods and intervals in seconds.
fn windows() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (1..10_u32).prop_map(f64::from),
        2 => (1..5_000_u32).prop_map(|ms| f64::from(ms) / 1000.0),
        1 => 0.001..100_000.0_f64,
    ]
}

/// How many algorithms there are, counting token buckets by interval and continuous ones, and both kinds of windows.
const ALGORITHMS: u8 = 8;

/// Policies of every algorithm.
pub fn policies() -> impl Strategy<Value = Policy> {
    (0..ALGORITHMS).prop_flat_map(policies_of)
}

/// Policies of one algorithm.
fn policies_of(algorithm: u8) -> impl Strategy<Value = Policy> {
    (limits(), limits(), rates(), windows()).prop_filter_map("numbers that make a policy", move |numbers| {
        let (limit, burst, rate, window) = numbers;
        match algorithm {
            0 => Policy::token_bucket(limit, rate, window),
            1 => Policy::token_bucket_continuous(limit, rate, window),
            2 => Policy::leaky_bucket(limit, rate),
            3 => Policy::gcra(limit, window, Some(burst)),
            4 => Policy::fixed_window(limit, window),
            5 => Policy::fixed_window_aligned(limit, window),
            6 => Policy::sliding_window_log(limit, window),
            _ => Policy::sliding_window_counter(limit, window),
        }
        .ok()
    })
}

/// Policies of the same algorithm as another: what a limiter's policy may become.
fn successors(policy: &Policy) -> BoxedStrategy<Policy> {
    match policy.algorithm() {
        Algorithm::TokenBucket(_) => prop_oneof![policies_of(0), policies_of(1)].boxed(),
        Algorithm::LeakyBucket(_) => policies_of(2).boxed(),
        Algorithm::Gcra(_) => policies_of(3).boxed(),
        Algorithm::FixedWindow(_) => prop_oneof![policies_of(4), policies_of(5)].boxed(),
        Algorithm::SlidingWindowLog(_) => policies_of(6).boxed(),
        _ => policies_of(7).boxed(),
    }
}

/// Costs around what a policy holds.
fn costs() -> impl Strategy<Value = i64> {
    prop_oneof![6 => 1..4_i64, 2 => 1..25_i64, 1 => 1..=i64::from(i32::MAX)]
}

/// Histories of up to `length` steps. The clock mostly goes on in steps of the policy's size, at times stands still,
/// and now and then steps back.
pub fn histories(length: usize) -> impl Strategy<Value = History> {
    policies().prop_flat_map(move |policy| {
        let act = prop_oneof![
            12 => costs().prop_map(Act::Allow),
            3 => costs().prop_map(Act::Peek),
            3 => (costs(), prop_oneof![Just(u64::MAX), 0..10_000_000_u64]).prop_map(|(cost, wait)| Act::Reserve(cost, wait)),
            2 => costs().prop_map(Act::Refund),
            2 => (costs(), 0..3_u8).prop_map(|(cost, token)| Act::Once(cost, token)),
            1 => Just(Act::Reset),
            2 => successors(&policy).prop_map(Act::Become),
        ];
        // A step of the clock: parts per thousand of a window.
        let pause = prop_oneof![4 => Just(0_i64), 8 => 0..60_i64, 3 => 0..1_500_i64, 1 => -2_000..0_i64];
        (Just(policy), vec((pause, 0..3_i64, any::<bool>(), act), 1..length)).prop_map(|(policy, parts)| {
            let mut now_us = EPOCH_US;
            let mut window_us = step_size(&policy);
            let mut steps = Vec::new();
            for (pause, jitter, exact, act) in parts {
                let step_us = window_us / 1000 * pause + if exact { 0 } else { jitter };
                now_us = now_us.saturating_add_signed(step_us).clamp(EPOCH_US / 2, EPOCH_US / 5 * 6);
                if let Act::Become(policy) = &act {
                    window_us = step_size(policy);
                }
                steps.push((now_us, act));
            }
            History { policy, steps }
        })
    })
}

fn step_size(policy: &Policy) -> i64 {
    i64::try_from(policy.window_us()).unwrap_or(i64::MAX).min(MAX_WINDOW_US)
}

/// Steps of the clock are sized by windows up to ten years.
const MAX_WINDOW_US: i64 = 10 * 366 * 86_400 * 1_000_000;
