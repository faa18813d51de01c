"""The verbs of a limiter, keys, costs and options."""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from servers import RedisServer

from ratelimit_rs import InvalidArgument, InvalidCost, Limiter, ManualClock, Policy, RateLimitError, Store


def limiter(store: Store, capacity: int = 5, **options: Any) -> Limiter:
    return Limiter(Policy.token_bucket(capacity, 1, 10), store, **options)


def test_allow_takes_peek_looks_and_reset_forgets(store: Store) -> None:
    five = limiter(store)
    assert five.allow("k").remaining == 4
    assert five.allow("k", 3).remaining == 1
    assert five.allow("k", cost=1).remaining == 0
    assert not five.peek("k").allowed
    assert not five.allow("k").allowed
    assert five.allow("other").remaining == 4
    assert five.reset("k") is None  # type: ignore[func-returns-value]
    assert five.peek("k", 5).allowed
    assert five.allow("k", 5).remaining == 0


def test_a_text_and_its_utf_8_bytes_are_one_key(store: Store) -> None:
    five = limiter(store)
    for text in ["user:42", "", "grüße", "a b", "}", "{x}", "\0", "k" * 10_000]:
        assert five.allow(text).remaining == 4
        assert five.allow(text.encode()).remaining == 3


def test_keys_that_look_alike_are_apart(store: Store) -> None:
    keys: list[Any] = ["a", "A", " a", "a ", "a\0", b"\xff", b"\xfe", "#a", "{a}", "a}b", "a}c"]
    five = limiter(store)
    assert [five.allow(key).remaining for key in keys] == [4] * len(keys)


def verbs(limiter: Limiter) -> list[Callable[..., object]]:
    """The verbs that take a cost."""
    return [limiter.allow, limiter.peek, limiter.reserve, limiter.wait, limiter.refund]


@pytest.mark.parametrize("key", [None, 1, 1.5, object(), ["k"], ("k",), bytearray(b"k"), memoryview(b"k")])
def test_a_key_of_another_type_is_a_type_error(key: Any) -> None:
    five = limiter(Store.memory())
    for verb in (*verbs(five), five.reset, five.limit):
        with pytest.raises(TypeError, match=f"^key must be str, bytes or dict, got {type(key).__name__}$"):
            verb(key)
    assert five.allow("k").remaining == 4


def test_a_text_that_utf_8_cannot_encode_is_an_error_and_harms_nothing() -> None:
    five = limiter(Store.memory())
    with pytest.raises(UnicodeEncodeError):
        five.allow("\udc80")
    with pytest.raises(UnicodeEncodeError):
        five.allow("k", token="\udc80")
    assert five.allow("k").remaining == 4


def test_a_key_of_many_mebibytes_is_a_key_like_any_other() -> None:
    five = limiter(Store.memory())
    key = b"k" * (64 << 20)
    assert five.allow(key).remaining == 4
    assert five.allow(key).remaining == 3


BAD_COSTS = [0, -1, -1_000_000, -(2**63), -(2**70), 2**31, 2**40, 2**63, 2**70, 1.5, 1.0, math.nan, math.inf]


