//! Events as those of the crate `tracing`, of the target `ratelimit`.

use tracing::level_filters::LevelFilter;
use tracing::{Level, event};

use super::{DecisionEvent, StoreErrorEvent};
use crate::clock::us_to_seconds;

/// The target of all events.
const TARGET: &str = "ratelimit";

/// Whether anybody collects anything at all.
#[inline]
pub(super) fn enabled() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// A macro, since the level of an event is part of the place it comes from.
macro_rules! decision_at {
    ($level:expr, $event:expr, $text:literal) => {{
        let (asked, decision) = ($event.asked, $event.decision);
        event!(
            target: TARGET,
            $level,
            verb = asked.verb,
            policy = $event.policy.name(),
            key = asked.key.as_str(),
            cost = asked.cost,
            allowed = decision.allowed(),
            limit = decision.limit(),
            remaining = decision.remaining(),
            retry_after = decision.retry_after().map_or(f64::INFINITY, |_| us_to_seconds(decision.retry_after_us())),
            source = decision.source().as_str(),
            degraded = decision.degraded(),
            store = asked.store.as_str(),
            duration = asked.duration.as_secs_f64(),
            $text
        )
    }};
}

/// An allowed call is `DEBUG`, a denied one `INFO`, an answer of a failure rule `WARN`.
pub(super) fn decision(event: &DecisionEvent<'_>) {
    if event.decision.degraded() {
        decision_at!(Level::WARN, event, "the failure rule has decided");
    } else if event.decision.allowed() {
        decision_at!(Level::DEBUG, event, "allowed");
    } else {
        decision_at!(Level::INFO, event, "denied");
    }
}

/// `ERROR`.
pub(super) fn store_error(event: &StoreErrorEvent<'_>) {
    event!(
        target: TARGET,
        Level::ERROR,
        verb = event.asked.verb,
        policy = event.policy.name(),
        key = event.asked.key.as_str(),
        cost = event.asked.cost,
        store = event.asked.store.as_str(),
        kind = event.error.store_kind().map_or("", crate::error::StoreErrorKind::as_str),
        error = %event.error,
        duration = event.asked.duration.as_secs_f64(),
        "the store gave no usable answer"
    );
}
