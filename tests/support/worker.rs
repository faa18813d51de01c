//! A process that works on a store, for tests of several. Its arguments say what it does:
//!
//! - `hits DSN POLICY KEY COUNT`: asks so often, once its input has a line, and prints how often it passed;
//! - `race DSN`: opens the store at once when its input has a line, asks once, and prints `passed` or `refused`;
//! - `place`: opens the shared store in its default place, asks once, and prints where that is and how many bytes it has, or
//!   the error;
//! - `local DSN`: asks twice of a limiter whose rule is `local` and whose store is away, and prints where the answers are from;
//! - `flood DSN POLICY COUNT`: asks once for each of so many keys, and prints the memory it has in use after half of
//!   them and at the end, in KiB;
//! - `holds DSN KEY SECONDS`: takes a lock and a lease that last so long, says `held`, and waits to be killed;
//! - `leases DSN`: takes, extends and gives back leases and locks until it is killed;
//! - `windows DSN POLICY KEYS ROUNDS`: in each round asks once for each of so many keys of its own, waits until all of them
//!   are whole again, asks a thousand times for others, and prints how many live states there are, and the memory in
//!   use, in KiB;
//! - `rounds DSN POLICY COUNT`: takes a unit of one key and gives it back, so often, and prints the memory in use after a
//!   tenth of that and at the end, in KiB;
//! - `hammer DSN FILE NUMBER`: asks in several ways until it is killed, and keeps count in its part of a file;
//! - `spends DSN LIMIT LENGTH_MS LEASE FIRST NUMBER FILE`: asks one key until it is killed, gives some back, and keeps count of
//!   each window in its part of a file.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_core::store::Store;
use ratelimit_core::store::shared::SharedStore;
use ratelimit_core::{Call, Concurrency, FailureRule, Limiter, Lock, Policy, Result, store};
use ratelimit_tests::storm::{self, Counts};
use ratelimit_tests::windows::Windows;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["hits", dsn, policy, key, count] => {
            let limiter = Limiter::new(Policy::parse(policy)?, store::open(dsn)?)?;
            wait_for_a_line();
            let passed = (0..count.parse().expect("a count"))
                .filter(|_: &u32| limiter.allow(key, 1).expect("a decision").allowed());
            println!("{}", passed.count());
        }
        ["race", dsn] => {
            wait_for_a_line();
            let limiter = Limiter::new(Policy::fixed_window(1, 3600.0)?, store::open(dsn)?)?;
            println!("{}", if limiter.allow("race", 1)?.allowed() { "passed" } else { "refused" });
        }
        ["place"] => match SharedStore::open(None, 64 << 20, Duration::from_secs(1)) {
            Ok(store) => {
                let (path, store) = (store.path().display().to_string(), Arc::new(store));
                let limiter = Limiter::new(Policy::fixed_window(1, 3600.0)?, store.clone())?;
                assert!(limiter.allow("place", 1)?.allowed() && !limiter.allow("place", 1)?.allowed());
                println!("{path} {}", store.info().expect("an embedded store").bytes);
            }
            Err(error) => println!("{error}"),
        },
        ["local", dsn] => {
            let policy = Policy::fixed_window(1, 3600.0)?;
            let limiter = Limiter::builder(policy).store(store::open(dsn)?).on_error(FailureRule::Local).build()?;
            for _ in 0..2 {
                let decision = limiter.allow("local", 1)?;
                println!("{} {}", decision.source().as_str(), decision.allowed());
            }
        }
        ["flood", dsn, policy, count] => {
            let limiter = Limiter::new(Policy::parse(policy)?, store::open(dsn)?)?;
            let count: u32 = count.parse().expect("a count");
            for half in [0..count / 2, count / 2..count] {
                for number in half {
                    limiter.allow(format!("key-{number}"), 1)?;
                }
                println!("{}", resident_kib());
            }
        }
        ["holds", dsn, key, seconds] => {
            let (store, seconds) = (store::open(dsn)?, seconds.parse().expect("seconds"));
            let lock = Lock::new(store.clone()).acquire(key, seconds, 0)?;
            let lease = Concurrency::new(1, seconds, store)?.acquire(key, 0)?;
            println!("{}", if lock.is_some() && lease.is_some() { "held" } else { "refused" });
            wait_for_a_line();
        }
        ["leases", dsn] => leases(&store::open(dsn)?)?,
        ["windows", dsn, policy, keys, rounds] => {
            let store = store::open(dsn)?;
            let limiter = Limiter::new(Policy::parse(policy)?, store.clone())?;
            let keys: u32 = keys.parse().expect("a number");
            for round in 0..rounds.parse::<u32>().expect("a number") {
                for key in 0..keys {
                    assert!(limiter.allow(format!("{round}-{key}"), 1)?.allowed());
                }
                while store.info().expect("an embedded store").used > 0 {
                    std::thread::sleep(Duration::from_millis(50));
                }
                for key in 0..1_000 {
                    assert!(limiter.allow(format!("other-{round}-{key}"), 1)?.allowed());
                }
                println!("{} {}", store.info().expect("an embedded store").used, resident_kib());
            }
        }
        ["rounds", dsn, policy, count] => {
            let limiter = Limiter::new(Policy::parse(policy)?, store::open(dsn)?)?;
            let count: u32 = count.parse().expect("a count");
            for part in [0..count / 10, count / 10..count] {
                for _ in part {
                    assert!(limiter.allow("key", 1)?.allowed());
                    limiter.refund("key", 1)?;
                }
                println!("{}", resident_kib());
            }
        }
        ["hammer", dsn, file, number] => hammer(dsn, file, number.parse().expect("a number"))?,
        ["spends", dsn, numbers @ .., file] => {
            let numbers: Vec<i64> = numbers.iter().map(|text| text.parse().expect("a number")).collect();
            spend_leases(dsn, numbers.as_slice().try_into().expect("five numbers"), file)?;
        }
        _ => panic!("what to do with {arguments:?}?"),
    }
    Ok(())
}

