"""Many calls at once."""

from __future__ import annotations

import math
import pickle
import time
from typing import Any

import pytest
from deployments import Cluster
from servers import RedisServer, SilentListener

from ratelimit_rs import InvalidCost, Limiter, ManualClock, Policy, Store, StoreUnavailable

FIVE = Policy.token_bucket(5, 1, 3600)


def test_what_is_used_up_is_refused_in_a_batch_without_asking(server: RedisServer) -> None:
    limiter = Limiter(FIVE, Store.redis(server.dsn, timeout=5))
    assert limiter.allow_many([("used up", 5), "other"])[0].remaining == 0
    asked = server.decisions()
    first, second = limiter.allow_many(["used up", ("used up", 2)])
    assert (first.source, second.source) == ("deny_cache", "deny_cache")
    assert (first.allowed, second.allowed) == (False, False)
    assert server.decisions() == asked


def test_each_call_has_a_decision_of_its_own_in_order(store: Store) -> None:
    limiter = Limiter(FIVE, store, clock=ManualClock())
    decisions = limiter.allow_many(["ada", ("bob", 2), b"ada", ("ada", 4), ("eve", 6), "ada"])
    assert [decision.remaining for decision in decisions] == [4, 3, 3, 3, 5, 2]
    assert [decision.allowed for decision in decisions] == [True, True, True, False, False, True]
    assert [decision.retry_after for decision in decisions] == [0, 0, 0, 3600, math.inf, 0]
    assert limiter.peek("ada").remaining == 2


def test_calls_may_come_from_any_iterable_and_be_none(store: Store) -> None:
    limiter = Limiter(FIVE, store)
    assert limiter.allow_many([]) == []
    decisions = limiter.allow_many((f"user:{number % 3}", 1) for number in range(9))
    assert [decision.remaining for decision in decisions] == [4, 4, 4, 3, 3, 3, 2, 2, 2]
    assert len(limiter.allow_many({"set": 1}.keys())) == 1


def test_a_call_may_have_a_key_for_each_policy(store: Store) -> None:
    limiter = Limiter([Policy.gcra(5, 60, name="a"), Policy.fixed_window(3, 60, name="b")], store)
    first, second = limiter.allow_many([{"a": "ada", "b": "all"}, ({"a": "bob", "b": b"all"}, 2)])
    assert [part.remaining for part in first.each()] == [4, 2]
    assert [part.remaining for part in second.each()] == [3, 0]


def test_a_clock_in_python_is_asked_once_and_what_it_raises_is_heard() -> None:
    class Clock:
        asked = 0

        def now(self) -> float:
            self.asked += 1
            if self.asked > 1:
                raise RuntimeError("stopped")
            return 1_700_000_000.0

    clock = Clock()
    limiter = Limiter(FIVE, Store.memory(), clock=clock)
    assert [decision.remaining for decision in limiter.allow_many(["k"] * 3)] == [4, 3, 2]
    with pytest.raises(RuntimeError, match="^stopped$"):
        limiter.allow_many(["k"])
    assert clock.asked == 2


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (("k", 0), InvalidCost, "cost must be an integer between 1 and 2147483647, got 0, at index 1"),
        (("k", 1.5), InvalidCost, "cost must be an integer between 1 and 2147483647, got 1.5, at index 1"),
        (("k", 1 << 70), InvalidCost, f"cost must be an integer between 1 and 2147483647, got {1 << 70}, at index 1"),
        (("k", True), InvalidCost, "cost must be an integer between 1 and 2147483647, got True, at index 1"),
        (("k", "1"), TypeError, "cost must be an int, got str, at index 1"),
        (("k", None), TypeError, "cost must be an int, got NoneType, at index 1"),
        ((5, 1), TypeError, "key must be str, bytes or dict, got int, at index 1"),
        (["k", 1], TypeError, "key must be str, bytes or dict, got list, at index 1"),
        (None, TypeError, "key must be str, bytes or dict, got NoneType, at index 1"),
        (("k",), TypeError, "call must be a key or a pair of a key and a cost, got a tuple of 1, at index 1"),
        (("k", 1, 2), TypeError, "call must be a key or a pair of a key and a cost, got a tuple of 3, at index 1"),
        ({"default": 5}, TypeError, "key of policy 'default' must be str or bytes, got int, at index 1"),
        ({5: "k"}, TypeError, "key must name its policies by str, got int, at index 1"),
        ({"other": "k"}, ValueError, 'key names a policy "other" that the limiter does not have'),
        ("\ud800", UnicodeEncodeError, "surrogates not allowed"),
    ],
)
def test_one_wrong_call_keeps_all_others_from_being_asked(
    store: Store, call: Any, error: type[Exception], text: str
) -> None:
    limiter = Limiter(FIVE, store)
    with pytest.raises(error) as caught:
        limiter.allow_many(["k", call, "k"])
    assert text in str(caught.value)
    assert limiter.peek("k").remaining == 5


