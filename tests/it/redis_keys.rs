use ratelimit_core::{Call, ErrorKind, Limiter, Policy, StoreErrorKind, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::vectors::EPOCH_US;

fn limiter(server: &RedisServer, policy: Policy) -> Limiter {
    Limiter::new(policy, store::open(&server.dsn()).expect("a store")).expect("a limiter")
}

fn keys(server: &RedisServer) -> Vec<String> {
    redis::cmd("KEYS").arg("*").query(&mut server.connection()).expect("KEYS")
}

fn ttl_ms(server: &RedisServer, key: &str) -> i64 {
    redis::cmd("PTTL").arg(key).query(&mut server.connection()).expect("PTTL")
}

#[test]
fn a_key_reads_as_prefix_algorithm_name_and_the_users_key() {
    let server = RedisServer::start();
    limiter(&server, Policy::token_bucket(5, 1.0, 60.0).expect("a policy")).allow("user:42", 1).expect("a decision");
    assert_eq!(keys(&server), ["rl:tb:default:{user:42}"]);

    let store = store::open(&format!("{}?prefix=app:", server.dsn())).expect("a store");
    let policy = Policy::token_bucket(5, 1.0, 60.0).and_then(|policy| policy.named("login form"));
    let limiter = Limiter::builder(policy.expect("a policy")).store(store).hash_keys(true).secret("pepper").build();
    limiter.expect("a limiter").allow("user:42", 1).expect("a decision");
    let hashed = keys(&server).into_iter().find(|key| key.starts_with("app:")).expect("the second key");
    assert!(hashed.starts_with("app:tb:login%20form:{#") && !hashed.contains("user"), "{hashed}");
}

#[test]
fn every_key_expires_soon_after_it_is_whole_again_and_a_denial_does_not_prolong_it() {
    let server = RedisServer::start();
    let limiter = limiter(&server, Policy::token_bucket(5, 1.0, 10.0).expect("a policy"));
    for _ in 0..3 {
        assert!(limiter.allow("key", 1).expect("a decision").allowed());
    }
    let before = ttl_ms(&server, "rl:tb:default:{key}");
    assert!((30_000..=50_000).contains(&before), "{before}");
    for _ in 0..1000 {
        assert!(!limiter.allow("key", 5).expect("a decision").allowed());
    }
    let after = ttl_ms(&server, "rl:tb:default:{key}");
    assert!(after > 0 && after <= before, "{before} then {after}");
    assert_eq!(limiter.peek("key", 1).expect("a decision").remaining(), 2);
}

#[test]
fn a_refused_call_on_a_fresh_key_and_a_reset_leave_no_key() {
    let server = RedisServer::start();
    let limiter = limiter(&server, Policy::token_bucket(5, 1.0, 10.0).expect("a policy"));
    assert_eq!(limiter.allow("key", 6).expect("a decision").retry_after(), None);
    assert_eq!(limiter.peek("key", 1).expect("a decision").remaining(), 5);
    assert!(keys(&server).is_empty());
    limiter.allow("key", 5).expect("a decision");
    assert_eq!(keys(&server).len(), 1);
    limiter.reset("key").expect("a reset");
    assert!(keys(&server).is_empty());
    limiter.reset("key").expect("a reset of nothing");
}

#[test]
fn a_very_high_rate_still_gets_a_key_that_lives() {
    let server = RedisServer::start();
    let limiter = limiter(&server, Policy::token_bucket_continuous(20, 2000.0, 1.0).expect("a policy"));
    let started = std::time::Instant::now();
    let mut passed = 0.0;
    for _ in 0..200 {
        if limiter.allow("key", 1).expect("a decision").allowed() {
            passed += 1.0;
        }
    }
    let bound = 20.0 + (2000.0 * started.elapsed().as_secs_f64()).ceil();
    assert!(passed <= bound, "{passed} passed, {bound} may");
    limiter.allow("other", 1).expect("a decision");
    // A millisecond is the least that a server takes; the key may be gone by now, but never without an expiry.
    assert_ne!(ttl_ms(&server, "rl:tb:default:{other}"), -1);
}

#[test]
fn a_long_wait_is_kept_to_the_microsecond_and_its_expiry_fits() {
    let server = RedisServer::start();
    for (seconds, wait_us) in [(2_160_000.0, 2_160_000_000_000_u64), (2_500_000.001, 2_500_000_001_000)] {
        let limiter = limiter(&server, Policy::token_bucket(1, 1.0, seconds).expect("a policy"));
        limiter.reset("key").expect("a reset");
        assert!(limiter.decide(Call::allow("key", 1).at_us(EPOCH_US + 999)).expect("a decision").allowed());
        let denied = limiter.decide(Call::allow("key", 1).at_us(EPOCH_US + 1000)).expect("a decision");
        assert_eq!(denied.retry_after_us(), wait_us - 1);
        let ttl = u64::try_from(ttl_ms(&server, "rl:tb:default:{key}")).expect("an expiry");
        assert!(ttl > wait_us / 1000 - 1000 && ttl <= wait_us / 1000 + 65_000, "{ttl}");
    }
}

#[test]
fn whatever_else_stands_under_the_key_never_lets_more_pass() {
    let server = RedisServer::start();
    let limiter = limiter(&server, Policy::token_bucket(5, 1.0, 3600.0).expect("a policy"));
    let key = "rl:tb:default:{key}";
    let [nan, infinite, negative, huge] =
        [f64::NAN, f64::INFINITY, -5.0, 9_007_199_254_740_992.0].map(|number| number.to_le_bytes().repeat(5));
    for garbage in [
        b"hello".as_slice(),
        b"",
        b"12345678901234567890123456789012",
        &[b'7'; 40],
        &[0; 40],
        &nan,
        &infinite,
        &negative,
    ] {
        let () = redis::cmd("SET").arg(key).arg(garbage).query(&mut server.connection()).expect("SET");
        let passed = (0..10).filter(|_| limiter.allow("key", 1).expect("a decision").allowed()).count();
        assert!(passed <= 5, "{passed} passed after {garbage:?}");
        assert!(ttl_ms(&server, key) > 0, "the key has an expiry again");
        limiter.reset("key").expect("a reset");
    }
    // Numbers that could be ours: wrong, but never more than a full bucket.
    let () = redis::cmd("SET").arg(key).arg(&huge).query(&mut server.connection()).expect("SET");
    assert!((0..10).filter(|_| limiter.allow("key", 1).expect("a decision").allowed()).count() <= 5);
    limiter.reset("key").expect("a reset");
    for command in ["RPUSH", "SADD"] {
        let () = redis::cmd(command).arg(key).arg("abc").query(&mut server.connection()).expect(command);
        let error = limiter.allow("key", 1).expect_err("another type");
        assert_eq!(error.kind(), ErrorKind::StoreUnavailable(StoreErrorKind::Wrongtype), "{error}");
        assert!(limiter.allow("another", 1).is_ok(), "the connection is still good");
        limiter.reset("key").expect("a reset");
    }
    assert!(limiter.allow("key", 1).expect("a decision").allowed());
}

#[test]
fn names_and_keys_that_join_to_the_same_text_have_budgets_of_their_own() {
    let server = RedisServer::start();
    let named = |name| {
        let policy = Policy::token_bucket(1, 1.0, 3600.0).and_then(|policy| policy.named(name));
        limiter(&server, policy.expect("a policy"))
    };
    assert!(named("a:b").allow("c", 1).expect("a decision").allowed());
    assert!(named("a").allow("b:c", 1).expect("a decision").allowed());
    for key in ["", "}x", "a}b", "{", "{}", "{a}{b}", "192.0.2.10", "#192.0.2.10"] {
        assert!(named("keys").allow(key, 1).expect("a decision").allowed(), "{key:?}");
        assert!(!named("keys").allow(key, 1).expect("a decision").allowed(), "{key:?}");
    }
}
