use std::sync::{Arc, Mutex};
use std::time::Duration;

use ratelimit_core::events::{self, Recorded};
use ratelimit_core::store::StoreKind;
use ratelimit_core::{
    Call, ErrorKind, FailureRule, Limiter, LimiterBuilder, ManualClock, Policy, Source, StoreErrorKind, aio, metrics,
    store,
};
use ratelimit_tests::RedisServer;
use ratelimit_tests::server::free_port;

const KEY: &str = "ada@example.org";

/// What has been heard, in order.
type Heard = Arc<Mutex<Vec<Recorded>>>;

fn three(name: &str) -> Policy {
    Policy::token_bucket(3, 1.0, 3600.0).and_then(|policy| policy.named(name)).expect("a policy")
}

fn nobody() -> String {
    format!("redis://127.0.0.1:{}?timeout=5&connect_timeout=5", free_port())
}

/// A limiter whose events are kept, by callbacks as a program has them.
fn heard(builder: LimiterBuilder) -> (Limiter, Heard) {
    let heard = Heard::default();
    let (decisions, errors) = (heard.clone(), heard.clone());
    let builder = builder.on_decision(Arc::new(move |event| {
        let (asked, policy, decision) = (event.asked, event.policy.clone(), event.decision.clone());
        decisions.lock().expect("no panic").push(Recorded::Decision { asked, policy, decision });
    }));
    let builder = builder.on_store_error(Arc::new(move |event| {
        let (asked, policy, error) = (event.asked, event.policy.clone(), event.error.clone());
        errors.lock().expect("no panic").push(Recorded::StoreError { asked, policy, error });
    }));
    (builder.build().expect("a limiter"), heard)
}

fn on(dsn: &str, policy: Policy) -> LimiterBuilder {
    Limiter::builder(policy).store(store::open(dsn).expect("a store"))
}

/// Events in short: verb, cost, and the source of a decision or the kind of an error.
fn short(heard: &[Recorded]) -> Vec<(&'static str, u64, &'static str)> {
    let short = |event: &Recorded| match event {
        Recorded::Decision { asked, decision, .. } => (asked.verb, asked.cost, decision.source().as_str()),
        Recorded::StoreError { asked, error, .. } => {
            (asked.verb, asked.cost, error.store_kind().map_or("", StoreErrorKind::as_str))
        }
    };
    heard.iter().map(short).collect()
}

fn taken(heard: &Heard) -> Vec<Recorded> {
    std::mem::take(&mut heard.lock().expect("no panic"))
}

#[test]
fn each_decision_is_told_with_its_numbers_and_never_with_the_key() {
    let server = RedisServer::start();
    let (limiter, heard) = heard(on(&server.dsn(), three("told")).hash_keys(true).secret("secret"));
    let mut decisions = vec![
        limiter.allow(KEY, 2).expect("a decision"),
        limiter.peek(KEY, 1).expect("a decision"),
        limiter.reserve(KEY, 1, 1_000_000).expect("a decision"),
        limiter.allow(KEY, 1).expect("a decision"),
    ];
    limiter.refund(KEY, 1).expect("a refund");
    decisions.extend(limiter.allow_many(&[(KEY, 1), (KEY, 9)]).expect("calls").into_iter().flatten());
    let events = taken(&heard);
    let expected = [
        ("allow", 2, "store"),
        ("peek", 1, "store"),
        ("reserve", 1, "store"),
        ("allow", 1, "deny_cache"),
        ("refund", 1, "store"),
        ("allow", 1, "store"),
        ("allow", 9, "store"),
    ];
    assert_eq!(short(&events), expected);
    let mut told = Vec::new();
    for event in &events {
        let Recorded::Decision { asked, policy, decision } = event else { panic!("{event:?}") };
        assert_eq!((policy.name(), asked.store), ("told", StoreKind::Redis));
        assert!(asked.duration > Duration::ZERO && asked.duration < Duration::from_mins(1), "{asked:?}");
        if asked.verb != "refund" {
            told.push(decision.clone());
        }
    }
    assert_eq!(told, decisions);
    let text = format!("{events:?}");
    assert!(!text.contains("ada") && !text.contains("secret"), "{text}");
    // What is stored can be found by it, and it differs from caller to caller.
    let Recorded::Decision { asked, .. } = &events[0] else { panic!("a decision") };
    let stored: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).expect("keys");
    assert!(stored[0].contains(&format!("{{#{}", asked.key)), "{stored:?} {asked:?}");
    limiter.allow("somebody else", 1).expect("a decision");
    let Recorded::Decision { asked: other, .. } = &taken(&heard)[0] else { panic!("a decision") };
    assert_ne!(other.key, asked.key);
}

