use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, Request, Response};
use ratelimit_core::http::tower::{RateLimitLayer, by_client_ip};
use ratelimit_core::http::{BodyStyle, ClientIp, HeaderStyle, MissingIdentity, ProblemType};
use ratelimit_core::{Error, ErrorKind, FailureRule, Limiter, ManualClock, Policy, store};
use ratelimit_tests::RedisServer;
use ratelimit_tests::server::free_port;
use tower::{Layer as _, ServiceExt as _, service_fn};

fn limiter() -> (Arc<Limiter>, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::new(1_700_000_000.0));
    let policy = Policy::parse("3/m").expect("a policy");
    let builder = Limiter::builder(policy).store(store::memory(1_000).expect("a store")).clock(clock.clone());
    (Arc::new(builder.build().expect("a limiter")), clock)
}

#[allow(clippy::unnecessary_wraps, reason = "a key may be missing, and this one never is")]
fn ann(_: &http::request::Parts) -> Option<&'static str> {
    Some("ann")
}

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(work)
}

/// What a service behind the layer answers, which answers with the status that the path says.
fn send(layer: &RateLimitLayer, path: &str, headers: &[(&str, &str)]) -> Response<String> {
    let service = layer.layer(service_fn(|request: Request<()>| async move {
        let status: u16 = request.uri().path()[1..].parse().map_err(io::Error::other)?;
        Response::builder().status(status).body("hello".to_owned()).map_err(io::Error::other)
    }));
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    run(service.oneshot(request.body(()).expect("a request"))).expect("an answer")
}

fn statuses(layer: &RateLimitLayer, path: &str, count: usize) -> Vec<u16> {
    (0..count).map(|_| send(layer, path, &[]).status().as_u16()).collect()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().expect("a text"))
}

#[test]
fn an_allowed_request_gets_the_response_with_the_headers_added_and_a_refused_one_none() {
    let (limiter, clock) = limiter();
    let layer = RateLimitLayer::new(limiter, ann);
    for remaining in [2, 1, 0] {
        let response = send(&layer, "/200", &[]);
        assert_eq!(text(response.headers(), "ratelimit"), format!("\"default\";r={remaining};t=60"));
        assert_eq!((response.headers().get("retry-after"), response.body().as_str()), (None, "hello"));
    }
    clock.advance(59.1);
    let refused = send(&layer, "/200", &[]);
    assert_eq!(refused.status(), 429);
    assert_eq!(text(refused.headers(), "retry-after"), "1");
    assert_eq!(text(refused.headers(), "cache-control"), "no-store");
    assert_eq!(text(refused.headers(), "content-type"), "application/problem+json");
    let problem: serde_json::Value = serde_json::from_str(refused.body()).expect("JSON");
    assert_eq!(problem["detail"], "The rate limit of 3 is used up. Try again in 1 second.");
    clock.advance(0.9);
    assert_eq!(statuses(&layer, "/200", 1), [200]);
}

