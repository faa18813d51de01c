//! One decision on an embedded store, keyed by a string: `memory:` and `shared:` beside governor, and beside a counter in
//! LMDB, which take turns.
//!
//! Prints, per number of keys, `keys memory_ns shared_ns governor_ns lmdb_ns`: medians over the rounds, of the time per
//! call. The numbers of keys may be given as arguments.

use std::num::NonZeroU32;
use std::path::Path;
use std::time::{Duration, Instant};

use governor::{Quota, RateLimiter};
use heed::byteorder::NativeEndian;
use heed::types::{Str, U64};
use heed::{Database, Env, EnvFlags, EnvOpenOptions};
use ratelimit_core::{Limiter, Policy, store};

const ROUNDS: usize = 15;
const CALLS: usize = 100_000;
const KEYS: [usize; 3] = [1, 1_000, 1_000_000];

/// So many units at once, and one more every 100 s: every call passes, and no budget is whole again before the end.
const BURST: u32 = 10_000_000;
const SECONDS: f64 = 1e9;

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
        let quota = Quota::with_period(Duration::from_secs(100)).ok_or("no period")?;
        let governor = RateLimiter::keyed(quota.allow_burst(NonZeroU32::new(BURST).ok_or("zero")?));
        let lmdb = Lmdb::open(keys)?;
        let asks: [&dyn Fn(&String) -> bool; 4] = [
            &|name| memory.allow(name, 1).is_ok_and(|decision| decision.allowed()),
            &|name| shared.allow(name, 1).is_ok_and(|decision| decision.allowed()),
            &|name| governor.check_key(name).is_ok(),
            &|name| lmdb.count(name).is_ok_and(|count| count <= u64::from(BURST)),
        ];

        // Every key is there before anything is measured.
        assert!(names.iter().all(|name| asks.iter().all(|ask| ask(name))), "a call did not pass");
        let mut ns: [Vec<f64>; 4] = Default::default();
        for round in 0..ROUNDS {
            let calls: Vec<&String> = shuffled(round, &names);
            for (ns, ask) in ns.iter_mut().zip(asks) {
                ns.push(time(&calls, ask));
            }
        }
        let [memory, shared, governor, lmdb] = ns.map(median);
        println!("{keys} {memory:.1} {shared:.1} {governor:.1} {lmdb:.1}");
    }
    Ok(())
}

/// A counter per key in an LMDB file in memory, without a sync: what an atomic step costs at least.
struct Lmdb {
    environment: Env,
    counters: Database<Str, U64<NativeEndian>>,
    _folder: tempfile::TempDir,
}

impl Lmdb {
    fn open(keys: usize) -> Result<Self, Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir_in("/dev/shm")?;
        let mut options = EnvOpenOptions::new();
        options.map_size((64 << 20) + keys.next_multiple_of(8) * 512);
        // SAFETY: the folder is this process's own, and nobody else opens or changes the file.
        let environment = unsafe { options.flags(EnvFlags::NO_SYNC | EnvFlags::WRITE_MAP).open(folder.path())? };
        let mut transaction = environment.write_txn()?;
        let counters = environment.create_database(&mut transaction, None)?;
        transaction.commit()?;
        Ok(Self { environment, counters, _folder: folder })
    }

    fn count(&self, key: &str) -> heed::Result<u64> {
        let mut transaction = self.environment.write_txn()?;
        let count = self.counters.get(&transaction, key)?.unwrap_or(0) + 1;
        self.counters.put(&mut transaction, key, &count)?;
        transaction.commit()?;
        Ok(count)
    }
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
