use std::sync::{Arc, Barrier};
use std::thread;

use proptest::collection::vec;
use proptest::prelude::*;
use ratelimit_core::http::{HeaderOptions, HeaderStyle, headers};
use ratelimit_core::store::{self, Store};
use ratelimit_core::{
    AcquireStep, Acquiring, Clock as _, Concurrency, ErrorKind, Holder, ManualClock, StoreErrorKind, aio,
};
use ratelimit_tests::RedisServer;
use ratelimit_tests::random::check;
use ratelimit_tests::shared::{SharedFile, nameless_store};

fn redis_store(server: &RedisServer) -> Arc<dyn Store> {
    store::open(&format!("{}?timeout=5&connect_timeout=5", server.dsn())).expect("a store")
}

fn stores(server: &RedisServer) -> [Arc<dyn Store>; 3] {
    [store::memory(10_000).expect("a store"), nameless_store(), redis_store(server)]
}

fn acquired(concurrency: &Concurrency, key: &str) -> Option<Holder> {
    concurrency.acquire(key, 0).expect("an answer")
}

#[test]
fn as_many_as_the_limit_are_under_way_and_each_ends_by_itself() {
    let server = RedisServer::start();
    for store in stores(&server) {
        let clock = Arc::new(ManualClock::new(1_700_000_000.0));
        let uploads = Concurrency::new(2, 60.0, store).expect("a limit").clock(clock.clone());
        let first = acquired(&uploads, "key").expect("a lease");
        clock.advance(20.0);
        let second = acquired(&uploads, "key").expect("a lease");
        assert_eq!(acquired(&uploads, "key"), None);
        assert!(acquired(&uploads, "other").is_some(), "each key has its own");

        let peeked = uploads.peek("key").expect("a decision");
        assert!(!peeked.allowed());
        assert_eq!((peeked.limit(), peeked.remaining(), peeked.retry_after_us()), (2, 0, 40_000_000));
        clock.advance(39.999_999);
        assert_eq!(acquired(&uploads, "key"), None, "one tick too early");
        clock.advance(0.000_001);
        let third = acquired(&uploads, "key").expect("the first is over");
        assert!(!uploads.release("key", &first).expect("an answer"));
        assert!(!uploads.extend("key", &first).expect("an answer"));

        assert!(uploads.extend("key", &second).expect("an answer"));
        clock.advance(59.0);
        assert!(uploads.extend("key", &second).expect("an answer"), "it lasts anew each time");
        clock.advance(2.0);
        assert!(!uploads.release("key", &third).expect("an answer"));
        assert_eq!(uploads.peek("key").expect("a decision").remaining(), 1);
        assert!(uploads.release("key", &second).expect("an answer"));
        let peeked = uploads.peek("key").expect("a decision");
        assert_eq!((peeked.allowed(), peeked.remaining(), peeked.reset_after_us()), (true, 2, 0));
    }
}

#[test]
fn who_waits_gets_the_lease_that_ends_first() {
    let server = RedisServer::start();
    for store in stores(&server) {
        let clock = Arc::new(ManualClock::new(1_700_000_000.0));
        let uploads = Concurrency::new(1, 5.0, store).expect("a limit").clock(clock.clone());
        assert!(acquired(&uploads, "key").is_some());
        assert_eq!(uploads.acquire("key", 4_999_999).expect("an answer"), None);
        assert_eq!(clock.now_us(), 1_700_000_004_999_999, "it has waited, and no longer");
        assert!(uploads.acquire("key", 1).expect("an answer").is_some());
    }
}

#[test]
fn names_share_nothing_and_a_lowered_limit_holds_at_once() {
    let server = RedisServer::start();
    for store in stores(&server) {
        let limit = |limit| Concurrency::new(limit, 60.0, store.clone()).expect("a limit");
        let three = [0; 3].map(|_| acquired(&limit(3), "key").expect("a lease"));
        assert!(acquired(&limit(1).named("exports").expect("a name"), "key").is_some());
        assert_eq!(acquired(&limit(2), "key"), None);
        assert_eq!(limit(2).peek("key").expect("a decision").remaining(), 0);
        assert!(limit(2).release("key", &three[0]).expect("an answer"));
        assert_eq!(acquired(&limit(2), "key"), None);
        assert!(acquired(&limit(3), "key").is_some());
    }
}

#[test]
fn of_fifty_threads_exactly_as_many_get_a_lease_as_there_are() {
    let server = RedisServer::start();
    for store in stores(&server) {
        for round in 0..10 {
            let barrier = Arc::new(Barrier::new(50));
            let threads: Vec<_> = (0..50)
                .map(|_| {
                    let uploads = Concurrency::new(5, 600.0, store.clone()).expect("a limit");
                    let barrier = barrier.clone();
                    thread::spawn(move || {
                        barrier.wait();
                        acquired(&uploads, &format!("cold-{round}")).is_some()
                    })
                })
                .collect();
            let got = threads.into_iter().map(|thread| thread.join().expect("no panic"));
            assert_eq!(got.filter(|got| *got).count(), 5, "round {round}");
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Acquire,
    Extend(usize),
    Release(usize),
    Peek,
    Time(i64),
    /// Another limit and lifetime from now on.
    Change(i64, u32),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Acquire),
        2 => (0..8_usize).prop_map(Step::Extend),
        2 => (0..8_usize).prop_map(Step::Release),
        2 => Just(Step::Peek),
        4 => (0..40_000_000_i64).prop_map(Step::Time),
        1 => (-100_000_000..0_i64).prop_map(Step::Time),
        1 => ((1..6_i64), (1..90_u32)).prop_map(|(limit, ttl)| Step::Change(limit, ttl)),
    ];
    vec(step, 1..60)
}

