use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use proptest::prelude::*;
use ratelimit_core::store::{self, Store};
use ratelimit_core::{Call, Decision, ErrorKind, FailureRule, Keys, Limiter, ManualClock, Policy, Source, aio};
use ratelimit_tests::RedisServer;
use ratelimit_tests::cluster::Cluster;
use ratelimit_tests::histories::policies;
use ratelimit_tests::random::check;
use ratelimit_tests::server::free_port;
use ratelimit_tests::shared::nameless_store;
use ratelimit_tests::vectors::EPOCH_US;

const OLD: &[&str] = &["the old secret"];
const BOTH: &[&str] = &["the new secret", "the old secret"];
const NEW: &[&str] = &["the new secret"];

const TIMEOUTS: &str = "?timeout=5&connect_timeout=5";

fn of_policies(policies: Vec<Policy>, store: &Arc<dyn Store>, secrets: &[&str]) -> Limiter {
    let secrets: Vec<&[u8]> = secrets.iter().map(|secret| secret.as_bytes()).collect();
    let builder = Limiter::builder(policies).store(store.clone()).hash_keys(true).secrets(secrets);
    builder.build().expect("a limiter")
}

/// Limiters of processes before, during and after an overlap.
fn generations(policy: &Policy, store: &Arc<dyn Store>) -> [Limiter; 3] {
    [OLD, BOTH, NEW].map(|secrets| of_policies(vec![policy.clone()], store, secrets))
}

fn bucket(capacity: i64) -> Policy {
    Policy::token_bucket(capacity, 1.0, 3600.0).expect("a policy")
}

/// Runs a test on every kind of store.
fn on_every_store(test: impl Fn(&Arc<dyn Store>, &str)) {
    let (server, cluster) = (RedisServer::start(), Cluster::start(3));
    let open = |dsn: &str| store::open(dsn).expect("a store");
    test(&store::memory(1_000).expect("a store"), "memory");
    test(&nameless_store(), "shared");
    test(&open(&format!("{}{TIMEOUTS}", server.dsn())), "redis");
    test(&open(&cluster.dsn(TIMEOUTS)), "cluster");
}

fn left(limiter: &Limiter, key: &str) -> u64 {
    limiter.peek(key, 1).expect("a decision").remaining()
}

fn passes(limiter: &Limiter, key: &str, cost: i64) -> bool {
    limiter.allow(key, cost).expect("a decision").allowed()
}

#[test]
fn processes_with_the_old_secret_and_with_both_share_one_limit_and_so_do_both_and_new() {
    on_every_store(|store, name| {
        let [old, both, new] = generations(&bucket(6), store);
        for (one, other, key) in [(&old, &both, "first"), (&both, &old, "second"), (&both, &new, "third")] {
            assert!(passes(one, key, 2) && passes(other, key, 2) && passes(one, key, 1), "{name}, {key}");
            assert!(!passes(one, key, 2) && !passes(other, key, 2), "{name}, {key}");
            assert_eq!((left(one, key), left(other, key)), (1, 1), "{name}, {key}: denied means unchanged");
            assert!(passes(other, key, 1) && !passes(one, key, 1) && !passes(other, key, 1), "{name}, {key}");
        }
    });
}

#[test]
fn the_count_that_refuses_rules_whichever_secret_it_is_under_and_the_other_is_as_before() {
    on_every_store(|store, name| {
        let [old, both, new] = generations(&bucket(5), store);
        for (used_up, other, key) in [(&old, &new, "by the old"), (&new, &old, "by the new")] {
            assert!(passes(used_up, key, 4), "{name}");
            let refusal = both.allow(key, 2).expect("a decision");
            let known = used_up.peek(key, 2).expect("a decision");
            assert_eq!((refusal.allowed(), refusal.remaining(), refusal.limit()), (false, 1, 5), "{name}, {key}");
            assert!(refusal.retry_after_us() >= known.retry_after_us(), "{name}, {key}: the wait is enough");
            assert_eq!(refusal.each().len(), 1, "one entry per policy");
            assert_eq!(left(other, key), 5, "{name}, {key}: nothing is taken");
            assert!(passes(&both, key, 1) && !passes(&both, key, 1), "{name}, {key}");
            assert_eq!((left(used_up, key), left(other, key)), (0, 4), "{name}, {key}");
        }
    });
}

