"""A token makes it safe to send a call again."""

from __future__ import annotations

from typing import Any

import pytest
from servers import Relay, RedisServer

from ratelimit_rs import InvalidArgument, Limiter, ManualClock, Policy, Store, StoreUnavailable


@pytest.fixture
def limiter(store: Store) -> Limiter:
    return Limiter(Policy.token_bucket(5, 1, 10), store, clock=ManualClock())


def test_the_same_token_takes_once_and_gives_the_same_decision(limiter: Limiter) -> None:
    first = limiter.allow("k", 2, token="order 17")
    assert first.remaining == 3
    assert limiter.allow("k").remaining == 2
    assert limiter.allow("k", 2, token="order 17") == first
    # As text and as bytes.
    assert limiter.allow("k", 2, token=b"order 17") == first
    assert limiter.peek("k").remaining == 2
    assert limiter.allow("k", token="order 18").remaining == 1
    # Another key has tokens of its own.
    assert limiter.allow("other", token="order 17").remaining == 4


def test_a_reservation_and_a_wait_take_once_too(limiter: Limiter) -> None:
    limiter.allow("k", 5)
    assert [limiter.reserve("k", token="a").delay for _ in range(3)] == [10.0, 10.0, 10.0]
    assert limiter.peek("k").reset_after == 60.0
    # The same decision is the same delay, counted from each call.
    assert [limiter.wait("k", token="b").delay for _ in range(2)] == [20.0, 20.0]
    assert limiter.peek("k").reset_after == 70.0 - 2 * 20.0


def test_a_refund_gives_back_once(limiter: Limiter) -> None:
    limiter.allow("k", 5, token="order 17")
    for _ in range(2):
        # The token may be the one of the call that took: each is remembered by itself.
        limiter.refund("k", 2, token="order 17")
    assert limiter.peek("k").remaining == 2
    limiter.refund("k", 2, token=b"order 18")
    assert limiter.peek("k").remaining == 4


def test_a_refusal_is_not_remembered(store: Store) -> None:
    clock = ManualClock()
    limiter = Limiter(Policy.fixed_window(1, 10), store, clock=clock)
    limiter.allow("k")
    assert not limiter.allow("k", token="t")
    clock.advance(10)
    assert limiter.allow("k", token="t").allowed
    assert limiter.wait("k", token="u").allowed


def test_all_of_several_policies_are_charged_once(store: Store) -> None:
    policies = [Policy.token_bucket(5, 1, 10, name="a"), Policy.fixed_window(9, 60, name="b")]
    limiter = Limiter(policies, store, clock=ManualClock())
    keys: Any = {"a": "x", "b": "y"}
    first = limiter.allow(keys, token="t")
    assert limiter.allow(keys, token="t") == first
    assert [one.remaining for one in limiter.peek(keys).each()] == [4, 8]


@pytest.mark.parametrize("token", [5, 1.5, ["t"], {"default": "t"}, bytearray(b"t")])
def test_a_token_of_another_type_is_a_type_error(limiter: Limiter, token: Any) -> None:
    verbs: list[Any] = [limiter.allow, limiter.reserve, limiter.wait, limiter.refund]
    for verb in verbs:
        with pytest.raises(TypeError, match=f"^token must be str or bytes, got {type(token).__name__}$"):
            verb("k", token=token)
    assert limiter.peek("k", 5).allowed


def test_an_empty_token_is_refused_and_none_is_no_token(limiter: Limiter) -> None:
    for empty in ("", b""):
        with pytest.raises(InvalidArgument, match="^token must not be empty$"):
            limiter.allow("k", token=empty)
    assert [limiter.allow("k", token=None).remaining for _ in range(2)] == [4, 3]


def test_a_call_that_timed_out_can_be_sent_again(server: RedisServer) -> None:
    direct = Limiter(Policy.token_bucket(5, 1, 3600), Store.redis(server.dsn, timeout=5))
    relay = Relay(server.port)
    try:
        limiter = Limiter(Policy.token_bucket(5, 1, 3600), Store.redis(relay.dsn, timeout=0.3, connect_timeout=5))
        limiter.peek("k")
        relay.delay = 0.9
        with pytest.raises(StoreUnavailable) as caught:
            limiter.allow("k", token="t")
        assert caught.value.kind == "timeout"
        # It was carried out all the same.
        assert direct.peek("k").remaining == 4
        relay.delay = 0
        assert limiter.allow("k", token="t").remaining == 4
        assert direct.peek("k").remaining == 4
    finally:
        relay.close()