/// The same history on the model, in memory and in shared memory, and on the script.
#[test]
fn random_histories_go_the_same_way_on_every_store() {
    let server = RedisServer::start();
    let stores = stores(&server);
    let number = std::cell::Cell::new(0);
    check(60, &steps(), |steps| {
        number.set(number.get() + 1);
        let key = format!("history-{}", number.get());
        let clock = Arc::new(ManualClock::new(1_700_000_000.0));
        let on = |limit, ttl: u32| {
            let limited = |store: &Arc<dyn Store>| Concurrency::new(limit, f64::from(ttl), store.clone());
            stores.each_ref().map(|store| limited(store).expect("a limit").clock(clock.clone()))
        };
        let mut all = on(3, 60);
        // What each store gave out, the same at each index.
        let mut leases: Vec<[Holder; 3]> = Vec::new();
        for (at, step) in steps.iter().enumerate() {
            match step {
                Step::Acquire => {
                    let got = all.each_ref().map(|it| it.acquire(&key, 0).expect("an answer"));
                    match got {
                        [Some(memory), Some(shared), Some(redis)] => leases.push([memory, shared, redis]),
                        [None, None, None] => {}
                        got => return Err(TestCaseError::fail(format!("step {at}: {got:?}"))),
                    }
                }
                Step::Extend(which) | Step::Release(which) if !leases.is_empty() => {
                    let lease = &leases[which % leases.len()];
                    let done = [0, 1, 2].map(|store: usize| match step {
                        Step::Extend(_) => all[store].extend(&key, &lease[store]).expect("an answer"),
                        _ => all[store].release(&key, &lease[store]).expect("an answer"),
                    });
                    prop_assert!(done[0] == done[1] && done[1] == done[2], "step {at}: {done:?}");
                }
                Step::Time(us) => clock.advance_us(*us),
                Step::Change(limit, ttl) => all = on(*limit, *ttl),
                Step::Peek | Step::Extend(_) | Step::Release(_) => {}
            }
            let peeked = all.each_ref().map(|it| it.peek(&key).expect("a decision"));
            prop_assert_eq!(&peeked[0], &peeked[1], "step {}: memory and shared", at);
            prop_assert_eq!(&peeked[1], &peeked[2], "step {}: shared and redis", at);
            prop_assert!(peeked[0].allowed() == (peeked[0].retry_after_us() == 0), "step {at}");
        }
        Ok(())
    });
}

#[test]
fn a_thousand_leases_of_one_key_are_kept_and_given_back() {
    let server = RedisServer::start();
    for store in stores(&server) {
        let uploads = Concurrency::new(1_000, 600.0, store).expect("a limit");
        for _ in 0..2 {
            let leases: Vec<_> = (0..1_000).map(|_| acquired(&uploads, "key").expect("a lease")).collect();
            assert_eq!(acquired(&uploads, "key"), None);
            for (number, lease) in leases.iter().enumerate() {
                assert!(uploads.release("key", lease).expect("an answer"), "lease {number}");
                assert_eq!(uploads.peek("key").expect("a decision").remaining(), number as u64 + 1);
            }
        }
    }
}

#[test]
fn a_store_without_room_for_a_lease_says_so_and_loses_none() {
    let uploads = Concurrency::new(1_000_000, 600.0, SharedFile::with("size=1MiB").open()).expect("a limit");
    let mut taken = [0; 40];
    let error = 'full: loop {
        for (number, taken) in taken.iter_mut().enumerate() {
            match uploads.acquire(format!("key-{number}"), 0) {
                Ok(lease) => *taken += u64::from(lease.is_some()),
                Err(error) => break 'full error,
            }
        }
    };
    assert_eq!(error.store_kind(), Some(StoreErrorKind::Oom));
    assert!(error.to_string().contains("no room left"), "{error}");
    for (number, taken) in taken.iter().enumerate() {
        let peeked = uploads.peek(format!("key-{number}")).expect("a decision");
        assert_eq!(peeked.remaining(), 1_000_000 - taken, "key {number}");
    }
}

#[test]
fn on_redis_the_key_expires_with_the_last_lease() {
    let server = RedisServer::start();
    let uploads = Concurrency::new(2, 30.0, redis_store(&server)).expect("a limit");
    let lease = acquired(&uploads, "key").expect("a lease");
    let mut redis = server.connection();
    let mut left_ms =
        || -> i64 { redis::cmd("PTTL").arg("rl:cc:default:{key}").query(&mut redis).expect("a lifetime") };
    assert!((29_000..=30_000).contains(&left_ms()));
    assert!(uploads.release("key", &lease).expect("an answer"));
    assert_eq!(left_ms(), -2, "it is gone");
    assert_eq!(server.calls("evalsha"), 2, "one round trip each");
}

