"""What is told of decisions and failures: to functions, to `logging`, to OpenTelemetry. It changes nothing."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import math
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from servers import RedisServer, free_port

from ratelimit_rs import (
    DecisionEvent,
    Limiter,
    ManualClock,
    Policy,
    Store,
    StoreErrorEvent,
    StoreUnavailable,
    aio,
    metrics,
)
from ratelimit_rs.logging import Log
from ratelimit_rs.opentelemetry import Telemetry

KEY = "ada@example.org"
LOGIN = Policy.token_bucket(3, 1, 3600, name="login")


@pytest.fixture
def unraisable(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[BaseException | None, Any]]]:
    """What functions that nobody waits for have raised, and which they were."""
    raised: list[tuple[BaseException | None, Any]] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.append((args.exc_value, args.object)))
    yield raised


def nobody() -> Store:
    return Store.redis(f"redis://127.0.0.1:{free_port()}")


def failures() -> int:
    lines = [line for line in metrics().splitlines() if line.startswith("rate_limiter_callback_failures_total ")]
    return int(lines[0].split()[1]) if lines else 0


def test_each_decision_is_told_with_its_numbers_and_never_with_the_key(server: RedisServer) -> None:
    told: list[DecisionEvent] = []
    limiter = Limiter(LOGIN, Store.redis(server.dsn), hash_keys=True, secret="secret", on_decision=told.append)
    limiter.reset(KEY)
    decisions = [
        limiter.allow(KEY, 2),
        limiter.peek(KEY),
        limiter.reserve(KEY),
        limiter.allow(KEY),
        *limiter.allow_many(["another", ("another", 9)]),
    ]
    limiter.refund(KEY)
    assert [event.verb for event in told] == ["allow", "peek", "reserve", "allow", "allow", "allow", "refund"]
    assert [event.cost for event in told] == [2, 1, 1, 1, 1, 9, 1]
    for event, decision in zip(told, decisions, strict=False):
        assert event.decision == decision
        assert (event.policy, event.store) == ("login", "redis")
        assert 0 < event.duration < 60
        context = event.context()
        names = ("allowed", "limit", "remaining", "reset_after", "delay", "source", "degraded")
        assert all(context[name] == getattr(decision, name) for name in names)
        assert context["retry_after"] == (None if math.isinf(decision.retry_after) else decision.retry_after)
    assert told[5].context()["retry_after"] is None
    assert "ada" not in repr(told)
    assert told[0].key == told[3].key != told[4].key
    with server.client() as client:
        assert any(f"{{#{told[0].key}".encode() in key for key in client.keys("*"))


def test_a_stopped_server_is_told_and_then_what_the_rule_has_made_of_it(own_server: RedisServer) -> None:
    told: list[Any] = []
    limiter = Limiter(
        LOGIN, Store.redis(own_server.dsn), on_error="open", on_decision=told.append, on_store_error=[told.append]
    )
    own_server.stop()
    limiter.allow(KEY)
    with pytest.raises(StoreUnavailable):
        limiter.reset(KEY)
    failed, ruled, reset = told
    assert isinstance(failed, StoreErrorEvent)
    assert (failed.verb, failed.policy, failed.kind, failed.cost, failed.store) == ("allow", "login", "refused", 1, "redis")
    assert isinstance(failed.error, StoreUnavailable)
    assert failed.error.kind == "refused"
    assert failed.context()["error"] == str(failed.error)
    assert "127.0.0.1" in str(failed.error)
    assert (ruled.decision.source, ruled.decision.degraded) == ("fail_open", True)
    assert (reset.verb, reset.cost) == ("reset", 0)
    assert "ada" not in repr(told) + str(failed.error)


def test_what_a_function_raises_is_reported_and_changes_nothing(unraisable: list[tuple[BaseException, Any]]) -> None:
    def fail(event: object) -> None:
        raise ValueError("not today")

    told: list[DecisionEvent] = []
    limiter = Limiter(LOGIN, Store.memory(), on_decision=[fail, told.append])
    before = failures()
    assert [limiter.allow(KEY).remaining, limiter.allow(KEY).remaining] == [2, 1]
    assert len(told) == 2
    assert [(type(raised), str(raised), by) for raised, by in unraisable] == [(ValueError, "not today", fail)] * 2
    assert failures() == before + 2

    def interrupt(event: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Limiter(LOGIN, Store.memory(), on_decision=interrupt).allow(KEY)


@pytest.mark.parametrize("kind", ["memory", "shared", "redis"])
def test_a_function_may_ask_the_same_limiter_of_which_nothing_is_told(kind: str, server: RedisServer) -> None:
    store = {"memory": Store.memory(), "shared": Store.shared(), "redis": Store.redis(server.dsn, timeout=5)}[kind]
    told: list[DecisionEvent] = []

    def ask(event: DecisionEvent) -> None:
        told.append(event)
        limiter.allow("from the function")

    limiter = Limiter(Policy.token_bucket(3, 1, 3600, name="reentrant"), store, on_decision=ask)
    limiter.reset("from the function")
    limiter.reset(KEY)
    assert limiter.allow(KEY).allowed
    assert len(told) == 1
    assert limiter.peek("from the function").remaining == 2


def test_a_wait_is_told_step_by_step_with_a_clock_of_any_kind() -> None:
    class Clock:
        def now(self) -> float:
            return 1_700_000_000.0

    told: list[str] = []

    def tell(event: DecisionEvent) -> None:
        told.append(f"{event.verb} {'allowed' if event.decision.allowed else 'denied'}")

    window = Policy.fixed_window(1, 10)
    limiter = Limiter(window, Store.memory(), clock=ManualClock(), on_decision=tell)
    limiter.allow(KEY)
    limiter.wait(KEY)
    assert told == ["allow allowed", "allow denied", "allow allowed"]
    Limiter(window, Store.memory(), clock=Clock(), on_decision=tell).allow(KEY)
    assert len(told) == 4


def test_threads_hear_of_their_own_calls(server: RedisServer) -> None:
    told: list[tuple[int, int]] = []

    def tell(event: DecisionEvent) -> None:
        told.append((threading.get_ident(), event.cost))

    limiter = Limiter(Policy.token_bucket(10_000, 1, 3600), Store.redis(server.dsn, timeout=5), on_decision=tell)
    expected: list[tuple[int, int]] = []

    def work(cost: int) -> None:
        for _ in range(50):
            limiter.allow(f"thread {cost}", cost)
        expected.extend([(threading.get_ident(), cost)] * 50)

    threads = [threading.Thread(target=work, args=(cost,)) for cost in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(told) == sorted(expected)


def test_awaited_calls_are_told_in_the_context_of_their_task(own_server: RedisServer) -> None:
    task = contextvars.ContextVar("task", default="none")
    told: list[str] = []
    loop_thread = threading.get_ident()

    def tell(event: DecisionEvent | StoreErrorEvent) -> None:
        assert threading.get_ident() == loop_thread
        what = event.kind if isinstance(event, StoreErrorEvent) else event.decision.source
        told.append(f"{task.get()} {event.verb} {event.cost} {what}")

    async def main() -> None:
        limiter = aio.Limiter(
            LOGIN, Store.redis(own_server.dsn, timeout=5), on_error="closed", on_decision=tell, on_store_error=tell
        )

        async def ask(name: str) -> None:
            task.set(name)
            await limiter.allow(name)
            await limiter.peek(name, 2)

        await asyncio.gather(ask("one"), ask("two"))
        assert sorted(told) == ["one allow 1 store", "one peek 2 store", "two allow 1 store", "two peek 2 store"]
        told.clear()
        await limiter.wait("three")
        await limiter.allow_many(["four", ("four", 2)])
        await limiter.refund("four")
        assert told == ["none reserve 1 store", "none allow 1 store", "none allow 2 store", "none refund 1 store"]
        own_server.stop()
        told.clear()
        await limiter.allow("five")
        with pytest.raises(StoreUnavailable):
            await limiter.reset("five")
        assert told[1:] == ["none allow 1 fail_closed", "none reset 0 refused"]
        assert told[0] in ("none allow 1 refused", "none allow 1 closed")

    asyncio.run(main())


def test_a_call_whose_task_was_cancelled_is_told_all_the_same(server: RedisServer) -> None:
    told: list[str] = []
    limiter = aio.Limiter(
        LOGIN, Store.redis(server.dsn, timeout=5), on_decision=lambda event: told.append(event.decision.source)
    )

    async def main() -> None:
        asked = asyncio.ensure_future(limiter.allow("cancelled"))
        await asyncio.sleep(0)
        asked.cancel()
        while not told:
            await asyncio.sleep(0.001)
        assert asked.cancelled()

    asyncio.run(asyncio.wait_for(main(), 30))
    assert told == ["store"]


def test_what_an_awaited_calls_function_raises_changes_nothing(
    server: RedisServer, unraisable: list[tuple[BaseException, Any]]
) -> None:
    def fail(event: object) -> None:
        raise ValueError("not today")

    limiter = aio.Limiter(LOGIN, Store.redis(server.dsn, timeout=5), on_decision=fail)

    async def main() -> None:
        await limiter.reset("raising")
        assert (await limiter.allow("raising")).remaining == 2

    asyncio.run(main())
    assert [str(raised) for raised, _ in unraisable] == ["not today"]


def test_a_limiter_that_only_its_own_function_knows_is_collected() -> None:
    class Holder:
        limiter: Limiter

        def tell(self, event: DecisionEvent) -> None: ...

    holder = Holder()
    holder.limiter = Limiter(LOGIN, Store.memory(), on_decision=holder.tell)
    gone = weakref.ref(holder)
    del holder
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("wrong", [5, "name", [print, 5]])
def test_what_is_no_function_is_a_type_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match="on_decision must be a function or a list of them, got (int|str)"):
        Limiter(LOGIN, Store.memory(), on_decision=wrong)
    with pytest.raises(TypeError, match="on_store_error must be"):
        Limiter(LOGIN, Store.memory(), on_store_error=wrong)


def test_a_log_has_a_level_for_each_kind_and_one_line_a_second(
    own_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    now = [0.0]
    log = Log(clock=lambda: now[0])
    limiter = Limiter(
        LOGIN,
        Store.redis(own_server.dsn),
        on_error="open",
        on_decision=log.on_decision,
        on_store_error=log.on_store_error,
    )
    caplog.set_level(logging.DEBUG, logger="ratelimit_rs")
    limiter.allow(KEY, 3)
    assert caplog.records == []
    for _ in range(5):
        limiter.allow(KEY)
    now[0] = 1.0
    limiter.allow(KEY)
    own_server.stop()
    for _ in range(3):
        limiter.allow("somebody else")
    now[0] = 2.0
    limiter.allow("somebody else")
    lines = [(record.levelname, record.__dict__["ratelimit"]["left_out"]) for record in caplog.records]
    assert lines == [("INFO", 0), ("INFO", 4), ("ERROR", 0), ("WARNING", 0), ("ERROR", 2), ("WARNING", 2)]
    assert {record.name for record in caplog.records} == {"ratelimit_rs"}
    texts = [record.getMessage() for record in caplog.records]
    assert texts[1].startswith("policy login refuses allow of ")
    assert texts[1].endswith(" (4 more like it)")
    assert texts[3] == "the store is away; the failure rule (fail_open) answers"
    assert not any("ada" in text for text in texts)


def test_allowed_calls_are_lines_when_they_have_a_level(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("ratelimit_rs.tested")
    log = Log(logger, interval=0, allowed=logging.DEBUG)
    limiter = Limiter(LOGIN, Store.memory(), on_decision=log.on_decision)
    caplog.set_level(logging.INFO, logger=logger.name)
    limiter.allow(KEY)
    caplog.set_level(logging.DEBUG, logger=logger.name)
    limiter.allow(KEY)
    limiter.allow(KEY)
    assert [record.levelname for record in caplog.records] == ["DEBUG", "DEBUG"]


def test_telemetry_counts_measures_and_tells_the_current_span(own_server: RedisServer) -> None:
    reader, exporter = InMemoryMetricReader(), InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = tracers.get_tracer("tests")
    telemetry = Telemetry(MeterProvider([reader]))
    dsn = own_server.dsn
    told = {"on_decision": telemetry.on_decision, "on_store_error": telemetry.on_store_error}
    limiter = Limiter(LOGIN, Store.redis(dsn, timeout=5), on_error="open", **told)  # type: ignore[arg-type]
    awaited = aio.Limiter(LOGIN, Store.redis(dsn, timeout=5), on_error="open", **told)  # type: ignore[arg-type]

    async def ask() -> None:
        with tracer.start_as_current_span("awaited"):
            await awaited.allow(KEY, 9)

    with tracer.start_as_current_span("asked"):
        limiter.allow(KEY, 3)
        limiter.allow(KEY)
    asyncio.run(ask())
    own_server.stop()
    with tracer.start_as_current_span("away"):
        limiter.allow("somebody else")
    limiter.allow("somebody else")

    spans = {span.name: [(event.name, dict(event.attributes or {})) for event in span.events] for span in exporter.get_finished_spans()}
    assert [name for name, _ in spans["asked"]] == ["ratelimit.decision"] * 2
    first, second = (attributes for _, attributes in spans["asked"])
    assert (first["allowed"], first["cost"], first["remaining"], first["policy"]) == (True, 3, 0, "login")
    assert (second["allowed"], second["source"], second["key"]) == (False, "deny_cache", first["key"])
    # The span of the task, though the answer came while another was current or none; never passes, so no retry_after.
    [(name, attributes)] = spans["awaited"]
    assert (name, attributes["allowed"], "retry_after" in attributes) == ("ratelimit.decision", False, False)
    assert [name for name, _ in spans["away"]] == ["ratelimit.store_error", "ratelimit.decision"]
    assert spans["away"][0][1]["kind"] in ("refused", "closed")
    assert "ada" not in str(spans)

    data = reader.get_metrics_data()
    assert data is not None
    points = {
        metric.name: list(metric.data.data_points)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    counted = {
        (str(point.attributes["source"]), bool(point.attributes["allowed"])): point.value
        for point in points["ratelimit.decisions"]
        if point.attributes
    }
    denied = counted.pop(("store", False), 0) + counted.pop(("deny_cache", False))
    assert (counted, denied) == ({("store", True): 1, ("fail_open", True): 2}, 2)
    assert sum(point.count for point in points["ratelimit.duration"]) == 5
    assert sum(point.value for point in points["ratelimit.store_errors"]) == 2
    labels = {str(name) for point in points["ratelimit.decisions"] for name in point.attributes or {}}
    assert labels == {"policy", "verb", "allowed", "source", "degraded", "store"}


def test_spans_are_left_alone_where_only_metrics_are_wanted() -> None:
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = Telemetry(MeterProvider(), span_events=False)
    limiter = Limiter(LOGIN, nobody(), on_error="open", on_decision=telemetry.on_decision)
    with tracers.get_tracer("tests").start_as_current_span("asked"):
        limiter.allow(KEY)
    assert [list(span.events) for span in exporter.get_finished_spans()] == [[]]
