use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ratelimit_core::{Call, FailureRule, Limiter, ManualClock, Policy, Source, StoreErrorKind, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::server::free_port;
use ratelimit_tests::wire::{Fate, Wire};

const TIMEOUTS: &str = "?timeout=0.1&connect_timeout=0.1";

fn limiter(dsn: &str, rule: FailureRule) -> Limiter {
    let policy = Policy::token_bucket(10, 1.0, 3600.0).expect("a policy");
    let store = store::open(dsn).expect("a store");
    Limiter::builder(policy).store(store).on_error(rule).build().expect("a limiter")
}

#[test]
fn a_listener_that_never_answers_gets_the_rules_answer_in_time() {
    let wire = Wire::start(None, |_| Fate::Silence);
    for (rule, allowed, source) in
        [(FailureRule::Open, true, Source::FailOpen), (FailureRule::Closed, false, Source::FailClosed)]
    {
        let limiter = limiter(&wire.dsn(TIMEOUTS), rule);
        for _ in 0..3 {
            let started = Instant::now();
            let decision = limiter.allow("key", 1).expect("the rule answers");
            assert!(started.elapsed() < Duration::from_millis(300), "{:?}", started.elapsed());
            assert_eq!((decision.allowed(), decision.source(), decision.degraded()), (allowed, source, true));
            assert_eq!(decision.retry_after().is_some_and(|wait| wait.is_zero()), allowed, "a denial never says 0");
        }
    }
}

/// What makes a server silent, and what makes it speak again.
type Silence<'a> = (&'a str, &'a dyn Fn(), &'a dyn Fn());

#[test]
fn while_a_server_is_silent_ten_calls_get_the_rules_answer_in_time_and_the_second_call_after_that_is_real() {
    let server = RedisServer::start();
    // Connected before: a new connection would be paused with all others.
    let control = RefCell::new(server.connection());
    let client = |words: &[&str]| redis::cmd("CLIENT").arg(words).exec(&mut *control.borrow_mut()).expect("CLIENT");
    let silences: [Silence<'_>; 2] = [
        ("stopped", &|| server.signal("STOP"), &|| server.signal("CONT")),
        // Whoever asks to go on is paused itself, so this waits for the rest of the three seconds.
        ("paused", &|| client(&["PAUSE", "3000", "ALL"]), &|| client(&["UNPAUSE"])),
    ];
    for (name, begin, end) in silences {
        for (rule, allowed) in [(FailureRule::Open, true), (FailureRule::Closed, false)] {
            let store = store::open(&format!("{}{TIMEOUTS}&client_name={name}-{rule:?}", server.dsn()));
            let policy = Policy::token_bucket(1_000, 1.0, 3600.0).expect("a policy");
            let builder = Limiter::builder(policy).store(store.expect("a store")).on_error(rule);
            let limiter = builder.build().expect("a limiter");
            assert_eq!(limiter.allow("key", 1).expect("a decision").source(), Source::Store);
            begin();
            for _ in 0..10 {
                let started = Instant::now();
                let decision = limiter.allow("key", 1).expect("the rule answers");
                assert!(started.elapsed() < Duration::from_millis(300), "{name}: {:?}", started.elapsed());
                assert_eq!((decision.allowed(), decision.degraded()), (allowed, true), "{name}");
            }
            end();
            let () = redis::cmd("PING").exec(&mut server.connection()).expect("a server that answers");
            limiter.allow("key", 1).expect("an answer");
            for _ in 0..10 {
                assert_eq!(limiter.allow("key", 1).expect("a decision").source(), Source::Store, "{name}");
            }
        }
    }
}

#[test]
fn once_the_server_is_back_the_answers_are_its_own() {
    let mut server = RedisServer::start();
    let limiter = limiter(&format!("{}{TIMEOUTS}", server.dsn()), FailureRule::Open);
    assert_eq!(limiter.allow("key", 1).expect("a decision").source(), Source::Store);
    server.stop();
    assert_eq!(limiter.allow("key", 1).expect("a decision").source(), Source::FailOpen);
    server.restart();
    let decision = limiter.allow("key", 1).expect("a decision");
    assert_eq!((decision.source(), decision.remaining(), decision.degraded()), (Source::Store, 9, false));
}

#[test]
fn the_local_rule_enforces_a_share_of_the_limit() {
    let dsn = format!("redis://127.0.0.1:{}", free_port());
    let limiter = Limiter::builder(Policy::token_bucket(10, 1.0, 10.0).expect("a policy"))
        .store(store::open(&dsn).expect("a store"))
        .on_error(FailureRule::Local)
        .share(4)
        .clock(Arc::new(ManualClock::new(1_700_000_000.0)))
        .build()
        .expect("a limiter");
    let decisions = [(); 4].map(|()| limiter.allow("local-share", 1).expect("a decision"));
    assert_eq!(decisions.each_ref().map(ratelimit_core::Decision::allowed), [true, true, false, false]);
    assert!(decisions.iter().all(|d| d.source() == Source::Local && d.degraded() && d.limit() == 2));
    // A quarter of one token in ten seconds is a token in forty.
    assert_eq!(decisions[2].retry_after(), Some(Duration::from_secs(40)));
}