fn leases(store: &Arc<dyn Store>) -> Result<()> {
    let (lock, leases) = (Lock::new(store.clone()), storm::leases(store)?);
    for round in 0_u64.. {
        let key = format!("key-{}", round % 5);
        // Some more than there is room for in the first list.
        let held: Vec<_> = (0..6).map(|_| leases.acquire(&key, 0)).collect::<Result<_>>()?;
        if let Some(holder) = lock.acquire(&key, storm::LEASE_SECONDS, 0)? {
            lock.extend(&key, &holder, storm::LEASE_SECONDS)?;
            lock.release(&key, &holder)?;
        }
        for lease in held.into_iter().flatten() {
            leases.extend(&key, &lease)?;
            leases.release(&key, &lease)?;
        }
    }
    Ok(())
}

fn spend_leases(dsn: &str, [limit, length_ms, lease, first, number]: [i64; 5], file: &str) -> Result<()> {
    let window_us = length_ms.unsigned_abs() * 1_000;
    let policy = Policy::fixed_window_aligned(limit, ratelimit_core::clock::us_to_seconds(window_us))?;
    let limiter = Limiter::builder(policy).store(store::open(dsn)?).lease(lease).build()?;
    let mut counts = Windows::open(file.as_ref(), window_us, first.unsigned_abs(), number.unsigned_abs())
        .expect("the file of counts");
    for round in 1_u64.. {
        let asked_us = Windows::now_us();
        if !limiter.allow("key", 1)?.allowed() {
            continue;
        }
        let granted_us = Windows::now_us();
        if round.is_multiple_of(50) && granted_us % window_us < window_us / 2 {
            // Counted before, so that a kill in between leaves none out; half a window later it is another one's, too.
            counts.refunded(granted_us).expect("a written count");
            limiter.refund("key", 1)?;
            let given_back_us = Windows::now_us();
            if given_back_us / window_us != granted_us / window_us {
                counts.refunded(given_back_us).expect("a written count");
            }
        }
        counts.granted(asked_us, granted_us).expect("a written count");
        if round.is_multiple_of(997) {
            limiter.return_leases()?;
        }
    }
    Ok(())
}

fn wait_for_a_line() {
    std::io::stdin().read_line(&mut String::new()).expect("a line");
}

fn resident_kib() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("the system's numbers");
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number") * 4
}

fn hammer(dsn: &str, file: &str, number: u64) -> Result<()> {
    let store = store::open(dsn)?;
    let [hot, last, pair, log] = storm::limiters(&store)?;
    let file = OpenOptions::new().write(true).open(file).expect("the file of counts");
    let mut counts = Counts::default();
    for round in 0_u64.. {
        let token = format!("{number}-{round}");
        let call = match round % 5 {
            0 => (&hot, Call::allow("hot", 1), &mut counts.hot),
            1 => (&last, Call::allow("last", 1), &mut counts.last),
            2 => (&pair, Call::allow("pair", 1), &mut counts.pair),
            3 => (&pair, Call::allow("pair", 1).token(token.as_bytes()), &mut counts.pair),
            _ => (&log, Call::allow("log", 1), &mut counts.log),
        };
        let started = Instant::now();
        match call.0.decide(call.1) {
            Ok(decision) => *call.2 += u64::from(decision.allowed()),
            Err(_) => counts.errors += 1,
        }
        counts.longest_us = counts.longest_us.max(u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX));
        // A kill at any moment leaves what was written last.
        file.write_all_at(&counts.to_bytes(), number * Counts::BYTES).expect("a written count");
        // Others fill the table meanwhile, so that slots are taken and given up all the time.
        let _ = hot.peek(&token, 1);
        hot.allow(format!("other-{}", round % 5_000), 1)?;
    }
    Ok(())
}
