use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_core::store::{self, Store, StoreInfo};
use ratelimit_core::{Limiter, Policy};
use ratelimit_tests::SharedFile;
use ratelimit_tests::shared::start;

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

fn info(store: &Arc<dyn Store>) -> StoreInfo {
    store.info().expect("an embedded store")
}

/// Both embedded stores, with a few thousand slots.
fn stores() -> [(SharedFile, Arc<dyn Store>); 2] {
    let file = || SharedFile::with("size=1MiB&timeout=5");
    let (one, two) = (file(), file());
    let shared = two.open();
    [(one, store::memory(2_000).expect("a store")), (two, shared)]
}

/// One policy of each kind of five units, in a name of its own.
fn of_five() -> Vec<Policy> {
    [
        Policy::token_bucket(5, 5.0, 3600.0),
        Policy::gcra(5, 3600.0, None),
        Policy::leaky_bucket(5, 0.001),
        Policy::fixed_window(5, 3600.0),
        Policy::fixed_window_aligned(5, 86_400.0),
        Policy::sliding_window_log(5, 3600.0),
        Policy::sliding_window_counter(5, 3600.0),
    ]
    .map(|policy| policy.expect("a policy"))
    .into()
}

#[test]
fn a_flood_of_keys_frees_nobody_who_has_used_up_his_budget() {
    for (_file, store) in stores() {
        for policy in of_five() {
            let limiter = Limiter::new(policy.clone(), store.clone()).expect("a limiter");
            let ask = |key: String, cost| limiter.allow(key, cost).expect("a decision").allowed();
            assert!((0..30).all(|number| ask(format!("used-up-{number}"), 5)));
            for number in 0..12_000 {
                ask(format!("flood-{number}"), 1);
            }
            let refused = (0..30).filter(|number| !ask(format!("used-up-{number}"), 1)).count();
            assert_eq!(refused, 30, "{policy:?} on {store:?}");
        }
        let info = info(&store);
        assert!(info.evicted > 1_000 && info.used <= info.slots, "{info:?}");
    }
}

#[test]
fn a_table_that_is_large_enough_forgets_nobody_and_takes_no_more_than_it_needs() {
    let store = store::memory(5_000).expect("a store");
    let limiter = Limiter::new(Policy::fixed_window(1, 3600.0).expect("a policy"), store.clone()).expect("a limiter");
    let ask = |number| limiter.allow(format!("key-{number}"), 1).expect("a decision").allowed();
    assert!((0..5_000).all(ask));
    assert!(!(0..5_000).any(ask));
    let info = info(&store);
    assert_eq!((info.used, info.expired, info.evicted), (5_000, 0, 0));
    assert!(info.slots >= 5_000 && info.bytes > 64 * info.slots, "{info:?}");
}

