"""The governor: asked before a request and told after it."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path
from typing import Any

import pytest
from servers import free_port

import ratelimit_rs.outbound
from ratelimit_rs import InvalidArgument, ManualClock, Policy, Store, StoreUnavailable, metrics
from ratelimit_rs.outbound import (
    Fail,
    GlobalLimit,
    Go,
    Governor,
    InvalidRequestLimit,
    Limit,
    RecordingSleeper,
    Refuse,
    Retry,
    Return,
    Wait,
    parse_headers,
    request_options,
)

VECTORS = Path(__file__).parents[2] / "tests" / "vectors" / "headers" / "parse"
PAGE = Path(__file__).parents[2] / "docs" / "outbound.md"
URL = "https://api.test/things"
MEMBERS = ("limit", "remaining", "reset_after", "reset_at", "retry_after", "bucket", "scope", "rate_limited", "wait")


def vectors() -> list[Any]:
    cases = []
    for file in sorted(VECTORS.glob("*.json")):
        cases += [pytest.param(case, id=f"{file.stem}: {case['name']}") for case in json.loads(file.read_text())["cases"]]
    return cases


@pytest.mark.parametrize("case", vectors())
def test_headers_are_read_as_the_vectors_say(case: dict[str, Any]) -> None:
    headers = [(name, value) for name, value in case["headers"]]
    seen = parse_headers(case["preset"], case["status"], headers, case.get("body"), now=case["now"])
    expected = {member: case["expect"].get(member) for member in MEMBERS}
    expected["rate_limited"] = bool(expected["rate_limited"])
    got = {member: getattr(seen, member, None) for member in MEMBERS}
    got["rate_limited"] = bool(got["rate_limited"])
    assert got == pytest.approx(expected)


def governor(preset: str = "default", **options: Any) -> tuple[Governor, ManualClock]:
    clock = ManualClock()
    options.setdefault("store", Store.memory())
    return Governor(preset, clock=clock, **options), clock


def exhausted(reset: str) -> list[tuple[str, str]]:
    return [("X-RateLimit-Limit", "9"), ("X-RateLimit-Remaining", "0"), ("X-RateLimit-Reset", reset)]


def test_a_request_waits_for_the_reset_that_another_one_was_told() -> None:
    one, clock = governor(safety_buffer=0.5)
    go = one.before("GET", URL)
    assert isinstance(go, Go) and go.ticket.route == "GET api.test /things"
    told = one.after(go.ticket, 200, exhausted("42"))
    assert isinstance(told, Return) and told.observation is not None and told.observation.limit == 9
    wait = one.before("GET", URL)
    assert isinstance(wait, Wait) and (wait.delay, wait.reason) == (42.5, "quota")
    state = one.state("GET", URL)
    assert state is not None and (state.limit, state.remaining, state.retry_after) == (9, 0, 42.5)
    clock.advance(wait.delay)
    assert isinstance(one.resume(wait.ticket), Go)


def test_a_refusal_is_retried_and_then_fails() -> None:
    one, clock = governor(max_retries=2)
    answer: Any = one.before("GET", URL)
    delays = []
    while isinstance(answer, Go):
        after = one.after(answer.ticket, 429, {"Retry-After": "3"})
        if isinstance(after, Fail):
            break
        assert isinstance(after, Retry)
        delays.append((after.delay, after.attempt))
        clock.advance(after.delay)
        answer = one.resume(after.ticket)
    assert delays == [(3.0, 1), (3.0, 2)]
    assert (after.retry_after, after.is_global, after.too_long) == (3.0, False, False)


def test_who_does_not_wait_that_long_is_refused() -> None:
    one, _ = governor(max_delay=60)
    go = one.before("GET", URL)
    assert isinstance(go, Go)
    one.after(go.ticket, 200, exhausted("10800"))
    refused = one.before("GET", URL)
    assert isinstance(refused, Refuse) and refused.delay == 10801.0
    assert isinstance(one.before("GET", URL, max_delay=None), Wait)
    assert isinstance(one.before("GET", URL, enabled=False), Go)
    assert isinstance(one.before("GET", URL, bucket="other"), Go)
    assert isinstance(one.before("GET", URL, identity="other"), Go)
    one.forget("GET", URL)
    assert one.state("GET", URL) is None


def test_own_limits_apply_where_they_are_told_to() -> None:
    asked = []

    def writes(method: str, url: str) -> bool:
        asked.append((method, url))
        return method == "POST"

    limits = [
        Limit(Policy.fixed_window(1, 10), applies_to="/slow/*", scope="everything"),
        Limit("1/m", applies_to=writes, name="writes"),
    ]
    one, _ = governor(limits=limits, global_limit=GlobalLimit(4, 1.0, exempt_paths=["/free"]))

    def ask(method: str, path: str) -> str:
        answer = one.before(method, "https://api.test" + path, identity=path)
        return "go" if isinstance(answer, Go) else getattr(answer, "reason")

    assert [ask("GET", "/slow/1"), ask("GET", "/slow/2")] == ["go", "limit"]
    assert ask("POST", "/x") == "go"
    assert ("POST", "https://api.test/x") in asked
    budget = one.global_budget("GET", URL, identity="/x")
    assert budget is not None and (budget.limit, budget.remaining) == (4, 3)
    assert one.invalid_request_budget("GET", URL) is None


def test_discord_comes_with_its_limits() -> None:
    one, _ = governor("discord")
    url = "https://discord.com/api/v10/users/@me"
    go = one.before("GET", url)
    assert isinstance(go, Go)
    one.after(go.ticket, 401, [])
    invalid, everything = one.invalid_request_budget("GET", url), one.global_budget("GET", url)
    assert invalid is not None and (invalid.limit, invalid.remaining) == (10_000, 9_999)
    assert everything is not None and (everything.limit, everything.remaining) == (50, 49)
    assert InvalidRequestLimit(5, 60, [403], []) is not None


def test_strategies_and_header_names_of_ones_own() -> None:
    seen = []

    def strategy(status: int, attempt: int, observation: Any) -> float | None:
        seen.append((status, attempt, observation))
        return 7.0 if attempt == 0 else None

    names = {"limit": "x-max", "remaining": "x-left", "reset": "x-next"}
    one, _ = governor(retry_status_codes=[503], strategy=strategy, headers=names)
    go = one.before("GET", URL)
    assert isinstance(go, Go)
    after = one.after(go.ticket, 503, [("X-Max", "5"), (b"X-Left", b"0"), ("X-Next", "30")])
    assert isinstance(after, Retry) and after.delay == 7.0
    assert seen[0][:2] == (503, 0) and seen[0][2].limit == 5
    wait = one.before("GET", URL)
    assert isinstance(wait, Wait) and wait.delay == 31.0


def test_a_store_that_is_away_is_stood_in_for_unless_that_is_not_wanted() -> None:
    away = f"redis://127.0.0.1:{free_port()}"
    rules: list[Any] = [None, "local", "open"]
    for rule in rules:
        go = Governor(store=away, on_error=rule).before("GET", URL, bucket=f"{rule} of {away}")
        assert isinstance(go, Go) and go.ticket.degraded
    wait = Governor(store=away, on_error="closed").before("GET", URL)
    assert isinstance(wait, Wait) and (wait.reason, wait.delay) == ("store", 1.0)
    with pytest.raises(StoreUnavailable):
        Governor(store=away, on_error="throw").before("GET", URL)
    with pytest.raises(InvalidArgument, match="on_error must be throw, open, closed or local"):
        Governor(store=away, on_error="never")  # type: ignore[arg-type]
    go = Governor(store=Store.memory()).before("GET", URL)
    assert isinstance(go, Go) and not go.ticket.degraded


def test_a_resolver_says_what_is_counted_together() -> None:
    one, _ = governor("twitter", resolver=lambda method, url: "both" if url.endswith("?x") else None)
    go = one.before("GET", URL + "/a?x")
    assert isinstance(go, Go)
    headers = [("x-rate-limit-limit", "9"), ("x-rate-limit-remaining", "0"), ("x-rate-limit-reset", "1700000060")]
    one.after(go.ticket, 200, headers)
    assert isinstance(one.before("POST", URL + "/b?x"), Wait)
    assert isinstance(one.before("GET", URL + "/a"), Go)
    assert isinstance(one.before("GET", URL + "/c?x", bucket="other"), Go)
    with pytest.raises(TypeError, match="resolver"):
        governor(resolver="no function")


def test_work_is_counted_and_no_key_is_seen() -> None:
    one, _ = governor("notion")
    go = one.before("GET", URL, authorization="Bearer hunter2")
    assert isinstance(go, Go)
    one.after(go.ticket, 200, [])
    assert 'rate_limiter_outbound_requests_total{preset="notion"} 1\n' in metrics()
    assert "hunter2" not in metrics()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": True}, "max_retries"),
        ({"jitter": 2}, "jitter"),
        ({"jitter": float("nan")}, "jitter"),
        ({"safety_buffer": -1}, "safety_buffer"),
        ({"max_delay": 0}, "max_delay"),
        ({"max_delay": float("inf")}, "max_delay"),
        ({"max_store_ttl": 0}, "max_store_ttl"),
        ({"retry_status_codes": [42]}, "retry_status_codes"),
        ({"headers": {"limits": "x"}}, "headers"),
    ],
)
def test_options_out_of_range_are_refused_by_name(options: dict[str, Any], name: str) -> None:
    with pytest.raises(InvalidArgument, match=name):
        Governor(store=Store.memory(), **options)


def test_unknown_names_and_wrong_types_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="preset must be one of generic, .*myspace"):
        Governor("myspace", store=Store.memory())
    with pytest.raises(TypeError):
        Governor(store=Store.memory(), retries=3)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Governor(store=Store.memory(), max_retries="3")  # type: ignore[arg-type]
    one, _ = governor()
    with pytest.raises(TypeError):
        one.before("GET", URL, timeout=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgument, match="url"):
        one.before("GET", "/relative")
    with pytest.raises(InvalidArgument, match="rate_limit"), request_options(retries=3):
        pass
    with pytest.raises(TypeError):
        parse_headers("github", 200, 5)  # type: ignore[arg-type]


def test_no_credential_is_in_what_may_be_logged() -> None:
    one, _ = governor("discord", secret="pepper")
    go = one.before("POST", "https://discord.com/api/webhooks/5/hunter2?x=hunter2", authorization="Bot hunter2")
    assert isinstance(go, Go)
    assert "hunter2" not in f"{one!r} {go!r} {go.ticket!r}"


def test_a_clock_of_ones_own_is_asked() -> None:
    class Clock:
        at = 1_700_000_000.0

        def now(self) -> float:
            return self.at

    clock = Clock()
    one = Governor(store=Store.memory(), clock=clock, safety_buffer=0)
    go = one.before("GET", URL)
    assert isinstance(go, Go)
    one.after(go.ticket, 200, exhausted("1700000030"))
    wait = one.before("GET", URL)
    assert isinstance(wait, Wait) and wait.delay == 30.0
    clock.at += 30
    assert isinstance(one.before("GET", URL), Go)


def test_the_examples_of_the_page_run() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)


def test_the_examples_give_what_they_say() -> None:
    names = {name: getattr(ratelimit_rs, name) for name in ratelimit_rs.__all__}
    names |= {name: getattr(ratelimit_rs.outbound, name) for name in ratelimit_rs.outbound.__all__}
    things = [ratelimit_rs.outbound.__doc__, RecordingSleeper.__doc__, request_options.__doc__]
    things += [Governor.__doc__, Limit.__doc__, parse_headers.__doc__]
    for text in things:
        example = doctest.DocTestParser().get_doctest(text or "", dict(names), "outbound", None, None)
        results = doctest.DocTestRunner(verbose=False).run(example)
        assert results.attempted > 0 and results.failed == 0
