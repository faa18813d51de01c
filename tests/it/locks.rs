use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ratelimit_core::store;
use ratelimit_core::{AcquireStep, Acquiring, ErrorKind, Limiter, Lock, Policy, StoreErrorKind, aio};
use ratelimit_tests::RedisServer;
use ratelimit_tests::server::eventually;
use ratelimit_tests::shared::nameless_store;

/// Long enough for any test.
const LONG: f64 = 600.0;

fn on_every_store(test: impl Fn(&Lock)) {
    let server = RedisServer::start();
    let redis = store::open(&format!("{}?timeout=5&connect_timeout=5", server.dsn())).expect("a store");
    for store in [store::memory(1_000).expect("a store"), nameless_store(), redis] {
        test(&Lock::new(store));
    }
}

#[test]
fn one_holds_a_lock_and_only_the_holder_extends_or_releases_it() {
    on_every_store(|lock| {
        let holder = lock.acquire("report", LONG, 0).expect("an answer").expect("nobody holds it");
        assert_eq!(lock.acquire("report", LONG, 0).expect("an answer"), None);
        assert!(lock.is_held("report").expect("an answer"));
        let other = lock.acquire("another", LONG, 0).expect("an answer").expect("another key is another lock");
        for stranger in [other.as_str(), "", "nobody", "00000000000000000000000000000000"] {
            assert!(!lock.extend("report", stranger, LONG).expect("an answer"), "{stranger}");
            assert!(!lock.release("report", stranger).expect("an answer"), "{stranger}");
        }
        assert!(lock.extend("report", &holder, LONG).expect("an answer"));
        assert!(lock.release("report", &holder).expect("an answer"));
        assert!(!lock.release("report", &holder).expect("an answer"), "it is over");
        assert!(!lock.extend("report", &holder, LONG).expect("an answer"), "it is over");
        assert!(!lock.is_held("report").expect("an answer"));
        assert!(lock.acquire("report", LONG, 0).expect("an answer").is_some());
    });
}

#[test]
fn a_lock_ends_by_itself_unless_it_is_extended() {
    on_every_store(|lock| {
        let short = lock.acquire("short", 0.02, 0).expect("an answer").expect("nobody holds it");
        let kept = lock.acquire("kept", 0.02, 0).expect("an answer").expect("nobody holds it");
        assert!(lock.extend("kept", &kept, LONG).expect("an answer"));
        let next = lock.acquire("short", LONG, 10_000_000).expect("an answer").expect("its time is over");
        assert!(!lock.release("short", &short).expect("an answer"), "it is somebody else's now");
        assert!(lock.release("short", &next).expect("an answer"));
        assert!(lock.is_held("kept").expect("an answer"));
    });
}

#[test]
fn who_waits_gets_a_lock_when_it_is_released_and_gives_up_when_it_is_not() {
    on_every_store(|lock| {
        let holder = lock.acquire("report", LONG, 0).expect("an answer").expect("nobody holds it");
        let started = Instant::now();
        assert_eq!(lock.acquire("report", LONG, 30_000).expect("an answer"), None);
        assert!(started.elapsed() >= Duration::from_millis(30));
        let waits = lock.clone();
        let waiting = thread::spawn(move || waits.acquire("report", LONG, u64::MAX).expect("an answer"));
        assert!(lock.release("report", &holder).expect("an answer"));
        assert!(waiting.join().expect("no panic").is_some());
        let refused = lock.guard("report", LONG, 1_000).expect_err("it is held");
        assert_eq!(refused.kind(), ErrorKind::WaitTooLong);
        assert!(refused.to_string().contains("0.001 s"), "{refused}");
        assert!(!refused.to_string().contains("report"), "{refused}");
    });
}

