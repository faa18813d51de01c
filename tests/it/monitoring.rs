use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use ratelimit_core::{FailureRule, Limiter, Policy, Source, metrics, store};
use ratelimit_tests::server::free_port;
use ratelimit_tests::wire::{Fate, Wire};
use ratelimit_tests::{RedisServer, SharedFile};

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the project's folder").join("docs").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Does everything that is counted, and gives the labels that each metric has then.
fn told() -> BTreeMap<String, BTreeSet<String>> {
    let server = RedisServer::start();
    let (silent, nobody) = (Wire::start(None, |_| Fate::Silence), format!("redis://127.0.0.1:{}", free_port()));
    let slow = silent.dsn("?timeout=0.02&connect_timeout=0.02");
    let ask = |dsn: &str, rule, times| {
        let policy = Policy::fixed_window(2, 3600.0).and_then(|policy| policy.named("monitored")).expect("a policy");
        let builder = Limiter::builder(policy).store(store::open(dsn).expect("a store")).on_error(rule);
        let limiter = builder.build().expect("a limiter");
        let key = format!("monitored {}", std::process::id());
        let sources = (0..times).map(|_| limiter.allow(&key, 1).map(|decision| decision.source()));
        let sources: Vec<_> = sources.collect();
        let _ = limiter.refund(&key, 1);
        sources
    };
    assert_eq!(ask(&server.dsn(), FailureRule::Throw, 4).last(), Some(&Ok(Source::DenyCache)));
    assert_eq!(ask(&nobody, FailureRule::Open, 1), [Ok(Source::FailOpen)]);
    assert_eq!(ask(&slow, FailureRule::Closed, 6).last(), Some(&Ok(Source::FailClosed)));
    assert_eq!(ask(&nobody, FailureRule::Local, 3).last(), Some(&Ok(Source::Local)));
    let file = SharedFile::new();
    assert_eq!(ask(&file.dsn(), FailureRule::Throw, 1), [Ok(Source::Store)]);
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in metrics::text().lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).expect("a name and a value");
        let labels = rest.split_once('}').map_or("", |(labels, _)| labels);
        let labels = labels.split("\",").filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
        told.entry(name.to_owned()).or_default().extend(labels);
    }
    told
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The metrics that a text names.
fn named(text: &str) -> BTreeSet<&str> {
    text.split(|c| !is_word(c)).filter(|word| word.starts_with("rate_limiter_")).collect()
}

/// The labels that a query looks at: after `by`, and in braces.
fn labels_of(query: &str) -> BTreeSet<&str> {
    let by = query.split("by (").skip(1).filter_map(|rest| rest.split(')').next());
    let by = by.flat_map(|list| list.split(',').map(str::trim));
    let matched = query.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    let matched = matched.flat_map(|list| list.split(',').filter_map(|label| label.split(['=', '!']).next()));
    by.chain(matched.map(str::trim)).collect()
}

/// The labels that Prometheus gives to whatever it collects.
const GIVEN: [&str; 2] = ["job", "instance"];

fn check(query: &str, told: &BTreeMap<String, BTreeSet<String>>) {
    let names = named(query);
    assert!(!names.is_empty(), "{query}");
    let known: BTreeSet<&str> = names
        .iter()
        .flat_map(|name| match told.get(*name) {
            Some(labels) => labels.iter().map(String::as_str),
            None => panic!("{name} in {query} is no metric: {:?}", told.keys()),
        })
        .collect();
    for label in labels_of(query) {
        assert!(GIVEN.contains(&label) || known.contains(label), "nothing in {query} has a label {label}");
    }
}

#[test]
fn dashboard_alerts_and_page_name_metrics_and_labels_that_there_are() {
    let told = told();
    let dashboard: serde_json::Value = serde_json::from_str(&page("monitoring/dashboard.json")).expect("JSON");
    let panels = dashboard["panels"].as_array().expect("panels");
    let mut queries = 0;
    for target in panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten() {
        let query = target["expr"].as_str().expect("a query");
        check(query, &told);
        let legend = target["legendFormat"].as_str().expect("a legend");
        for label in legend.split("{{").skip(1).filter_map(|rest| rest.split("}}").next()) {
            assert!(labels_of(query).contains(label) || GIVEN.contains(&label), "{legend} of {query}");
        }
        queries += 1;
    }
    assert!(queries >= 20, "{queries} queries");
    for variable in dashboard["templating"]["list"].as_array().expect("variables") {
        if let Some(query) = variable["query"]["query"].as_str() {
            check(query, &told);
        }
    }

    let alerts = page("monitoring/alerts.yml");
    let rules: Vec<&str> = alerts.split("- alert: ").skip(1).collect();
    assert!(rules.len() >= 10, "{} rules", rules.len());
    for rule in rules {
        let query = rule.split("expr:").nth(1).and_then(|rest| rest.split("\n        for:").next()).expect("a query");
        let query = query.split("\n        labels:").next().expect("a query");
        check(query, &told);
        for label in rule.split("$labels.").skip(1).filter_map(|rest| rest.split(|c| !is_word(c)).next()) {
            let plain = !query.contains("by (") && GIVEN.contains(&label);
            assert!(plain || labels_of(query).contains(label), "{label} in\n{rule}");
        }
    }

    // The page has all of them. A histogram is three: its classes, their sum and their number.
    let page = page("monitoring.md");
    let page = named(&page);
    for name in told.keys() {
        let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
        assert!(page.contains(histogram.unwrap_or(name)), "docs/monitoring.md does not speak of {name}");
    }
    // Those of calls to APIs are made by other tests, perhaps not in this process.
    for name in page.into_iter().filter(|name| !name.starts_with("rate_limiter_outbound_")) {
        assert!(told.contains_key(name) || told.contains_key(&format!("{name}_bucket")), "there is no {name}");
    }
}
