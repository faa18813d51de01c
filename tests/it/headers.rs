use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use proptest::prelude::*;
use ratelimit_core::algorithm::Verdict;
use ratelimit_core::http::{
    BodyStyle, HeaderOptions, HeaderStyle, ProblemType, headers, problem, refusal, unidentified,
};
use ratelimit_core::{Call, Decision, Error, FailureRule, Limiter, Policy, Source, store};
use ratelimit_tests::vectors::{EPOCH_US, NamedNumbers, StepBase, Verb};
use serde::Deserialize;
use serde_json::Value;
use sfv::{BareItem, Dictionary, List, ListEntry, Parser};

#[derive(Deserialize)]
struct File {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    policies: Vec<NamedNumbers>,
    steps: Vec<StepBase>,
    headers: BTreeMap<String, BTreeMap<String, String>>,
    problem: Value,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/headers/emit/emit.json");
    serde_json::from_str::<File>(&fs::read_to_string(path).expect("the file")).expect("its cases").cases
}

/// The limiter of a case, and its decision on the last step.
fn decided(case: &Case) -> (Limiter, Decision, u64) {
    let named = |it: &NamedNumbers| it.numbers.policy().and_then(|policy| policy.named(&it.name)).expect(&case.name);
    let policies: Vec<Policy> = case.policies.iter().map(named).collect();
    let limiter = Limiter::new(policies, store::memory(100).expect("a store")).expect("a limiter");
    let decide = |step: &StepBase| {
        let call = if step.verb == Verb::Peek { Call::peek("key", step.cost) } else { Call::allow("key", step.cost) };
        limiter.decide(call.at_us(EPOCH_US + step.at_us)).expect(&case.name)
    };
    let decision = case.steps.iter().map(decide).collect::<Vec<_>>().pop().expect("a step");
    let now_us = EPOCH_US + case.steps[case.steps.len() - 1].at_us;
    (limiter, decision, now_us)
}

#[test]
fn every_vector_is_written_as_it_says() {
    for case in cases() {
        let (limiter, decision, now_us) = decided(&case);
        for (style, expected) in &case.headers {
            let options = HeaderOptions::from(style.parse::<HeaderStyle>().expect("a style")).at_us(now_us);
            let written = headers(&decision, limiter.policies(), options);
            let written: BTreeMap<String, String> =
                written.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
            assert_eq!(&written, expected, "{}, {style}", case.name);
        }
        let written = problem(&decision, limiter.policies(), None);
        let written = written.map_or(Value::Null, |problem| problem.json().parse().expect("JSON"));
        assert_eq!(written, case.problem, "{}", case.name);
    }
}

fn parameter(entry: &ListEntry, name: &str) -> i64 {
    let ListEntry::Item(item) = entry else { panic!("{entry:?} is no item") };
    item.params[name].as_integer().expect("an integer").into()
}

fn string(entry: &ListEntry) -> String {
    let ListEntry::Item(item) = entry else { panic!("{entry:?} is no item") };
    item.bare_item.as_string().expect("a string").as_str().to_owned()
}

fn list(value: &str) -> List {
    Parser::new(value).parse().unwrap_or_else(|error| panic!("{value}: {error}"))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).expect("a number of a header")
}

proptest! {
    /// Whatever a decision says, the fields can be read, and say the same.
    #[test]
    fn what_is_written_can_be_read(
        names in prop::collection::vec("[ -~]{1,100}", 1..4),
        numbers in prop::collection::vec((1u64..=2_147_483_647, any::<u64>(), 0u64..1 << 51, 0u64..1 << 51), 4),
        allowed in any::<[bool; 4]>(),
        key in prop::collection::vec(any::<u8>(), 0..40),
        unit in "[ -~]{1,20}",
    ) {
        let policies: Vec<Policy> =
            names.iter().map(|name| Policy::parse("10/90s").and_then(|policy| policy.named(name)).unwrap()).collect();
        let each: Vec<Decision> = (0u32..).zip(&numbers).zip(&allowed).take(policies.len()).map(|((at, it), &allowed)| {
            let &(limit, remaining, retry_after_us, reset_after_us) = it;
            let verdict = Verdict {
                allowed,
                remaining: remaining % (limit + 1),
                retry_after_us: if allowed { 0 } else { retry_after_us + 1 },
                reset_after_us,
                delay_us: 0,
            };
            Decision::new(verdict, limit, at, Source::Store)
        }).collect();
        let decision = Decision::over(each);
        let options = HeaderOptions::from(HeaderStyle::Ietf).partition_key(&key).quota_unit(&unit).unwrap();
        let fields = headers(&decision, &policies, options);
        let (quotas, states) = (list(&fields[0].1), list(&fields[1].1));
        prop_assert_eq!(quotas.len(), policies.len());
        for (at, each) in decision.each().iter().enumerate() {
            prop_assert_eq!(&string(&quotas[at]), &names[at]);
            prop_assert_eq!(&string(&states[at]), &names[at]);
            prop_assert_eq!(parameter(&quotas[at], "q"), signed(each.limit()));
            prop_assert_eq!(parameter(&quotas[at], "w"), 90);
            prop_assert_eq!(parameter(&states[at], "r"), signed(each.remaining()));
            let t = parameter(&states[at], "t");
            prop_assert!(t >= i64::from(!each.allowed()));
            let us = if each.allowed() { each.reset_after_us() } else { each.retry_after_us() };
            prop_assert!(t * 1_000_000 >= signed(us) && (t - 1) * 1_000_000 < signed(us));
            for entry in [&quotas[at], &states[at]] {
                let ListEntry::Item(item) = entry else { panic!("an item") };
                prop_assert_eq!(&item.params["pk"], &BareItem::ByteSequence(key.clone()));
            }
        }
        let fields = headers(&decision, &policies, HeaderStyle::Draft7);
        prop_assert_eq!(list(&fields[0].1).len(), policies.len());
        let state: Dictionary = Parser::new(&fields[1].1).parse().expect("a dictionary");
        prop_assert_eq!(state.len(), 3);
        // Of every style each number is one, and a denial always has its wait.
        for (_, style) in HeaderStyle::ALL {
            let fields = headers(&decision, &policies, style);
            let wait = fields.iter().find(|(name, _)| *name == "Retry-After").map(|(_, value)| value.parse::<u64>());
            prop_assert_eq!(wait.is_some(), !decision.allowed());
            if let Some(wait) = wait {
                prop_assert!(wait.unwrap() >= 1);
            }
            for (name, value) in fields {
                prop_assert!(value.bytes().all(|byte| (b' '..=b'~').contains(&byte)));
                if name != "RateLimit" && name != "RateLimit-Policy" {
                    prop_assert!(value.parse::<u64>().is_ok(), "{}: {}", name, value);
                }
            }
        }
    }
}

