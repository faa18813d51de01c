"""Units taken ahead of time, and units given back."""

from __future__ import annotations

import math
from typing import Any

import pytest

from ratelimit_rs import InvalidArgument, Limiter, ManualClock, Policy, Store

RESERVING = [
    Policy.token_bucket(2, 1, 1),
    Policy.token_bucket(2, 1, 1, continuous=True),
    Policy.gcra(1, 1, 2),
]
WINDOWS = [
    Policy.fixed_window(2, 60),
    Policy.fixed_window(2, 60, aligned=True),
    Policy.sliding_window_log(2, 60),
    Policy.sliding_window_counter(2, 60),
]


@pytest.mark.parametrize("policy", RESERVING, ids=str)
def test_a_reservation_says_when_to_start(store: Store, policy: Policy) -> None:
    limiter = Limiter(policy, store, clock=ManualClock())
    assert [limiter.reserve("k").delay for _ in range(5)] == [0.0, 0.0, 1.0, 2.0, 3.0]
    assert limiter.reserve("k", 2).delay == 5.0
    # Who does not want to wait that long takes nothing.
    for _ in range(3):
        decision = limiter.reserve("k", max_wait=5.999)
        assert (decision.allowed, decision.delay, decision.remaining) == (False, 0.0, 0)
    assert limiter.reserve("k", 1, 6).delay == 6.0


def test_a_queue_spaces_its_starts_and_denies_when_it_is_full(store: Store) -> None:
    clock = ManualClock()
    limiter = Limiter(Policy.leaky_bucket(3, 2), store, clock=clock)
    assert [limiter.reserve("k").delay for _ in range(3)] == [0.0, 0.5, 1.0]
    full = limiter.reserve("k")
    assert (full.allowed, full.retry_after) == (False, 0.5)
    clock.advance(0.5)
    assert limiter.reserve("k").delay == 1.0


@pytest.mark.parametrize("policy", WINDOWS, ids=str)
def test_a_window_hands_out_no_slots_and_says_what_does(store: Store, policy: Policy) -> None:
    limiter = Limiter(policy, store)
    with pytest.raises(InvalidArgument, match='^reserve does not go with policy "default": .* use wait'):
        limiter.reserve("k")
    with pytest.raises(InvalidArgument, match='^reserve does not go with policy "default"'):
        Limiter([Policy.token_bucket(5, 1, name="t"), policy], store).reserve("k")
    assert limiter.allow("k").remaining == 1


@pytest.mark.parametrize("longest", [None, math.inf, 10**400, 1e30])
def test_no_bound_is_no_bound(longest: Any) -> None:
    limiter = Limiter(Policy.token_bucket(1, 1, 86400), Store.memory(), clock=ManualClock())
    limiter.allow("k")
    assert limiter.reserve("k", 1, longest).delay == 86400.0
    assert limiter.wait("k", 1, longest).delay == 2 * 86400.0


@pytest.mark.parametrize("longest", [-1, -0.5, math.nan, -math.inf])
@pytest.mark.parametrize("verb", ["reserve", "wait"])
def test_a_longest_wait_that_is_none_is_refused(verb: str, longest: float) -> None:
    limiter = Limiter(Policy.token_bucket(1, 1), Store.memory())
    with pytest.raises(InvalidArgument) as caught:
        getattr(limiter, verb)("k", 1, longest)
    assert str(caught.value) == f"max_wait must be seconds, 0 or more, got {longest!r}"
    with pytest.raises(TypeError, match="^max_wait must be a number, got str$"):
        getattr(limiter, verb)("k", max_wait="1")
    assert limiter.peek("k").allowed


@pytest.mark.parametrize("policy", [*RESERVING, *WINDOWS, Policy.leaky_bucket(2, 1)], ids=str)
def test_a_refund_gives_back_no_more_than_was_taken(store: Store, policy: Policy) -> None:
    limiter = Limiter(policy, store, clock=ManualClock())
    assert limiter.allow("k", 2).remaining == 0
    assert limiter.refund("k") is None  # type: ignore[func-returns-value]
    assert limiter.peek("k").remaining == 1
    limiter.refund("k", 2**31 - 1)
    limiter.refund("never seen", 5)
    for key in ("k", "never seen"):
        assert (limiter.peek(key).remaining, limiter.peek(key, 3).allowed) == (2, False)


def test_a_refund_makes_room_for_who_waits(store: Store) -> None:
    limiter = Limiter(Policy.token_bucket(2, 1, 1), store, clock=ManualClock())
    assert limiter.reserve("k", 2).delay == 0.0
    assert limiter.reserve("k").delay == 1.0
    limiter.refund("k")
    assert limiter.reserve("k").delay == 1.0
