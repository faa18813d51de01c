use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ratelimit_core::{BreakerState, Call, Limiter, ManualClock, Policy, StoreErrorKind, aio, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::cluster::Cluster;
use ratelimit_tests::sentinel::Sentinels;
use ratelimit_tests::server::eventually;
use ratelimit_tests::wire::{Fate, Wire};

const TIMEOUTS: &str = "?timeout=0.3&connect_timeout=0.3";

fn limiter(dsn: &str, capacity: i64) -> aio::Limiter {
    let policy = Policy::token_bucket(capacity, 1.0, 3600.0).expect("a policy");
    Limiter::new(policy, store::open(dsn).expect("a store")).expect("a limiter").into()
}

async fn remaining(limiter: &aio::Limiter) -> u64 {
    limiter.allow("key", 1).await.expect("a decision").remaining()
}

/// Runs on one thread, as an event loop does.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(work)
}

#[test]
fn every_verb_answers_as_its_blocking_twin_does() {
    let server = RedisServer::start();
    run(async {
        let limiter = limiter(&format!("{}?timeout=2&connect_timeout=2", server.dsn()), 10);
        assert_eq!(remaining(&limiter).await, 9);
        assert!(limiter.peek("key", 9).await.expect("a decision").allowed());
        assert!(!limiter.reserve("key", 12, 0).await.expect("a decision").allowed());
        limiter.refund("key", 1).await.expect("a refund");
        assert_eq!(limiter.decide(Call::allow("key", 3).token(b"once")).await.expect("a decision").remaining(), 7);
        assert_eq!(limiter.decide(Call::allow("key", 3).token(b"once")).await.expect("a decision").remaining(), 7);
        limiter.reset("key").await.expect("a reset");
        let outcomes = limiter.allow_many(&[("key", 6), ("other", 10), ("key", 6)]).await.expect("valid calls");
        let allowed: Vec<bool> = outcomes.into_iter().map(|outcome| outcome.expect("a decision").allowed()).collect();
        assert_eq!(allowed, [true, true, false]);
        assert!(limiter.allow("key", 0).await.is_err());
        limiter.ping().await.expect("a round trip");
        assert_eq!(limiter.blocking().peek("key", 1).expect("the same budget").remaining(), 4);
    });
}

#[test]
fn a_wait_sleeps_on_the_runtime_or_moves_the_clock_it_was_given() {
    let policy = Policy::token_bucket(1, 1.0, 5.0).expect("a policy");
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let memory = store::memory(10).expect("a store");
    let limiter = Limiter::builder(policy.clone()).store(memory.clone()).clock(clock).build().expect("a limiter");
    run(async {
        let limiter = aio::Limiter::new(limiter);
        for _ in 0..3 {
            assert!(limiter.wait("key", 1, u64::MAX).await.expect("a decision").allowed());
        }
        tokio::time::pause();
        let started = tokio::time::Instant::now();
        let limiter = aio::Limiter::new(Limiter::new(policy, memory).expect("a limiter"));
        for _ in 0..2 {
            limiter.wait("another", 1, u64::MAX).await.expect("a decision");
        }
        assert!(started.elapsed() >= Duration::from_secs(4), "{:?}", started.elapsed());
        assert!(limiter.wait("another", 1, 1).await.is_err(), "too long");
    });
}

#[test]
fn ten_thousand_tasks_share_one_connection_and_are_all_answered() {
    let server = RedisServer::start();
    run(async {
        let limiter = limiter(&format!("{}?timeout=10&connect_timeout=10", server.dsn()), 6_000);
        let tasks: Vec<_> = (0..10_000)
            .map(|_| {
                let limiter = limiter.clone();
                tokio::spawn(async move { limiter.allow("key", 1).await.expect("a decision").allowed() })
            })
            .collect();
        let mut allowed = 0;
        for task in tasks {
            allowed += usize::from(task.await.expect("no panic"));
        }
        assert_eq!(allowed, 6_000);
    });
    let info: String = redis::cmd("INFO").arg("stats").query(&mut server.connection()).expect("INFO");
    let connections = info.lines().find_map(|line| line.strip_prefix("total_connections_received:")).map(str::trim);
    // One of ours, the one of the start, this one, and the one on the socket.
    assert_eq!(connections, Some("4"));
    assert_eq!(server.calls("eval"), 1, "the crowd did not send the text each");
}