#[test]
fn a_key_is_told_as_one_while_secrets_take_over_and_a_call_as_one_decision() {
    let server = RedisServer::start();
    let told = |secrets: &[&str], token: Option<&[u8]>| {
        let secrets: Vec<_> = secrets.iter().map(|secret| secret.as_bytes()).collect();
        let (limiter, heard) = heard(on(&server.dsn(), three("told")).hash_keys(true).secrets(secrets));
        let call = Call::allow(KEY, 1);
        limiter.decide(token.map_or(call, |token| call.token(token))).expect("a decision");
        match taken(&heard).as_slice() {
            [Recorded::Decision { asked, decision, .. }] => (asked.key, decision.remaining()),
            other => panic!("{other:?}"),
        }
    };
    let (old, _) = told(&["old"], None);
    // In one step, and with a token in two.
    assert_eq!(told(&["new", "old"], None), (old, 1));
    assert_eq!(told(&["new", "old"], Some(b"token")), (old, 0));
    assert_ne!(told(&["new"], None).0, old);
}

#[test]
fn a_stopped_server_is_told_as_an_error_and_then_what_the_rule_has_made_of_it() {
    let mut server = RedisServer::start();
    let builder = on(&format!("{}?timeout=5&connect_timeout=5", server.dsn()), three("told"));
    let (limiter, heard) = heard(builder.on_error(FailureRule::Open));
    server.stop();
    assert_eq!(limiter.allow(KEY, 1).expect("a decision").source(), Source::FailOpen);
    limiter.refund(KEY, 1).expect("it is dropped");
    limiter.decide(Call::peek(KEY, 1).on_error(FailureRule::Throw)).expect_err("nobody there");
    limiter.reset(KEY).expect_err("nobody there");
    let events = taken(&heard);
    let expected = [
        ("allow", 1, "refused"),
        ("allow", 1, "fail_open"),
        ("refund", 1, "refused"),
        ("refund", 1, "fail_open"),
        ("peek", 1, "refused"),
        ("reset", 0, "refused"),
    ];
    assert_eq!(short(&events), expected);
    let text = format!("{events:?}");
    assert!(text.contains("127.0.0.1") && !text.contains("ada"), "{text}");
    limiter.allow(KEY, 0).expect_err("a wrong cost");
    assert!(taken(&heard).is_empty(), "a wrong argument is nobody's failure");
}

#[test]
fn what_a_host_spends_of_its_lease_is_told_without_a_server_and_a_refund_too() {
    let server = RedisServer::start();
    let policy = Policy::fixed_window(100, 3600.0).expect("a policy");
    let builder = on(&format!("{}?timeout=5&connect_timeout=5", server.dsn()), policy).lease(10);
    let (limiter, heard) = heard(builder.lease_store(store::memory(100).expect("a store")));
    let decisions: Vec<_> = (0..5).map(|_| limiter.allow(KEY, 1).expect("a decision")).collect();
    let events = taken(&heard);
    let told: Vec<_> = events
        .iter()
        .map(|event| match event {
            Recorded::Decision { decision, .. } => decision.clone(),
            Recorded::StoreError { .. } => panic!("{event:?}"),
        })
        .collect();
    assert_eq!(told, decisions);
    assert!(decisions.iter().any(|decision| decision.source() == Source::Lease), "{decisions:?}");
    limiter.refund(KEY, 1).expect("a refund");
    assert_eq!(short(&taken(&heard))[0].0, "refund");
}