#[test]
fn after_the_overlap_the_old_secret_is_forgotten() {
    on_every_store(|store, name| {
        let clock = Arc::new(ManualClock::new(1_700_000_000.0));
        let [old, both, new] = [OLD, BOTH, NEW].map(|secrets| {
            let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_bytes()).collect();
            let policy = Policy::fixed_window(5, 60.0).expect("a policy");
            let builder = Limiter::builder(policy).store(store.clone()).hash_keys(true).secrets(secrets);
            builder.clock(clock.clone()).build().expect("a limiter")
        });
        assert!(passes(&old, "key", 4) && passes(&both, "key", 1), "{name}");
        assert_eq!((left(&both, "key"), left(&new, "key")), (0, 4), "{name}: only one of five is known to the new");
        // A window in which everybody has had both.
        clock.advance(60.0);
        assert!(passes(&both, "key", 3), "{name}");
        assert_eq!(left(&new, "key"), 2, "{name}: whoever has only the new one misses nothing");
        assert!(passes(&new, "key", 2) && !passes(&both, "key", 1), "{name}");
        assert_eq!(left(&old, "key"), 2, "{name}: and no longer charges the old one");
    });
}

#[test]
fn refunds_and_resets_concern_the_keys_under_all_secrets() {
    on_every_store(|store, name| {
        let [old, both, new] = generations(&bucket(5), store);
        assert!(passes(&both, "key", 4), "{name}");
        both.refund("key", 3).expect("a refund");
        assert_eq!([&old, &both, &new].map(|it| left(it, "key")), [4, 4, 4], "{name}");
        both.reset("key").expect("a reset");
        assert_eq!([&old, &both, &new].map(|it| left(it, "key")), [5, 5, 5], "{name}");
    });
}

#[test]
fn a_reservation_starts_when_the_later_of_the_two_counts_says() {
    on_every_store(|store, name| {
        let policy = Policy::leaky_bucket(10, 1.0).expect("a policy");
        let at = |limiter: &Limiter, max_wait_us| {
            limiter.decide(Call::reserve("key", 1, max_wait_us).at_us(EPOCH_US)).expect("a decision")
        };
        let [old, both, new] = generations(&policy, store);
        assert_eq!(at(&old, u64::MAX).delay_us(), 0, "{name}");
        assert_eq!(at(&old, u64::MAX).delay_us(), 1_000_000, "{name}");
        assert_eq!(at(&both, u64::MAX).delay_us(), 2_000_000, "{name}: two are before it under the old secret");
        assert_eq!(at(&new, u64::MAX).delay_us(), 1_000_000, "{name}: and one is under the new one");
        let refused = at(&both, 2_000_000);
        assert!(!refused.allowed() && refused.delay_us() == 0, "{name}: it would start after three seconds");
        assert_eq!(at(&old, u64::MAX).delay_us(), 3_000_000, "{name}: what was refused stands in no queue");
        assert_eq!(at(&new, u64::MAX).delay_us(), 2_000_000, "{name}: nor in the other");
    });
}

#[test]
fn a_token_is_known_to_whoever_has_one_of_its_secrets() {
    on_every_store(|store, name| {
        let [old, both, new] = generations(&bucket(9), store);
        let once = |limiter: &Limiter, key: &str| {
            limiter.decide(Call::allow(key, 2).token(b"a token")).expect("a decision").remaining()
        };
        assert_eq!([&old, &both, &old, &both].map(|it| once(it, "first")), [7; 4], "{name}");
        assert_eq!([&both, &old, &both].map(|it| once(it, "second")), [7; 3], "{name}");
        assert_eq!([&both, &new, &both].map(|it| once(it, "third")), [7; 3], "{name}");
        let refund = |limiter: &Limiter| {
            limiter.decide(Call::refund("second", 2).token(b"a token")).expect("a refund");
        };
        assert!(passes(&both, "second", 5), "{name}");
        [&old, &both, &both, &old].into_iter().for_each(refund);
        assert_eq!([&old, &both, &new].map(|it| left(it, "second")), [4; 3], "{name}: given back once");
        // What was refused is not remembered, under neither secret.
        assert!(passes(&new, "fourth", 8), "{name}");
        let refused = both.decide(Call::allow("fourth", 2).token(b"another")).expect("a decision");
        assert!(!refused.allowed() && left(&old, "fourth") == 9, "{name}");
        new.refund("fourth", 8).expect("a refund");
        assert!(both.decide(Call::allow("fourth", 2).token(b"another")).expect("a decision").allowed(), "{name}");
        assert_eq!([&old, &new].map(|it| left(it, "fourth")), [7, 7], "{name}");
    });
}

