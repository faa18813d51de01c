use std::collections::VecDeque;
use std::fs;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_core::{Concurrency, Limiter, Lock, Policy, StoreErrorKind, store};
use ratelimit_tests::server::eventually;
use ratelimit_tests::shared::start;
use ratelimit_tests::storm::{self, Counts, FEW, MANY};
use ratelimit_tests::{RedisServer, SharedFile};

const WORKER: &str = env!("CARGO_BIN_EXE_worker");

fn go(child: &mut Child) {
    child.stdin.as_mut().expect("an input").write_all(b"go\n").expect("a line");
}

fn output(mut child: Child) -> String {
    let mut text = String::new();
    child.stdout.as_mut().expect("an output").read_to_string(&mut text).expect("a text");
    assert!(child.wait().expect("an end").success(), "{text}");
    text.trim().to_owned()
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status();
    assert!(status.expect("kill").success());
}

#[test]
fn four_processes_on_one_key_let_exactly_the_limit_pass() {
    for policy in ["10/hour", "10/hour gcra", "10/hour log", "10/hour sliding"] {
        let file = SharedFile::with("timeout=5");
        let mut workers: Vec<_> =
            (0..4).map(|_| start(WORKER, &["hits", &file.dsn(), policy, "one key", "10"])).collect();
        workers.iter_mut().for_each(go);
        let passed: u32 = workers.into_iter().map(|worker| output(worker).parse::<u32>().expect("a number")).sum();
        assert_eq!(passed, 10, "{policy}");
    }
}

#[test]
fn processes_that_make_the_file_at_the_same_time_agree_on_it() {
    for _ in 0..10 {
        let file = SharedFile::with("size=1MiB&timeout=5");
        let mut workers: Vec<_> = (0..6).map(|_| start(WORKER, &["race", &file.dsn()])).collect();
        workers.iter_mut().for_each(go);
        let passed = workers.into_iter().filter_map(|worker| (output(worker) == "passed").then_some(())).count();
        assert_eq!(passed, 1, "one file, so one of them passes");
        assert_eq!(fs::read_dir(file.folder()).expect("a folder").count(), 1, "nothing else is left");
    }
}

#[test]
fn what_one_process_used_another_one_that_comes_later_knows() {
    let file = SharedFile::new();
    for expected in ["3", "2", "0"] {
        let mut worker = start(WORKER, &["hits", &file.dsn(), "5/hour", "key", "3"]);
        go(&mut worker);
        assert_eq!(output(worker), expected);
    }
}