#[test]
fn the_style_the_body_and_the_type_are_chosen() {
    let (limiter, _) = limiter();
    let layer = RateLimitLayer::new(limiter, ann).headers(HeaderStyle::XRateLimitEpoch).cost(|_| 2);
    assert_eq!(text(send(&layer, "/200", &[]).headers(), "x-ratelimit-reset"), "1700000060");
    let refused = send(&layer.clone().body(BodyStyle::Json), "/200", &[]);
    assert_eq!(refused.body(), r#"{"error":"Too many requests","retry_after":60}"#);
    let reduced = send(&layer.problem_type(ProblemType::TemporaryReducedCapacity), "/200", &[]);
    assert_eq!(reduced.status(), 503);
}

#[test]
fn only_what_the_response_says_is_charged() {
    let (limiter, _) = limiter();
    let layer = RateLimitLayer::new(limiter.clone(), ann).after(|response| i64::from(response.status == 401));
    assert_eq!(statuses(&layer, "/200", 9), [200; 9]);
    assert_eq!(limiter.peek("ann", 1).expect("a decision").remaining(), 3);
    assert_eq!(text(send(&layer, "/401", &[]).headers(), "ratelimit"), "\"default\";r=2;t=60");
    assert_eq!(statuses(&layer, "/401", 4), [401, 401, 429, 429]);
    limiter.reset("ann").expect("a reset");
    let dear = RateLimitLayer::new(limiter, ann).after(|_| 5);
    assert_eq!(text(send(&dear, "/200", &[]).headers(), "ratelimit"), "\"default\";r=0;t=60");
}

#[test]
fn what_a_service_fails_at_stays_charged() {
    let (limiter, _) = limiter();
    let layer = RateLimitLayer::new(limiter.clone(), ann).after(|_| 0);
    let failing =
        layer.layer(service_fn(|_: Request<()>| async { Err::<Response<String>, _>(io::Error::other("it failed")) }));
    let error = run(failing.oneshot(Request::new(()))).expect_err("it fails");
    assert_eq!(error.to_string(), "it failed");
    assert_eq!(limiter.peek("ann", 1).expect("a decision").remaining(), 2);
}

#[test]
fn a_request_may_pass_unlimited_and_a_header_that_is_there_stays() {
    let (limiter, _) = limiter();
    let layer = RateLimitLayer::new(limiter, ann).skip(|request| request.uri.path() == "/204");
    assert_eq!(statuses(&layer, "/204", 9), [204; 9]);
    let service = layer.layer(service_fn(|_: Request<()>| async {
        Response::builder().header("RateLimit", "mine").body(String::new())
    }));
    let response = run(service.oneshot(Request::new(()))).expect("an answer");
    assert_eq!(response.headers().get_all("ratelimit").iter().collect::<Vec<_>>(), ["mine"]);
}

#[test]
fn a_missing_identity_follows_the_rule_and_is_reported_once() {
    struct Count(AtomicUsize);
    impl tracing::Subscriber for Count {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target().starts_with("ratelimit_core")
        }
        fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
            tracing::span::Id::from_u64(1)
        }
        fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
        fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
        fn event(&self, _: &tracing::Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        fn enter(&self, _: &tracing::span::Id) {}
        fn exit(&self, _: &tracing::span::Id) {}
    }
    for (rule, expected, shared) in [
        (MissingIdentity::Reject, [403; 4], 3),
        (MissingIdentity::Skip, [200; 4], 3),
        (MissingIdentity::Shared, [200, 200, 200, 429], 0),
    ] {
        for missing in [None, Some("")] {
            let (limiter, _) = limiter();
            let layer = RateLimitLayer::new(limiter.clone(), move |_| missing).on_missing_key(rule);
            let count = Arc::new(Count(AtomicUsize::new(0)));
            tracing::subscriber::with_default(count.clone(), || {
                assert_eq!(statuses(&layer, "/200", 4), expected, "{rule:?}");
            });
            assert_eq!(count.0.load(Ordering::Relaxed), 1);
            let left = limiter.peek(MissingIdentity::SHARED_KEY, 1).expect("a decision").remaining();
            assert_eq!(left, shared);
        }
    }
}

#[test]
fn a_new_forwarded_address_per_request_gives_no_new_budget() {
    let peer = |_: &http::request::Parts| Some(IpAddr::from([198, 51, 100, 7]));
    for trusted in [&[][..], &["198.51.100.7", "10.0.0.2"]] {
        for (header, lines) in [
            ("x-forwarded-for", &["RANDOM, 203.0.113.9"][..]),
            ("x-forwarded-for", &["RANDOM, not-an-ip"]),
            ("x-forwarded-for", &["RANDOM, 203.0.113.9, 10.0.0.2"]),
            ("x-forwarded-for", &["RANDOM, 203.0.113.9", "10.0.0.2"]),
            ("x-forwarded-for", &["RANDOM,"]),
            ("forwarded", &["for=RANDOM, for=203.0.113.9"]),
            ("forwarded", &["for=RANDOM, for=unknown"]),
            ("forwarded", &["for=\"RANDOM, for=203.0.113.9"]),
            ("forwarded", &["for=RANDOM", "for=\"[2001:db8::1]:80\""]),
        ] {
            let (limiter, _) = limiter();
            let layer = RateLimitLayer::new(limiter, by_client_ip(ClientIp::new(trusted).expect("a resolver"), peer));
            let status = |number: usize| {
                let lines: Vec<_> = lines.iter().map(|it| it.replace("RANDOM", &format!("192.0.2.{number}"))).collect();
                let headers: Vec<_> = lines.iter().map(|line| (header, line.as_str())).collect();
                send(&layer, "/200", &headers).status().as_u16()
            };
            assert_eq!((0..6).map(status).collect::<Vec<_>>(), [200, 200, 200, 429, 429, 429], "{lines:?}");
        }
    }
}