@pytest.mark.parametrize("calls", ["key", b"key", {"key": 1}, 5, None, object()])
def test_what_holds_no_calls_is_a_type_error(calls: Any) -> None:
    text = f"^calls must be an iterable of keys and of .key, cost. pairs, got {type(calls).__name__}$"
    with pytest.raises(TypeError, match=text):
        Limiter(FIVE, Store.memory()).allow_many(calls)


def test_what_an_iterable_raises_is_heard_and_nothing_is_asked(store: Store) -> None:
    def calls() -> Any:
        yield "k"
        raise LookupError("no more")

    limiter = Limiter(FIVE, store)
    with pytest.raises(LookupError, match="^no more$"):
        limiter.allow_many(calls())
    assert limiter.peek("k").remaining == 5


def test_a_thousand_calls_are_one_round_trip(server: RedisServer) -> None:
    store = Store.redis(server.dsn, timeout=5)
    limiter = Limiter(Policy.token_bucket(2000, 1, 3600), store)
    limiter.allow("k")
    with server.client() as client:
        before = client.info("stats")
        assert [decision.remaining for decision in limiter.allow_many(["k"] * 1000)] == list(range(1998, 998, -1))
        after = client.info("stats")
    assert server.calls("evalsha") == 1001
    assert server.calls("eval") == 1
    # The limiter's connection, and the test's own.
    assert after["total_connections_received"] == before["total_connections_received"]
    # The server reads what has come in, however much, in few steps of its loop; a call for each would be a thousand.
    assert after["total_reads_processed"] - before["total_reads_processed"] < 50


def test_a_cluster_is_asked_once_per_node() -> None:
    cluster = Cluster()
    try:
        limiter = Limiter(FIVE, cluster.dsn + "?timeout=5&connect_timeout=5")
        keys = [f"user:{number}" for number in range(300)]
        for left in (4, 3):
            assert {decision.remaining for decision in limiter.allow_many(keys)} == {left}
        reads = []
        for node in cluster.nodes:
            assert node.calls("eval") == 1
            with node.client() as client:
                reads.append(client.info("stats")["total_reads_processed"])
        limiter.allow_many(keys)
        for node, before in zip(cluster.nodes, reads, strict=True):
            with node.client() as client:
                assert client.info("stats")["total_reads_processed"] - before < 50
    finally:
        cluster.close()


def test_a_store_that_is_away_leaves_no_call_with_a_decision(silent: SilentListener) -> None:
    limiter = Limiter(FIVE, Store.redis(silent.dsn, timeout=0.1, connect_timeout=0.1))
    started = time.monotonic()
    with pytest.raises(StoreUnavailable, match="^3 of 3 calls have no decision: redis at") as caught:
        limiter.allow_many(["a", "b", "c"])
    assert time.monotonic() - started < 0.7
    assert caught.value.kind == "timeout"
    assert caught.value.decisions == [None, None, None]
    with pytest.raises(StoreUnavailable) as single:
        limiter.allow("a")
    assert single.value.decisions == []


def test_decisions_that_were_made_are_not_lost_with_those_that_were_not(server: RedisServer) -> None:
    limiter = Limiter(FIVE, Store.redis(server.dsn, timeout=5))
    limiter.allow_many(["a", "b", "c"])
    with server.client() as client:
        [taken] = client.scan_iter("*{b}")
        client.delete(taken)
        client.rpush(taken, "something else")
    with pytest.raises(StoreUnavailable, match="^1 of 3 calls have no decision: ") as caught:
        limiter.allow_many([("a", 2), "b", "c"])
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        assert error.kind == "wrongtype"
        first, second, third = error.decisions
        assert second is None
        assert first is not None
        assert third is not None
        assert (first.remaining, third.remaining) == (2, 3)


@pytest.mark.parametrize(("rule", "allowed"), [("open", True), ("closed", False), ("local", True)])
def test_a_failure_rule_answers_each_call(silent: SilentListener, rule: Any, allowed: bool) -> None:
    limiter = Limiter(FIVE, Store.redis(silent.dsn, timeout=0.05, connect_timeout=0.05), on_error=rule)
    decisions = limiter.allow_many([f"{rule}:a", f"{rule}:b"])
    assert [(decision.allowed, decision.degraded) for decision in decisions] == [(allowed, True)] * 2
