//! One decision on an embedded store, keyed by a string: `memory:` and `shared:` beside governor, which take turns.
//!
//! Prints, per number of keys, `keys memory_ns shared_ns governor_ns`: medians over the rounds, of the time per call. The
//! numbers of keys may be given as arguments.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};

use governor::{Quota, RateLimiter};
use ratelimit_core::{Limiter, Policy, store};

const ROUNDS: usize = 15;
const CALLS: usize = 100_000;
const KEYS: [usize; 3] = [1, 1_000, 1_000_000];

/// So many units at once, and one more every 10 µs: every call passes, and no key is whole again before the end.
const BURST: u32 = 1_000_000_000;
const SECONDS: f64 = 10_000.0;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chosen: Vec<usize> = std::env::args().skip(1).map(|keys| keys.parse()).collect::<Result<_, _>>()?;
    for keys in if chosen.is_empty() { KEYS.to_vec() } else { chosen } {
        let names: Vec<String> = (0..keys).map(|key| format!("user:{key}")).collect();
        let file = format!("/dev/shm/ratelimit-bench-{}-{keys}", std::process::id());
        let bytes = (64 << 20).max(keys as u64 * 256);
        let policy = Policy::gcra(i64::from(BURST), SECONDS, None)?;
        let memory = Limiter::new(policy.clone(), store::memory(keys.max(1_000))?)?;
        let shared = Limiter::new(policy, store::shared(Some(Path::new(&file)), bytes)?)?;
        // It stays open, and is gone with this process.
        std::fs::remove_file(&file)?;
        let quota = Quota::with_period(Duration::from_micros(10)).ok_or("no period")?;
        let governor = RateLimiter::keyed(quota.allow_burst(NonZeroU32::new(BURST).ok_or("zero")?));
        let asks: [&dyn Fn(&String) -> bool; 3] = [
            &|name| memory.allow(name, 1).is_ok_and(|decision| decision.allowed()),
            &|name| shared.allow(name, 1).is_ok_and(|decision| decision.allowed()),
            &|name| governor.check_key(name).is_ok(),
        ];

        // Every key is there before anything is measured.
        assert!(names.iter().all(|name| asks.iter().all(|ask| ask(name))), "a call did not pass");
        let mut ns: [Vec<f64>; 3] = Default::default();
        for round in 0..ROUNDS {
            let calls: Vec<&String> = shuffled(round, &names);
            for (ns, ask) in ns.iter_mut().zip(asks) {
                ns.push(time(&calls, ask));
            }
        }
        let [memory, shared, governor] = ns.map(median);
        println!("{keys} {memory:.1} {shared:.1} {governor:.1}");
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
fn time(calls: &[&String], passes: &dyn Fn(&String) -> bool) -> f64 {
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