@pytest.mark.parametrize("cost", [*BAD_COSTS, True, Decimal(1)], ids=repr)
@pytest.mark.parametrize("verb", ["allow", "peek", "reserve", "wait", "refund", "limit"])
def test_a_cost_that_is_no_count_is_refused_and_changes_nothing(store: Store, verb: str, cost: Any) -> None:
    five = limiter(store)
    five.allow("k", 2)
    with pytest.raises(InvalidCost) as caught:
        getattr(five, verb)("k", cost)
    assert str(caught.value) == f"cost must be an integer between 1 and 2147483647, got {cost!r}"
    assert isinstance(caught.value, ValueError)
    assert [five.allow("k").allowed for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("cost", [None, "1", b"1", [], object()])
def test_a_cost_that_is_no_number_is_a_type_error(cost: Any) -> None:
    five = limiter(Store.memory())
    for verb in (*verbs(five), five.limit):
        with pytest.raises(TypeError, match=f"^cost must be an int, got {type(cost).__name__}$"):
            verb("k", cost)
    assert five.allow("k").remaining == 4


def test_a_cost_may_be_anything_that_counts_as_an_int() -> None:
    class Size(enum.IntEnum):
        LARGE = 3

    class Indexed:
        def __index__(self) -> int:
            return 2

    five = limiter(Store.memory())
    assert five.allow("k", Size.LARGE).remaining == 2
    assert five.allow("k", Indexed()).remaining == 0  # type: ignore[arg-type]


def test_an_exception_in_a_number_reaches_the_caller() -> None:
    class Broken:
        def __index__(self) -> int:
            raise LookupError("broken")

        __float__ = __index__

    five = limiter(Store.memory())
    for call in (lambda: five.allow("k", Broken()), lambda: Policy.token_bucket(1, Broken())):  # type: ignore
        with pytest.raises(LookupError, match="^broken$"):
            call()
    assert five.allow("k").remaining == 4


def test_a_cost_above_the_capacity_is_denied_for_ever_and_takes_nothing(store: Store) -> None:
    five = limiter(store)
    for cost in (6, 2**31 - 1):
        decision = five.allow("k", cost)
        assert not decision.allowed
        assert decision.retry_after == math.inf
        assert decision.remaining == 5
    assert five.allow("k", 5).allowed


EVERY_ALGORITHM = [
    Policy.token_bucket(5, 1, 3600),
    Policy.token_bucket(5, 1, 3600, continuous=True),
    Policy.leaky_bucket(5, 1 / 3600),
    Policy.gcra(5, 3600),
    Policy.fixed_window(5, 3600),
    Policy.fixed_window(5, 3600, aligned=True),
    Policy.parse("5/day aligned Europe/Berlin"),
    Policy.sliding_window_log(5, 3600),
    Policy.sliding_window_counter(5, 3600),
]


@pytest.mark.parametrize("policy", EVERY_ALGORITHM, ids=str)
def test_wrong_costs_change_nothing_under_any_algorithm(store: Store, policy: Policy) -> None:
    five = Limiter(policy, store, clock=ManualClock())
    assert [five.allow("k").remaining for _ in range(2)] == [4, 3]
    for cost in (-1, -1_000_000, 1.5, 0, -(2**63)):
        with pytest.raises(InvalidCost, match="^cost must be"):
            five.allow("k", cost)  # type: ignore[arg-type]
    decision = five.allow("k", 6)
    assert (decision.allowed, decision.retry_after, decision.remaining) == (False, math.inf, 3)
    assert [five.allow("k").allowed for _ in range(4)] == [True, True, True, False]


def test_the_algorithms_keep_their_states_apart(store: Store) -> None:
    clock = ManualClock()
    for name in ("token_bucket", "leaky_bucket", "gcra", "fixed_window", "sliding_window_log", "sliding_window_counter"):
        policy = next(policy for policy in EVERY_ALGORITHM if repr(policy).startswith(f"Policy.{name}("))
        assert Limiter(policy, store, clock=clock).allow("u1").remaining == 4, name


def test_a_wait_of_weeks_is_told_exactly(store: Store) -> None:
    rare = Limiter(Policy.token_bucket(1, 1, 25 * 86400), store, clock=ManualClock())
    assert rare.allow("k").allowed
    assert rare.allow("k").retry_after == 2160000.0


def test_wrong_arguments_are_refused_before_the_server_is_asked(server: RedisServer) -> None:
    five = limiter(Store.redis(server.dsn))
    for call in (
        lambda: Policy.token_bucket(0, 1),
        lambda: limiter(Store.redis(server.dsn), on_error="perhaps"),
        lambda: five.allow("k", 0),
        lambda: five.allow("k", 1.5),  # type: ignore[arg-type]
        lambda: five.allow("k", 2**40),
        lambda: five.allow("k", 2**70),
        lambda: five.peek("k", -1),
        lambda: five.reserve("k", max_wait=-1),
        lambda: five.wait("k", max_wait=math.nan),
        lambda: five.refund("k", 0),
        lambda: five.allow("k", token=""),
        lambda: five.allow({"other": "k"}),
        lambda: Limiter(Policy.fixed_window(5, 60), Store.redis(server.dsn)).reserve("k"),
    ):
        with pytest.raises(RateLimitError):
            call()
    for call in (lambda: five.allow(None), lambda: five.allow("k", None), lambda: five.reset(5)):  # type: ignore
        with pytest.raises(TypeError):
            call()
    assert server.decisions() == 0
    with server.client() as client:
        assert client.dbsize() == 0


def test_one_decision_is_one_command(server: RedisServer) -> None:
    five = limiter(Store.redis(server.dsn, timeout=5), capacity=1000)
    five.allow("k")
    # The server does not know the script yet, so the first decision names it in vain, and then sends it.
    assert (server.calls("evalsha"), server.calls("eval")) == (1, 1)
    for _ in range(10):
        five.allow("k")
        limiter(Store.redis(server.dsn, timeout=5), capacity=1000).peek("k")
    assert (server.calls("evalsha"), server.calls("eval")) == (21, 1)
    assert server.calls("script|load") == 0


OPTIONS = [
    ("on_error", "perhaps", InvalidArgument, "on_error must be throw, open, closed or local, got \"perhaps\""),
    ("share", 0, InvalidArgument, "share must be an integer between 1 and 4294967295, got 0"),
    ("share", -1, InvalidArgument, "share must be an integer between 1 and 4294967295, got -1"),
    ("share", 2**32, InvalidArgument, "share must be an integer between 1 and 4294967295, got 4294967296"),
    ("share", 1.5, InvalidArgument, "share must be an integer between 1 and 4294967295, got 1.5"),
    ("share", None, TypeError, "share must be an int, got NoneType"),
    ("secret", 5, TypeError, "secret must be str, bytes or a sequence of them, got int"),
    ("secret", ["a", 5], TypeError, "secret must be str, bytes or a sequence of them, got a sequence with int"),
    ("secret", "", InvalidArgument, "secret must not be empty"),
    ("secret", [], InvalidArgument, "secret must be 1 to 4 secrets, got 0"),
    ("secret", ["a", b""], InvalidArgument, "secret must not have an empty one, got one at index 1"),
    ("secret", ("a", b"b", "a"), InvalidArgument, "secret must not have one secret twice, got the one at index 0 again"),
    ("clock", 5, TypeError, "clock must be a ManualClock or an object with a method now(), got int"),
]


@pytest.mark.parametrize(("option", "value", "error", "text"), OPTIONS)
def test_an_option_that_cannot_be_used_is_named(option: str, value: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        limiter(Store.memory(), **{option: value})
    assert str(caught.value) == text


def test_options_go_by_name_and_store_by_place() -> None:
    make: Any = Limiter
    with pytest.raises(TypeError):
        make(Policy.token_bucket(1, 1), Store.memory(), "open")


def test_hashed_keys_keep_identities_out_of_the_server(server: RedisServer) -> None:
    store = Store.redis(server.dsn)
    address = "192.0.2.10"
    for options in ({}, {"secret": "one"}, {"secret": b"two"}):
        assert limiter(store, hash_keys=True, **options).allow(address).remaining == 4
    # A secret is the same as text and as bytes.
    assert limiter(store, hash_keys=True, secret=b"one").allow(address).remaining == 3
    with server.client() as client:
        keys = list(client.scan_iter())
    assert len(keys) == 3
    assert not any(address.encode() in key for key in keys)


def test_while_one_secret_takes_over_from_another_processes_with_either_share_their_limits(server: RedisServer) -> None:
    for store in (Store.memory(), Store.redis(server.dsn, timeout=5)):
        old, both, new = (limiter(store, hash_keys=True, secret=it) for it in ("old", [b"new", "old"], ("new",)))
        assert [it.allow("a").remaining for it in (old, both, old, both)] == [4, 3, 2, 1]
        assert [it.allow("b").remaining for it in (both, new, both)] == [4, 3, 2]
        assert new.peek("a").remaining == 3
        both.reset("a")
        assert [it.peek("a").remaining for it in (old, both, new)] == [5, 5, 5]


def test_its_repr_shows_policies_and_store_and_no_secret() -> None:
    text = repr(limiter(Store.memory(), secret=["hunter2", "hunter1"]))
    assert "Policy.token_bucket(5, 1.0, 10.0" in text
    assert "'memory'" in text
    assert "hunter" not in text
