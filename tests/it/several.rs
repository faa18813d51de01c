use ratelimit_core::store;
use ratelimit_core::{Call, ErrorKind, Keys, Limiter, Policy, StoreErrorKind};
use ratelimit_tests::RedisServer;

fn named(text: &str, name: &str) -> Policy {
    Policy::parse(text).and_then(|policy| policy.named(name)).expect(text)
}

fn three() -> Vec<Policy> {
    vec![named("5/s burst 5", "second"), named("20/m sliding", "minute"), named("100/h log", "hour")]
}

#[test]
fn several_policies_are_one_command() {
    let server = RedisServer::start();
    let limiter = Limiter::new(three(), store::open(&server.dsn()).expect("a store")).expect("a limiter");
    for _ in 0..10 {
        limiter.allow("key", 1).expect("a decision");
    }
    assert_eq!((server.calls("evalsha"), server.calls("eval")), (10, 1));
}

#[test]
fn unnamed_policies_that_differ_in_their_windows_have_budgets_of_their_own() {
    let policies = vec![Policy::fixed_window(3, 60.0), Policy::fixed_window(30, 86_400.0)];
    let policies: Vec<_> = policies.into_iter().map(|policy| policy.expect("a policy")).collect();
    let limiter = Limiter::new(policies, store::memory(1_000).expect("a store")).expect("a limiter");
    let first = limiter.allow("192.0.2.10", 1).expect("a decision");
    assert_eq!(first.each().iter().map(ratelimit_core::Decision::remaining).collect::<Vec<_>>(), [2, 29]);
    let allowed = [(); 3].map(|()| limiter.allow("192.0.2.10", 1).expect("a decision").allowed());
    assert_eq!(allowed, [true, true, false]);
}

#[test]
fn policies_that_would_charge_one_budget_twice_are_refused() {
    let twins = vec![named("10/m", "a"), named("20/m", "a")];
    let error = Limiter::new(twins, store::memory(1_000).expect("a store")).expect_err("one budget");
    assert_eq!((error.kind(), error.argument()), (ErrorKind::InvalidPolicy, Some("policies")));
    let none: Vec<Policy> = Vec::new();
    assert!(Limiter::new(none, store::memory(1_000).expect("a store")).is_err());
}

#[test]
fn a_key_for_each_policy_has_to_name_every_policy_and_no_other() {
    let limiter = Limiter::new(three(), store::memory(1_000).expect("a store")).expect("a limiter");
    let decide = |pairs: &[(&str, &[u8])]| limiter.decide(Call::allow(Keys::Each(pairs), 1));
    assert!(decide(&[("hour", b"a"), ("minute", b"b"), ("second", b"c")]).expect("a decision").allowed());
    for (pairs, word) in [
        (&[("second", &b"a"[..]), ("minute", b"b")][..], "\"hour\""),
        (&[("second", b"a"), ("minute", b"b"), ("hour", b"c"), ("day", b"d")], "\"day\""),
        (&[("second", b"a"), ("minute", b"b"), ("hour", b"c"), ("hour", b"d")], "\"hour\" twice"),
    ] {
        let error = decide(pairs).expect_err(word);
        assert_eq!((error.kind(), error.argument()), (ErrorKind::InvalidArgument, Some("key")));
        assert!(error.to_string().contains(word), "{error}");
    }
    limiter.reset(Keys::Each(&[("hour", b"a"), ("minute", b"b"), ("second", b"c")])).expect("a reset");
}

#[test]
fn on_a_cluster_all_keys_of_a_call_are_in_one_slot_whatever_the_users_key() {
    let server = RedisServer::start_with(&["--cluster-enabled", "yes"]);
    let slots: Vec<u16> = (0..16_384).collect();
    redis::cmd("CLUSTER").arg("ADDSLOTS").arg(slots).exec(&mut server.connection()).expect("the slots");
    let limiter = Limiter::new(three(), store::open(&server.dsn()).expect("a store")).expect("a limiter");
    ratelimit_tests::server::eventually("a cluster", || limiter.peek("ready", 1).is_ok());
    for key in ["u1", "", "}x", "a}b", "{", "{}", "{a}{b}"] {
        for _ in 0..2 {
            assert!(limiter.decide(Call::allow(key, 1).token(b"a token")).expect("one slot").allowed(), "{key:?}");
        }
    }
    let error = limiter.decide(Call::allow(Keys::Each(&[("second", b"a"), ("minute", b"b"), ("hour", b"c")]), 1));
    let error = error.expect_err("three slots");
    assert_eq!(error.store_kind(), Some(StoreErrorKind::Protocol));
    assert!(error.to_string().contains("all policies of a limiter need one key"), "{error}");

    let one = Limiter::new(named("5/s", "one"), store::open(&server.dsn()).expect("a store")).expect("a limiter");
    (0..1000).for_each(|user| drop(one.allow(format!("user:{user}"), 1).expect("a decision")));
    let keys: Vec<String> = redis::cmd("KEYS").arg("rl:fw:one:*").query(&mut server.connection()).expect("KEYS");
    let mut connection = server.connection();
    let slots: std::collections::BTreeSet<u16> = keys
        .iter()
        .map(|key| redis::cmd("CLUSTER").arg("KEYSLOT").arg(key).query(&mut connection).expect("a slot"))
        .collect();
    assert!(keys.len() == 1000 && slots.len() > 900, "{} keys in {} slots", keys.len(), slots.len());
}

#[test]
fn the_failure_rules_speak_for_every_policy() {
    let dsn = format!("redis://127.0.0.1:{}", ratelimit_tests::server::free_port());
    for (rule, allowed) in [("open", true), ("closed", false), ("local", true)] {
        let builder = Limiter::builder(three()).store(store::open(&dsn).expect("a store"));
        let limiter = builder.on_error(rule.parse().expect("a rule")).build().expect("a limiter");
        let decision = limiter.allow(format!("rule {rule}"), 1).expect("the rule answers");
        assert_eq!((decision.allowed(), decision.degraded(), decision.each().len()), (allowed, true, 3), "{rule}");
    }
}
