"""The decisions that every language and every store must give, from the vectors at the top of the repository."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ratelimit_rs import Decision, Limiter, ManualClock, Policy, Store

VECTORS = Path(__file__).parents[2] / "tests" / "vectors"
EPOCH = 1_700_000_000


def cases(folder: str) -> list[Any]:
    found = []
    for path in sorted((VECTORS / folder).glob("*.json")):
        for case in json.loads(path.read_text())["cases"]:
            found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    assert found, f"no vectors in {VECTORS / folder}"
    return found


def policy(numbers: dict[str, Any]) -> Policy:
    """The policy that a vector describes: each algorithm is a static method with the vector's members as arguments."""
    arguments = dict(numbers)
    algorithm = arguments.pop("algorithm")
    make = getattr(Policy, "parse" if algorithm == "parsed" else algorithm)
    made = make(**arguments)
    assert isinstance(made, Policy)
    return made


def policies(described: dict[str, Any]) -> Policy | list[Policy] | None:
    """What a case or a step says of policies, if it does."""
    if described.get("policies") is not None:
        return [policy(numbers) for numbers in described["policies"]]
    return policy(described["policy"]) if described.get("policy") is not None else None


def microseconds(seconds: float) -> int | None:
    return None if seconds == math.inf else round(seconds * 1e6)


def numbers(decision: Decision) -> dict[str, Any]:
    return {
        "allowed": decision.allowed,
        "limit": decision.limit,
        "remaining": decision.remaining,
        "retry_after_us": microseconds(decision.retry_after),
        "reset_after_us": microseconds(decision.reset_after),
        "delay_us": microseconds(decision.delay),
    }


def call(limiter: Limiter, step: dict[str, Any]) -> Decision | None:
    key = step.get("keys", "k")
    if step["verb"] == "reset":
        return limiter.reset(key)  # type: ignore[func-returns-value]
    if step["verb"] == "reserve":
        longest = step.get("max_wait_us")
        return limiter.reserve(key, step["cost"], math.inf if longest is None else longest / 1e6)
    decided: Decision | None = getattr(limiter, step["verb"])(key, step["cost"])
    return decided


@pytest.mark.parametrize("case", cases("policy") + cases("several"))
def test_every_call_is_decided_as_the_vectors_say(case: dict[str, Any], store: Store) -> None:
    clock = ManualClock(EPOCH)
    by = policies(case)
    now_us = 0
    for number, step in enumerate(case["steps"]):
        by = policies(step) or by
        assert by is not None
        limiter = Limiter(by, store, clock=clock)
        clock.advance((step["at_us"] - now_us) / 1e6)
        now_us = step["at_us"]
        assert round(clock.now() * 1e6) == EPOCH * 1_000_000 + now_us
        decision = call(limiter, step)
        if step.get("expect") is None:
            assert decision is None
            continue
        assert decision is not None
        expected = {"delay_us": 0} | step["expect"]
        given = numbers(decision)
        if "each" in expected:
            expected["each"] = [{"delay_us": 0} | one for one in expected["each"]]
            given["policy"] = decision.policy
            given["each"] = [numbers(one) for one in decision.each()]
            assert [one.policy for one in decision.each()] == [one["name"] for one in case["policies"]]
        assert given == expected, f"step {number} of {case['name']!r}"