#[test]
fn awaited_calls_are_told_too() {
    let mut server = RedisServer::start();
    let builder = on(&format!("{}?timeout=5&connect_timeout=5", server.dsn()), three("told"));
    let (limiter, heard) = heard(builder.on_error(FailureRule::Closed));
    let limiter = aio::Limiter::new(limiter);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        limiter.allow(KEY, 3).await.expect("a decision");
        limiter.allow(KEY, 1).await.expect("a decision");
        limiter.allow_many(&[("x", 1), ("y", 2)]).await.expect("calls");
        server.stop();
        limiter.allow("x", 1).await.expect("a decision");
        limiter.reset("x").await.expect_err("nobody there");
    });
    let events = short(&taken(&heard));
    let told: Vec<_> = events.iter().map(|(verb, cost, what)| format!("{verb} {cost} {what}")).collect();
    assert_eq!(told[..4], ["allow 3 store", "allow 1 deny_cache", "allow 1 store", "allow 2 store"]);
    let (error, rest) = told[4..].split_first().expect("an error");
    assert!(["allow 1 refused", "allow 1 closed"].contains(&error.as_str()), "{told:?}");
    assert_eq!(rest, ["allow 1 fail_closed", "reset 0 refused"]);
}

#[test]
fn of_several_policies_the_one_that_ruled_is_told_with_its_own_key() {
    let policies =
        vec![three("client"), Policy::fixed_window(1, 60.0).and_then(|it| it.named("all")).expect("a policy")];
    let builder = Limiter::builder(policies).store(store::memory(100).expect("a store"));
    let (limiter, heard) = heard(builder);
    let keys: &[(&str, &[u8])] = &[("client", b"ada"), ("all", b"all")];
    for _ in 0..2 {
        limiter.decide(Call::allow(ratelimit_core::Keys::Each(keys), 1)).expect("a decision");
    }
    limiter.allow("all", 1).expect("a decision");
    let told: Vec<_> = taken(&heard)
        .iter()
        .map(|event| match event {
            Recorded::Decision { asked, policy, decision } => {
                (policy.name().to_owned(), asked.key, decision.each().len())
            }
            Recorded::StoreError { .. } => panic!("{event:?}"),
        })
        .collect();
    assert_eq!(told[1].0, "all");
    assert!(told.iter().all(|(_, key, each)| *key == told[1].1 && *each == 2), "{told:?}");
}

#[test]
fn a_callback_that_panics_changes_nothing_and_is_counted() {
    let failures = || {
        let text = metrics::text();
        let line = text.lines().find_map(|line| line.strip_prefix("rate_limiter_callback_failures_total "));
        line.map_or(0.0, |number| number.parse::<f64>().expect("a number"))
    };
    let before = failures();
    let limiter = on(&nobody(), three("told")).on_error(FailureRule::Open);
    let limiter = limiter.on_decision(Arc::new(|_| panic!("in on_decision")));
    let limiter = limiter.on_store_error(Arc::new(|_| panic!("in on_store_error"))).build().expect("a limiter");
    for _ in 0..3 {
        assert_eq!(limiter.allow(KEY, 1).expect("a decision").source(), Source::FailOpen);
    }
    assert!(failures() - before > 5.5, "two for each call");
    let told = Arc::new(Mutex::new(0));
    let count = told.clone();
    let builder = Limiter::builder(three("told")).store(store::memory(10).expect("a store"));
    let limiter = builder.on_decision(Arc::new(move |_| *count.lock().expect("no panic") += 1)).build();
    limiter.expect("a limiter").allow(KEY, 1).expect("a decision");
    assert_eq!(*told.lock().expect("no panic"), 1, "others are told of theirs as before");
}

