//! Property tests whose failures can be had again.

use std::hash::{BuildHasher as _, RandomState};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRng, TestRunner};

/// Runs a test on so many random inputs, or on as many as `RATELIMIT_HISTORIES` says (`make soak` does).
///
/// The inputs follow from a seed, which a failure prints and `RATELIMIT_SEED` sets.
///
/// # Panics
///
/// When the test fails, with the smallest input for which it does, and the seed.
pub fn check<S: Strategy>(cases: u32, inputs: &S, test: impl Fn(S::Value) -> TestCaseResult) {
    let set = |name: &str| std::env::var(name).ok();
    let cases = set("RATELIMIT_HISTORIES").and_then(|text| text.parse().ok()).unwrap_or(cases);
    let seed =
        set("RATELIMIT_SEED").and_then(|text| text.parse().ok()).unwrap_or_else(|| RandomState::new().hash_one(0));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_global_rejects: u32::MAX, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    if let Err(error) = runner.run(inputs, test) {
        panic!("{error}\nto run it again: RATELIMIT_SEED={seed} RATELIMIT_HISTORIES={cases}");
    }
}
