"""The decisions that every language and every store must give, from the vectors at the top of the repository."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from ratelimit_rs import Limiter, ManualClock, Policy, Store

FOLDER = Path(__file__).parents[2] / "tests" / "vectors" / "policy"
EPOCH = 1_700_000_000


def cases() -> list[Any]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        for case in json.loads(path.read_text())["cases"]:
            found.append(pytest.param(case, id=f"{path.stem}: {case['name']}"))
    assert found, f"no vectors in {FOLDER}"
    return found


def policy(numbers: dict[str, Any]) -> Policy:
    """The policy that a vector describes: each algorithm is a static method with the vector's members as arguments."""
    arguments = dict(numbers)
    make = getattr(Policy, arguments.pop("algorithm"))
    made = make(**arguments)
    assert isinstance(made, Policy)
    return made


def microseconds(seconds: float) -> int | None:
    return None if seconds == math.inf else round(seconds * 1e6)


@pytest.mark.parametrize("case", cases())
def test_every_call_is_decided_as_the_vectors_say(case: dict[str, Any], store: Store) -> None:
    clock = ManualClock(EPOCH)
    limiter = Limiter(policy(case["policy"]), store, clock=clock)
    now_us = 0
    for number, step in enumerate(case["steps"]):
        if step.get("policy") is not None:
            limiter = Limiter(policy(step["policy"]), store, clock=clock)
        clock.advance((step["at_us"] - now_us) / 1e6)
        now_us = step["at_us"]
        assert round(clock.now() * 1e6) == EPOCH * 1_000_000 + now_us
        if step["verb"] == "reset":
            limiter.reset("k")
            continue
        decision = getattr(limiter, step["verb"])("k", step["cost"])
        given = {
            "allowed": decision.allowed,
            "limit": decision.limit,
            "remaining": decision.remaining,
            "retry_after_us": microseconds(decision.retry_after),
            "reset_after_us": microseconds(decision.reset_after),
        }
        assert given == step["expect"], f"step {number} of {case['name']!r}"