#[test]
fn what_is_done_under_a_lock_is_done_by_one_at_a_time() {
    on_every_store(|lock| {
        let inside = Arc::new(AtomicU64::new(0));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let (lock, inside) = (lock.clone(), inside.clone());
                thread::spawn(move || {
                    for _ in 0..20 {
                        let guard = lock.guard("critical", LONG, u64::MAX).expect("the lock");
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "nobody else is inside");
                        thread::yield_now();
                        inside.fetch_sub(1, Ordering::SeqCst);
                        assert!(guard.release().expect("an answer"));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("no panic");
        }
    });
}

#[test]
fn a_guard_releases_also_where_a_panic_ends_its_scope() {
    on_every_store(|lock| {
        let panics = lock.clone();
        let ended = thread::spawn(move || {
            let _guard = panics.guard("report", LONG, 0).expect("the lock");
            std::panic::resume_unwind(Box::new("the work failed"));
        });
        assert!(ended.join().is_err());
        assert!(!lock.is_held("report").expect("an answer"));
    });
}

#[test]
fn lifetimes_that_are_none_are_refused_before_the_store_is_asked() {
    let lock = Lock::new(store::open("redis://127.0.0.1:1?timeout=0.1&connect_timeout=0.1").expect("a store"));
    for ttl in [0.0, -1.0, 0.000_9, f64::NAN, f64::INFINITY, 1e300] {
        let error = lock.acquire("key", ttl, 0).expect_err("no lifetime");
        assert_eq!((error.kind(), error.argument()), (ErrorKind::InvalidArgument, Some("ttl")), "{ttl}");
        assert!(error.to_string().contains(&format!("got {ttl}")), "{error}");
    }
    let away = lock.acquire("key", 1.0, 0).expect_err("nobody listens");
    assert_eq!(away.store_kind(), Some(StoreErrorKind::Refused));
}

#[test]
fn on_redis_it_is_one_key_with_the_holder_and_its_lifetime() {
    let server = RedisServer::start();
    let lock = Lock::new(store::open(&server.dsn()).expect("a store"));
    let holder = lock.acquire("report:7", 30.0, 0).expect("an answer").expect("nobody holds it");
    let mut redis = server.connection();
    let value: String = redis::cmd("GET").arg("rl:lock:{report:7}").query(&mut redis).expect("a value");
    assert_eq!(value, holder.as_str());
    let left_ms: i64 = redis::cmd("PTTL").arg("rl:lock:{report:7}").query(&mut redis).expect("a lifetime");
    assert!((29_000..=30_000).contains(&left_ms), "{left_ms}");

    // Nobody is locked out for ever, whoever took the expiry away.
    redis::cmd("PERSIST").arg("rl:lock:{report:7}").exec(&mut redis).expect("a reply");
    assert_eq!(lock.acquire("report:7", 0.02, 0).expect("an answer"), None);
    assert!(lock.acquire("report:7", 1.0, 10_000_000).expect("an answer").is_some());

    redis::cmd("RPUSH").arg("rl:lock:{list}").arg(1).exec(&mut redis).expect("a reply");
    let error = lock.acquire("list", 1.0, 0).expect_err("no lock");
    assert_eq!(error.store_kind(), Some(StoreErrorKind::Wrongtype));

    assert!(lock.acquire("jane doe", 1.0, 0).expect("an answer").is_some());
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis).expect("keys");
    assert!(keys.iter().all(|key| !key.contains("jane")), "{keys:?}");
}

#[test]
fn locks_are_never_forgotten_to_make_room() {
    let store = store::memory(1_000).expect("a store");
    let lock = Lock::new(store.clone());
    let locks = |number: u32| lock.acquire(format!("lock-{number}"), LONG, 0);
    for number in 0..500 {
        assert!(locks(number).expect("an answer").is_some());
    }
    let limiter = Limiter::new(Policy::token_bucket(1, 1.0, 3600.0).expect("a policy"), store.clone()).expect("one");
    for number in 0..20_000 {
        let _ = limiter.allow(format!("key-{number}"), 1);
    }
    for number in 0..500 {
        assert!(lock.is_held(format!("lock-{number}")).expect("an answer"), "lock {number}");
    }
    // Where there are only locks, the next one is an error, and no other is lost.
    let full = (500..100_000).find_map(|number| locks(number).err()).expect("it is full some time");
    assert_eq!(full.store_kind(), Some(StoreErrorKind::Oom));
    for number in 0..500 {
        assert!(lock.is_held(format!("lock-{number}")).expect("an answer"), "lock {number}");
    }
}

#[test]
fn locks_are_awaited_as_well() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let redis = store::open(&format!("{}?timeout=5&connect_timeout=5", server.dsn())).expect("a store");
    for store in [store::memory(100).expect("a store"), redis] {
        let lock = aio::Lock::new(Lock::new(store));
        runtime.block_on(async {
            let holder = lock.acquire("report", LONG, 0).await.expect("an answer").expect("nobody holds it");
            let waits = lock.clone();
            let waiting = tokio::spawn(async move { waits.acquire("report", LONG, u64::MAX).await });
            assert_eq!(lock.acquire("report", LONG, 2_000).await.expect("an answer"), None);
            assert!(lock.extend("report", &holder, LONG).await.expect("an answer"));
            assert!(lock.release("report", &holder).await.expect("an answer"));
            assert!(waiting.await.expect("no panic").expect("an answer").is_some());
            assert!(lock.is_held("report").await.expect("an answer"));
        });
    }
}

#[test]
fn a_wait_that_is_given_up_leaves_nothing_held() {
    on_every_store(|lock| {
        let mut acquiring = Acquiring::new(u64::MAX).expect("a wait");
        lock.cancel(&acquiring, "report").expect("nothing was asked");
        // Taken, and nobody hears of it.
        assert!(matches!(lock.step(&mut acquiring, "report", LONG).expect("an answer"), AcquireStep::Done(_)));
        lock.cancel(&acquiring, "report").expect("an answer");
        assert!(!lock.is_held("report").expect("an answer"));

        let holder = lock.acquire("report", LONG, 0).expect("an answer").expect("nobody holds it");
        let mut waits = Acquiring::new(u64::MAX).expect("a wait");
        assert!(matches!(lock.step(&mut waits, "report", LONG).expect("an answer"), AcquireStep::Sleep { .. }));
        lock.cancel(&waits, "report").expect("nothing to ask");
        assert!(lock.release("report", &holder).expect("an answer"), "it is the other's still");
    });
}

#[test]
fn a_lock_is_there_again_when_its_server_is() {
    let mut server = RedisServer::start();
    let lock = Lock::new(store::open(&format!("{}?timeout=0.3&connect_timeout=0.3", server.dsn())).expect("a store"));
    assert!(lock.acquire("report", LONG, 0).expect("an answer").is_some());
    server.stop();
    assert!(lock.acquire("report", LONG, 0).is_err());
    server.restart();
    eventually("a lock", || lock.acquire("report", LONG, 0).is_ok_and(|holder| holder.is_some()));
}