#[test]
fn several_policies_are_charged_all_or_none_under_all_secrets() {
    on_every_store(|store, name| {
        let both_policies = || vec![bucket(3), Policy::sliding_window_log(8, 3600.0).expect("a policy")];
        let [old, both, new] = [OLD, BOTH, NEW].map(|secrets| of_policies(both_policies(), store, secrets));
        let each = |decision: Decision| decision.each().iter().map(Decision::remaining).collect::<Vec<_>>();
        let look = |limiter: &Limiter| each(limiter.peek("key", 1).expect("a decision"));
        assert_eq!(each(both.allow("key", 2).expect("a decision")), [1, 6], "{name}");
        assert_eq!(each(old.allow("key", 1).expect("a decision")), [0, 5], "{name}");
        let refused = both.allow("key", 1).expect("a decision");
        assert_eq!((refused.allowed(), refused.policy(), each(refused)), (false, 0, vec![0, 5]), "{name}");
        assert_eq!([&old, &both, &new].map(look), [vec![0, 5], vec![0, 5], vec![1, 6]], "{name}");
    });
}

#[test]
fn a_key_that_is_stored_as_it_is_has_one_count_whatever_the_secrets() {
    let store = store::memory(1_000).expect("a store");
    let named = |name| bucket(5).named(name).expect("a policy");
    let limiter = |secrets: &[&str]| {
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_bytes()).collect();
        let builder = Limiter::builder(vec![named("plain"), named("hashed")]).store(store.clone()).secrets(secrets);
        builder.build().expect("a limiter")
    };
    let pairs: &[(&str, &[u8])] = &[("plain", b"user:42"), ("hashed", b"has spaces")];
    let remaining = |limiter: &Limiter, token: &[u8]| -> Vec<u64> {
        let decision = limiter.decide(Call::allow(Keys::Each(pairs), 1).token(token)).expect("a decision");
        decision.each().iter().map(Decision::remaining).collect()
    };
    let [old, both, new] = [OLD, BOTH, NEW].map(limiter);
    let calls = [&both, &old, &both].map(|it| it.decide(Call::allow(Keys::Each(pairs), 1)).expect("a decision"));
    let numbers = calls.map(|decision| decision.each().iter().map(Decision::remaining).collect::<Vec<_>>());
    assert_eq!(numbers, [[4, 4], [3, 3], [2, 2]]);
    assert_eq!(remaining(&both, b"token"), [1, 1]);
    assert_eq!(remaining(&new, b"other"), [0, 1]);
}

#[test]
fn batches_and_awaited_calls_decide_the_same() {
    on_every_store(|store, name| {
        let [old, both, _] = generations(&bucket(4), store);
        let calls = [Call::allow("a", 3), Call::allow("b", 1), Call::allow("a", 2), Call::allow("a", 1)];
        let remaining = |outcomes: Vec<ratelimit_core::Result<Decision>>| -> Vec<(bool, u64)> {
            outcomes.into_iter().flatten().map(|decision| (decision.allowed(), decision.remaining())).collect()
        };
        let expected = [(true, 1), (true, 3), (false, 1), (true, 0)];
        assert_eq!(remaining(both.decide_many(&calls).expect("valid calls")), expected, "{name}");
        assert_eq!((left(&old, "a"), left(&old, "b")), (0, 3), "{name}");
        both.reset("a").and_then(|()| both.reset("b")).expect("a reset");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let both = aio::Limiter::new(both);
            assert_eq!(remaining(both.decide_many(&calls).await.expect("valid calls")), expected, "{name}");
            both.reset("a").await.expect("a reset");
            assert!(old.allow("a", 3).expect("a decision").allowed());
            assert!(!both.allow("a", 2).await.expect("a decision").allowed(), "{name}");
            for _ in 0..2 {
                let call = Call::allow("a", 1).token(b"token");
                assert!(both.decide(call).await.expect("a decision").allowed(), "{name}");
            }
            assert_eq!(left(&old, "a"), 0, "{name}");
            both.refund("a", 1).await.expect("a refund");
            assert_eq!(left(&old, "a"), 1, "{name}");
        });
    });
}