#[test]
fn limits_and_lifetimes_that_are_none_are_refused() {
    let refused = |limit, ttl| Concurrency::new(limit, ttl, store::memory(10).expect("a store")).expect_err("refused");
    for (limit, ttl, argument) in [
        (0, 1.0, "limit"),
        (-1, 1.0, "limit"),
        (1 << 31, 1.0, "limit"),
        (1, 0.0, "lease_ttl"),
        (1, f64::NAN, "lease_ttl"),
    ] {
        let error = refused(limit, ttl);
        assert_eq!((error.kind(), error.argument()), (ErrorKind::InvalidPolicy, Some(argument)), "{error}");
    }
    let unnamed = Concurrency::new(1, 1.0, store::memory(10).expect("a store")).expect("a limit").named("");
    assert_eq!(unnamed.expect_err("refused").argument(), Some("name"));
}

#[test]
fn a_guard_gives_its_lease_back() {
    let server = RedisServer::start();
    for store in stores(&server) {
        let uploads = Concurrency::new(1, 600.0, store).expect("a limit");
        {
            let _lease = uploads.guard("key", 0).expect("an answer").expect("a lease");
            let refused = uploads.guard("key", 0).expect("an answer").expect_err("it is taken");
            assert!(!refused.allowed() && refused.retry_after_us() > 0);
        }
        let lease = uploads.guard("key", 0).expect("an answer").expect("it was given back");
        assert!(lease.extend().expect("an answer"));
        assert!(lease.release().expect("an answer"));
        assert_eq!(uploads.peek("key").expect("a decision").remaining(), 1);
    }
}

#[test]
fn a_refusal_is_rendered_by_the_name_and_the_limit_it_is_about() {
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let uploads = Concurrency::new(2, 60.0, store::memory(10).expect("a store")).expect("a limit");
    let uploads = uploads.named("uploads").expect("a name").clock(clock);
    let leases = [0, 1].map(|_| acquired(&uploads, "key").expect("a lease"));
    let options = HeaderOptions::from(HeaderStyle::Ietf).quota_unit("concurrent-requests").expect("a unit");
    let headers = headers(&uploads.refusal("key").expect("a decision"), uploads.policies(), options);
    assert_eq!(headers[0].1, r#""uploads";q=2;qu="concurrent-requests";w=60"#);
    assert_eq!(headers[1].1, r#""uploads";r=0;t=60"#);
    assert_eq!(headers[2], ("Retry-After", "60".to_owned()));
    assert!(uploads.release("key", &leases[0]).expect("an answer"));
    assert!(!uploads.refusal("key").expect("a decision").allowed(), "also where a lease has come back since");
}

#[test]
fn a_wait_for_a_lease_that_is_given_up_leaves_none_behind() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for store in stores(&server) {
        let uploads = Concurrency::new(1, 600.0, store).expect("a limit");
        let mut acquiring = Acquiring::new(u64::MAX).expect("a wait");
        assert!(matches!(uploads.step(&mut acquiring, "key").expect("an answer"), AcquireStep::Done(_)));
        uploads.cancel(&acquiring, "key").expect("an answer");
        assert_eq!(uploads.peek("key").expect("a decision").remaining(), 1);

        let awaited = aio::Concurrency::new(uploads.clone());
        runtime.block_on(async {
            let mut acquiring = Acquiring::new(u64::MAX).expect("a wait");
            assert!(matches!(awaited.step(&mut acquiring, "key").await.expect("an answer"), AcquireStep::Done(_)));
            awaited.cancel(&acquiring, "key").await.expect("an answer");
        });
        assert_eq!(uploads.peek("key").expect("a decision").remaining(), 1);
    }
}

#[test]
fn leases_are_awaited_as_well() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    for store in stores(&server) {
        let uploads = aio::Concurrency::new(Concurrency::new(3, 600.0, store).expect("a limit"));
        runtime.block_on(async {
            let mut tasks = tokio::task::JoinSet::new();
            for _ in 0..20 {
                let uploads = uploads.clone();
                tasks.spawn(async move { uploads.acquire("key", 0).await.expect("an answer") });
            }
            let leases: Vec<Holder> = tasks.join_all().await.into_iter().flatten().collect();
            assert_eq!(leases.len(), 3);
            let waits = uploads.clone();
            let waiting = tokio::spawn(async move { waits.acquire("key", u64::MAX).await });
            assert!(uploads.extend("key", &leases[0]).await.expect("an answer"));
            assert!(uploads.release("key", &leases[1]).await.expect("an answer"));
            assert!(waiting.await.expect("no panic").expect("an answer").is_some());
            assert_eq!(uploads.peek("key").await.expect("a decision").remaining(), 0);
            assert!(!uploads.refusal("key").await.expect("a decision").allowed());
        });
    }
}
