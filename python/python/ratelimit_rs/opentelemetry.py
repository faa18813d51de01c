"""Decisions and failures of stores in OpenTelemetry: as metrics, and as events of the current span.

    from ratelimit_rs import Limiter, Policy
    from ratelimit_rs.opentelemetry import Telemetry

    telemetry = Telemetry()
    limiter = Limiter(
        Policy.parse("100/m"), on_decision=telemetry.on_decision, on_store_error=telemetry.on_store_error
    )

Needs `opentelemetry-api` (`pip install 'ratelimit_rs[opentelemetry]'`); what is recorded goes where the program's SDK says.

| metric | |
|---|---|
| `ratelimit.decisions` | counter; attributes `policy`, `verb`, `allowed`, `source`, `degraded`, `store` |
| `ratelimit.duration` | histogram in seconds; attributes `policy`, `verb`, `source`, `store` |
| `ratelimit.store_errors` | counter; attributes `policy`, `verb`, `kind`, `store` |

The span that is current where the limiter is asked gets an event `ratelimit.decision` or `ratelimit.store_error`, with all
that the event's `context()` tells. Neither has a key; the span's event has a part of its hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

try:
    from opentelemetry import metrics, trace
except ImportError as _error:
    raise ImportError(
        "ratelimit_rs.opentelemetry needs opentelemetry-api: pip install 'ratelimit_rs[opentelemetry]'"
    ) from _error

if TYPE_CHECKING:
    from ._native import DecisionEvent, StoreErrorEvent

__all__ = ["Telemetry"]

# Seconds; a decision takes microseconds in memory and some hundreds of them on a server.
_BOUNDS = [0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0]


class Telemetry:
    """Records; its two methods are what a limiter's `on_decision` and `on_store_error` take.

    `meter_provider` is the program's own unless another is given. With `span_events=False` there are only metrics. One
    `Telemetry` may serve many limiters, from any thread.
    """

    def __init__(self, meter_provider: None | metrics.MeterProvider = None, *, span_events: bool = True) -> None:
        meter = metrics.get_meter("ratelimit_rs", meter_provider=meter_provider)
        self._span_events = span_events
        self._decisions = meter.create_counter("ratelimit.decisions", "{decision}", "What limiters have decided.")
        self._store_errors = meter.create_counter(
            "ratelimit.store_errors", "{error}", "Questions that a store gave no usable answer to."
        )
        self._duration = meter.create_histogram(
            "ratelimit.duration", "s", "How long decisions took.", explicit_bucket_boundaries_advisory=_BOUNDS
        )

    def on_decision(self, event: DecisionEvent) -> None:
        """Records a decision."""
        decision = event.decision
        shared: dict[str, str] = {
            "policy": event.policy,
            "verb": event.verb,
            "source": decision.source,
            "store": event.store,
        }
        self._decisions.add(1, {**shared, "allowed": decision.allowed, "degraded": decision.degraded})
        self._duration.record(event.duration, shared)
        self._add_event("ratelimit.decision", event)

    def on_store_error(self, event: StoreErrorEvent) -> None:
        """Records a failure."""
        attributes = {"policy": event.policy, "verb": event.verb, "kind": event.kind, "store": event.store}
        self._store_errors.add(1, attributes)
        self._add_event("ratelimit.store_error", event)

    def _add_event(self, name: str, event: DecisionEvent | StoreErrorEvent) -> None:
        if not self._span_events:
            return
        span = trace.get_current_span()
        if span.is_recording():
            # An attribute has a value: what never passes has no `retry_after`.
            span.add_event(name, {key: value for key, value in event.context().items() if value is not None})