#[test]
fn a_table_that_grows_meanwhile_lets_each_key_pass_as_often_as_it_may() {
    let store = store::memory(10_000).expect("a store");
    for policy in [Policy::fixed_window(3, 3600.0), Policy::sliding_window_log(3, 3600.0)] {
        let limiter = Limiter::new(policy.expect("a policy"), store.clone()).expect("a limiter");
        let passed: usize = thread::scope(|scope| {
            let threads = [(); 4].map(|()| {
                scope.spawn(|| {
                    let ask = |number| limiter.allow(format!("key-{number}"), 1).expect("a decision").allowed();
                    (0..4_000).filter(|number| ask(*number)).count()
                })
            });
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        assert_eq!(passed, 3 * 4_000);
    }
    assert_eq!(info(&store).evicted, 0);
}

#[test]
fn a_table_with_few_keys_takes_little_memory() {
    let worker = start(WORKER, &["flood", "memory:?max_keys=10000000", "5/hour", "2000"]);
    let text = String::from_utf8(worker.wait_with_output().expect("an end").stdout).expect("a text");
    let kib: u64 = text.split_whitespace().last().and_then(|text| text.parse().ok()).expect("a number");
    assert!(kib < 16 << 10, "{kib} KiB for 2000 keys");
}

#[test]
fn what_has_expired_counts_no_more_and_makes_room() {
    for (_file, store) in stores() {
        let policy = Policy::fixed_window(5, 0.05).expect("a policy");
        let limiter = Limiter::new(policy, store.clone()).expect("a limiter");
        for round in 0..5 {
            for number in 0..1_000 {
                limiter.allow(format!("{round}-{number}"), 1).expect("a decision");
            }
            let started = Instant::now();
            while info(&store).used > 0 {
                assert!(started.elapsed() < Duration::from_secs(10), "{:?}", info(&store));
                thread::sleep(Duration::from_millis(5));
            }
        }
        let info = info(&store);
        assert_eq!(info.evicted, 0, "nobody who counts had to go");
        assert!((1..=5_000).contains(&info.expired), "{info:?}");
    }
}

#[test]
fn a_reset_and_a_refund_of_all_leave_no_slot_behind() {
    for (_file, store) in stores() {
        for policy in of_five() {
            let limiter = Limiter::new(policy, store.clone()).expect("a limiter");
            for number in 0..100 {
                let key = format!("key-{number}");
                limiter.allow(&key, 2).expect("a decision");
                if number % 2 == 0 {
                    limiter.reset(&key).expect("a reset");
                } else {
                    limiter.refund(&key, 2).expect("a refund");
                }
            }
            let info = info(&store);
            assert_eq!((info.used, info.expired), (0, 0));
        }
    }
}

#[test]
fn memory_stays_as_it_is_however_many_keys_come() {
    let file = SharedFile::with("size=1MiB&timeout=5");
    for dsn in ["memory:?max_keys=2000", &file.dsn()] {
        for policy in ["5/hour", "5/hour log", "5/hour gcra"] {
            let worker = start(WORKER, &["flood", dsn, policy, "40000"]).wait_with_output().expect("an end");
            let text = String::from_utf8(worker.stdout).expect("a text");
            let kib: Vec<u64> = text.split_whitespace().map(|number| number.parse().expect("a number")).collect();
            let [half, all] = kib.try_into().expect("two numbers");
            assert!(all < half + 1024, "{dsn} with {policy}: {half} KiB after half of them, {all} KiB after all");
        }
    }
}

/// Keys of a window, fewer where the code is not optimized.
const KEYS: &str = if cfg!(debug_assertions) { "10000" } else { "100000" };

/// Rounds on one key.
const ROUNDS: &str = if cfg!(debug_assertions) { "60000" } else { "600000" };

/// Numbers that a worker prints, line by line.
fn printed(arguments: &[&str]) -> Vec<Vec<u64>> {
    let ended = start(WORKER, arguments).wait_with_output().expect("an end");
    assert!(ended.status.success(), "{arguments:?}");
    let text = String::from_utf8(ended.stdout).expect("a text");
    let numbers = |line: &str| line.split_whitespace().map(|number| number.parse().expect("a number")).collect();
    text.lines().map(numbers).collect()
}

#[test]
fn window_after_window_of_new_keys_takes_no_more_memory_than_the_second() {
    let file = SharedFile::with("size=32MiB&timeout=5");
    for dsn in ["memory:", &file.dsn()] {
        for policy in ["5 per 1 second", "5 per 1 second log"] {
            let lines = printed(&["windows", dsn, policy, KEYS, "5"]);
            assert!(lines.iter().all(|line| line[0] <= 1_000), "{dsn} with {policy}: {lines:?}");
            // The pages of a shared file are taken as keys come to lie on them, so its second round still finds new ones.
            let (second, last) = (lines[1][1], lines[4][1]);
            assert!(last < second + second / 10 + 1024, "{dsn} with {policy}: {lines:?}");
        }
    }
}

#[test]
fn what_is_taken_and_given_back_all_the_time_takes_no_memory() {
    let file = SharedFile::with("size=32MiB&timeout=5");
    for dsn in ["memory:", &file.dsn()] {
        for policy in ["5/hour log", "5/hour"] {
            let lines = printed(&["rounds", dsn, policy, ROUNDS]);
            assert!(lines[1][0] < lines[0][0] + 1024, "{dsn} with {policy}: {lines:?}");
        }
    }
}

#[test]
fn a_log_longer_than_the_store_has_room_for_is_a_sentence_and_denies_nobody_else() {
    let file = SharedFile::with("size=1MiB&timeout=5");
    let store = file.open();
    let limiter =
        Limiter::new(Policy::sliding_window_log(1_000_000, 3600.0).expect("a policy"), store).expect("a limiter");
    let error = (0..1_000_000).find_map(|_| limiter.allow("long", 1).err()).expect("it does not fit");
    assert_eq!(error.store_kind(), Some(ratelimit_core::StoreErrorKind::Oom));
    assert!(error.to_string().contains("bytes for sliding logs"), "{error}");
    let before = limiter.peek("long", 1).expect("a decision");
    assert!(before.remaining() < 1_000_000 - 3_000, "{before:?}");
    assert!(limiter.allow("short", 1).is_ok());
}