#[test]
fn a_failure_rule_that_asked_nobody_tells_no_numbers() {
    let limiter = |rule| {
        let store = store::open("redis://127.0.0.1:1").expect("a store");
        Limiter::builder(Policy::parse("5/m").expect("a policy"))
            .store(store)
            .on_error(rule)
            .build()
            .expect("a limiter")
    };
    let open = limiter(FailureRule::Open);
    let decision = open.allow("key", 1).expect("a decision");
    assert_eq!(headers(&decision, open.policies(), HeaderStyle::Ietf), []);
    let closed = limiter(FailureRule::Closed);
    let decision = closed.allow("key", 1).expect("a decision");
    assert_eq!(headers(&decision, closed.policies(), HeaderStyle::Ietf), [("Retry-After", "1".to_owned())]);
    let type_ = Some(ProblemType::AbnormalUsageDetected);
    let refusal =
        refusal(&decision, closed.policies(), HeaderStyle::Ietf, BodyStyle::Problem, type_).expect("a denial");
    assert_eq!(refusal.status, 503);
    let body: Value = refusal.body.parse().expect("JSON");
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity");
    assert_eq!(body["detail"], "Requests cannot be counted at the moment. Try again in 1 second.");
    assert_eq!(body.get("violated-policies"), None);
}

#[test]
fn a_refusal_is_never_kept_by_a_cache_and_says_what_its_body_is() {
    let limiter =
        Limiter::new(Policy::parse("1/m").expect("a policy"), store::memory(9).expect("a store")).expect("it");
    let allowed = limiter.allow("key", 1).expect("a decision");
    let denied = limiter.allow("key", 1).expect("a decision");
    let answer =
        |decision: &Decision, body, type_| refusal(decision, limiter.policies(), HeaderStyle::None, body, type_);
    assert_eq!(answer(&allowed, BodyStyle::Problem, None), None);
    let mut types = Vec::new();
    for (_, body) in BodyStyle::ALL {
        for refusal in [answer(&denied, body, None).expect("a denial"), unidentified(body)] {
            let value =
                |name| refusal.headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str());
            assert_eq!(value("Cache-Control"), Some("no-store"));
            assert_eq!(value("Content-Type").is_none(), refusal.body.is_empty());
            types.push((refusal.status, value("Content-Type").unwrap_or_default().to_owned()));
        }
    }
    let expected = ["application/problem+json", "application/json", ""];
    let expected: Vec<_> = expected.into_iter().flat_map(|it| [(429, it.to_owned()), (403, it.to_owned())]).collect();
    assert_eq!(types, expected);
    for (name, type_) in ProblemType::ALL {
        let refusal = answer(&denied, BodyStyle::Problem, Some(type_)).expect("a denial");
        let body: Value = refusal.body.parse().expect("JSON");
        assert_eq!(body["type"].as_str().and_then(|uri| uri.split_once('#')).map(|(_, last)| last), Some(name));
        assert_eq!((refusal.status, body["status"].as_u64()), (type_.status(), Some(u64::from(type_.status()))));
    }
}

#[test]
fn an_epoch_comes_from_the_limiters_clock() {
    let clock = Arc::new(ratelimit_core::ManualClock::new(1_700_000_000.25));
    let limiter = Limiter::builder(Policy::parse("1/m").expect("a policy"))
        .store(store::memory(9).expect("a store"))
        .clock(clock)
        .build()
        .expect("a limiter");
    let decision = limiter.allow("key", 1).expect("a decision");
    let options = HeaderOptions::from(HeaderStyle::XRateLimitEpoch).at_us(limiter.wall_clock_us());
    let reset = &headers(&decision, limiter.policies(), options)[2];
    assert_eq!(*reset, ("X-RateLimit-Reset", "1700000061".to_owned()));
}

#[test]
fn a_wrong_name_is_told_with_the_right_ones() {
    let text = |error: Error| error.to_string();
    let styles = "style must be ietf, draft-7, draft-3, x-ratelimit, x-ratelimit-epoch or none, got \"xml\"";
    assert_eq!("xml".parse::<HeaderStyle>().map_err(text), Err(styles.to_owned()));
    let bodies = "body must be problem, json or none, got \"\"";
    assert_eq!("".parse::<BodyStyle>().map_err(text), Err(bodies.to_owned()));
    let error = HeaderOptions::default().quota_unit("größe").expect_err("no ASCII");
    assert_eq!(error.to_string(), "quota_unit must be printable ASCII characters, got \"größe\"");
    assert!(HeaderOptions::default().quota_unit("").is_err());
}
