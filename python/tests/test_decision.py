"""Decisions: attributes, headers, truth, equality and pickle."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest

from ratelimit_rs import Decision, InvalidArgument, LimitExceeded, Limiter, ManualClock, Policy, Store

STYLES: Any = ["ietf", "draft-7", "draft-3", "x-ratelimit", "none"]


@pytest.fixture
def limiter() -> Limiter:
    return Limiter(Policy.token_bucket(2, 1, 10, name="api"), Store.memory(), clock=ManualClock())


def test_what_passes(limiter: Limiter) -> None:
    decision = limiter.allow("k")
    assert decision
    assert decision.allowed is True
    assert (decision.limit, decision.remaining) == (2, 1)
    assert (decision.retry_after, decision.reset_after, decision.delay) == (0.0, 10.0, 0.0)
    assert (decision.policy, decision.source, decision.degraded) == ("api", "store", False)
    assert decision.each() == [decision]
    kinds = [int, int, float, float, float]
    values = [decision.limit, decision.remaining, decision.retry_after, decision.reset_after, decision.delay]
    assert [type(value) for value in values] == kinds


def test_what_is_denied(limiter: Limiter) -> None:
    limiter.allow("k", 2)
    decision = limiter.allow("k")
    assert not decision
    assert decision.allowed is False
    assert (decision.remaining, decision.retry_after, decision.reset_after) == (0, 10.0, 20.0)


def test_its_repr_says_everything(limiter: Limiter) -> None:
    assert repr(limiter.allow("k")) == (
        "Decision(allowed=True, limit=2, remaining=1, retry_after=0.0, reset_after=10.0, delay=0.0, policy='api', "
        "source='store', degraded=False)"
    )
    assert "retry_after=inf" in repr(limiter.allow("k", 3))


def test_headers_in_every_style(limiter: Limiter) -> None:
    limiter.allow("k", 2)
    denied = limiter.allow("k")
    assert denied.headers() == denied.headers("ietf")
    assert denied.headers() == {
        "RateLimit-Policy": '"api";q=2;w=20',
        "RateLimit": '"api";r=0;t=10',
        "Retry-After": "10",
    }
    assert denied.headers("draft-7") == {
        "RateLimit-Policy": "2;w=20",
        "RateLimit": "limit=2, remaining=0, reset=10",
        "Retry-After": "10",
    }
    legacy = {"Limit": "2", "Remaining": "0", "Reset": "10"}
    for style, prefix in (("draft-3", "RateLimit-"), ("x-ratelimit", "X-RateLimit-")):
        expected = {prefix + name: value for name, value in legacy.items()} | {"Retry-After": "10"}
        assert denied.headers(style=style) == expected  # type: ignore[arg-type]
    assert denied.headers("none") == {"Retry-After": "10"}
    assert limiter.allow("other").headers("none") == {}
    # No wait helps, so none is told.
    assert "Retry-After" not in limiter.allow("k", 3).headers()


def test_an_unknown_style_is_refused(limiter: Limiter) -> None:
    decision: Any = limiter.allow("k")
    with pytest.raises(InvalidArgument, match="^style must be ietf, draft-7"):
        decision.headers("github")
    with pytest.raises(TypeError):
        decision.headers(None)


def test_decisions_with_the_same_numbers_are_equal(limiter: Limiter) -> None:
    first, second = limiter.allow("a"), limiter.allow("b")
    assert first == second
    assert hash(first) == hash(second)
    assert first != limiter.allow("a")
    assert first != True  # noqa: E712
    assert len({first, second, limiter.allow("c", 2)}) == 2


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("cost", [1, 2, 3])
def test_a_decision_can_be_pickled(limiter: Limiter, cost: int, protocol: int) -> None:
    limiter.allow("k")
    decision = limiter.allow("k", cost)
    copy = pickle.loads(pickle.dumps(decision, protocol))
    # A copy of a copy is as good.
    for again in (copy, pickle.loads(pickle.dumps(copy, protocol))):
        assert again == decision
        assert hash(again) == hash(decision)
        assert repr(again) == repr(decision)
        assert bool(again) == bool(decision)
        for style in STYLES:
            assert again.headers(style) == decision.headers(style)
    with pytest.raises(InvalidArgument):
        copy.headers("github")


def test_it_cannot_be_made_or_changed(limiter: Limiter) -> None:
    make: Any = Decision
    with pytest.raises(TypeError):
        make()
    decision: Any = limiter.allow("k")
    with pytest.raises(AttributeError):
        decision.allowed = False


def test_decisions_are_kept_apart_however_many_live_at_once() -> None:
    limiter = Limiter(Policy.token_bucket(1000, 1, 10), Store.memory(), clock=ManualClock())
    kept = [limiter.allow("k") for _ in range(100)]
    assert [decision.remaining for decision in kept] == list(range(999, 899, -1))
    del kept[::2]
    more = [limiter.allow("k") for _ in range(50)]
    assert [decision.remaining for decision in kept] == list(range(998, 899, -2))
    assert [decision.remaining for decision in more] == list(range(899, 849, -1))


def test_an_exception_can_carry_it(limiter: Limiter) -> None:
    limiter.allow("k", 2)
    error = LimitExceeded(limiter.allow("k"))
    assert error.decision.retry_after == 10.0
    assert str(error) == "the limit of policy 'api' is used up; retry after 10.0 s"
    assert pickle.loads(pickle.dumps(error)).decision == error.decision
    assert math.isinf(LimitExceeded(limiter.allow("k", 3)).decision.retry_after)