#[test]
fn what_is_used_up_under_both_is_refused_without_asking_the_server() {
    let server = RedisServer::start();
    let store = store::open(&format!("{}{TIMEOUTS}", server.dsn())).expect("a store");
    let [_, both, _] = generations(&bucket(2), &store);
    assert!(passes(&both, "key", 2));
    assert!(!passes(&both, "key", 1));
    let before = server.calls("evalsha");
    let refused = both.allow("key", 1).expect("a decision");
    assert_eq!((refused.allowed(), refused.source()), (false, Source::DenyCache));
    assert_eq!(server.calls("evalsha"), before);
    both.refund("key", 1).expect("a refund");
    assert!(passes(&both, "key", 1), "what was given back can be had at once");
}

#[test]
fn while_the_server_is_away_the_share_is_one_for_both_secrets() {
    let away = store::open(&format!("redis://127.0.0.1:{}", free_port())).expect("a store");
    let [old, both] = [OLD, BOTH].map(|secrets| {
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_bytes()).collect();
        let builder = Limiter::builder(bucket(8).named("rotated share").expect("a policy")).store(away.clone());
        builder.hash_keys(true).secrets(secrets).on_error(FailureRule::Local).share(2).build().expect("a limiter")
    });
    let key = format!("key-{}", std::process::id());
    let [first, second] = [&both, &old].map(|limiter| limiter.allow(&key, 2).expect("a decision"));
    assert_eq!((first.source(), first.limit(), first.remaining()), (Source::Local, 4, 2));
    assert_eq!(second.remaining(), 0);
    assert!(!passes(&both, &key, 1));
}

#[test]
fn nothing_raw_reaches_a_server_a_log_or_a_message() {
    let server = RedisServer::start();
    let mut monitor = TcpStream::connect(("127.0.0.1", server.port())).expect("a connection");
    monitor.write_all(b"MONITOR\r\n").expect("a command");
    let mut heard = BufReader::new(monitor);
    heard.read_line(&mut String::new()).expect("a consent");
    let store = store::open(&format!("{}{TIMEOUTS}", server.dsn())).expect("a store");
    let (secrets, key) = (["hunter-two", "hunter-one"], "alice@example.org");
    let limiter = of_policies(vec![bucket(5)], &store, &secrets);
    limiter.allow(key, 1).expect("a decision");
    limiter.decide(Call::allow(key, 1).token(b"token of alice")).expect("a decision");
    limiter.allow_many(&[(key, 1)]).expect("valid calls");
    limiter.peek(key, 1).expect("a decision");
    limiter.refund(key, 1).expect("a refund");
    limiter.reset(key).expect("a reset");
    redis::cmd("ECHO").arg("the end").exec(&mut server.connection()).expect("ECHO");
    let lines: Vec<String> = heard.lines().map_while(Result::ok).take_while(|line| !line.contains("the end")).collect();
    assert!(lines.iter().any(|line| line.contains("rl:tb:default:{#")), "{lines:?}");
    let builder = Limiter::builder(bucket(5)).secrets(secrets);
    let error = Limiter::builder(bucket(5)).store(store.clone()).secrets(["hunter-one", "hunter-one"]).build();
    let texts = [format!("{limiter:?} {builder:?}"), format!("{:?}", error.as_ref().expect_err("twice the same"))];
    for text in lines.iter().chain(&texts) {
        assert!(!text.contains("hunter") && !text.contains("alice"), "{text}");
    }
}