#[test]
fn a_call_that_is_given_up_leaves_the_connection_in_order() {
    let server = RedisServer::start();
    let slow = AtomicUsize::new(0);
    let wire = Wire::start(Some(server.port()), move |_| match slow.fetch_add(1, Ordering::SeqCst) {
        // Held back for longer than the caller waits, and not for longer than the timeout.
        2 => Fate::Late(Duration::from_millis(100)),
        _ => Fate::Pass,
    });
    run(async {
        let limiter = limiter(&wire.dsn("?timeout=2&connect_timeout=2"), 10);
        assert_eq!(remaining(&limiter).await, 9);
        let given_up = tokio::time::timeout(Duration::from_millis(20), limiter.allow("key", 5)).await;
        assert!(given_up.is_err(), "{given_up:?}");
        assert_eq!(remaining(&limiter).await, 3, "the call that was given up counted, its reply went to nobody");
        assert_eq!(limiter.allow("other", 1).await.expect("a decision").remaining(), 9);
    });
    assert_eq!(wire.connections(), 1);
}

#[test]
fn a_fault_is_told_to_all_who_wait_and_the_next_call_is_real() {
    let server = RedisServer::start();
    for (fate, kind) in [
        (Fate::DropAfter, StoreErrorKind::Closed),
        (Fate::DropBefore, StoreErrorKind::Closed),
        (Fate::Silence, StoreErrorKind::Timeout),
        (Fate::Truncate(7), StoreErrorKind::Closed),
        (Fate::Answer(b"*0\r\n".to_vec()), StoreErrorKind::Protocol),
        (Fate::Answer(b"-LOADING Redis is loading\r\n".to_vec()), StoreErrorKind::Loading),
        (Fate::Answer(b"-BUSY Redis is busy running a script.\r\n".to_vec()), StoreErrorKind::Busy),
        (Fate::Answer(b":1\r\n:1\r\n".to_vec()), StoreErrorKind::Protocol),
    ] {
        let name = format!("{fate:?}");
        let wire = Wire::start(Some(server.port()), move |number| if number == 2 { fate.clone() } else { Fate::Pass });
        run(async {
            let limiter = limiter(&wire.dsn(TIMEOUTS), 100);
            while wire.commands() < 2 {
                limiter.peek("key", 1).await.expect("a good call");
            }
            let started = Instant::now();
            let error = limiter.peek("key", 1).await.expect_err(&name);
            assert_eq!(error.store_kind(), Some(kind), "{name}: {error}");
            assert!(started.elapsed() < Duration::from_millis(700), "{name}: {:?}", started.elapsed());
            assert!(limiter.peek("key", 1).await.is_ok(), "{name}: the next call is real");
        });
    }
}

#[test]
fn a_server_that_goes_away_is_found_again() {
    let mut server = RedisServer::start();
    run(async {
        let limiter = limiter(&format!("{}{TIMEOUTS}", server.dsn()), 10);
        assert_eq!(remaining(&limiter).await, 9);
        server.restart();
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(remaining(&limiter).await, 9, "the connection that was closed meanwhile took no byte");
        server.stop();
        for _ in 0..3 {
            let error = limiter.allow("key", 1).await.expect_err("no server");
            assert!(matches!(error.store_kind(), Some(StoreErrorKind::Refused | StoreErrorKind::Closed)), "{error}");
        }
        server.restart();
        assert_eq!(remaining(&limiter).await, 9);
        server.signal("STOP");
        let started = Instant::now();
        let error = limiter.allow("key", 1).await.expect_err("no answer");
        assert_eq!(error.store_kind(), Some(StoreErrorKind::Timeout), "{error}");
        assert!(started.elapsed() < Duration::from_millis(700), "{:?}", started.elapsed());
        server.signal("CONT");
        assert!(limiter.allow("key", 1).await.is_ok());
    });
}