#[test]
fn a_refund_breaks_nobody_who_has_chosen_open_or_closed() {
    let dsn = format!("redis://127.0.0.1:{}", free_port());
    for rule in [FailureRule::Open, FailureRule::Closed] {
        limiter(&dsn, rule).refund("key", 1).expect("it is dropped");
    }
    let error = limiter(&dsn, FailureRule::Throw).refund("key", 1).expect_err("no server");
    assert_eq!(error.store_kind(), Some(StoreErrorKind::Refused));
}

#[test]
fn wrong_arguments_and_the_throw_rule_stay_errors() {
    let dsn = format!("redis://127.0.0.1:{}", free_port());
    assert!(limiter(&dsn, FailureRule::Open).allow("key", 0).is_err(), "a wrong cost is nobody's failure");
    let error = limiter(&dsn, FailureRule::Throw).allow("key", 1).expect_err("no server");
    assert_eq!(error.store_kind(), Some(StoreErrorKind::Refused));
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
    assert!(!error.to_string().contains("key"), "{error}");
}

#[test]
fn a_call_may_have_a_rule_of_its_own_while_the_server_is_stopped() {
    let mut server = RedisServer::start();
    let limiter = limiter(&format!("{}?timeout=5&connect_timeout=5", server.dsn()), FailureRule::Throw);
    let asked = |rule| limiter.decide(Call::allow("own-rule", 1).on_error(rule));
    // As long as the server answers there is nothing to rule.
    assert_eq!(asked(FailureRule::Closed).expect("a decision").source(), Source::Store);
    server.stop();
    assert!(limiter.allow("own-rule", 1).is_err());
    assert!(asked(FailureRule::Throw).is_err());
    for (rule, allowed, source) in [
        (FailureRule::Open, true, Source::FailOpen),
        (FailureRule::Closed, false, Source::FailClosed),
        (FailureRule::Local, true, Source::Local),
    ] {
        let decision = asked(rule).expect("the rule answers");
        assert_eq!((decision.allowed(), decision.source(), decision.degraded()), (allowed, source, true));
        let many = limiter.decide_many(&[Call::allow("own-rule-many", 1).on_error(rule), Call::peek("own-rule", 1)]);
        let many = many.expect("arguments");
        assert_eq!(many[0].as_ref().map(ratelimit_core::Decision::source), Ok(source));
        assert!(many[1].is_err(), "each call has the rule it was given");
    }
    limiter.decide(Call::refund("own-rule", 1).on_error(FailureRule::Open)).expect("it is dropped");
    let strict = Limiter::builder(Policy::token_bucket(10, 1.0, 3600.0).expect("a policy"));
    let strict = strict.store(store::open(&format!("{}?timeout=5&connect_timeout=5", server.dsn())).expect("a store"));
    let strict = strict.on_error(FailureRule::Open).build().expect("a limiter");
    assert!(strict.decide(Call::allow("own-rule", 1).on_error(FailureRule::Throw)).is_err());
}

#[test]
fn the_local_rule_of_one_call_spends_the_share_that_the_limiter_was_given() {
    let dsn = format!("redis://127.0.0.1:{}", free_port());
    let limiter = Limiter::builder(Policy::token_bucket(9, 1.0, 3600.0).expect("a policy"))
        .store(store::open(&dsn).expect("a store"))
        .share(4)
        .clock(Arc::new(ManualClock::new(1_700_000_000.0)))
        .build()
        .expect("a limiter");
    let call = Call::allow("local-once", 1).on_error(FailureRule::Local);
    let decisions = [(); 3].map(|()| limiter.decide(call).expect("a decision"));
    assert_eq!(decisions.each_ref().map(ratelimit_core::Decision::allowed), [true, true, false]);
    assert!(decisions.iter().all(|decision| decision.limit() == 2 && decision.source() == Source::Local));
}

#[test]
fn a_wait_goes_by_the_rule_of_its_call() {
    let dsn = format!("redis://127.0.0.1:{}", free_port());
    let limiter = limiter(&dsn, FailureRule::Throw);
    let decision = limiter.wait_for(Call::allow("key", 1).on_error(FailureRule::Open), 1_000).expect("it passes");
    assert_eq!(decision.source(), Source::FailOpen);
    assert!(limiter.wait("key", 1, 1_000).is_err());
}