#[test]
fn a_store_that_is_away_is_answered_as_the_rule_says() {
    let dsn = format!("redis://127.0.0.1:{}", free_port());
    let layer = |rule| {
        let store = store::open(&dsn).expect("a store");
        let builder = Limiter::builder(Policy::parse("3/m").expect("a policy")).store(store).on_error(rule);
        RateLimitLayer::new(builder.build().expect("a limiter"), ann)
    };
    let closed = send(&layer(FailureRule::Closed), "/200", &[]);
    assert_eq!((closed.status().as_u16(), text(closed.headers(), "retry-after")), (503, "1"));
    assert!(closed.body().contains("#temporary-reduced-capacity"));
    let open = send(&layer(FailureRule::Open), "/200", &[]);
    assert_eq!((open.status().as_u16(), open.headers().get("ratelimit")), (200, None));
    let thrown = send(&layer(FailureRule::Throw), "/200", &[]);
    assert_eq!((thrown.status().as_u16(), text(thrown.headers(), "cache-control")), (503, "no-store"));
    assert!(thrown.extensions().get::<Error>().is_some_and(|error| error.store_kind().is_some()));
}

#[test]
fn a_cost_that_is_wrong_is_a_mistake_of_the_program() {
    let (limiter, _) = limiter();
    let response = send(&RateLimitLayer::new(limiter.clone(), ann).cost(|_| 0), "/200", &[]);
    assert_eq!(response.status(), 500);
    assert_eq!(response.extensions().get::<Error>().map(Error::kind), Some(ErrorKind::InvalidCost));
    assert_eq!(limiter.peek("ann", 1).expect("a decision").remaining(), 3);
}

#[test]
fn a_store_on_a_server_is_asked_without_blocking_and_may_go_away_meanwhile() {
    let mut server = RedisServer::start();
    let dsn = format!("{}?timeout=5", server.dsn());
    let limiter = Limiter::new(Policy::parse("2/m").expect("a policy"), store::open(&dsn).expect("a store"));
    let layer = RateLimitLayer::new(limiter.expect("a limiter"), ann).after(|_| 0);
    run(async {
        let hello = service_fn(|_: Request<()>| async { Ok::<_, io::Error>(Response::new("hello".to_owned())) });
        let service = layer.layer(hello);
        for _ in 0..4 {
            let response = service.clone().oneshot(Request::new(())).await.expect("an answer");
            assert_eq!(text(response.headers(), "ratelimit"), "\"default\";r=2;t=0");
        }
        let asked = server.calls("evalsha");
        let (sender, receiver) = tokio::sync::oneshot::channel::<()>();
        let receiver = Arc::new(tokio::sync::Mutex::new(Some(receiver)));
        let waiting = layer.layer(service_fn(move |_: Request<()>| {
            let receiver = receiver.clone();
            async move {
                let told = receiver.lock().await.take().expect("one request");
                told.await.map_err(io::Error::other)?;
                Ok::<_, io::Error>(Response::new("hello".to_owned()))
            }
        }));
        let answer = tokio::spawn(waiting.oneshot(Request::new(())));
        while server.calls("evalsha") == asked {
            tokio::task::yield_now().await;
        }
        server.stop();
        sender.send(()).expect("it waits");
        let response = answer.await.expect("no panic").expect("an answer");
        assert_eq!((response.status().as_u16(), text(response.headers(), "ratelimit")), (200, "\"default\";r=1;t=60"));
    });
}

#[test]
fn the_page_shows_what_the_example_does() {
    let page = include_str!("../../docs/tower.md");
    let shown = page.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block");
    assert!(shown.len() > 500 && include_str!("../../core/examples/axum.rs").contains(shown));
}