#[test]
fn clusters_and_sentinels_are_the_same_from_here() {
    let mut cluster = Cluster::start(3);
    run(async {
        let limiter = limiter(&cluster.dsn("?timeout=2&connect_timeout=2"), 4);
        let calls: Vec<(String, i64)> = (0..300).map(|number| (format!("user:{}", number % 60), 1)).collect();
        let outcomes = limiter.allow_many(&calls).await.expect("valid calls").into_iter();
        let allowed: Vec<bool> = outcomes.map(|outcome| outcome.expect("a decision").allowed()).collect();
        assert_eq!(allowed, (0..300).map(|number| number < 240).collect::<Vec<_>>());
        assert_eq!(cluster.calls("eval"), 3);

        let slot = cluster.slot("rl:tb:default:{user:5}");
        let (from, to) = (cluster.owner(slot), (cluster.owner(slot) + 1) % 3);
        cluster.begin_move(slot, from, to);
        cluster.move_key("rl:tb:default:{user:5}", from, to);
        redis::cmd("SCRIPT").arg("FLUSH").exec(&mut cluster.nodes()[to].connection()).expect("SCRIPT FLUSH");
        assert!(!limiter.allow("user:5", 1).await.expect("ASK").allowed());
        cluster.end_move(slot, to);
        assert!(!limiter.allow("user:5", 1).await.expect("MOVED").allowed());
    });

    let mut sentinels = Sentinels::start();
    run(async {
        let limiter = limiter(&sentinels.dsn("", TIMEOUTS), 1000);
        assert_eq!(remaining(&limiter).await, 999);
        redis::cmd("WAIT").arg(1).arg(2000).exec(&mut sentinels.servers()[0].connection()).expect("WAIT");
        sentinels.servers()[0].stop();
        assert!(limiter.allow("key", 1).await.is_err());
    });
    eventually("the failover", || {
        let limiter = limiter(&sentinels.dsn("", TIMEOUTS), 1000);
        run(async { limiter.allow("key", 1).await.is_ok_and(|decision| decision.remaining() == 998) })
    });
}

#[test]
fn a_host_without_a_runtime_has_one_of_its_own() {
    let server = RedisServer::start();
    let limiter = limiter(&format!("{}?timeout=5&connect_timeout=5", server.dsn()), 10);
    let ask = || {
        let (limiter, (tell, told)) = (limiter.clone(), std::sync::mpsc::channel());
        aio::spawn(async move { tell.send(remaining(&limiter).await).expect("somebody listens") }).expect("a thread");
        told.recv_timeout(Duration::from_secs(10)).expect("an answer")
    };
    assert_eq!([ask(), ask()], [9, 8]);
}

#[test]
fn while_a_server_hangs_an_event_loop_is_not_held_up_by_looking_after_it() {
    let server = RedisServer::start();
    let limiter = limiter(&format!("{}?timeout=0.1&connect_timeout=0.1&client_name=looks", server.dsn()), 10);
    run(async {
        assert_eq!(remaining(&limiter).await, 9);
        server.signal("STOP");
        for _ in 0..5 {
            assert!(limiter.allow("key", 1).await.is_err());
        }
        assert_eq!(limiter.blocking().store().breaker(), BreakerState::Open);
        // Were each of them to wait for a sign of life, this alone would take three seconds.
        let started = Instant::now();
        for _ in 0..10_000 {
            assert!(limiter.allow("key", 1).await.is_err());
        }
        assert!(limiter.allow_many(&[("key", 1); 3]).await.expect("valid calls").iter().all(Result::is_err));
        assert!(started.elapsed() < Duration::from_secs(2), "{:?}", started.elapsed());
        server.signal("CONT");
    });
    eventually("a real answer", || run(async { limiter.allow("key", 1).await.is_ok() }));
}
