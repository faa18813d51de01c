use std::time::{Duration, Instant};

use ratelimit_core::{Limiter, Policy, StoreErrorKind, store};
use ratelimit_tests::sentinel::Sentinels;
use ratelimit_tests::server::eventually;

fn limiter(dsn: &str) -> Limiter {
    let policy = Policy::token_bucket(1000, 1.0, 3600.0).expect("a policy");
    Limiter::new(policy, store::open(dsn).expect("a store")).expect("a limiter")
}

fn remaining(limiter: &Limiter) -> u64 {
    limiter.allow("key", 1).expect("a decision").remaining()
}

#[test]
fn the_primary_is_found_with_passwords_on_both_and_one_sentinel_away() {
    let mut sentinels = Sentinels::start_with(Some("data-secret"), Some("watch-secret"));
    let options = "?sentinel_password=watch-secret&timeout=2&connect_timeout=2";
    assert_eq!(remaining(&limiter(&sentinels.dsn(":data-secret@", options))), 999);
    sentinels.stop_sentinel(0);
    let limiter = limiter(&sentinels.dsn(":data-secret@", &format!("{options}&client_name=one-away")));
    assert_eq!(remaining(&limiter), 998);
    assert_eq!(limiter.store().kind().as_str(), "sentinel");
    assert!(limiter.store().ping().is_ok());
}

#[test]
fn a_wrong_password_and_an_unknown_name_are_told() {
    let sentinels = Sentinels::start_with(None, Some("watch-secret"));
    let error = limiter(&sentinels.dsn("", "?sentinel_password=wrong-secret")).allow("key", 1).expect_err("refused");
    assert!(error.to_string().contains("WRONGPASS") && !error.to_string().contains("wrong-secret"), "{error}");
    let dsn = sentinels.dsn("", "?sentinel_password=watch-secret").replace("mymaster", "another");
    let error = limiter(&dsn).allow("key", 1).expect_err("unknown");
    assert!(error.to_string().contains("none of the 3 sentinels names a primary for \"another\""), "{error}");
}

#[test]
fn scripts_go_to_the_primary_and_never_to_a_replica_also_where_they_only_look() {
    let mut sentinels = Sentinels::start();
    let limiter = limiter(&sentinels.dsn("", "?timeout=2&connect_timeout=2&client_name=primary-only"));
    for _ in 0..20 {
        remaining(&limiter);
        limiter.peek("key", 1).expect("a decision");
        limiter.peek("another", 1).expect("a decision");
    }
    let [primary, replica] = sentinels.servers() else { panic!("one primary, one replica") };
    assert_eq!(primary.calls("evalsha"), 60);
    assert_eq!(replica.calls("evalsha") + replica.calls("eval"), 0);
}

#[test]
fn a_failover_is_followed_and_the_second_call_after_it_is_real() {
    let mut sentinels = Sentinels::start();
    let limiter = limiter(&sentinels.dsn("", "?timeout=0.3&connect_timeout=0.3"));
    assert_eq!([(); 3].map(|()| remaining(&limiter)), [999, 998, 997]);
    redis::cmd("WAIT").arg(1).arg(2000).exec(&mut sentinels.servers()[0].connection()).expect("WAIT");
    sentinels.servers()[0].stop();
    for _ in 0..3 {
        let started = Instant::now();
        let error = limiter.allow("key", 1).expect_err("no primary");
        assert!(
            matches!(
                error.store_kind(),
                Some(StoreErrorKind::Refused | StoreErrorKind::Closed | StoreErrorKind::Readonly)
            ),
            "{error}"
        );
        assert!(started.elapsed() < Duration::from_millis(900), "{:?}", started.elapsed());
    }
    eventually("the failover", || sentinels.servers()[1].is_primary());
    // The sentinels name the new primary as soon as the first of them has seen it; until then there is none.
    eventually("the news", || limiter.peek("key", 1).is_ok());
    assert_eq!(remaining(&limiter), 996);

    // The old one comes back as a replica; nobody asks it.
    sentinels.servers()[0].restart();
    assert_eq!(remaining(&limiter), 995);
}

#[test]
fn a_primary_that_became_a_replica_is_left_at_once() {
    let mut sentinels = Sentinels::start();
    let limiter = limiter(&sentinels.dsn("", "?timeout=2&connect_timeout=2"));
    assert_eq!(remaining(&limiter), 999);
    let mut sentinel = redis::Client::open(format!("redis://127.0.0.1:{}", sentinels.sentinel_port(0)))
        .and_then(|client| client.get_connection())
        .expect("a sentinel");
    eventually("the order to fail over", || {
        redis::cmd("SENTINEL").arg("FAILOVER").arg("mymaster").exec(&mut sentinel).is_ok()
    });
    let new = sentinels.servers()[1].port();
    eventually("the failover", || {
        let (_, port): (String, u16) = redis::cmd("SENTINEL")
            .arg("GET-MASTER-ADDR-BY-NAME")
            .arg("mymaster")
            .query(&mut sentinel)
            .expect("an address");
        port == new
    });
    let answers = [(); 2].map(|()| limiter.allow("key", 1).map(|decision| decision.remaining()));
    assert!(answers[1].is_ok(), "{answers:?}");
}
