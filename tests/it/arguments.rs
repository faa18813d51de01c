use ratelimit_core::store;
use ratelimit_core::{ErrorKind, FailureRule, Limiter, Policy};
use ratelimit_tests::RedisServer;

#[test]
fn numbers_that_make_no_bucket_are_refused_with_their_name_and_value() {
    let cases = [
        (Policy::token_bucket(0, 1.0, 1.0), "capacity must be between 1 and 2147483647, got 0"),
        (Policy::token_bucket(-1, 1.0, 1.0), "capacity must be between 1 and 2147483647, got -1"),
        (Policy::token_bucket(1 << 31, 1.0, 1.0), "capacity must be between 1 and 2147483647, got 2147483648"),
        (
            Policy::token_bucket((1 << 53) - 1, 1.0, 1.0),
            "capacity must be between 1 and 2147483647, got 9007199254740991",
        ),
        (
            Policy::token_bucket(i64::MIN, 1.0, 1.0),
            "capacity must be between 1 and 2147483647, got -9223372036854775808",
        ),
    ];
    for (policy, sentence) in cases {
        let error = policy.expect_err(sentence);
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidPolicy, sentence));
    }
    for wrong in [0.0, -0.0, -5.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, f64::MIN_POSITIVE] {
        for (argument, policy) in [
            ("refill_rate", Policy::token_bucket(10, wrong, 1.0)),
            ("refill_rate", Policy::token_bucket_continuous(10, wrong, 1.0)),
            ("refill_interval", Policy::token_bucket(10, 1.0, wrong)),
            ("refill_interval", Policy::token_bucket_continuous(10, 1.0, wrong)),
        ] {
            let error = policy.expect_err(argument);
            assert_eq!((error.kind(), error.argument()), (ErrorKind::InvalidPolicy, Some(argument)));
            assert!(error.to_string().ends_with(&format!("got {wrong}")), "{error}");
        }
    }
}

#[test]
fn numbers_that_cannot_be_counted_exactly_together_are_all_named() {
    // 2^31 - 1 tokens at one a year would take longer to fill than instants reach.
    let error = Policy::token_bucket(i64::from(i32::MAX), 1.0, 31_536_000.0).expect_err("too slow");
    for number in ["2147483647 tokens", "refill_rate", "1 every 31536000 s"] {
        assert!(error.to_string().contains(number), "{error}");
    }
    assert!(Policy::token_bucket(1, 1.0, 0.000_000_4).is_err(), "an interval below a microsecond");
    assert!(Policy::fixed_window(1, 0.000_4).is_err(), "a window below a millisecond");
    assert!(Policy::gcra(10, 0.000_4, None).is_ok(), "a period may be as short as one likes");
}

#[test]
fn names_are_short_and_printable() {
    let policy = Policy::token_bucket(1, 1.0, 1.0).expect("a policy");
    assert_eq!(policy.name(), "default");
    assert_eq!(policy.named("per client").expect("a name").name(), "per client");
    for name in ["", "a\nb", "größe", &"x".repeat(101)] {
        assert_eq!(policy.named(name).expect_err(name).argument(), Some("name"));
    }
}

#[test]
fn a_cost_that_is_no_count_is_refused_and_the_server_never_asked() {
    let server = RedisServer::start();
    let store = store::open(&server.dsn()).expect("a store");
    let limiter = Limiter::new(Policy::token_bucket(5, 1.0, 60.0).expect("a policy"), store).expect("a limiter");
    for _ in 0..2 {
        assert!(limiter.allow("key", 1).expect("a decision").allowed());
    }
    let calls = || server.calls("evalsha") + server.calls("eval");
    let asked = calls();
    for cost in [0, -1, -1_000_000, 1 << 31, 1 << 40, 1 << 53, i64::MAX, i64::MIN] {
        for error in
            [limiter.allow("key", cost).expect_err("a refusal"), limiter.peek("key", cost).expect_err("a refusal")]
        {
            assert_eq!(error.kind(), ErrorKind::InvalidCost);
            assert_eq!(error.to_string(), format!("cost must be an integer between 1 and 2147483647, got {cost}"));
        }
    }
    assert_eq!(calls(), asked, "nothing reached the server");
    let passed = (0..4).filter(|_| limiter.allow("key", 1).expect("a decision").allowed()).count();
    assert_eq!(passed, 3, "the refused calls took nothing and gave nothing back");
}

#[test]
fn of_many_calls_the_wrong_one_is_named_by_its_index_and_the_server_never_asked() {
    let server = RedisServer::start();
    let store = store::open(&server.dsn()).expect("a store");
    let limiter = Limiter::new(Policy::token_bucket(5, 1.0, 60.0).expect("a policy"), store).expect("a limiter");
    for (costs, sentence) in [
        ([0, 1, 1], "cost must be an integer between 1 and 2147483647, got 0, at index 0"),
        ([1, 1, -7], "cost must be an integer between 1 and 2147483647, got -7, at index 2"),
        ([1, 1 << 31, 0], "cost must be an integer between 1 and 2147483647, got 2147483648, at index 1"),
    ] {
        let error = limiter.allow_many(&costs.map(|cost| ("key", cost))).expect_err(sentence);
        assert_eq!((error.kind(), error.argument()), (ErrorKind::InvalidCost, Some("cost")));
        assert_eq!(error.to_string(), sentence);
    }
    assert_eq!(limiter.allow_many::<&str>(&[]), Ok(vec![]));
    assert_eq!(server.calls("evalsha") + server.calls("eval"), 0);
}

#[test]
fn options_out_of_range_are_refused() {
    let builder = || Limiter::builder(Policy::token_bucket(5, 1.0, 60.0).expect("a policy"));
    let error = builder().on_error(FailureRule::Local).share(0).build().expect_err("no share");
    assert_eq!(error.argument(), Some("share"));
    assert_eq!("maybe".parse::<FailureRule>().expect_err("no rule").argument(), Some("on_error"));
    assert_eq!(store::memory(0).expect_err("no room").argument(), Some("max_keys"));
}