#[test]
fn a_callback_may_ask_the_same_limiter_of_which_nothing_is_told() {
    for dsn in ["memory:?max_keys=4321", "shared:", &RedisServer::start().dsn()] {
        let own: Arc<Mutex<Option<Arc<Limiter>>>> = Arc::default();
        let calls = Arc::new(Mutex::new(0));
        let (asked, count) = (own.clone(), calls.clone());
        let builder = on(dsn, three("reentrant"));
        let limiter = builder.on_decision(Arc::new(move |_| {
            *count.lock().expect("no panic") += 1;
            let limiter = asked.lock().expect("no panic").clone();
            limiter.expect("it is set").allow("from the callback", 1).expect("a decision");
        }));
        let limiter = Arc::new(limiter.build().expect("a limiter"));
        *own.lock().expect("no panic") = Some(limiter.clone());
        limiter.reset("from the callback").expect("it is whole");
        // What may be left by another run of this test, in the shared store.
        limiter.reset(KEY).expect("it is whole");
        assert!(limiter.allow(KEY, 1).expect("a decision").allowed());
        assert_eq!(limiter.peek("from the callback", 1).expect("a decision").remaining(), 2);
        assert_eq!(*calls.lock().expect("no panic"), 2);
        *own.lock().expect("no panic") = None;
    }
}

#[test]
fn a_limiter_has_one_callback_of_each_kind_and_may_get_it_late() {
    let limiter = Limiter::new(three("late"), store::memory(10).expect("a store")).expect("a limiter");
    limiter.allow(KEY, 1).expect("a decision");
    events::record(&limiter).expect("there is none yet");
    limiter.allow(KEY, 1).expect("a decision");
    assert_eq!(short(&events::take()), [("allow", 1, "store")]);
    let error = limiter.set_on_decision(Arc::new(|_| {})).expect_err("there is one");
    assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::InvalidArgument, "on_decision is set already"));
}

/// An event of `tracing`: its level and its fields.
type Traced = (tracing::Level, Vec<(&'static str, String)>);

/// Keeps the events of the target.
#[derive(Default)]
struct Collector(Mutex<Vec<Traced>>);

impl tracing::Subscriber for Collector {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "ratelimit"
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Fields(Vec<(&'static str, String)>);
        impl tracing::field::Visit for Fields {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push((field.name(), format!("{value:?}")));
            }
        }
        let mut fields = Fields(Vec::new());
        event.record(&mut fields);
        self.0.lock().expect("no panic").push((*event.metadata().level(), fields.0));
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn whoever_collects_by_tracing_hears_of_limiters_without_callbacks() {
    let collector = Arc::new(Collector::default());
    // As long as there is only one collector, `tracing` asks that of the thread which comes first to a place that tells
    // something, and other tests' threads have none.
    let _another = tracing::Dispatch::new(Arc::new(Collector::default()));
    tracing::subscriber::with_default(collector.clone(), || {
        let builder = on("memory:?max_keys=4322", three("traced"));
        let limiter = builder.clock(Arc::new(ManualClock::new(1_700_000_000.0))).build().expect("a limiter");
        limiter.allow(KEY, 3).expect("a decision");
        limiter.allow(KEY, 1).expect("a decision");
        on(&nobody(), three("traced"))
            .on_error(FailureRule::Open)
            .build()
            .expect("a limiter")
            .allow(KEY, 1)
            .expect("a decision");
    });
    let events = std::mem::take(&mut *collector.0.lock().expect("no panic"));
    let levels: Vec<_> = events.iter().map(|(level, _)| *level).collect();
    assert_eq!(levels, [tracing::Level::DEBUG, tracing::Level::INFO, tracing::Level::ERROR, tracing::Level::WARN]);
    let field = |event: usize, name: &str| {
        events[event].1.iter().find(|(field, _)| *field == name).map_or("none", |(_, value)| value.as_str())
    };
    for (name, value) in [
        ("verb", "\"allow\""),
        ("policy", "\"traced\""),
        ("cost", "1"),
        ("allowed", "false"),
        ("limit", "3"),
        ("remaining", "0"),
        ("retry_after", "3600.0"),
        ("source", "\"store\""),
        ("degraded", "false"),
        ("store", "\"memory\""),
        ("message", "denied"),
    ] {
        assert_eq!(field(1, name), value, "{name}");
    }
    assert_eq!(field(2, "kind"), "\"refused\"");
    assert!(field(2, "error").contains("127.0.0.1"), "{events:?}");
    assert_eq!(field(3, "source"), "\"fail_open\"");
    assert!(!format!("{events:?}").contains("ada"), "{events:?}");
}
