//! One decision on an embedded store that holds few keys or very many.
//!
//! Prints, per number of keys, `keys memory_ns shared_ns shared_bytes_per_key`: medians over the rounds, of the time per
//! call. The numbers of keys may be given as arguments.

use std::path::Path;
use std::time::Instant;

use ratelimit_core::{Limiter, Policy, store};

const ROUNDS: usize = 9;
const CALLS: usize = 200_000;
const KEYS: [usize; 2] = [1_000, 10_000_000];

/// So many bytes for each key: a set is then half full, and nobody is forgotten.
const BYTES_PER_KEY: u64 = 192;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let chosen: Vec<usize> = std::env::args().skip(1).map(|keys| keys.parse()).collect::<Result<_, _>>()?;
    for keys in if chosen.is_empty() { KEYS.to_vec() } else { chosen } {
        let file = format!("/dev/shm/ratelimit-bench-{}-{keys}", std::process::id());
        let bytes = (64 << 20).max(keys as u64 * BYTES_PER_KEY);
        // Nobody's budget is whole again before the end, and every call passes.
        let policy = Policy::gcra(10_000_000, 1e9, None)?;
        let shared_store = store::shared(Some(Path::new(&file)), bytes)?;
        // It stays open, and is gone with this process.
        std::fs::remove_file(&file)?;
        let memory_store = store::memory(keys)?;
        let limiters = [
            Limiter::new(policy.clone(), memory_store.clone())?,
            Limiter::new(policy, shared_store.clone())?,
        ];
        let mut ns: [Vec<f64>; 2] = Default::default();
        for (limiter, ns) in limiters.iter().zip(&mut ns) {
            for key in 0..keys {
                assert!(limiter.allow(format!("user:{key}"), 1)?.allowed(), "a call did not pass");
            }
            for round in 0..ROUNDS {
                let names = some_of(keys, round);
                let started = Instant::now();
                let passed = names.iter().filter(|name| limiter.allow(name, 1).is_ok_and(|it| it.allowed())).count();
                ns.push(started.elapsed().as_secs_f64() * 1e9 / CALLS as f64);
                assert_eq!(passed, CALLS, "a call did not pass");
            }
        }
        for store in [memory_store, shared_store] {
            let info = store.info().ok_or("no embedded store")?;
            assert_eq!((info.used, info.evicted), (keys as u64, 0), "nobody was forgotten");
        }
        let [memory, shared] = ns.map(|mut ns| {
            ns.sort_by(f64::total_cmp);
            ns[ROUNDS / 2]
        });
        println!("{keys} {memory:.1} {shared:.1} {BYTES_PER_KEY}");
    }
    Ok(())
}

/// Keys in an order that no cache foresees.
fn some_of(keys: usize, round: usize) -> Vec<String> {
    let mut random = round as u64 + 1;
    let mut next = || {
        // Knuth's linear congruential generator; its upper bits are good enough for an order.
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) as usize
    };
    (0..CALLS).map(|_| format!("user:{}", next() % keys)).collect()
}
