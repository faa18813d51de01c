//! What a governor does while its store is away, and what it counts of its work.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ratelimit_core::outbound::{
    Before, GlobalLimit, Governor, Limit, Options, Outcome, Preset, Reason, Request, Response, RetryContext, Strategy,
};
use ratelimit_core::{ErrorKind, FailureRule, ManualClock, Policy, metrics, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::server::free_port;

const TIMEOUTS: &str = "?timeout=1&connect_timeout=1";

/// Half of it is used up, for ten seconds more.
const HALF: [(&str, &str); 3] =
    [("X-RateLimit-Limit", "2"), ("X-RateLimit-Remaining", "1"), ("X-RateLimit-Reset", "10")];

fn governor(dsn: &str, rule: FailureRule) -> Governor {
    let options = Options { on_error: rule, safety_buffer_us: 0, ..Options::default() };
    let store = store::open(dsn).expect("a store");
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    Governor::new(Preset::GENERIC, options, store).expect("a governor").with_clock(clock)
}

fn nobody() -> String {
    format!("redis://127.0.0.1:{}{TIMEOUTS}", free_port())
}

/// A host that nobody else uses, also not in what an earlier run has left on this machine.
fn url(name: &str) -> String {
    format!("https://{name}-{}-{}.test/things", std::process::id(), free_port())
}

fn go(before: Before) -> Box<ratelimit_core::outbound::Ticket> {
    match before {
        Before::Go(ticket) => ticket,
        other => panic!("it does not go: {other:?}"),
    }
}

#[test]
fn a_store_that_is_away_breaks_no_call_and_this_host_learns_on_its_own() {
    let governor = governor(&nobody(), Options::default().on_error);
    let url = url("local");
    let request = Request::new("GET", &url);
    let ticket = go(governor.before(&request).expect("an answer"));
    assert!(ticket.degraded());
    let response = Response { status: 200, headers: &HALF, body: b"" };
    governor.after(ticket, &response).expect("an answer");
    let ticket = go(governor.before(&request).expect("an answer"));
    governor.abandon(&ticket).expect("an answer");
    let before = governor.before(&request).expect("an answer");
    assert!(matches!(before, Before::Wait { delay_us: 10_000_000, reason: Reason::Quota, .. }), "{before:?}");
}

#[test]
fn each_rule_does_what_it_says_and_looks_never_stand_in() {
    let url = url("rules");
    let request = Request::new("GET", &url);
    let refused = Response { status: 429, headers: &[("Retry-After", "7")], body: b"" };

    let open = governor(&nobody(), FailureRule::Open);
    for _ in 0..3 {
        let ticket = go(open.before(&request).expect("an answer"));
        assert!(ticket.degraded());
        let after = open.after(ticket, &refused).expect("an answer");
        assert!(matches!(after.outcome, Outcome::Retry { delay_us: 7_000_000, .. }), "{after:?}");
    }

    let closed = governor(&nobody(), FailureRule::Closed);
    let before = closed.before(&request).expect("an answer");
    assert!(matches!(before, Before::Wait { delay_us: 1_000_000, reason: Reason::Store, .. }), "{before:?}");
    let hasty = Request { max_delay_us: Some(Some(999_999)), ..request };
    let before = closed.before(&hasty).expect("an answer");
    assert!(matches!(before, Before::Refuse { delay_us: 1_000_000, reason: Reason::Store }), "{before:?}");

    let throws = governor(&nobody(), FailureRule::Throw);
    let error = throws.before(&request).expect_err("nobody there");
    assert!(matches!(error.kind(), ErrorKind::StoreUnavailable(_)), "{error}");
    // What is not governed needs no store.
    go(throws.before(&Request { enabled: false, ..request }).expect("an answer"));

    for governor in [&open, &closed, &throws] {
        assert!(governor.state(&request).is_err());
        assert!(governor.forget(&request).is_err());
    }
}

#[test]
fn once_the_store_is_back_the_answers_are_its_own() {
    let mut server = RedisServer::start();
    let governor = governor(&format!("{}{TIMEOUTS}", server.dsn()), FailureRule::Open);
    let url = url("back");
    let request = Request::new("GET", &url);
    assert!(!go(governor.before(&request).expect("an answer")).degraded());
    server.stop();
    let ticket = go(governor.before(&request).expect("an answer"));
    assert!(ticket.degraded());
    server.restart();
    let ticket = go(governor.before(&request).expect("an answer"));
    assert!(!ticket.degraded());
    let used_up = [("X-RateLimit-Limit", "2"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", "10")];
    governor.after(ticket, &Response { status: 200, headers: &used_up, body: b"" }).expect("an answer");
    let state = governor.state(&request).expect("the store's answer").expect("it was told");
    assert_eq!((state.limit, state.remaining, state.retry_after_us), (Some(2), Some(0), 10_000_000));
}

#[test]
fn a_strategy_is_asked_about_refusals_alone() {
    let asked = Arc::new(AtomicU32::new(0));
    let counted = asked.clone();
    let strategy = Strategy::Custom(Arc::new(move |context: &RetryContext<'_>| {
        counted.fetch_add(1, Ordering::Relaxed);
        (context.status == 429).then_some(3_000_000 + u64::from(context.attempt))
    }));
    let options = Options { strategy, ..Options::default() };
    let governor = Governor::new(Preset::GENERIC, options, store::memory(100).expect("a store")).expect("a governor");
    let governor = governor.with_clock(Arc::new(ManualClock::new(1_700_000_000.0)));
    let request = Request::new("GET", "https://api.test/");
    let ticket = go(governor.before(&request).expect("an answer"));
    governor.after(ticket, &Response { status: 200, headers: &[], body: b"" }).expect("an answer");
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    let ticket = go(governor.before(&request).expect("an answer"));
    let refused = Response { status: 429, headers: &[("Retry-After", "7")], body: b"" };
    assert!(governor.asks_strategy(429, governor.read(&refused).as_ref()));
    assert!(!governor.asks_strategy(404, None));
    let after = governor.after(ticket, &refused).expect("an answer");
    assert!(matches!(after.outcome, Outcome::Retry { delay_us: 3_000_000, attempt: 1, .. }), "{after:?}");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[test]
fn a_limit_on_everything_leaves_room_for_what_the_network_does_to_distances() {
    let wait = |buffer_us: u64| {
        let global = GlobalLimit::new(2, 10.0, vec![]).expect("a limit");
        let options = Options { global_limit: Some(global), safety_buffer_us: buffer_us, ..Options::default() };
        let governor = Governor::new(Preset::GENERIC, options, store::memory(100).expect("a store"));
        let governor = governor.expect("a governor").with_clock(Arc::new(ManualClock::new(1_700_000_000.0)));
        let request = Request { bucket: Some("a"), ..Request::new("GET", "https://api.test/") };
        for _ in 0..2 {
            let ticket = go(governor.before(&request).expect("an answer"));
            governor.after(ticket, &Response { status: 200, headers: &[], body: b"" }).expect("an answer");
        }
        let budget = governor.global_budget(&request).expect("an answer").expect("a limit");
        assert_eq!((budget.limit, budget.remaining), (Some(2), Some(0)));
        match governor.before(&request).expect("an answer") {
            Before::Wait { delay_us, reason: Reason::Global, .. } => delay_us,
            other => panic!("it does not wait: {other:?}"),
        }
    };
    assert_eq!([wait(0), wait(200_000), wait(60_000_000)], [10_000_000, 10_200_000, 10_500_000]);
}

/// The value of a line of the text, which begins with these words.
fn value(text: &str, beginning: &str) -> f64 {
    let line = text.lines().find(|line| line.strip_prefix(beginning).is_some_and(|rest| rest.starts_with(' ')));
    line.and_then(|line| line.rsplit(' ').next()).map_or(0.0, |number| number.parse().expect("a number"))
}

#[test]
fn work_is_counted_by_preset_and_by_the_name_of_a_limit_and_shows_no_key() {
    // Nobody else in these tests uses this preset.
    let preset = "zendesk";
    let policy = Policy::fixed_window(2, 100.0).and_then(|policy| policy.named("mine")).expect("a policy");
    let options = Options {
        limits: vec![Limit::new(policy)],
        max_retries: 1,
        max_delay_us: Some(150_000_000),
        ..Options::default()
    };
    let governor = Governor::new(Preset::ZENDESK, options, store::memory(100).expect("a store")).expect("a governor");
    let governor = governor.with_clock(Arc::new(ManualClock::new(1_700_000_000.0)));
    let request = Request::new("GET", "https://secret-host.test/secret-path").authorization(b"Bearer hunter2");
    let refused = Response { status: 429, headers: &[("Retry-After", "1")], body: b"" };
    let ticket = go(governor.before(&request).expect("an answer"));
    let Outcome::Retry { ticket, .. } = governor.after(ticket, &refused).expect("told").outcome else {
        panic!("again")
    };
    let Before::Wait { ticket, .. } = governor.resume(ticket).expect("an answer") else { panic!("a pause") };
    drop(ticket);
    let other = Request { bucket: Some("other"), ..request };
    let ticket = go(governor.before(&other).expect("an answer"));
    governor.after(ticket, &Response { status: 200, headers: &[], body: b"" }).expect("an answer");
    assert!(matches!(governor.before(&other).expect("an answer"), Before::Wait { reason: Reason::Limit(0), .. }));
    let hasty = Request { max_delay_us: Some(Some(1_000)), ..other };
    assert!(matches!(governor.before(&hasty).expect("an answer"), Before::Refuse { reason: Reason::Limit(0), .. }));

    let text = metrics::text();
    let at = |name: &str, labels: &str| {
        value(&text, &format!("rate_limiter_outbound_{name}{{{labels}preset=\"{preset}\"}}"))
    };
    let by = |name: &str, limit: &str, reason: &str| {
        value(&text, &format!("rate_limiter_outbound_{name}{{{limit}preset=\"{preset}\",reason=\"{reason}\"}}"))
    };
    let exactly =
        |value: f64, expected: f64, what: &str| assert!((value - expected).abs() < 1e-6, "{what}: {value}\n{text}");
    exactly(at("requests_total", ""), 2.0, "requests");
    exactly(at("retries_total", ""), 1.0, "retries");
    exactly(by("delays_total", "", "cooldown"), 1.0, "waits of a pause");
    exactly(by("delays_total", "limit=\"mine\",", "limit"), 1.0, "waits of the limit");
    exactly(at("delay_seconds_total", ""), 101.0, "seconds");
    exactly(by("refusals_total", "limit=\"mine\",", "limit"), 1.0, "refusals");
    assert!(!text.contains("secret") && !text.contains("hunter2") && !text.contains('\u{1}'), "{text}");
}
