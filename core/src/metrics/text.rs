//! The counters in the form that Prometheus collects.

use prometheus::TextEncoder;
use prometheus::proto::{Bucket, Counter, Gauge, Histogram, LabelPair, Metric, MetricFamily, MetricType};

use super::board::{Board, GeneralCounts, PolicyCounts, board};
use super::{LATENCY_BOUNDS_US, outbound};
use crate::clock::us_to_seconds;
use crate::decision::Source;
use crate::error::StoreErrorKind;
use crate::store;

/// All metrics as text, as a Prometheus server collects them.
///
/// ```
/// use ratelimit_core::{Limiter, Policy, metrics, store};
///
/// let policy = Policy::token_bucket(10, 1.0, 1.0)?.named("documented")?;
/// Limiter::new(policy, store::memory(10)?)?.allow("user:42", 1)?;
/// let line = "rate_limiter_allowed_total{policy=\"documented\",source=\"store\"} 1";
/// assert!(metrics::text().contains(line));
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
pub fn text() -> String {
    TextEncoder::new().encode_to_string(&families()).unwrap_or_default()
}

/// All metrics, for a program that collects others as well and encodes them together.
pub fn families() -> Vec<MetricFamily> {
    let mut families = board().map(counted).unwrap_or_default();
    families.extend(states());
    families.retain(|family| !family.get_metric().is_empty());
    families
}

/// What is counted, by all processes that share the counters.
fn counted(board: &Board) -> Vec<MetricFamily> {
    let (policies, general) = (board.policies(), board.general());
    let errors = StoreErrorKind::ALL.iter().zip(general.errors).filter(|(_, count)| *count > 0);
    vec![
        by_source("rate_limiter_allowed_total", "Calls that were let pass.", &policies, |it| &it.allowed),
        by_source("rate_limiter_denied_total", "Calls that were refused.", &policies, |it| &it.denied),
        by_policy(
            "rate_limiter_fail_open_total",
            "Calls that were let pass because the store gave no answer.",
            &policies,
            Source::FailOpen,
        ),
        by_policy(
            "rate_limiter_fallback_total",
            "Calls that this host's own store decided because the store gave no answer.",
            &policies,
            Source::Local,
        ),
        family(
            "rate_limiter_redis_errors_total",
            "Questions that Redis gave no usable answer to.",
            MetricType::COUNTER,
            errors.map(|(kind, count)| counter(&[("kind", kind.as_str())], count)).collect(),
        ),
        family(
            "rate_limiter_dropped_refunds_total",
            "Refunds that were dropped because the store gave no answer.",
            MetricType::COUNTER,
            vec![counter(&[], general.dropped_refunds)],
        ),
        family(
            "rate_limiter_callback_failures_total",
            "Callbacks for events that failed.",
            MetricType::COUNTER,
            vec![counter(&[], general.callback_failures)],
        ),
        family(
            "rate_limiter_breaker_openings_total",
            "How often a server was left alone because it kept its callers waiting.",
            MetricType::COUNTER,
            vec![counter(&[], general.opened_breakers)],
        ),
        family(
            "rate_limiter_redis_connections_total",
            "Connections to Redis that were made.",
            MetricType::COUNTER,
            vec![counter(&[], general.connections)],
        ),
        latency(&general),
    ]
    .into_iter()
    .chain(outbound::families(board))
    .collect()
}

/// How the stores of this process are now.
fn states() -> Vec<MetricFamily> {
    let state = store::states();
    let one = |name: &str, help: &str, value: u64| family(name, help, MetricType::GAUGE, vec![gauge(value)]);
    let mut families = vec![
        one("rate_limiter_breakers_open", "Stores of this process that are left alone for now.", state.open_breakers),
        one("rate_limiter_redis_idle_connections", "Connections of this process that wait to be used.", state.idle),
    ];
    if let Some(info) = state.shared {
        families.extend([
            one("rate_limiter_shared_store_slots", "States that the shared stores in use can hold.", info.slots),
            one("rate_limiter_shared_store_used_slots", "States in the shared stores that count.", info.used),
            family(
                "rate_limiter_shared_store_evicted_total",
                "Live states that the shared stores forgot to make room.",
                MetricType::COUNTER,
                vec![counter(&[], info.evicted)],
            ),
        ]);
    }
    families
}

fn by_source(name: &str, help: &str, policies: &[PolicyCounts], counts: fn(&PolicyCounts) -> &[u64]) -> MetricFamily {
    let of_policy = |policy: &PolicyCounts| -> Vec<Metric> {
        let counts = Source::ALL.iter().zip(counts(policy)).filter(|(_, count)| **count > 0);
        counts
            .map(|(source, count)| counter(&[("policy", &policy.name), ("source", source.as_str())], *count))
            .collect()
    };
    family(name, help, MetricType::COUNTER, policies.iter().flat_map(of_policy).collect())
}

/// All calls of one source, let pass or refused.
fn by_policy(name: &str, help: &str, policies: &[PolicyCounts], source: Source) -> MetricFamily {
    let index = super::source_index(source);
    let count = |policy: &PolicyCounts| policy.allowed[index] + policy.denied[index];
    let concerned = policies.iter().filter(|policy| count(policy) > 0);
    let metrics = concerned.map(|policy| counter(&[("policy", &policy.name)], count(policy))).collect();
    family(name, help, MetricType::COUNTER, metrics)
}

fn latency(general: &GeneralCounts) -> MetricFamily {
    let mut count = 0;
    let mut buckets = Vec::new();
    for (bound_us, in_class) in LATENCY_BOUNDS_US.iter().zip(general.latencies) {
        count += in_class;
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(us_to_seconds(*bound_us));
        bucket.set_cumulative_count(count);
        buckets.push(bucket);
    }
    let mut histogram = Histogram::default();
    histogram.set_sample_count(general.latencies.iter().sum());
    histogram.set_sample_sum(us_to_seconds(general.latency_sum_us));
    histogram.set_bucket(buckets);
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    let help = "How long Redis took to answer, in seconds.";
    family("rate_limiter_latency_seconds", help, MetricType::HISTOGRAM, vec![metric])
}

#[allow(clippy::cast_precision_loss)]
pub(super) fn counter(labels: &[(&str, &str)], count: u64) -> Metric {
    fraction(labels, count as f64)
}

/// A counter of something that is no whole number.
pub(super) fn fraction(labels: &[(&str, &str)], value: f64) -> Metric {
    let pair = |(name, value): &(&str, &str)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    };
    let mut counter = Counter::default();
    counter.set_value(value);
    let mut metric = Metric::from_label(labels.iter().map(pair).collect());
    metric.set_counter(counter);
    metric
}

#[allow(clippy::cast_precision_loss)]
fn gauge(value: u64) -> Metric {
    let mut gauge = Gauge::default();
    gauge.set_value(value as f64);
    Metric::from_gauge(gauge)
}

pub(super) fn family(name: &str, help: &str, kind: MetricType, metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(kind);
    family.set_metric(metrics);
    family
}
