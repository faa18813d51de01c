//! One decision in this process, keyed by a string: `memory:` beside governor, which take turns.
//!
//! Prints, per number of keys, `keys ours_ns governor_ns`: medians over the rounds, of the time per call.

use std::num::NonZeroU32;
use std::time::Instant;

use governor::{Quota, RateLimiter};
use ratelimit_core::{Limiter, Policy, store};

const ROUNDS: usize = 15;
const CALLS: usize = 100_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for keys in [1, 1_000, 500_000] {
        let names: Vec<String> = (0..keys).map(|key| format!("user:{key}")).collect();
        // The same limit for both, high enough that every call passes.
        let limiter = Limiter::new(Policy::gcra(1_000_000_000, 1.0, None)?, store::memory(1_000_000)?)?;
        let governor = RateLimiter::keyed(Quota::per_second(NonZeroU32::new(1_000_000_000).ok_or("zero")?));
        let ours = |name: &String| limiter.allow(name, 1).is_ok_and(|decision| decision.allowed());
        let peer = |name: &String| governor.check_key(name).is_ok();

        // Every key is there before anything is measured.
        assert!(names.iter().all(|name| ours(name) && peer(name)), "a call did not pass");
        let (mut ours_ns, mut peer_ns) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let calls: Vec<&String> = shuffled(round, &names);
            ours_ns.push(time(&calls, ours));
            peer_ns.push(time(&calls, peer));
        }
        println!("{keys} {:.1} {:.1}", median(ours_ns), median(peer_ns));
    }
    Ok(())
}

/// Names in an order that no cache foresees, the same for both.
fn shuffled(round: usize, names: &[String]) -> Vec<&String> {
    let mut random = round as u64 + 1;
    let mut next = || {
        // Knuth's linear congruential generator; its upper bits are good enough for an order.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize
    };
    (0..CALLS).map(|_| &names[next() % names.len()]).collect()
}

/// Nanoseconds per call.
fn time(calls: &[&String], passes: impl Fn(&String) -> bool) -> f64 {
    let started = Instant::now();
    let passed = calls.iter().filter(|name| passes(name)).count();
    let elapsed = started.elapsed();
    assert_eq!(passed, calls.len(), "a call did not pass");
    elapsed.as_secs_f64() * 1e9 / calls.len() as f64
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