#[test]
fn secrets_that_are_none_are_refused_with_a_sentence() {
    let build = |secrets: &[&[u8]]| {
        let store = store::memory(10).expect("a store");
        let built = Limiter::builder(bucket(5)).store(store).secrets(secrets.iter().copied()).build();
        let error = built.expect_err("a wrong list");
        assert_eq!((error.kind(), error.argument()), (ErrorKind::InvalidArgument, Some("secret")));
        error.to_string()
    };
    assert_eq!(build(&[]), "secret must be 1 to 4 secrets, got 0");
    assert_eq!(build(&[b"a", b"b", b"c", b"d", b"e"]), "secret must be 1 to 4 secrets, got 5");
    assert_eq!(build(&[b""]), "secret must not be empty");
    assert_eq!(build(&[b"a", b""]), "secret must not have an empty one, got one at index 1");
    assert_eq!(build(&[b"a", b"b", b"a"]), "secret must not have one secret twice, got the one at index 0 again");
    // To the hash a zero byte at the end is no difference.
    assert_eq!(build(&[b"a", b"a\0"]), "secret must not have one secret twice, got the one at index 0 again");
}

/// What a process does, and how much later than the one before: in parts per thousand of a window.
#[derive(Debug, Clone)]
struct Step {
    pause: u64,
    cost: i64,
    gives_back: bool,
    has_both: bool,
}

#[test]
fn in_no_phase_of_an_overlap_more_passes_than_by_one_secret() {
    let server = RedisServer::start();
    let on_redis = store::open(&format!("{}{TIMEOUTS}", server.dsn())).expect("a store");
    let number = std::cell::Cell::new(0_u64);
    let step = (0..400_u64, 1..4_i64, prop::bool::weighted(0.1), any::<bool>());
    let step = step.prop_map(|(pause, cost, gives_back, has_both)| Step { pause, cost, gives_back, has_both });
    let histories = (policies(), prop::collection::vec(step, 30..60));
    check(300, &histories, |(policy, steps)| {
        number.set(number.get() + 1);
        let key = format!("history-{}", number.get());
        let reference = Limiter::new(policy.clone(), store::memory(10).expect("a store")).expect("a limiter");
        for store in [store::memory(100).expect("a store"), on_redis.clone()] {
            reference.reset(&key).expect("a reset");
            let [old, both, _] = generations(&policy, &store);
            let mut now_us = EPOCH_US;
            for step in &steps {
                now_us += policy.window_us().min(1 << 40) / 1000 * step.pause;
                let limiter = if step.has_both { &both } else { &old };
                if step.gives_back {
                    for limiter in [limiter, &reference] {
                        limiter.decide(Call::refund(&key, step.cost).at_us(now_us)).expect("a refund");
                    }
                    continue;
                }
                let decision = limiter.decide(Call::allow(&key, step.cost).at_us(now_us)).expect("a decision");
                let look = reference.decide(Call::peek(&key, step.cost).at_us(now_us)).expect("a decision");
                prop_assert!(decision.remaining() <= look.remaining());
                if decision.allowed() {
                    prop_assert!(look.allowed(), "at {} by {:?}", now_us, step);
                    reference.decide(Call::allow(&key, step.cost).at_us(now_us)).expect("a decision");
                } else if !step.has_both {
                    prop_assert!(!look.allowed(), "the old count is the whole count");
                }
            }
        }
        Ok(())
    });
}

#[test]
fn units_leased_to_a_host_count_under_the_secret_that_its_processes_have() {
    let server = RedisServer::start();
    let store = store::open(&format!("{}{TIMEOUTS}", server.dsn())).expect("a store");
    let pools = store::memory(100).expect("a store");
    let [old, both, new] = [OLD, BOTH, NEW].map(|secrets| {
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_bytes()).collect();
        let policy = Policy::fixed_window(100, 3600.0).expect("a policy");
        let builder = Limiter::builder(policy).store(store.clone()).hash_keys(true).secrets(secrets);
        builder.lease(10).lease_store(pools.clone()).build().expect("a limiter")
    });
    for (one, other, key) in [(&old, &both, "first"), (&both, &new, "second")] {
        let passed = (0..300).filter(|call| passes([one, other][call % 2], key, 1)).count();
        assert_eq!(passed, 100, "{key}");
    }
}