/// How long the storm lasts; `scripts/soak` makes it longer.
fn storm_seconds() -> f64 {
    std::env::var("RATELIMIT_STORM_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(4.0)
}

#[test]
fn processes_killed_at_any_moment_block_nobody_and_tear_nothing() {
    // Small, so that slots are taken and given up, and kills hit all that.
    let file = SharedFile::with("size=2MiB&timeout=1");
    let counts = file.folder().join("counts");
    fs::write(&counts, []).expect("a file of counts");
    let mut number = 0;
    let mut next = || {
        number += 1;
        start(WORKER, &["hammer", &file.dsn(), counts.to_str().expect("a path"), &number.to_string()])
    };
    let mut workers: VecDeque<Child> = (0..8).map(|_| next()).collect();
    let (started, mut kills) = (Instant::now(), 0);
    while started.elapsed().as_secs_f64() < storm_seconds() {
        thread::sleep(Duration::from_millis(50));
        let mut oldest = workers.pop_front().expect("a worker");
        assert_eq!(oldest.try_wait().expect("a state"), None, "it still works");
        oldest.kill().expect("a kill");
        oldest.wait().expect("an end");
        kills += 1;
        workers.push_back(next());
    }
    for mut worker in workers {
        worker.kill().expect("a kill");
        worker.wait().expect("an end");
        kills += 1;
    }

    let store = store::open(&file.dsn()).expect("it opens without cleaning");
    let [hot, last, pair, log] = storm::limiters(&store).expect("limiters");
    let counts = Counts::sum(&fs::read(counts).expect("the counts"));
    assert!(counts.hot > 1_000, "{counts:?}");
    assert_eq!(counts.errors, 0, "{counts:?}");
    assert!(counts.longest_us < 1_000_000, "nobody waited for longer than a second: {counts:?}");
    let used = |limiter: &Limiter, key: &str, limit: i64| {
        let decision = limiter.peek(key, 1).expect("a decision");
        decision.each().iter().map(|one| limit.unsigned_abs() - one.remaining()).collect::<Vec<_>>()
    };
    // Whoever is killed has passed once more than was counted, or not.
    let in_order = |used: u64, counted: u64| (counted..=counted + kills).contains(&used);
    let (hot, last) = (used(&hot, "hot", MANY)[0], used(&last, "last", FEW)[0]);
    assert!(in_order(hot, counts.hot), "{hot} used, {counts:?}");
    assert!(in_order(last, counts.last) && last == FEW.unsigned_abs(), "{last} used, {counts:?}");
    let log = used(&log, "log", FEW)[0];
    assert!(in_order(log, counts.log), "{log} used, {counts:?}");
    let [one, two] = used(&pair, "pair", MANY).try_into().expect("two policies");
    assert_eq!(one, two, "both policies are charged or none is");
    assert!(in_order(one, counts.pair), "{one} used, {counts:?}");
}

#[test]
fn a_lock_and_a_lease_of_a_killed_process_end_with_their_time() {
    let (file, server) = (SharedFile::with("timeout=5"), RedisServer::start());
    for dsn in [file.dsn(), format!("{}?timeout=5&connect_timeout=5", server.dsn())] {
        let mut worker = start(WORKER, &["holds", &dsn, "key", "0.5"]);
        let mut said = [0; 5];
        worker.stdout.as_mut().expect("an output").read_exact(&mut said).expect("a word");
        assert_eq!(&said, b"held\n");
        worker.kill().expect("a kill");
        worker.wait().expect("an end");
        let store = store::open(&dsn).expect("a store");
        let (lock, leases) = (Lock::new(store.clone()), Concurrency::new(1, 0.5, store).expect("a limit"));
        assert!(lock.acquire("key", 60.0, 10_000_000).expect("an answer").is_some(), "{dsn}");
        assert!(leases.acquire("key", 10_000_000).expect("an answer").is_some(), "{dsn}");
    }
}

#[test]
fn leases_of_processes_killed_at_any_moment_come_back() {
    let file = SharedFile::with("size=1MiB&timeout=1");
    let mut workers: VecDeque<Child> = (0..4).map(|_| start(WORKER, &["leases", &file.dsn()])).collect();
    let started = Instant::now();
    while started.elapsed().as_secs_f64() < storm_seconds() / 2.0 {
        thread::sleep(Duration::from_millis(25));
        let mut oldest = workers.pop_front().expect("a worker");
        assert_eq!(oldest.try_wait().expect("a state"), None, "it still works");
        oldest.kill().expect("a kill");
        oldest.wait().expect("an end");
        workers.push_back(start(WORKER, &["leases", &file.dsn()]));
    }
    for mut worker in workers {
        worker.kill().expect("a kill");
        worker.wait().expect("an end");
    }
    let store = store::open(&file.dsn()).expect("it opens without cleaning");
    let (lock, leases) = (Lock::new(store.clone()), storm::leases(&store).expect("a limit"));
    for key in ["key-0", "key-1", "key-2", "key-3", "key-4"] {
        eventually("all leases are back", || leases.peek(key).expect("a decision").remaining() == 20);
        eventually("the lock is free", || !lock.is_held(key).expect("an answer"));
        assert!((0..20).all(|_| leases.acquire(key, 0).expect("an answer").is_some()), "{key}");
        assert_eq!(leases.acquire(key, 0).expect("an answer"), None, "{key}");
    }
}

#[test]
fn a_process_that_is_stopped_keeps_others_from_what_it_holds_and_from_nothing_else() {
    let file = SharedFile::with("timeout=0.1");
    let counts = file.folder().join("counts");
    fs::write(&counts, []).expect("a file of counts");
    let store = file.open();
    let [hot, ..] = storm::limiters(&store).expect("limiters");
    let policy = Policy::fixed_window(MANY, 3600.0).expect("a policy");
    let others = Limiter::new(policy, store).expect("a limiter");
    let mut worker = start(WORKER, &["hammer", &file.dsn(), counts.to_str().expect("a path"), "0"]);
    let (mut refused, mut passed) = (0, 0);
    for round in 0..200 {
        thread::sleep(Duration::from_millis(1));
        signal(&worker, "-STOP");
        let started = Instant::now();
        match hot.allow("hot", 1) {
            Ok(_) => passed += 1,
            Err(error) => {
                assert_eq!(error.store_kind(), Some(StoreErrorKind::Busy), "{error}");
                assert!(error.to_string().contains("may be stopped"), "{error}");
                refused += 1;
            }
        }
        assert!(started.elapsed() < Duration::from_secs(1), "{:?}", started.elapsed());
        let others = (0..20).filter(|number| others.allow(format!("{round}-{number}"), 1).is_ok()).count();
        assert!(others >= 19, "of many keys one at most is where it stopped");
        signal(&worker, "-CONT");
    }
    assert!(passed > 0, "{refused} were refused");
    signal(&worker, "-STOP");
    worker.kill().expect("a kill");
    worker.wait().expect("an end");
    assert!(hot.allow("hot", 1).expect("nobody is in the way any more").allowed());
}
