use ratelimit_core::{Decision, FailureRule, Limiter, Policy, metrics, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::server::free_port;

/// The value of a line of the text, which begins with these words.
fn value(text: &str, beginning: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(beginning).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()).map_or(0.0, |number| number.parse().expect("a number"))
}

fn policy(name: &str) -> Policy {
    Policy::token_bucket(3, 1.0, 3600.0).and_then(|policy| policy.named(name)).expect("a policy")
}

#[test]
fn what_is_counted_is_what_the_caller_saw() {
    let server = RedisServer::start();
    let store = store::open(&server.dsn()).expect("a store");
    let limiter = Limiter::new(policy("metrics-seen"), store).expect("a limiter");
    let decisions: Vec<Decision> = (0..10).map(|_| limiter.allow("key", 1).expect("a decision")).collect();
    limiter.peek("key", 1).expect("a decision");
    limiter.refund("key", 1).expect("a refund");
    let mut decisions = decisions;
    for outcome in limiter.allow_many(&[("key", 1), ("other", 2)]).expect("valid calls") {
        decisions.push(outcome.expect("a decision"));
    }
    let text = metrics::text();
    for source in ["store", "deny_cache"] {
        for (name, allowed) in [("rate_limiter_allowed_total", true), ("rate_limiter_denied_total", false)] {
            let seen = decisions.iter().filter(|it| it.source().as_str() == source && it.allowed() == allowed).count();
            let line = format!("{name}{{policy=\"metrics-seen\",source=\"{source}\"}}");
            assert!((value(&text, &line) - f64::from(u32::try_from(seen).expect("few"))).abs() < 0.5, "{line}\n{text}");
        }
    }
    assert!(value(&text, "rate_limiter_latency_seconds_count") >= 3.0, "{text}");
    assert!(value(&text, "rate_limiter_redis_idle_connections") >= 1.0, "{text}");
}

#[test]
fn answers_by_the_failure_rule_are_counted_as_such_and_errors_by_their_kind() {
    let nobody = format!("redis://127.0.0.1:{}", free_port());
    let limiter = |name: &str, rule| {
        let store = store::open(&nobody).expect("a store");
        Limiter::builder(policy(name)).store(store).on_error(rule).build().expect("a limiter")
    };
    let refused = |text: &str| value(text, "rate_limiter_redis_errors_total{kind=\"refused\"}");
    let before = metrics::text();
    let open = limiter("metrics-open", FailureRule::Open);
    for _ in 0..4 {
        assert!(open.allow("key", 1).expect("the rule's answer").degraded());
    }
    open.refund("key", 1).expect("a refund that is dropped");
    let closed = limiter("metrics-closed", FailureRule::Closed);
    assert!(closed.allow("key", 1).expect("the rule's answer").degraded());
    let local = limiter("metrics-local", FailureRule::Local);
    local.reset("key").expect_err("nobody there");
    let key = format!("key of {}", std::process::id());
    for _ in 0..5 {
        local.allow(&key, 1).expect("the rule's answer");
    }
    let thrown = limiter("metrics-throw", FailureRule::Throw);
    thrown.allow("key", 1).expect_err("nobody there");

    let text = metrics::text();
    assert!((value(&text, "rate_limiter_fail_open_total{policy=\"metrics-open\"}") - 4.0).abs() < 0.5, "{text}");
    assert!((value(&text, "rate_limiter_fallback_total{policy=\"metrics-local\"}") - 5.0).abs() < 0.5, "{text}");
    let closed = "rate_limiter_denied_total{policy=\"metrics-closed\",source=\"fail_closed\"}";
    assert!((value(&text, closed) - 1.0).abs() < 0.5, "{text}");
    // Others run at the same time; a reset is no call of a limit.
    assert!(refused(&text) - refused(&before) >= 12.0, "{text}");
    assert!(value(&text, "rate_limiter_dropped_refunds_total") >= 1.0, "{text}");
    assert!(!text.contains("metrics-throw"), "an error is no decision");
    assert!(!text.contains(&key), "no key");
}
